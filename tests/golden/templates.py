"""One small kernel of each template."""

from __future__ import annotations

import numpy as np

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.groups import ReduceBuilder, floats
from tests.kernels.loop_program_cases import escape
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.elementwise.loop import loop_call
from tfjit.kernels.cpu.loop_program.builder import program_call
from tfjit.kernels.cpu.reduction.reduction import reduce_call
from tfjit.kernels.cpu.reduction.row_reduction import rows_call
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import NativeCall, NodeSpec, TensorSpec, find_native


def loop() -> NativeCall:
    g = ReduceBuilder(floats(6, 50), floats(50), floats(6, 1))
    total = g.op("AddV2", g.op("Mul", g.input(0), g.input(1)), g.input(2))
    return loop_call(g.group(g.op("Tanh", total), g.op("Relu", total)))


def tiled_loop() -> NativeCall:
    g = ReduceBuilder(floats(60, 50), floats(50, 60))
    turned = g.op(
        "Transpose",
        g.input(1),
        g.constant(np.array([1, 0])),
        value=np.ascontiguousarray(g.arrays[1].T),
    )
    return loop_call(g.group(g.op("AddV2", g.input(0), turned)))


def loop_program() -> NativeCall:
    return program_call(escape(300))


def reduction() -> NativeCall:
    g = ReduceBuilder(floats(64, 600), np.float32(0.5).reshape(()))
    out = g.op("Mul", g.reduce("Mean", g.op("Square", g.input(0)), (0,)), g.input(1))
    plain = g.group(out)
    return reduce_call(
        FusedGroup("reduce", plain.members, plain.inputs, plain.outputs, plain.constants)
    )


def rows() -> NativeCall:
    g = ReduceBuilder(floats(6, 50))
    e = g.op("Exp", g.op("Sub", g.input(0), g.reduce("Max", g.input(0), (1,), keep=True)))
    plain = g.group(g.op("RealDiv", e, g.reduce("Sum", e, (1,), keep=True)))
    return rows_call(
        FusedGroup("rows", plain.members, plain.inputs, plain.outputs, plain.constants)
    )


def transpose() -> NativeCall:
    order = np.array([0, 2, 1], np.int32)
    inputs = (TensorSpec(d.float32, (3, 40, 50)), TensorSpec(d.int32, (3,)))
    builder = find_native("Transpose")
    assert builder is not None
    return builder(
        NodeSpec("node", "Transpose", {}, inputs, (TensorSpec(d.float32, (3, 50, 40)),), {1: order})
    )
