"""Declare pooling of windows of random sizes, and its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.apply import call
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

# Attrs that choose the windows of fractional pooling.
FRACTIONAL: Final = (
    "pooling_ratio: list(float) >= 4",
    "pseudo_random: bool = false",
    "overlapping: bool = false",
    "deterministic: bool = false",
    "seed: int = 0",
    "seed2: int = 0",
    "T: {float, double, int32, int64}",
)


def _fractional(c: ShapeContext) -> Shapes:
    shape = c.with_rank(0, 4)
    ratios = c.attr("pooling_ratio")
    if len(ratios) != 4:
        raise fail("pooling_ratio field must specify 4 dimensions")
    out = tuple(None if size is None else int(size / ratio) for size, ratio in zip(shape, ratios))
    if any(size is not None and size < 0 for size in out):
        raise fail("Size computed is negative")
    return [out, (None,), (None,)]


def _fractional_avg_grad(c: ShapeContext) -> Shapes:
    return [c.with_rank(c.constant_as_shape(0), 4)]


def _fractional_max_grad(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 4)]


for _op_type in (
    "FractionalAvgPool",
    "FractionalMaxPool",
):
    register_op(
        _op_type,
        inputs=("value: T",),
        outputs=("output: T", "row_pooling_sequence: int64", "col_pooling_sequence: int64"),
        attrs=FRACTIONAL,
        shape=_fractional,
    )
register_op(
    "FractionalAvgPoolGrad",
    inputs=(
        "orig_input_tensor_shape: int64",
        "out_backprop: T",
        "row_pooling_sequence: int64",
        "col_pooling_sequence: int64",
    ),
    outputs=("output: T",),
    attrs=("overlapping: bool = false", "T: {float, double, int32, int64}"),
    shape=_fractional_avg_grad,
)
register_op(
    "FractionalMaxPoolGrad",
    inputs=(
        "orig_input: T",
        "orig_output: T",
        "out_backprop: T",
        "row_pooling_sequence: int64",
        "col_pooling_sequence: int64",
    ),
    outputs=("output: T",),
    attrs=("overlapping: bool = false", "T: {float, double, int32, int64}"),
    shape=_fractional_max_grad,
)


def fractional_max_pool(
    value: TensorLike,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest value of each window, and the windows.

    The result is (output, rows, columns). value [batch, h, w, c] -> output [batch, h / ratio, w /
    ratio, c]; rows, columns: int64, where windows begin, and the end of the last. pooling_ratio: a
    ratio for each of the four axes, 1.0 for batch and channels. pseudo_random: window sizes from
    one random offset, instead of sizes in random order. overlapping: neighbouring windows share a
    border. deterministic: draw the same windows in each run, by seed and seed2. Source: Graham
    2014, "Fractional Max-Pooling".
    """
    found: tuple[Tensor, Tensor, Tensor] = call(
        "FractionalMaxPool",
        name,
        value=value,
        pooling_ratio=list(pooling_ratio),
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
    )
    return found


def fractional_avg_pool(
    value: TensorLike,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (output, rows, columns): the mean of each window of random size.

    The arguments are those of `fractional_max_pool`.
    """
    found: tuple[Tensor, Tensor, Tensor] = call(
        "FractionalAvgPool",
        name,
        value=value,
        pooling_ratio=list(pooling_ratio),
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
    )
    return found
