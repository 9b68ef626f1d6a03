"""One node run by TensorFlow and by its NumPy reference kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tfjit.kernels.cpu  # noqa: F401
from tests import oracle
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import OpError
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.node_types import complete_attrs, output_dtypes
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import (
    NodeSpec,
    TensorSpec,
    find_initial_state,
    find_native,
    find_reference,
)


@dataclass
class Case:
    """Describe a case of one node.

    inputs: arrays. tolerance: (rtol, atol) or None for the same bits. The node must fail in both
    where TensorFlow's does.
    """

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    tolerance: tuple[float, float] | None = None
    # the number of outputs to compare: TensorFlow leaves the others unset
    compared: int | None = None
    # between TensorFlow's modes (tests/oracle.py); oneDNN's answer is the one compared with
    modes_differ: bool = False
    # the message may differ: TensorFlow's comes from its shape function, or from a library
    own_words: bool = False
    # for compiled kernels: inputs that are known while planning, and the shape of the outputs where
    # TensorFlow fails
    known: tuple[int, ...] = ()
    failed_shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shown = ", ".join(
            f"{v.dtype}{list(v.shape)}" + (f"={v.tolist()}" if v.size <= 6 else "")
            for v in self.inputs
        )
        return f"{self.op}({shown}; {self.attrs})"

    def node(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """(attrs with defaults, output dtypes)"""
        op_def = registry.require(self.op)
        given = {
            k: attr_values.convert(v, op_def.attr_by_name[k].type, k) for k, v in self.attrs.items()
        }
        attrs = complete_attrs(
            op_def, given, [dtypes.as_dtype(np.asarray(v).dtype) for v in self.inputs]
        )
        return attrs, output_dtypes(op_def, attrs)


class Oracle:
    """TensorFlow's answers, each case a node of one graph."""

    def __init__(self, cases: list[Case]) -> None:
        import tensorflow as tf

        self.tf = tf
        self.graph = tf.Graph()
        self.nodes: list[Any] = []
        self.graph_def: bytes | None = None
        for case in cases:
            self.nodes.append(build_node(self.graph, case))
        self.session = tf.compat.v1.Session(graph=self.graph)

    def run(self, index: int, case: Case) -> tuple[list[np.ndarray] | None, str]:
        """(outputs, "") or (None, message)"""
        feeds, op = self.nodes[index]
        if case.modes_differ and oracle.mode() != "oneDNN":
            return self._ask_onednn(feeds, op, case)
        try:
            # copies: TensorFlow takes a fed array that is well aligned as it is, and its Inplace
            # ops write into it
            out = self.session.run(
                list(op.outputs), dict(zip(feeds, [np.copy(v) for v in case.inputs]))
            )
            return [
                np.asarray(v, object) if isinstance(v, bytes) else np.asarray(v) for v in out
            ], ""
        except self.tf.errors.OpError as error:
            if oracle.refused(error.message):
                return self._ask_onednn(feeds, op, case)
            return None, error.message

    def _ask_onednn(
        self, feeds: list[Any], op: Any, case: Case
    ) -> tuple[list[np.ndarray] | None, str]:
        if self.graph_def is None:
            self.graph_def = self.graph.as_graph_def().SerializeToString()
        given = {feed.name: value for feed, value in zip(feeds, case.inputs)}
        answer = oracle.ask("oneDNN", self.graph_def, [output.name for output in op.outputs], given)
        return (None, answer.words) if isinstance(answer, oracle.Failure) else (answer, "")


def build_node(graph: Any, case: Case) -> tuple[list[Any], Any]:
    """Add the node of a case to a tf.Graph.

    Returns its placeholders and the operation.
    """
    import tensorflow as tf

    attrs, types = case.node()
    protos = {}
    for key, value in attrs.items():
        protos[key] = tf.compat.v1.AttrValue.FromString(
            attr_values.to_proto(value).SerializeToString()
        )
    with graph.as_default():
        for known in (lambda v: None, lambda v: [None] * v.ndim, lambda v: v.shape):
            # As little as the node's shape function accepts, so that the kernel finds the errors.
            feeds = [
                tf.compat.v1.placeholder(tf.as_dtype(dtypes.as_dtype(v.dtype).name), known(v))
                for v in case.inputs
            ]
            try:
                op = graph.create_op(
                    case.op, feeds, [tf.as_dtype(d.name) for d in types], attrs=protos, name="node"
                )
            except ValueError as error:
                refusal = error
                continue
            return feeds, op
    raise refusal


