"""Declare patches of images and volumes."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    fail,
    window_size,
)


def patches(c: ShapeContext) -> Shapes:
    """Infer the shape of patches by `ksizes`, `strides` and `rates`.

    [batch, *spatial, c] -> [batch, *windows, k * ... * c].
    """
    rank = 5 if c.op == "ExtractVolumePatches" else 4
    shape = c.with_rank(0, rank)
    sizes, strides = c.attr("ksizes"), c.attr("strides")
    rates = c.attrs.get("rates") or [1] * rank
    names = "ksizes", "strides", "rates"
    for name, values in zip(names, (sizes, strides, rates)):
        if len(values) != rank:
            raise fail(
                f"{c.op} requires the {name} attribute to contain {rank} values, but got: "
                f"{len(values)}"
            )
    padding = c.attr("padding").decode()
    depth = shape[-1]
    for axis in range(1, rank - 1):
        depth = c.multiply(depth, sizes[axis])
    windows: list[int | None] = [None] * (rank - 2)
    if None not in shape[1:-1]:
        windows = [
            window_size(c, shape[i], sizes[i], rates[i], strides[i], padding)
            for i in range(1, rank - 1)
        ]
    return [(shape[0], *windows, depth)]


register_op(
    "ExtractImagePatches",
    inputs=("images: T",),
    outputs=("patches: T",),
    attrs=(
        "ksizes: list(int) >= 4",
        "strides: list(int) >= 4",
        "rates: list(int) >= 4",
        (
            "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, complex64, complex128, bool}"
        ),
        "padding: {'SAME', 'VALID'}",
    ),
    shape=patches,
)
register_op(
    "ExtractVolumePatches",
    inputs=("input: T",),
    outputs=("patches: T",),
    attrs=(
        "ksizes: list(int) >= 5",
        "strides: list(int) >= 5",
        "T: realnumbertype",
        "padding: {'SAME', 'VALID'}",
    ),
    shape=patches,
)
