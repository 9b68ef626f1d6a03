"""Optimizer updates in NumPy against TensorFlow's, dense and sparse, by reference and
by resource.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.optimizer_inputs import FLAGS, arguments, rule_of
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.reference.state.optimizer_updates import UPDATES
from tfjit.kernels.registry import NodeSpec, find_reference

tf = pytest.importorskip("tensorflow")


def cases() -> list[tuple[str, dict[str, Any], np.dtype[Any]]]:
    out = []
    for rule in UPDATES:
        for op_type in (
            f"Apply{rule}",
            f"ResourceApply{rule}",
            f"SparseApply{rule}",
            f"ResourceSparseApply{rule}",
        ):
            if find_reference(op_type) is None:
                continue
            for kind in (np.float32, np.float64):
                out.append((op_type, {}, np.dtype(kind)))
                for flag in FLAGS.get(rule, ()):
                    definition = registry.require(op_type).attr(flag)
                    if definition is not None:
                        out.append((op_type, {flag: not definition.default}, np.dtype(kind)))
    return out


def test_updates_equal_tensorflow() -> None:
    wrong = []
    todo = cases()
    with tf.Graph().as_default() as graph:
        built = []
        for op_type, attrs, kind in todo:
            sparse = "Sparse" in op_type
            indices = np.array([3, 0, 3], np.int32) if sparse else None
            inputs = arguments(op_type, kind, (5, 3), indices)
            slots = UPDATES[rule_of(op_type)].slots
            resource = op_type.startswith("Resource")
            if resource:
                variables = [
                    tf.raw_ops.VarHandleOp(
                        dtype=kind, shape=(5, 3), shared_name=f"v{len(built)}_{i}"
                    )
                    for i in range(slots)
                ]
                init = [
                    tf.raw_ops.AssignVariableOp(resource=v, value=tf.constant(x))
                    for v, x in zip(variables, inputs)
                ]
            else:
                variables = [
                    tf.raw_ops.VariableV2(dtype=kind, shape=(5, 3), name=f"v{len(built)}_{i}")
                    for i in range(slots)
                ]
                init = [
                    tf.raw_ops.Assign(ref=v, value=tf.constant(x))
                    for v, x in zip(variables, inputs)
                ]
            names = [arg.name for arg in registry.require(op_type).inputs]
            feeds = [*variables, *[tf.constant(x) for x in inputs[slots:]]]
            with tf.control_dependencies([i.op if hasattr(i, "op") else i for i in init]):
                feeds[slots:] = [tf.identity(t) for t in feeds[slots:]]
            step = getattr(tf.raw_ops, op_type)(**dict(zip(names, feeds)), **attrs)
            with tf.control_dependencies([step.op if hasattr(step, "op") else step]):
                after = [
                    tf.raw_ops.ReadVariableOp(resource=v, dtype=kind)
                    if resource
                    else tf.raw_ops.Identity(input=v)
                    for v in variables
                ]
            built.append((inputs, after))
        with tf.compat.v1.Session(graph=graph) as session:
            answers = session.run([after for _, after in built])
    for (op_type, attrs, kind), (inputs, _), expected in zip(todo, built, answers):
        kernel = find_reference(op_type)
        assert kernel is not None
        mine = [x.copy() for x in inputs]
        full = (
            {a.name: a.default for a in registry.require(op_type).attrs if a.has_default}
            | attrs
            | {"T": dtypes.as_dtype(kind)}
        )
        out = kernel(NodeSpec("node", op_type, full, (), ()), mine)
        assert (
            (out == () or list(out) == []) if op_type.startswith("Resource") else out[0] is mine[0]
        )
        near = 3e-6 if kind == np.float32 else 1e-12
        for i, value in enumerate(expected):
            if not np.allclose(mine[i], value, near, near):
                wrong.append(
                    f"{op_type} {attrs} {kind}: slot {i}: TensorFlow {value.reshape(-1)[:4]}, here "
                    f"{mine[i].reshape(-1)[:4]}"
                )
    assert not wrong, f"{len(wrong)} of {len(todo)}:\n" + "\n".join(wrong)


def test_wrong_shapes_and_rows() -> None:
    descent = find_reference("ApplyGradientDescent")
    sparse = find_reference("SparseApplyAdagrad")
    assert descent is not None and sparse is not None
    node = NodeSpec("node", "x", {}, (), ())
    one = np.float32(1)
    with pytest.raises(
        InvalidArgumentError, match=r"var and grad do not have the same shape\[2\] \[3\]"
    ):
        descent(node, [np.zeros(2, np.float32), np.asarray(one), np.zeros(3, np.float32)])
    with pytest.raises(
        InvalidArgumentError, match="Index 5 at offset 1 in indices is out of range"
    ):
        sparse(
            node,
            [np.ones((3, 2), np.float32)] * 2
            + [np.asarray(one), np.zeros((2, 2), np.float32), np.array([0, 5])],
        )
