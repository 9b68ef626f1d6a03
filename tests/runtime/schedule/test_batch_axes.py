"""Axes of rows through nodes, on lowered texts."""

from __future__ import annotations

import pytest

from tests.runtime.lowered_programs import node, read
from tfjit.kernels.registry import NodeSpec
from tfjit.runtime.lowering.row_splits import Axis, Shard
from tfjit.runtime.schedule.batch_axes import NotIndependent, reshaped_axis, shard_of, shard_spec

ROWS = 8
VALUES = """
    lowered feeds=6
    %0: float32<8,3> = feed 0 'x'
    %1: float32<8,3> = feed 1 'y'
    %2: float32<3,5> = feed 2 'w'
    %3: float32<3> = feed 3 'b'
    %4: float32<8,4,3> = feed 4 'z'
    %5: bool<8> = feed 5 'p'
    %6 = const 'zero' int32<>[0]
    %7 = const 'one' int32<1>[1]
    %8 = const 'first' int32<1>[0]
    %9 = const 'turn' int32<2>[1, 0]
    %10 = const 'sizes' int32<2>[2, 12]
    %11 = const 'rows' int32<2>[8, 3]
    %12 = const 'begin' int32<2>[0, 1]
    %13 = const 'size' int32<2>[8, 2]
    %14 = const 'last' int32<>[1]
"""


def spec_of(line: str) -> NodeSpec:
    """The node 'n' over VALUES."""
    return node(read(VALUES + f"    %15: {line}\n    fetch %15"), "n").spec


@pytest.mark.parametrize(
    ("line", "axes", "inputs", "output"),
    [
        ("float32<8,3> = reference 'n' AddV2(%0, %1)", (0, 0), (0, 0), 0),
        # the other operand is to be by rows, too
        ("float32<8,3> = reference 'n' AddV2(%0, %1)", (0, None), (0, 0), 0),
        ("float32<8,3> = reference 'n' Mul(%0, %3)", (0, None), (0, None), 0),
        ("float32<8,3> = reference 'n' BiasAdd(%0, %3)", (0, None), (0, None), 0),
        ("float32<8,5> = reference 'n' MatMul(%0, %2)", (0, None), (0, None), 0),
        ("float32<5,8> = reference 'n' MatMul(%2, %0, transpose_a=True, transpose_b=True)", (None, 0), (None, 0), 1),
        ("float32<8> = reference 'n' Sum(%0, %7)", (0, None), (0, None), 0),
        ("float32<8,1> = reference 'n' Max(%0, %7, keep_dims=True)", (0, None), (0, None), 0),
        ("float32<3,8> = reference 'n' Transpose(%0, %9)", (0, None), (0, None), 1),
        ("float32<8,2> = reference 'n' Slice(%0, %12, %13)", (0, None, None), (0, None, None), 0),
        ("float32<8,6> = reference 'n' ConcatV2(%0, %1, %14)", (0, 0, None), (0, 0, None), 0),
        ("float32<8,2,3> = reference 'n' Pack(%0, %1, axis=1)", (0, 0), (0, 0), 0),
        ("float32<2,8,3> = reference 'n' Pack(%0, %1)", (0, 0), (0, 0), 1),
        ("float32<8,3> = reference 'n' Softmax(%0)", (0,), (0,), 0),
        ("float32<8,3> = reference 'n' AddN(%0, %1)", (0, 0), (0, 0), 0),
        ("float32<8,3> = reference 'n' AddV2(%0, %1)", (None, None), (None, None), None),
    ],
)  # fmt: skip
def test_rows_that_stay_apart(
    line: str, axes: tuple[Axis, ...], inputs: tuple[Axis, ...], output: Axis
) -> None:
    rule = shard_spec(spec_of(line), axes, ROWS)
    assert (rule.inputs, rule.outputs) == (inputs, (output,))


@pytest.mark.parametrize(
    ("line", "axes", "reason"),
    [
        ("float32<3> = reference 'n' Sum(%0, %8)", (0, None), "rows are reduced"),
        ("float32<3,3> = reference 'n' MatMul(%0, %1, transpose_a=True)", (0, 0), "summed over"),
        ("float32<16,3> = reference 'n' ConcatV2(%0, %1, %6)", (0, 0, None), "joined to others"),
        ("float32<8,3> = reference 'n' Softmax(%0)", (1,), "rows are normalized"),
        ("float32<8,3> = reference 'n' BiasAdd(%0, %3)", (1, None), "the channels are by rows"),
        ("float32<8,3> = reference 'n' AddV2(%0, %1)", (0, 1), "rows of different axes"),
        ("float32<8,3> = reference 'n' SelectV2(%5, %0, %1)", (0, 0, 0), "different axes"),
        ("float32<8,3> = reference 'n' Cumsum(%0, %6)", (0, None), "not known to keep rows apart"),
    ],
)
def test_rows_that_depend_on_each_other(line: str, axes: tuple[Axis, ...], reason: str) -> None:
    with pytest.raises(NotIndependent, match=reason):
        shard_spec(spec_of(line), axes, ROWS)


@pytest.mark.parametrize(
    ("shape", "axis", "new", "found"),
    [
        ((8, 3), 0, (24,), 0),
        ((2, 8, 3), 1, (2, 24), 1),
        ((8, 4, 3), 0, (8, 12), 0),
        ((8, 3), 0, (1, 8, 3), 1),
        ((8, 3), None, (24,), None),
    ],
)
def test_rows_in_another_shape(
    shape: tuple[int, ...], axis: Axis, new: tuple[int, ...], found: Axis
) -> None:
    assert reshaped_axis(shape, axis, new, ROWS) == found


def test_rows_that_another_shape_tears_apart() -> None:
    with pytest.raises(NotIndependent, match="are not one axis of"):
        reshaped_axis((8, 3), 0, (2, 12), ROWS)


def test_a_node_for_a_part_of_the_rows() -> None:
    spec = spec_of("float32<8,2> = reference 'n' Slice(%0, %12, %13)")
    rule = shard_spec(spec, (0, None, None), ROWS)
    made = shard_of(spec, rule, Shard(2, 5, ROWS))
    assert made.inputs[0].shape == (3, 3) and made.outputs[0].shape == (3, 2)
    assert made.constants[1].tolist() == [0, 1] and made.constants[2].tolist() == [3, 2]