def ours(case: Case, state: np.ndarray | None = None) -> tuple[list[np.ndarray] | None, str]:
    """The reference kernel's answer."""
    attrs, types = case.node()
    specs = tuple(TensorSpec(dtypes.as_dtype(v.dtype), v.shape) for v in case.inputs)
    node = NodeSpec("node", case.op, attrs, specs, (), state=state)
    if state is None:
        make = find_initial_state(case.op)
        if make is not None:
            node = NodeSpec("node", case.op, attrs, specs, (), state=make(node))
    kernel = find_reference(case.op)
    assert kernel is not None, f"no reference kernel for {case.op}"
    try:
        out = kernel(node, [np.asarray(v) for v in case.inputs])
    except OpError as error:
        return None, error.message
    assert len(out) == len(types), f"{case}: {len(out)} outputs"
    for value, dtype in zip(out, types):
        assert isinstance(value, np.ndarray), f"{case}: output {type(value)}"
        assert value.dtype == np.dtype(dtype.base_dtype.as_numpy_dtype), (
            f"{case}: {value.dtype} is not {dtype}"
        )
    return list(out), ""


def same(a: np.ndarray, b: np.ndarray, tolerance: tuple[float, float] | None) -> bool:
    """Return whether two outputs agree; NaN equals NaN.

    TensorFlow gives quantised outputs as plain integers.
    """
    if a.dtype.names:
        a = a[a.dtype.names[0]]
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype == object:
        return bool((a == b).all())
    if tolerance is None:
        if a.dtype.kind in "fc":
            return bool(np.array_equal(a, b, equal_nan=True))
        return a.tobytes() == b.tobytes()
    x, y = a, b
    if a.dtype.kind not in "iubfc" or a.dtype.name == "bfloat16":
        x, y = a.astype(np.float32), b.astype(np.float32)
    return bool(np.allclose(x, y, tolerance[0], tolerance[1], equal_nan=True))


def differences(cases: list[Case]) -> list[str]:
    """Return a line for each case with differing answers.

    TensorFlow's answers are compared with the reference kernels'.
    """
    tensorflow = Oracle(cases)
    wrong = []
    for i, case in enumerate(cases):
        expected, reason = tensorflow.run(i, case)
        with np.errstate(all="ignore"):
            found, message = ours(case)
        if expected is None or found is None:
            first = oracle.cause(reason)
            if expected is not None or found is not None:
                wrong.append(
                    f"{case}: TensorFlow {expected if expected is not None else first!r}, here "
                    f"{message or found!r}"
                )
            elif not case.own_words and not _same_text(first, message):
                wrong.append(
                    f"{case}: message\n     TensorFlow: {first}\n     here:       {message}"
                )
        elif not all(
            same(f, e, case.tolerance)
            for f, e in zip(found[: case.compared], expected[: case.compared])
        ):
            wrong.append(
                f"{case}: TensorFlow {[e.tolist() for e in expected]!r:.300}, here "
                f"{[f.tolist() for f in found]!r:.300}"
            )
    return wrong


def _same_text(theirs: str, here: str) -> bool:
    return theirs.split("\t [[")[0].strip() == here.strip() or theirs.startswith(here)


def native_differences(cases: list[Case]) -> list[str]:
    """Return a line for each case of whose compiled answer TensorFlow's differs.

    Where TensorFlow's node fails, so must the kernel.
    """
    tensorflow = Oracle(cases)
    wrong = []
    for i, case in enumerate(cases):
        expected, reason = tensorflow.run(i, case)
        attrs, types = case.node()
        specs = tuple(tensor(np.asarray(v)) for v in case.inputs)
        shapes = [()] * len(types) if expected is None else [e.shape for e in expected]
        if expected is None:
            assert case.failed_shape is not None, f"{case}: {reason}"
            shapes = [case.failed_shape] * len(types)
        outputs = tuple(TensorSpec(d.base_dtype, s) for d, s in zip(types, shapes, strict=True))
        known = {k: np.asarray(case.inputs[k]) for k in case.known}
        builder = find_native(case.op)
        assert builder is not None
        call = builder(NodeSpec("node", case.op, attrs, specs, outputs, known))
        try:
            found = run_native(call, [np.asarray(v) for v in case.inputs], outputs)
        except KernelError as error:
            if expected is not None or not _same_text(oracle.cause(reason), str(error.args[1])):
                wrong.append(f"{case}: TensorFlow {expected or reason}, here {error.args[1]}")
            continue
        if expected is None:
            wrong.append(f"{case}: TensorFlow {reason}, here {found}")
        elif not all(same(f, e, case.tolerance) for f, e in zip(found, expected)):
            wrong.append(
                f"{case}: TensorFlow {[e.tolist() for e in expected]!r:.300}, here "
                f"{[f.tolist() for f in found]!r:.300}"
            )
    return wrong
