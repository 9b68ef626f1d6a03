"""Shape rules that several op families share, and their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.shape_context import ShapeContext, equal_shapes
from tfjit.framework.types.shape import Shape, format_shape

Shapes = Sequence[Shape]
Rule = Callable[[ShapeContext], Shapes]


def fail(message: str) -> InvalidArgumentError:
    """Return the error of a rule.

    The caller adds the node and its inputs.
    """
    return InvalidArgumentError(None, None, message)


@equal_shapes
def unchanged(c: ShapeContext) -> Shapes:
    """Return the first input's shape."""
    return [c.inputs[0]]


def all_unchanged(c: ShapeContext) -> Shapes:
    """Give output i the shape of input i."""
    return list(c.inputs)


def scalar(c: ShapeContext) -> Shapes:
    """Make every output a scalar."""
    return [()] * c.num_outputs


def unknown(c: ShapeContext) -> Shapes:
    """Make every output shape unknown."""
    return [None] * c.num_outputs


def nothing(c: ShapeContext) -> Shapes:
    """Return no shapes, for an op without outputs."""
    return []


def vector_of_two(c: ShapeContext) -> Shapes:
    """Return a handle of the form string[2]."""
    return [(2,)]


def scalar_inputs(c: ShapeContext) -> Shapes:
    """Check that every input is a scalar; outputs are scalars."""
    for shape in c.inputs:
        c.with_rank(shape, 0)
    return [()] * c.num_outputs


def handle_input(c: ShapeContext) -> Shapes:
    """Check that the first input is a handle; outputs are unknown.

    A handle is a scalar, or string[2].
    """
    c.with_rank_at_most(0, 1)
    return [None] * c.num_outputs


def handle_to_scalar(c: ShapeContext) -> Shapes:
    """Check that the first input is a handle; outputs are scalars."""
    c.with_rank_at_most(0, 1)
    return [()] * c.num_outputs


@equal_shapes
def merged(c: ShapeContext) -> Shapes:
    """Merge the inputs' shapes into the shape of the one output."""
    shape: Shape = None
    for other in c.inputs:
        shape = c.merge(shape, other)
    return [shape]


@equal_shapes
def merged_last_first(c: ShapeContext) -> Shapes:
    """Merge as `merged`, but in TensorFlow's order for AddN's messages.

    The order decides on the sizes that a message of shapes that do not fit names.
    """
    shape = c.inputs[-1]
    for other in reversed(c.inputs[:-1]):
        shape = c.merge(other, shape)
    return [shape]


@equal_shapes
def broadcast(c: ShapeContext) -> Shapes:
    """Return the inputs' common broadcast shape."""
    return [c.broadcast(c.inputs[0], c.inputs[1])]


def shape_attr(name: str = "shape") -> Rule:
    """Return the shape that an attr says."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.shape_attr(name)]

    return rule


def from_shape_input(index: int = 0) -> Rule:
    """Return the shape that input `index` holds."""

    def rule(c: ShapeContext) -> Shapes:
        c.with_rank(index, 1)
        return [c.constant_as_shape(index)] * c.num_outputs

    return rule


def same_as_input(index: int) -> Rule:
    """Return the shape of input `index`, for every output."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.inputs[index]] * c.num_outputs

    return rule


def unchanged_of_rank(rank: int) -> Rule:
    """Return the first input's shape, of exactly this rank."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.with_rank(0, rank)]

    return rule


def unchanged_of_rank_at_least(rank: int) -> Rule:
    """Return the first input's shape, which has at least this rank."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.with_rank_at_least(0, rank)]

    return rule


def int_constant(c: ShapeContext, index: int) -> int | None:
    """Return the value of a scalar integer input, where known."""
    value = c.constant(index)
    return None if value is None else int(np.reshape(value, -1)[0])


def int_list_constant(c: ShapeContext, index: int) -> list[int] | None:
    """Return the values of an integer input, where known."""
    value = c.constant(index)
    return None if value is None else [int(v) for v in np.reshape(value, -1)]


def product(sizes: Sequence[int | None]) -> int | None:
    """Return the product of sizes; None while one is unknown."""
    n = 1
    for size in sizes:
        if size is None:
            return None
        n *= size
    return n


