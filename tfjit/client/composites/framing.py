"""Cut signals into frames, and put frames together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

# A size: a number where it is known.
Size = int | Tensor


def scalar_or_tensor(value: TensorLike, name: str) -> tuple[Tensor, Size]:
    """Return a scalar as a tensor, and as a number where known."""
    made = convert_to_tensor(value, name=name)
    made.shape.assert_has_rank(0)
    known = constant_value(made)
    return made, made if known is None else int(known)


def frame(
    signal: TensorLike,
    frame_length: TensorLike,
    frame_step: TensorLike,
    pad_end: bool = False,
    pad_value: TensorLike = 0,
    axis: TensorLike = -1,
    name: str | None = None,
) -> Tensor:
    """Cut an axis into frames, which may overlap.

    [..., n, ...] -> [..., frames, length, ...]. frame_step: the distance of frames. pad_end: put
    pad_value behind the signal, so that each element begins or is in a frame; else elements behind
    the last whole frame are left out.
    """
    with name_scope(name, "frame", [signal, frame_length, frame_step, pad_value]):
        value = convert_to_tensor(signal, name="signal")
        _, length = scalar_or_tensor(frame_length, "frame_length")
        _, step = scalar_or_tensor(frame_step, "frame_step")
        _, place = scalar_or_tensor(axis, "axis")
        rank = value.shape.rank
        if rank == 0:
            value.shape.with_rank_at_least(1)
        if isinstance(place, int) and rank is not None:
            place = range(rank)[place]
        elif rank is None or not isinstance(place, int):
            place = ops.range(ops.rank(value))[place]
        size, known = _size(value, place), value.shape
        if pad_end:
            count = -(-size // step)
            lacking = ops.maximum(0, length + step * (count - 1) - size)
            value = _padded_behind(value, place, lacking, pad_value)
        else:
            count = 1 + (size - length) // step
            count = max(0, count) if isinstance(count, int) else ops.maximum(0, count)
        starts = ops.expand_dims(ops.range(count) * step, 1)
        frames = ops.gather(value, starts + ops.range(length), axis=place)
        if rank is not None:
            frames.set_shape(_shape(known.as_list(), length, step, place, pad_end))
        return frames


def _size(value: Tensor, axis: Size) -> Size:
    """Return the size of an axis."""
    sizes = value.shape_tuple
    known = sizes[axis] if sizes is not None and isinstance(axis, int) else None
    return ops.shape(value)[axis] if known is None else known


def _padded_behind(value: Tensor, axis: Size, count: Size, pad_value: TensorLike) -> Tensor:
    """Put `count` times pad_value behind an axis."""
    fill = convert_to_tensor(pad_value, value.dtype)
    fill.shape.assert_has_rank(0)
    after = ops.one_hot(axis, ops.rank(value), on_value=count, off_value=0)
    return ops.pad(value, ops.stack([ops.zeros_like(after), after], 1), constant_values=fill)


def _shape(
    sizes: list[int | None], length: Size, step: Size, axis: Size, pad_end: bool
) -> list[int | None]:
    """Return the known sizes of frames."""
    if not isinstance(axis, int):
        return [None] * (len(sizes) + 1)
    size = sizes[axis]
    count = None
    if size is not None and isinstance(step, int):
        if pad_end:
            count = max(0, -(-size // step))
        elif isinstance(length, int):
            count = max(0, (size - length + step) // step)
    known = length if isinstance(length, int) else None
    return [*sizes[:axis], count, known, *sizes[axis + 1 :]]


def overlap_and_add(signal: TensorLike, frame_step: TensorLike, name: str | None = None) -> Tensor:
    """Sum frames at a distance.

    [..., frames, length] -> [..., (frames - 1) * step + length]. Raises ValueError for a frame_step
    that is no integer.
    """
    with name_scope(name, "overlap_and_add", [signal, frame_step]):
        value = convert_to_tensor(signal, name="signal")
        if value.shape.rank is not None:
            value.shape.with_rank_at_least(2)
        given, step = scalar_or_tensor(frame_step, "frame_step")
        if not given.dtype.is_integer:
            raise ValueError(f"frame_step must be an integer. Got {given.dtype}")
        frames, length = _size(value, -2), _size(value, -1)
        total = length + step * (frames - 1)
        outer = ops.shape(value)[:-2]

        def shaped(x: Tensor, *sizes: Size) -> Tensor:
            return ops.reshape(x, ops.concat([outer, ops.stack(sizes)], 0))

        if isinstance(step, int) and step == length:
            return shaped(value, total)
        parts = -(-length // step)
        flat = ops.reshape(value, ops.stack([-1, frames, length]))
        flat = ops.pad(flat, [[0, 0], [0, 0], [0, parts * step - length]])
        cut = ops.reshape(flat, ops.stack([-1, frames, parts, step]))
        # Part s of each frame lies s steps behind the frame's first one. Rows of parts that are
        # longer by `parts` empty ones shift by one row each where a row less is read.
        rows = ops.pad(ops.transpose(cut, [0, 2, 1, 3]), [[0, 0], [0, 0], [0, parts], [0, 0]])
        kept = frames + parts - 1
        rows = ops.reshape(rows, ops.stack([-1, parts * (frames + parts), step]))
        rows = ops.reshape(rows[:, : kept * parts], ops.stack([-1, parts, kept, step]))
        summed = ops.reshape(ops.reduce_sum(rows, 1), ops.stack([-1, kept * step]))
        result = shaped(summed[:, :total], total)
        sizes = value.shape_tuple
        if sizes is not None:
            result.set_shape([*sizes[:-2], total if isinstance(total, int) else None])
        return result
