"""The set of generic kernels holds what programs run node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfjit.framework.types import dtypes as d
from tfjit.kernels.executor.python_abi import array_offsets
from tfjit.kernels.precompile.generic_kernels import (
    USUAL_OFFSETS,
    generic_kernels,
    machine_texts,
)
from tfjit.kernels.precompile.nodes import integers, node, scalar, tensor
from tfjit.kernels.registry import NodeSpec, find_native
from tfjit.kernels.source import KernelSource


@pytest.fixture(scope="module")
def kernels() -> tuple[KernelSource, ...]:
    return generic_kernels()


def f32(*shape: int) -> Any:
    return tensor(d.float32, *shape)


F = {"T": d.float32}
CONV = {
    **F,
    "strides": (1, 1, 1, 1),
    "padding": b"SAME",
    "dilations": (1, 1, 1, 1),
    "explicit_paddings": (),
    "data_format": b"NHWC",
}
# Nodes of training and inference, in sizes that the set does not name.
NODES = (
    node("MatMul", [f32(64, 784), f32(784, 100)], [f32(64, 100)], **F),
    node("MatMul", [f32(784, 64), f32(784, 10)], [f32(64, 10)], transpose_a=True, **F),
    node("BiasAdd", [f32(64, 100), f32(100)], [f32(64, 100)], data_format=b"NHWC", **F),
    node("BiasAddGrad", [f32(64, 100)], [f32(100)], data_format=b"NHWC", **F),
    node("ReluGrad", [f32(64, 100), f32(64, 100)], [f32(64, 100)], **F),
    node("Softmax", [f32(64, 7)], [f32(64, 7)], **F),
    node("Mean", [f32(64), integers(0)], [f32()], keep_dims=False, **F),
    node("Mean", [f32(5, 7, 9, 30), integers(1, 2)], [f32(5, 30)], keep_dims=False, **F),
    node("Transpose", [f32(4, 20, 8, 16), integers(0, 2, 1, 3)], [f32(4, 8, 20, 16)], **F),
    node("ConcatV2", [f32(9, 50), f32(9, 30), scalar(1)], [f32(9, 80)], N=2, **F),
    node("GatherV2", [f32(90, 16), tensor(d.int64, 33), scalar(0)], [f32(33, 16)], batch_dims=0),
    node("Cast", [tensor(d.int64, 9)], [f32(9)], SrcT=d.int64, DstT=d.float32, Truncate=False),
    node("Equal", [tensor(d.int64, 32), tensor(d.int64, 32)], [tensor(d.bool, 32)], T=d.int64),
    node("ArgMax", [f32(32, 11), scalar(1)], [tensor(d.int64, 32)], output_type=d.int64, **F),
    node("Conv2D", [f32(9, 20, 20, 5), f32(3, 3, 5, 9)], [f32(9, 20, 20, 9)], **CONV),
    node("ScatterAdd", [f32(50, 8), tensor(d.int32, 9), f32(9, 8)], [f32(50, 8)], **F),
    node("ResourceScatterUpdate", [f32(50), tensor(d.int64, 9), f32(9)], [], dtype=d.float32),
    node(
        "SparseApplyAdagrad",
        [f32(50, 8), f32(50, 8), f32(), f32(9, 8), tensor(d.int32, 9)],
        [f32(50, 8)],
        update_slots=True,
        **F,
    ),
    node(
        "ResourceSparseApplyFtrl",
        [f32(50)] * 3 + [f32(9), tensor(d.int64, 9)] + [f32()] * 3 + [scalar(-0.5, d.float32)],
        [],
        multiply_linear_by_lr=False,
        **F,
    ),
    node("ApplyAdam", [f32(5)] * 3 + [f32()] * 6 + [f32(5)], [f32(5)], use_nesterov=False, **F),
)


@pytest.mark.parametrize("spec", NODES, ids=lambda spec: spec.op)
def test_the_set_covers(spec: NodeSpec, kernels: tuple[KernelSource, ...]) -> None:
    builder = find_native(spec.op)
    assert builder is not None
    missing = [source.title for source in builder(spec).sources() if source not in kernels]
    assert not missing


def test_the_set_is_small_and_in_a_fixed_order(kernels: tuple[KernelSource, ...]) -> None:
    assert len(set(kernels)) == len(kernels) < 1850
    assert all(np.diff([kernels.index(source) for source in kernels[::100]]) > 0)


def test_the_table_executor_of_this_process_is_among_the_texts() -> None:
    offsets = array_offsets()
    assert offsets in (USUAL_OFFSETS, None)
    (text, functions), _ = machine_texts()
    assert "tfjit_walk" in functions and "tfjit_walk" in text