def window_size(
    c: ShapeContext, size: int | None, window: int | None, dilation: int, stride: int, padding: str
) -> int | None:
    """Return the output size of a window that moves over `size`.

    SAME: ceil(size / stride), VALID: only whole windows. Raises where a stride or the result is not
    positive.
    """
    if stride <= 0:
        raise fail(f"Stride must be > 0, but got {stride}")
    if dilation < 1:
        raise fail(f"Dilation rate must be >= 1, but got {dilation}")
    if padding == "SAME":
        if size is None:
            return None
        return -(-size // stride)
    if size is None or window is None:
        return None
    reach = (window - 1) * dilation + 1
    return (
        c.subtract(size, reach - 1)
        if stride == 1
        else (c.subtract(size + stride, reach) or 0) // stride
    )


def padded_window_size(
    c: ShapeContext,
    size: int | None,
    window: int | None,
    dilation: int,
    stride: int,
    before: int,
    after: int,
) -> int | None:
    """Do as `window_size`, with padding given."""
    if size is None or window is None:
        return None
    return window_size(c, size + before + after, window, dilation, stride, "VALID")


def size_input(c: ShapeContext, index: int) -> tuple[int | None, int | None]:
    """Return (height, width) of an input of two numbers, None if unknown."""
    size = c.with_rank(index, 1)
    c.with_value(c.dim(size, 0), 2)
    value = c.constant(index)
    if value is None:
        return None, None
    height, width = int(value[0]), int(value[1])
    return height if height >= 0 else None, width if width >= 0 else None


def require_scalars(c: ShapeContext, *indices: int) -> None:
    """Require that the inputs are scalars."""
    for index in indices:
        c.with_rank(index, 0)


def _known_elements(sizes: tuple[int | None, ...]) -> tuple[int, list[int]]:
    """Return (product of the known sizes, places of the unknown ones)."""
    known = 1
    for size in sizes:
        if size is not None:
            known *= size
    # A product of zero is known whatever the others are.
    return known, [i for i, size in enumerate(sizes) if size is None and known]


def reshape_shape(c: ShapeContext) -> Shapes:
    """Infer the shape that a constant asks for, with its -1 resolved."""
    given, wanted = c.inputs[0], c.constant_as_shape(1)
    if wanted is None or given is None:
        return [wanted]
    n_in, holes_in = _known_elements(given)
    n_out, holes_out = _known_elements(wanted)
    if len(holes_in) > 1 or len(holes_out) > 1:
        return [wanted]
    if not holes_in and not holes_out:
        if n_in != n_out:
            raise fail(
                f"Cannot reshape a tensor with {n_in} elements to shape {format_shape(wanted)} "
                f"({n_out} elements)"
            )
    elif not holes_in and n_out > 0:
        return [c.replace_dim(wanted, holes_out[0], c.divide(n_in, n_out))]
    elif not holes_out and n_in:
        c.divide(n_out, n_in)
    return [wanted]


def concat_shape(c: ShapeContext, values: Shapes, axis_index: int) -> Shapes:
    """Infer the shape of values joined along an input's axis."""
    axis_value = int_constant(c, axis_index)
    axis_shape = c.inputs[axis_index]
    if axis_shape is not None and len(axis_shape) > 1:
        raise fail(f"Shape must be at most rank 1 but is rank {len(axis_shape)}")
    if axis_value is None:
        # Only the rank is known, where any input tells it.
        for shape in values:
            if shape is not None:
                if not shape:
                    raise fail("Can't concatenate scalars (use tf.stack instead)")
                for other in values:
                    c.with_rank(other, len(shape))
                return [(None,) * len(shape)]
        return [None]
    least = axis_value + 1 if axis_value >= 0 else -axis_value
    out = c.with_rank_at_least(values[0], least)
    if out is not None:
        axis = axis_value % len(out)
    elif all(s is None for s in values):
        return [None]
    total = c.dim(out, axis_value) if out is not None else None
    merged: Shape = out
    for shape in values[1:]:
        shape = c.with_rank_at_least(shape, least)
        if merged is None:
            merged = shape if shape is None else c.replace_dim(shape, axis_value, None)
            total = None
            continue
        if shape is None:
            total = None
            continue
        axis = axis_value % len(merged)
        if len(shape) != len(merged):
            raise fail(f"Shapes must be equal rank, but are {len(merged)} and {len(shape)}")
        for i, (x, y) in enumerate(zip(merged, shape)):
            if i != axis and x is not None and y is not None and x != y:
                raise fail(
                    f"Dimension {i if i < axis else i - axis - 1} in both shapes must be equal, "
                    f"but are {x} and {y}. Shapes are "
                    f"{format_shape(merged[:axis] if i < axis else merged[axis + 1 :])} and "
                    f"{format_shape(shape[:axis] if i < axis else shape[axis + 1 :])}."
                )
        total = c.add(total, shape[axis])
        merged = tuple(
            total if i == axis else (y if x is None else x)
            for i, (x, y) in enumerate(zip(merged, shape))
        )
    return [None if merged is None else c.replace_dim(merged, axis_value, total)]
