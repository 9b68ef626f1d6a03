"""Move blocks of space into the batch or the channels, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs import static_value
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.renamed import renamed
from tfjit.ops.core.shape_rules import Shapes, fail, int_list_constant
from tfjit.ops.core.type_lists import INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _space_to_batch_shape(
    c: ShapeContext,
    shape: Shape,
    block: list[int] | None,
    pads: list[tuple[int, int]] | None,
    n: int | None,
    to_batch: bool,
) -> Shapes:
    """Infer the shape of SpaceToBatch and BatchToSpace, of 2 or n blocks."""
    if shape is None:
        return [None]
    if n is None:
        return [None]
    if len(shape) < n + 1:
        raise fail(f"Shape must be at least rank {n + 1} but is rank {len(shape)}")
    batch = shape[0]
    if block is None:
        return [(None,) * (n + 1) + shape[n + 1 :]]
    for b in block:
        if b < 1:
            raise fail(f"block_shape must be positive, got {b}")
        batch = c.multiply(batch, b) if to_batch else c.divide(batch, b)
    out: list[int | None] = [batch]
    for i, b in enumerate(block):
        size = shape[1 + i]
        if pads is None:
            out.append(None)
            continue
        before, after = pads[i]
        if before < 0 or after < 0:
            raise fail(f"{'paddings' if to_batch else 'crops'} cannot be negative")
        if to_batch:
            out.append(c.divide(c.add(size, before + after), b))
        else:
            out.append(c.subtract(c.multiply(size, b), before + after))
    return [(*out, *shape[n + 1 :])]


def _pair_constant(c: ShapeContext, index: int) -> list[tuple[int, int]] | None:
    value = c.constant(index)
    return None if value is None else [(int(a), int(b)) for a, b in value.reshape(-1, 2)]


def _space_to_batch(c: ShapeContext) -> Shapes:
    return _space_to_batch_shape(
        c, c.with_rank(0, 4), [c.attr("block_size")] * 2, _two_pairs(c), 2, True
    )


def _batch_to_space(c: ShapeContext) -> Shapes:
    return _space_to_batch_shape(
        c, c.with_rank(0, 4), [c.attr("block_size")] * 2, _two_pairs(c), 2, False
    )


def _two_pairs(c: ShapeContext) -> list[tuple[int, int]] | None:
    rows, columns = c.with_rank(1, 2)
    c.with_value(rows, 2)
    c.with_value(columns, 2)
    return _pair_constant(c, 1)


def _block_inputs(
    c: ShapeContext,
) -> tuple[list[int] | None, list[tuple[int, int]] | None, int | None]:
    (n,) = c.with_rank(1, 1)
    if n is None:
        raise fail("block_shape must have known size.")
    rows, columns = c.with_rank(2, 2)
    c.with_value(rows, n)
    c.with_value(columns, 2)
    return int_list_constant(c, 1), _pair_constant(c, 2), n


def _space_to_batch_nd(c: ShapeContext) -> Shapes:
    block, pads, n = _block_inputs(c)
    return _space_to_batch_shape(c, c.inputs[0], block, pads, n, True)


def _batch_to_space_nd(c: ShapeContext) -> Shapes:
    block, pads, n = _block_inputs(c)
    return _space_to_batch_shape(c, c.inputs[0], block, pads, n, False)


def _image_axes(c: ShapeContext) -> tuple[str, int]:
    layout = c.attr("data_format").decode()
    return layout, 5 if layout == "NCHW_VECT_C" else 4


def _space_to_depth(c: ShapeContext) -> Shapes:
    layout, rank = _image_axes(c)
    shape = c.with_rank(0, rank)
    b = c.attr("block_size")
    if layout == "NHWC":
        n, h, w, depth = shape
        return [(n, c.divide(h, b), c.divide(w, b), c.multiply(depth, b * b))]
    n, depth, h, w, *inner = shape
    return [(n, c.multiply(depth, b * b), c.divide(h, b), c.divide(w, b), *inner)]


def _depth_to_space(c: ShapeContext) -> Shapes:
    layout, rank = _image_axes(c)
    shape = c.with_rank(0, rank)
    b = c.attr("block_size")
    if layout == "NHWC":
        n, h, w, depth = shape
        return [(n, c.multiply(h, b), c.multiply(w, b), c.divide(depth, b * b))]
    n, depth, h, w, *inner = shape
    return [(n, c.divide(depth, b * b), c.multiply(h, b), c.multiply(w, b), *inner)]


register_op(
    "BatchToSpace",
    inputs=("input: T", "crops: Tidx"),
    outputs=("output: T",),
    attrs=("T: type", "block_size: int >= 2", f"Tidx: {INDEX} = DT_INT32"),
    shape=_batch_to_space,
)
register_op(
    "BatchToSpaceND",
    inputs=("input: T", "block_shape: Tblock_shape", "crops: Tcrops"),
    outputs=("output: T",),
    attrs=("T: type", f"Tblock_shape: {INDEX} = DT_INT32", f"Tcrops: {INDEX} = DT_INT32"),
    shape=_batch_to_space_nd,
)
register_op(
    "DepthToSpace",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "block_size: int >= 2",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    ),
    shape=_depth_to_space,
)
register_op(
    "SpaceToBatch",
    inputs=("input: T", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tpaddings: {INDEX} = DT_INT32", "block_size: int >= 2"),
    shape=_space_to_batch,
)
register_op(
    "SpaceToBatchND",
    inputs=("input: T", "block_shape: Tblock_shape", "paddings: Tpaddings"),
    outputs=("output: T",),
    attrs=("T: type", f"Tblock_shape: {INDEX} = DT_INT32", f"Tpaddings: {INDEX} = DT_INT32"),
    shape=_space_to_batch_nd,
)
register_op(
    "SpaceToDepth",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=(
        "T: type",
        "block_size: int >= 2",
        "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'",
    ),
    shape=_space_to_depth,
)


def space_to_batch_nd(
    input: TensorLike, block_shape: TensorLike, paddings: TensorLike, name: str | None = None
) -> Tensor:
    """Move spatial blocks into the batch axis."""
    return tensor("SpaceToBatchND", name, input=input, block_shape=block_shape, paddings=paddings)


def batch_to_space_nd(
    input: TensorLike, block_shape: TensorLike, crops: TensorLike, name: str | None = None
) -> Tensor:
    """Invert `space_to_batch_nd`."""
    return tensor("BatchToSpaceND", name, input=input, block_shape=block_shape, crops=crops)


def space_to_batch(
    input: TensorLike,
    paddings: TensorLike,
    block_size: TensorLike | None = None,
    name: str | None = None,
    block_shape: TensorLike | None = None,
) -> Tensor:
    """Apply `space_to_batch_nd` with square blocks to images."""
    size = renamed(block_shape, block_size, "block_shape", "block_size")
    out = space_to_batch_nd(input, np.array([size, size], np.int64), paddings, name)
    out.set_shape((None,) * 4)
    return out


def batch_to_space(
    input: TensorLike,
    crops: TensorLike,
    block_size: TensorLike | None = None,
    name: str | None = None,
    block_shape: TensorLike | None = None,
) -> Tensor:
    """Apply `batch_to_space_nd` with square blocks to images."""
    size = renamed(block_shape, block_size, "block_shape", "block_size")
    out = batch_to_space_nd(input, np.array([size, size], np.int64), crops, name)
    out.set_shape((None,) * 4)
    return out


def space_to_depth(
    input: TensorLike, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Move spatial blocks into the channels."""
    return tensor("SpaceToDepth", name, input=input, block_size=block_size, data_format=data_format)


