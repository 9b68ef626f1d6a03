"""Suppress overlapping boxes of batches of images, tile by tile.

A tile of boxes is compared with the boxes that are kept of the tiles before, then within itself,
until nothing changes: boxes are tensors of fixed shape, and a suppressed one becomes zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.movement_functions import tile
from tfjit.ops.control_flow.functions import function
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.layers.top_k import top_k

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_SMALL = 1e-8  # keeps the ratio of empty boxes finite


def non_max_suppression_padded(
    boxes: Tensor,
    scores: Tensor,
    max_output_size: TensorLike,
    iou_threshold: TensorLike = 0.5,
    score_threshold: float = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """Return the indices of the best boxes, padded, and their number.

    The padding is zeros. boxes [..., n, 4], scores [..., n] -> int32 [..., max_output_size] and
    [...]; without pad_to_max_output_size boxes [n, 4] -> [selected] and []. sorted_input: the
    scores fall. canonicalized_coordinates: boxes are y_min, x_min, y_max, x_max. Raises ValueError
    for batches without padding.
    """
    with name_scope(name, "non_max_suppression_padded"):
        if not pad_to_max_output_size and (boxes.shape.rank or 0) > 2:
            raise ValueError(
                f"'pad_to_max_output_size' (value {pad_to_max_output_size}) must be True for "
                "batched input"
            )
        indices, valid = _suppressed(
            boxes,
            scores,
            max_output_size,
            iou_threshold,
            score_threshold,
            sorted_input,
            canonicalized_coordinates,
            tile_size,
        )
        if not pad_to_max_output_size:
            return indices[0, :valid], valid
        batch = ops.concat([ops.shape(boxes)[:-2], ops.expand_dims(max_output_size, 0)], 0)
        return ops.reshape(indices, batch), valid


def _suppressed(
    boxes: Tensor,
    scores: Tensor,
    limit: TensorLike,
    iou_threshold: TensorLike,
    score_threshold: TensorLike,
    is_sorted: bool,
    is_canonical: bool,
    tile_size: int,
) -> tuple[Tensor, Tensor]:
    """Call the suppression, a function of the graph as in TensorFlow.

    -> int32 [batch, limit], and the number of boxes, of the batch's shape.
    """

    @function
    def non_max_suppression_padded_v2(
        boxes: Tensor, scores: Tensor, limit: Tensor, overlap: Tensor, least: Tensor
    ) -> tuple[Tensor, Tensor]:
        shape = ops.shape(boxes)
        count = shape[-2]
        flat = ops.reshape(boxes, ops.stack([-1, count, 4]))
        flat_scores = ops.reshape(scores, ops.stack([-1, count]))
        passes = ops.cast(flat_scores > least, flat_scores.dtype)
        flat_scores *= passes
        flat *= ops.expand_dims(ops.cast(passes, flat.dtype), 2)
        if not is_canonical:
            flat = _canonical(flat)
        order = None
        if not is_sorted:
            flat_scores, order = top_k(flat_scores, count)
            flat = ops.gather(flat, order, axis=1, batch_dims=1)
        indices, valid = _selected(flat, count, limit, overlap, tile_size)
        if order is not None:
            batch = ops.shape(flat)[0]
            rows = ops.expand_dims(ops.range(batch) * count, 1)
            places = ops.reshape(indices + rows, [-1])
            found = ops.gather(ops.reshape(order, [-1]), places)
            indices = ops.reshape(found, ops.stack([batch, -1]))
        is_valid = ops.less(ops.expand_dims(ops.range(limit), 0), ops.expand_dims(valid, 1))
        indices = ops.where(is_valid, indices, ops.zeros_like(indices))
        return indices, ops.reshape(valid, shape[:-2])

    return non_max_suppression_padded_v2(
        boxes,
        scores,
        convert_to_tensor(limit, dtypes.int32),
        convert_to_tensor(iou_threshold, dtypes.float32),
        convert_to_tensor(score_threshold, dtypes.float32),
    )


def _canonical(boxes: Tensor) -> Tensor:
    """Return boxes as y_min, x_min, y_max, x_max.

    The first box tells the order of all, as in TensorFlow.
    """
    y1, x1, y2, x2 = ops.split(boxes, 4, axis=2)
    tops = ops.cond(ops.less_equal(y1[0, 0, 0], y2[0, 0, 0]), lambda: (y1, y2), lambda: (y2, y1))
    lefts = ops.cond(ops.less_equal(x1[0, 0, 0], x2[0, 0, 0]), lambda: (x1, x2), lambda: (x2, x1))
    return ops.concat([tops[0], lefts[0], tops[1], lefts[1]], axis=2)


def _selected(
    boxes: Tensor, count: Tensor, limit: Tensor, overlap: Tensor, tile_size: int
) -> tuple[Tensor, Tensor]:
    """Return (indices into sorted boxes [batch, limit], number of valid ones [batch])."""
    longest = ops.cast(ops.maximum(count, limit), dtypes.float32)
    tiles = ops.cast(ops.ceil(longest / float(tile_size)), dtypes.int32)
    padded = tiles * tile_size
    boxes = ops.pad(
        ops.cast(boxes, dtypes.float32),
        ops.stack([[0, 0], ops.stack([0, padded - count]), [0, 0]]),
    )

    boxes.set_shape([None, None, 4])

    def continues(_: Tensor, kept: Tensor, index: Tensor) -> Tensor:
        return ops.logical_and(ops.reduce_min(kept) < limit, index < tiles)

    def next_tile(boxes: Tensor, kept: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        boxes, alive = _suppress_tile(boxes, overlap, index, tile_size)
        return boxes, kept + alive, index + 1

    batch = ops.shape(boxes)[0]
    none = ops.zeros(ops.stack([batch]), dtypes.int32)
    boxes, kept, _ = ops.while_loop(
        continues,
        next_tile,
        [boxes, none, constant(0)],
        shape_invariants=[
            TensorShape([None, None, 4]),
            TensorShape([None]),
            TensorShape([]),
        ],
    )
    alive = ops.cast(ops.reduce_any(ops.greater(boxes, 0), [2]), dtypes.int32)
    from_end = ops.expand_dims(ops.range(padded, 0, -1), 0)
    first = top_k(alive * from_end, limit)[0]
    return ops.minimum(padded - first, count - 1), ops.minimum(kept, limit)


def _suppress_tile(
    boxes: Tensor, overlap: Tensor, index: Tensor, tile_size: int
) -> tuple[Tensor, Tensor]:
    """Suppress boxes of one tile.

    Returns all boxes, and the number of boxes of the tile that are left, [batch].
    """
    with name_scope("suppression_loop_body"):
        shape = ops.shape(boxes)
        batch, tiles = shape[0], shape[1] // tile_size

        def tile_at(place: Tensor) -> Tensor:
            begin = ops.stack([0, place * tile_size, 0])
            return ops.slice(boxes, begin, ops.stack([batch, tile_size, 4]))

        def behind(members: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
            free = ops.reduce_all(ops.less(_overlaps(tile_at(before), members), overlap), [1])
            return ops.expand_dims(ops.cast(free, members.dtype), 2) * members, before + 1

        members, _ = ops.while_loop(
            lambda _, before: ops.less(before, index), behind, [tile_at(index), constant(0)]
        )
        ratios = _overlaps(members, members)
        places = ops.range(tile_size)
        later = ops.greater(ops.reshape(places, [1, -1]), ops.reshape(places, [-1, 1]))
        counts = ops.logical_and(ops.expand_dims(later, 0), ops.greater_equal(ratios, overlap))
        ratios *= ops.cast(counts, ratios.dtype)
        ratios = _final_overlaps(ratios, overlap)
        lost = ops.reduce_sum(ratios, 1) > 0
        members *= ops.expand_dims(1.0 - ops.cast(lost, members.dtype), 2)
        here = ops.cast(ops.equal(ops.range(tiles), index), boxes.dtype)
        here = ops.reshape(here, [1, -1, 1, 1])
        by_tile = ops.reshape(boxes, ops.stack([batch, tiles, tile_size, 4]))
        repeated = tile(ops.expand_dims(members, 1), ops.stack([1, tiles, 1, 1]))
        boxes = ops.reshape(repeated * here + by_tile * (1 - here), ops.stack([batch, -1, 4]))
        alive = ops.cast(ops.reduce_any(members > 0, [2]), dtypes.int32)
        return boxes, ops.reduce_sum(alive, [1])


def _final_overlaps(ratios: Tensor, overlap: Tensor) -> Tensor:
    """Return the overlaps with boxes that are not suppressed themselves.

    ratios [batch, suppressing, suppressed]. A box that a free box suppresses suppresses none; the
    loop ends where the sum of overlaps changes by no more than the threshold.
    """

    def again(ratios: Tensor, _: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        batch = ops.shape(ratios)[0]
        column = ops.stack([batch, -1, 1])
        free = ops.cast(ops.reshape(ops.reduce_max(ratios, 1) < overlap, column), ratios.dtype)
        still = ops.cast(ops.reduce_max(free * ratios, 1) < overlap, ratios.dtype)
        left = ops.reshape(still, column) * ratios
        left_total = ops.reduce_sum(left, [1, 2])
        return left, ops.reduce_any(total - left_total > overlap), left_total

    total = ops.reduce_sum(ratios, [1, 2])
    return ops.while_loop(lambda _, changes, __: changes, again, [ratios, constant(True), total])[0]


def _overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Return the intersection over union of boxes.

    a [batch, n, 4], b [batch, m, 4] -> [batch, n, m].
    """
    with name_scope("bbox_overlap"):
        top, left, bottom, right = ops.split(a, 4, axis=2)
        columns = [ops.transpose(edge, [0, 2, 1]) for edge in ops.split(b, 4, axis=2)]
        width = ops.minimum(right, columns[3]) - ops.maximum(left, columns[1])
        height = ops.minimum(bottom, columns[2]) - ops.maximum(top, columns[0])
        shared = ops.maximum(width, 0) * ops.maximum(height, 0)
        area = (bottom - top) * (right - left)
        other = (columns[2] - columns[0]) * (columns[3] - columns[1])
        return shared / (area + other - shared + _SMALL)
