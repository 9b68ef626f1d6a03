"""Write the scalar steps of reductions: start, step and result.

Rows and reductions share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.ir.fused_group import CONSTANT, FusedGroup, Member
from tfjit.kernels.registry import Unsupported

IMPORTS: Final = (
    *expressions.IMPORTS,
    "from tfjit.kernels.codegen.accumulate import add_any_order, maximum_any_zero, "
    "minimum_any_zero, multiply_any_order",
    "from tfjit.kernels.codegen.intrinsics import *",
    "",
    "",
)


@dataclass(frozen=True, slots=True)
class Reduction:
    """The reduction that an op computes.

    kind: "sum", "max", "min", "prod", "all" or "any" of the input. Before and after it `squares`,
    `root`, `mean` and `half` (L2Loss) apply.
    """

    kind: str
    squares: bool = False
    root: bool = False
    mean: bool = False
    half: bool = False


OPS: Final[dict[str, Reduction]] = {
    "Sum": Reduction("sum"),
    "Mean": Reduction("sum", mean=True),
    "Max": Reduction("max"),
    "Min": Reduction("min"),
    "Prod": Reduction("prod"),
    "All": Reduction("all"),
    "Any": Reduction("any"),
    "EuclideanNorm": Reduction("sum", squares=True, root=True),
    "L2Loss": Reduction("sum", squares=True, half=True),
    "BiasAddGrad": Reduction("sum"),
}
"""Op types that reduce over axes."""


MIN_ROWS: Final = 4
"""Least number of rows for the rows template.

With fewer rows there is no work to share among threads; the reduction template cuts long rows
instead.
"""
_SMALL: Final = 1 << 16


def is_row_reduction(shape: Sequence[int], axes: Sequence[int]) -> bool:
    """Return whether a reduction is over the last dims of enough rows.

    The rows template computes such a reduction.
    """
    outer = len(shape) - len(axes)
    trailing = tuple(axes) == tuple(range(outer, len(shape)))
    return (
        trailing
        and 0 < outer < len(shape)
        and (prod(shape[:outer]) >= MIN_ROWS or prod(shape) <= _SMALL)
    )


def reduced_axes(group: FusedGroup, member: Member) -> tuple[int, ...]:
    """Return the dims that a reduction of the group takes away.

    Raises Unsupported when its axes are not known while planning.
    """
    spec = member.spec
    rank = len(group.tensor(member.inputs[0]).shape)
    if spec.op == "L2Loss":
        return tuple(range(rank))
    if spec.op == "BiasAddGrad":
        layout = spec.attrs.get("data_format", b"NHWC")
        channel = 1 if layout in (b"NCHW", "NCHW") else rank - 1
        return tuple(k for k in range(rank) if k != channel)
    ref = member.inputs[1]
    axes = group.constants[ref.index] if ref.member == CONSTANT else spec.constants.get(1)
    if axes is None:
        raise Unsupported(f"{spec.op} {spec.name}: the axes are not known while planning")
    return tuple(sorted({int(a) % rank for a in np.asarray(axes).reshape(-1)})) if rank else ()


def summed_dtype(what: Reduction, dtype: DType) -> DType:
    """Return the dtype of the sum of values of `dtype`.

    Means of integers are sums in 64 bits, as TensorFlow's are.
    """
    return d.int64 if what.mean and dtype.is_integer and dtype.size < 8 else dtype


def start(kind: str, dtype: DType) -> str:
    """Return the register literal of an empty reduction's value."""
    if kind in ("all", "any"):
        return str(kind == "all")
    if kind in ("sum", "prod"):
        return expressions.literal(int(kind == "prod"), dtype)
    if dtype.is_complex or dtype is d.bool:
        raise Unsupported(f"{kind} of {dtype.name}")
    if dtype.is_floating:
        return expressions.literal(-np.inf if kind == "max" else np.inf, dtype)
    return expressions.literal(dtype.min if kind == "max" else dtype.max, dtype)


def step(kind: str, dtype: DType, total: str, value: str, in_order: bool = False) -> str:
    """Return the expression of `total` combined with `value`.

    in_order: additions stay as they are written.
    """
    if kind in ("all", "any"):
        return f"{total} {'&' if kind == 'all' else '|'} {value}"
    if kind in ("max", "min"):
        if dtype.is_floating:
            return f"{kind}imum_any_zero({total}, {value})"
        return f"select({value} {'>' if kind == 'max' else '<'} {total}, {value}, {total})"
    if dtype.is_floating and not in_order:
        return f"{'add' if kind == 'sum' else 'multiply'}_any_order({total}, {value})"
    if dtype.is_integer:
        return f"{'iadd' if kind == 'sum' else 'imul'}({total}, {value})"
    return f"{total} {'+' if kind == 'sum' else '*'} {value}"


def wide_type(kind: str, dtype: DType) -> str:
    """Return the register type in which partial results are combined.

    It is float64 for sums of floats, so that long ones stay exact enough.
    """
    if kind in ("sum", "prod") and dtype.is_floating:
        return "float64"
    return expressions.register_type(dtype)


def narrowed(dtype: DType, value: str) -> str:
    """Return a value of `wide_type` as a register value of `dtype`."""
    name = expressions.register_type(dtype)
    text = f"{name}({value})" if dtype.is_floating else value
    if dtype is d.float16:
        return f"vm.round_f16_f32({text})"
    return f"vm.round_bf16_f32({text})" if dtype is d.bfloat16 else text