def depth_to_space(
    input: TensorLike, block_size: int, name: str | None = None, data_format: str = "NHWC"
) -> Tensor:
    """Move channels into spatial blocks."""
    return tensor("DepthToSpace", name, input=input, block_size=block_size, data_format=data_format)


def required_space_to_batch_paddings(
    input_shape: Any,
    block_shape: TensorLike,
    base_paddings: TensorLike | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (paddings, crops) int32[blocks, 2] that fit sizes to their blocks.

    The padded sizes are divisible by the blocks. Known sizes give constants. Raises ValueError when
    the number of blocks is unknown.
    """
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        sizes = convert_to_tensor(input_shape, dtype=dtypes.int32, name="input_shape")
        block = convert_to_tensor(block_shape, dtype=dtypes.int32, name="block_shape")
        count = block.shape.num_elements()
        if block.shape.rank != 1 or count is None:
            raise ValueError(f"block_shape must be a vector of known size, got shape {block.shape}")
        zeros = np.zeros((count, 2), np.int32)
        base = convert_to_tensor(
            zeros if base_paddings is None else base_paddings,
            dtype=dtypes.int32,
            name="base_paddings",
        )
        for value, wanted in ((sizes, (count,)), (base, (count, 2))):
            value.shape.assert_is_compatible_with(wanted)
        known_sizes, known_block, known_base = (
            static_value.constant_value(value) for value in (sizes, block, base)
        )
        if known_sizes is not None and known_block is not None and known_base is not None:
            extra = -(known_sizes + known_base.sum(1)) % known_block
            ends = np.stack([known_base[:, 0], known_base[:, 1] + extra], 1)
            cut = np.stack([np.zeros_like(extra), extra], 1)
            return convert_to_tensor(ends, dtypes.int32, name="paddings"), convert_to_tensor(
                cut, dtypes.int32, name="crops"
            )
        start, end = (tensor("GatherV2", None, params=base, indices=i, axis=1) for i in (0, 1))
        full = tensor("AddV2", None, x=sizes, y=tensor("AddV2", None, x=start, y=end))
        more = tensor("FloorMod", None, x=tensor("Neg", None, x=full), y=block)
        crops = tensor("Pack", "crops", values=[tensor("ZerosLike", None, x=more), more], axis=1)
        return tensor(
            "Pack", "paddings", values=[start, tensor("AddV2", None, x=end, y=more)], axis=1
        ), crops
