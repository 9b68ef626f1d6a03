"""The meaning of StridedSlice's begin, end, strides and masks.

Shape rules, kernels and gradients share this reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tfjit.framework.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class DenseSlice:
    """A strided slice with one entry an input axis.

    starts, strides: first index and step of each axis; sizes: numbers of elements (None unknown; 1
    on dropped axes). final_shape: the output's shape, dropped axes gone and new ones put in.
    """

    starts: tuple[int, ...]
    strides: tuple[int, ...]
    sizes: tuple[int | None, ...]
    final_shape: tuple[int | None, ...]

    def index(self) -> tuple[slice, ...]:
        """Return the slice's NumPy index, with no axis dropped.

        Needs known sizes.
        """
        out = []
        for start, stride, size in zip(self.starts, self.strides, self.sizes):
            if not size:
                out.append(slice(0, 0))
                continue
            stop = start + stride * size
            out.append(slice(start, None if stop < 0 else stop, stride))
        return tuple(out)


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _number(value: int) -> int:
    """Return a NumPy scalar as an int; a formula of sizes stays."""
    return value.item() if isinstance(value, np.generic) else value


_NEW_AXIS = -1
_DROPPED = -2


def resolve(
    shape: Sequence[int | None],
    begin: Sequence[int] | None,
    end: Sequence[int] | None,
    strides: Sequence[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> DenseSlice:
    """Read a slice of a tensor with `shape`.

    begin and end may be unknown. Raises InvalidArgumentError with TensorFlow's words.
    """
    rank = len(shape)
    count = len(strides)
    if (
        ellipsis_mask & (ellipsis_mask - 1)
        and bin(ellipsis_mask & ((1 << count) - 1)).count("1") > 1
    ):
        raise _fail("Multiple ellipses in slice spec not allowed")
    seen = False
    new_axes_after = 0
    for i in range(count):
        bit = 1 << i
        if seen and new_axis_mask & bit:
            new_axes_after += 1
        if ellipsis_mask & bit:
            seen = True
    entries = count
    if not seen:  # as if an ellipsis stood at the end
        ellipsis_mask |= 1 << count
        entries += 1
    begins = [0] * rank
    ends = [0] * rank
    steps = [1] * rank
    masked_begin = [False] * rank
    masked_end = [False] * rank
    shrink = [False] * rank
    gather: list[int] = []
    axis = 0
    for i in range(entries):
        bit = 1 << i
        if ellipsis_mask & bit:
            stop = min(rank - (entries - i) + 1 + new_axes_after, rank)
            while axis < stop:
                masked_begin[axis] = masked_end[axis] = True
                gather.append(axis)
                axis += 1
        elif new_axis_mask & bit:
            gather.append(_NEW_AXIS)
        else:
            if axis == rank:
                raise _fail(
                    f"Index out of range using input dim {axis}; input has only {rank} dims"
                )
            if begin is not None:
                begins[axis] = _number(begin[i])
            if end is not None:
                ends[axis] = _number(end[i])
            steps[axis] = int(strides[i])
            masked_begin[axis] = bool(begin_mask & bit)
            masked_end[axis] = bool(end_mask & bit)
            shrink[axis] = bool(shrink_axis_mask & bit)
            gather.append(_DROPPED if shrink[axis] else axis)
            axis += 1
    sizes: list[int | None] = []
    starts: list[int] = []
    known = begin is not None and end is not None
    for i, size in enumerate(shape):
        step = steps[i]
        if step == 0:
            raise _fail(f"strides[{i}] must be non-zero")
        if size is None:
            sizes.append(1 if shrink[i] else None)
            starts.append(begins[i])
            continue
        if shrink[i] and step <= 0:
            raise _fail("only stride 1 allowed on non-range indexing.")
        low, high = (0, size) if step > 0 else (-1, size - 1)

        def canonical(
            x: int, masked: bool, at_low: bool, low: int = low, high: int = high, size: int = size
        ) -> int:
            if masked:
                return low if at_low else high
            x = size + x if x < 0 else x
            return min(max(x, low), high)

        if known and shrink[i]:
            start = begins[i] if begins[i] >= 0 else size + begins[i]
            if not 0 <= start < size:
                raise _fail(f"slice index {begins[i]} of dimension {i} out of bounds.")
            starts.append(start)
            sizes.append(1)
            continue
        if known or (masked_begin[i] and masked_end[i] and not shrink[i]):
            start = canonical(begins[i], masked_begin[i], step > 0)
            stop = canonical(ends[i], masked_end[i], step < 0)
            length = stop - start
            starts.append(start)
            sizes.append(
                0 if length == 0 or (length < 0) != (step < 0) else -(-abs(length) // abs(step))
            )
        else:
            starts.append(0)
            sizes.append(1 if shrink[i] else None)
    final = tuple(1 if g == _NEW_AXIS else sizes[g] for g in gather if g != _DROPPED)
    return DenseSlice(tuple(starts), tuple(steps), tuple(sizes), final)
