"""Ops that are declared without a kernel: the run that needs one says so, others work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.framework.op_defs.attrs import FuncRef, to_proto
from tfjit.framework.op_defs.node_types import input_dtypes
from tfjit.framework.op_defs.op_def import AttrDef, OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import RUNS_FUNCTIONS
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.protos import GraphDef

tf1 = tf.compat.v1


def is_implemented(op_type: str) -> bool:
    """Return whether tfjit computes nodes of that type, or some of them."""
    from tfjit.kernels.registry import find_native, find_reference
    from tfjit.runtime.executor.node_runner import has_own_runner
    from tfjit.runtime.kernel_api.op_kernel import has_runtime_kernel

    return (
        find_reference(op_type) is not None
        or find_native(op_type) is not None
        or has_runtime_kernel(op_type)
        or has_own_runner(op_type)
        or registry.has_trait(op_type, RUNS_FUNCTIONS)
    )


# An op without a family is one that another test registered.
MISSING = [op for op in registry.list() if registry.family(op.name) and not is_implemented(op.name)]
X = np.asarray([1, 2, 3], "f4")


def sample(attr: AttrDef) -> Any:
    """Return a value for an attr without default, a list as short as may be."""
    first = attr.allowed[0] if attr.allowed else None
    kind = attr.type.removeprefix("list(").removesuffix(")")
    number = max(attr.minimum or 0, 1)
    value = {
        "type": first or dtypes.float32,
        "int": number if kind == attr.type else 1,
        "string": first or b"x",
        "float": 1.0,
        "bool": True,
        "shape": TensorShape(None),
        "func": FuncRef("identity"),
        "tensor": np.zeros((), "f4"),
    }[kind]
    return value if kind == attr.type else (value,) * number


def add_node(graph_def: Any, op: OpDef) -> None:
    """Add a node of the op, and a placeholder or a variable for each of its inputs."""
    node = graph_def.node.add(name="node", op=op.name)
    attrs = {attr.name: attr.default if attr.has_default else sample(attr) for attr in op.attrs}
    for name, value in attrs.items():
        node.attr[name].CopyFrom(to_proto(value))
    for index, dtype in enumerate(input_dtypes(op, attrs)):
        source = graph_def.node.add(
            name=f"in{index}", op="VariableV2" if dtype.is_ref else "Placeholder"
        )
        source.attr["dtype"].type = dtype.base_dtype.as_datatype_enum
        source.attr["shape"].shape.unknown_rank = True
        node.input.append(source.name)


def with_node(op: OpDef) -> Any:
    """Return a graph of x + x and a node of the op."""
    graph_def = GraphDef()
    graph_def.versions.producer = 2474
    x = graph_def.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = dtypes.float32.as_datatype_enum
    x.attr["shape"].shape.dim.add().size = 3
    y = graph_def.node.add(name="y", op="AddV2", input=["x", "x"])
    y.attr["T"].type = dtypes.float32.as_datatype_enum
    add_node(graph_def, op)
    function = graph_def.library.function.add()
    function.signature.name = "identity"
    function.signature.input_arg.add(name="a", type=dtypes.float32.as_datatype_enum)
    function.signature.output_arg.add(name="b", type=dtypes.float32.as_datatype_enum)
    function.ret["b"] = "a"
    return graph_def


def test_most_ops_have_kernels() -> None:
    assert 50 < len(MISSING) < len(registry) / 3
    assert {"LoadDataset", "SaveDatasetV2"} <= {op.name for op in MISSING}
    assert not {
        "If",
        "While",
        "Switch",
        "Const",
        "MatMul",
        "VariableV2",
        "QueueDequeueV2",
        "_Arg",
    } & {op.name for op in MISSING}


def test_every_op_without_kernel_is_named_with_its_family() -> None:
    """The run that needs the node names op, node, family and a way out; another run of the same
    session works.
    """
    for op in MISSING:
        if op.deprecated is not None and op.deprecated[0] <= 2474:
            continue  # importing it fails, in TensorFlow's words
        family = registry.family(op.name)
        assert family is not None
        with tfjit.Session(graph=with_node(op)) as session:
            np.testing.assert_array_equal(session.run("y:0", {"x:0": X}), 2 * X)
            with pytest.raises(tfjit.errors.UnimplementedError) as caught:
                session.run(session.graph.get_operation_by_name("node"))
            message = caught.value.message
            assert (
                f"tfjit does not implement op '{op.name}' yet (op family '{family.name}': "
                f"{family.subject})" in message
            )
            assert "{{node node}}" in message
            assert (family.instead or "SessionOptions.custom_kernel_creator") in message
            np.testing.assert_array_equal(session.run("y:0", {"x:0": X}), 2 * X)


@pytest.mark.parametrize(
    "setting",
    [{}, {"TFJIT_JIT": "eager"}, {"TFJIT_JIT": "off"}, {"TFJIT_DISABLE": "straight_line"}],
)
def test_a_pipeline_of_tf_data(monkeypatch: pytest.MonkeyPatch, setting: dict[str, str]) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        y = tf.add(x, 1.0)
        data = tf.data.experimental.load("no file", tf.TensorSpec([], tf.float32)).batch(2)
        once = tf1.data.make_one_shot_iterator(data).get_next()
        again = tf1.data.make_initializable_iterator(data)
        both = once + y[:2]
    with tfjit.Session(graph=graph) as session:
        for fetch in (once, again.initializer, both, [y, once]):
            with pytest.raises(
                tfjit.errors.UnimplementedError,
                match=r"datasets and iterators.*placeholders.*queues",
            ) as caught:
                session.run(fetch, {x: X})
            assert "No OpKernel" not in str(caught.value)
            np.testing.assert_array_equal(session.run(y, {x: X}), X + 1)
