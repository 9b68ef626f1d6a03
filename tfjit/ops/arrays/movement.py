"""Declare concat, split, transpose, pad, tile, reverse and roll."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, concat_shape, fail, int_constant, int_list_constant
from tfjit.ops.core.type_lists import INDEX

if TYPE_CHECKING:
    pass


def _concat_v1(c: ShapeContext) -> Shapes:
    return concat_shape(c, c.inputs[1:], 0)


def _concat_v2(c: ShapeContext) -> Shapes:
    return concat_shape(c, c.inputs[:-1], len(c.inputs) - 1)


def _parallel_concat(c: ShapeContext) -> Shapes:
    wanted = c.shape_attr("shape")
    if wanted is None or None in wanted:
        raise fail("shape attr must be fully defined.")
    for shape in c.inputs:
        if not c.fully_defined(shape):
            raise fail("All input shapes must be fully defined.")
        if not shape or shape[0] != 1:
            raise fail("Size of first dimension must be 1.")
    return [wanted]


def _pack(c: ShapeContext) -> Shapes:
    shape: Shape = c.inputs[-1]
    for i in range(len(c.inputs) - 2, -1, -1):
        try:
            shape = c.merge(c.inputs[i], shape)
        except InvalidArgumentError as error:
            raise fail(f"{error.message}\n\tFrom merging shape {i} with other shapes.") from None
    if shape is None:
        return [None]
    axis = c.axis(c.attr("axis"), len(shape) + 1)
    return [(*shape[:axis], len(c.inputs), *shape[axis:])]


def _unpack(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    out: Shape = None
    if shape is not None:
        axis = c.axis(c.attr("axis"), len(shape))
        c.with_value(shape[axis], c.attr("num"))
        out = (*shape[:axis], *shape[axis + 1 :])
    return [out] * c.num_outputs


def _split(c: ShapeContext) -> Shapes:
    shape = c.inputs[1]
    axis = int_constant(c, 0)
    num = c.attr("num_split")
    if axis is None:
        return [None if shape is None else (None,) * len(shape)] * num
    shape = c.with_rank_at_least(shape, axis + 1 if axis >= 0 else -axis)
    if shape is None:
        return [None] * num
    axis = c.axis(axis, len(shape))
    return [c.replace_dim(shape, axis, c.divide(shape[axis], num))] * num


def _split_v(c: ShapeContext) -> Shapes:
    num = c.attr("num_split")
    shape = c.inputs[0]
    axis = int_constant(c, 2)
    sizes = int_list_constant(c, 1)
    if shape is None:
        return [None] * num
    if not shape:
        raise fail("Can't split scalars")
    if axis is not None:
        axis = c.axis(axis, len(shape))
    if sizes is None:
        return [(None,) * len(shape) if axis is None else c.replace_dim(shape, axis, None)] * num
    # TensorFlow takes an unknown axis for the last one here.
    axis = len(shape) - 1 if axis is None else axis
    if len(sizes) != num:
        raise fail(
            f"Length of size_splits should be equal to num_outputs, got {len(sizes)} and {num}"
        )
    if sizes.count(-1) > 1:
        raise fail("size_splits can only have one -1")
    known = sum(size for size in sizes if size != -1)
    total = shape[axis]
    out: list[int | None] = []
    for i, size in enumerate(sizes):
        rest = size if size != -1 or total is None else total - known
        if rest < -1 or (rest == -1 and total is not None):
            raise fail(f"Split size at index {i} must be >= 0. Got: {rest}")
        out.append(None if rest == -1 else rest)
    if total is not None and (known > total if -1 in sizes else known != total):
        raise fail(f"can't split axis of size {total} into pieces of size {_brackets(sizes)}")
    return [c.replace_dim(shape, axis, size) for size in out]


def _brackets(sizes: list[int]) -> str:
    return "[" + ",".join(map(str, sizes)) + "]"


def _transpose(c: ShapeContext) -> Shapes:
    shape, perm_shape = c.inputs
    perm = int_list_constant(c, 1)
    n = c.num_elements(perm_shape)
    if shape is not None:
        rank = len(shape)
    elif n is not None:
        rank = n
    elif perm is not None:
        rank = len(perm)
    else:
        return [None]
    if shape is None and rank < 2:
        return [None]  # a scalar or a vector: both pass unchanged
    full = c.with_rank(shape, rank)
    if n is not None and n != rank:
        raise fail(f"Dimension must be {n} but is {rank}")
    c.with_rank(perm_shape, 1)
    if perm is None:
        return [(None,) * rank]
    out = []
    for axis in perm:
        if not -rank <= axis < rank:
            raise fail(f"perm dim {axis} is out of range of input rank {rank}")
        out.append(full[axis])
    return [tuple(out)]


def _tile(c: ShapeContext) -> Shapes:
    c.with_rank(1, 1)
    multiples = c.constant_as_shape(1)
    shape = c.inputs[0]
    if shape is not None and not shape:
        return [()]
    if multiples is None and shape is None:
        return [None]
    rank = len(multiples) if multiples is not None else len(shape or ())
    sizes = c.with_rank(shape, rank)
    factors = multiples if multiples is not None else (None,) * rank
    return [tuple(c.multiply(s, m) for s, m in zip(sizes, factors))]


def _pad(c: ShapeContext) -> Shapes:
    given = c.with_rank(1, 2)
    c.with_value(given[1], 2)
    shape = c.inputs[0]
    paddings = c.constant(1)
    n = given[0]
    if paddings is None:
        if shape is not None:
            c.merge_dim(n, len(shape))
            return [(None,) * len(shape)]
        return [None if n is None else (None,) * n]
    rank = paddings.shape[0]
    sizes = c.with_rank(shape, rank)
    if n is not None:
        c.with_value(n, rank)
    out = []
    for size, (before, after) in zip(sizes, paddings.tolist()):
        if before < 0 or after < 0:
            raise fail("Paddings must be non-negative")
        out.append(c.add(size, before + after))
    return [tuple(out)]


def _pad_v2(c: ShapeContext) -> Shapes:
    return _pad(c)


def _mirror_pad_grad(c: ShapeContext) -> Shapes:
    given = c.with_rank(1, 2)
    paddings = c.constant(1)
    shape = c.inputs[0]
    if paddings is None:
        n = given[0]
        return [None if n is None else (None,) * n]
    sizes = c.with_rank(shape, paddings.shape[0])
    out = []
    for size, (before, after) in zip(sizes, paddings.tolist()):
        if before < 0 or after < 0:
            raise fail("Paddings must be non-negative")
        out.append(c.subtract(size, before + after))
    return [tuple(out)]


def _reverse(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    (n,) = c.with_rank(1, 1)
    if shape is not None and len(shape) > 8:
        raise fail(
            f"reverse does not work on tensors with more than 8 dimensions, has {len(shape)}"
        )
    if n is not None:
        return [c.with_rank(shape, n)]
    return [shape]


def _reverse_v2(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    c.with_rank(1, 1)
    axes = int_list_constant(c, 1)
    if shape is None:
        return [None]
    if len(shape) > 8:
        raise fail(
            f"reverse does not work on tensors with more than 8 dimensions, has {len(shape)}"
        )
    if axes is not None:
        seen = set()
        for axis in axes:
            if not -len(shape) <= axis < len(shape):
                raise fail(
                    f"'axis'[{axes.index(axis)}] = {axis} is out of valid range [0, "
                    f"{len(shape) - 1}"
                )
            if axis % len(shape) in seen:
                raise fail(f"axis {axis % len(shape)} specified more than once.")
            seen.add(axis % len(shape))
    return [shape]


def _reverse_sequence(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    (n,) = c.with_rank(1, 1)
    batch, seq = c.attr("batch_dim"), c.attr("seq_dim")
    if batch < 0:
        raise fail(f"batch_dim must be >= 0, got {batch}")
    if seq < 0:
        raise fail(f"seq_dim must be >= 0, got {seq}")
    if shape is None:
        return [None]
    if batch >= len(shape):
        raise fail(f"batch_dim must be < input rank: {batch} vs. {len(shape)}")
    if seq >= len(shape):
        raise fail(f"seq_dim must be < input rank: {seq} vs. {len(shape)}")
    return [c.replace_dim(shape, batch, c.merge_dim(shape[batch], n))]


def _roll(c: ShapeContext) -> Shapes:
    c.with_rank_at_least(0, 1)
    c.with_rank_at_most(1, 1)
    c.with_rank_at_most(2, 1)
    return [c.inputs[0]]


def _tile_grad(c: ShapeContext) -> Shapes:
    return [None]


register_op(
    "Concat",
    inputs=("concat_dim: int32", "values: N * T"),
    outputs=("output: T",),
    attrs=("N: int >= 2", "T: type"),
    shape=_concat_v1,
    traits=CANNOT_FAIL,
)
register_op(
    "ConcatV2",
    inputs=("values: N * T", "axis: Tidx"),
    outputs=("output: T",),
    attrs=("N: int >= 2", "T: type", f"Tidx: {INDEX} = DT_INT32"),
    shape=_concat_v2,
    traits=CANNOT_FAIL,
)
register_op(
    "ConjugateTranspose",
    inputs=("x: T", "perm: Tperm"),
    outputs=("y: T",),
    attrs=("T: type", f"Tperm: {INDEX} = DT_INT32"),
    shape=_transpose,
)
register_op(
    "MirrorPad",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32", "mode: {'REFLECT', 'SYMMETRIC'}"),
    shape=_pad,
)
register_op(
    "MirrorPadGrad",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32", "mode: {'REFLECT', 'SYMMETRIC'}"),
    shape=_mirror_pad_grad,
)
register_op(
    "Pack",
    inputs=("values: N * T",),
    outputs=("output: T",),
    attrs=("N: int >= 1", "T: type", "axis: int = 0"),
    shape=_pack,
    traits=CANNOT_FAIL,
)
register_op(
    "Pad",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32"),
    shape=_pad,
    traits=CANNOT_FAIL,
)
register_op(
    "PadV2",
    inputs=("input: T", "paddings: Tpaddings", "constant_values: T"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32"),
    shape=_pad,
    traits=CANNOT_FAIL,
)
register_op(
    "ParallelConcat",
    inputs=("values: N * T",),
    outputs=("output: T",),
    attrs=("N: int >= 1", "T: type", "shape: shape"),
    shape=_parallel_concat,
)
register_op(
    "Reverse",
    inputs=("tensor: T", "dims: bool"),
    outputs=("output: T",),
    attrs=(
        (
            "T: {uint8, int8, uint16, int16, uint32, int32, uint64, int64, bool, bfloat16, half, "
            "float, double, complex64, "
            "complex128, string}"
        ),
    ),
    shape=_reverse,
)
register_op(
    "ReverseSequence",
    inputs=("input: T", "seq_lengths: Tlen"),
    outputs=("output: T",),
    attrs=("seq_dim: int", "batch_dim: int = 0", "T: type", f"Tlen: {INDEX} = DT_INT64"),
    shape=_reverse_sequence,
)
register_op(
    "ReverseV2",
    inputs=("tensor: T", "axis: Tidx"),
    outputs=("output: T",),
    attrs=(
        f"Tidx: {INDEX} = DT_INT32",
        (
            "T: {uint8, int8, uint16, int16, int32, uint32, int64, uint64, bool, bfloat16, half, "
            "float, double, complex64, "
            "complex128, string}"
        ),
    ),
    shape=_reverse_v2,
    traits=CANNOT_FAIL,
)
register_op(
    "Roll",
    inputs=("input: T", "shift: Tshift", "axis: Taxis"),
    outputs=("output: T",),
    attrs=("T: type", f"Tshift: {INDEX}", f"Taxis: {INDEX}"),
    shape=_roll,
)
register_op(
    "Split",
    inputs=("split_dim: int32", "value: T"),
    outputs=("output: num_split * T",),
    attrs=("num_split: int >= 1", "T: type"),
    shape=_split,
    traits=CANNOT_FAIL,
)
register_op(
    "SplitV",
    inputs=("value: T", "size_splits: Tlen", "split_dim: int32"),
    outputs=("output: num_split * T",),
    attrs=("num_split: int >= 1", "T: type", "Tlen: {int8, int32, int64} = DT_INT64"),
    shape=_split_v,
    traits=CANNOT_FAIL,
)
register_op(
    "Tile",
    inputs=("input: T", "multiples: Tmultiples"),
    outputs=("output: T",),
    attrs=("T: type", f"Tmultiples: {INDEX} = DT_INT32"),
    shape=_tile,
    traits=CANNOT_FAIL,
)
register_op(
    "TileGrad",
    inputs=("input: T", "multiples: int32"),
    outputs=("output: T",),
    attrs=("T: type",),
    deprecated=(3, "TileGrad has been replaced with reduce_sum"),
    shape=_tile_grad,
)
register_op(
    "Transpose",
    inputs=("x: T", "perm: Tperm"),
    outputs=("y: T",),
    attrs=("T: type", f"Tperm: {INDEX} = DT_INT32"),
    shape=_transpose,
    traits=CANNOT_FAIL,
)
register_op(
    "Unpack",
    inputs=("value: T",),
    outputs=("output: num * T",),
    attrs=("num: int >= 0", "T: type", "axis: int = 0"),
    shape=_unpack,
    traits=CANNOT_FAIL,
)
