"""Place the buffers of independent branches apart.

A buffer in the place of an old one makes its owner wait for the users of the old one. Where these
are of another branch, both branches run one after the other.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.runtime.step.memory_planner import Interval, align, lay_out

SMALL_ARENA: Final = 16 << 20
"""The bytes of an arena that is never made smaller for reuse."""
MOST_GROWTH: Final = 1.25
"""The size of a larger arena, as a multiple of the smallest."""

Block = tuple[int, int, int]
"""Free bytes: offset, size, and the depth of their last use."""


@dataclass(slots=True)
class DeepInterval(Interval):
    """An interval with depths in the chains of values.

    depth: of the definition. last_depth: of the deepest use.
    """

    depth: int = 0
    last_depth: int = -1


def lay_out_branches(intervals: Sequence[DeepInterval]) -> int:
    """Assign arena offsets to intervals; return the arena's size in bytes.

    Buffers alive at the same time do not overlap. Memory is used again only by a buffer that is
    defined at a greater depth than all uses of the old one, so that the wait is for work that comes
    first anyway. If the arena is then larger than `MOST_GROWTH` and `SMALL_ARENA` allow, it is as
    small as can be.
    """
    size = _lay_out_apart(intervals)
    apart = [interval.offset for interval in intervals]
    smallest = lay_out(intervals)
    if size > max(MOST_GROWTH * smallest, SMALL_ARENA):
        return smallest
    for interval, offset in zip(intervals, apart, strict=True):
        interval.offset = offset
    return size


def _lay_out_apart(intervals: Sequence[DeepInterval]) -> int:
    """Place buffers by best fit, in order of definition; return the size."""
    starts = sorted(intervals, key=lambda interval: (interval.first, -interval.nbytes))
    ends = sorted(intervals, key=lambda interval: interval.last)
    free: list[Block] = []  # by offset
    top = done = 0
    for interval in starts:
        while ends[done].last < interval.first:
            ended = ends[done]
            _give_back(free, (ended.offset, align(ended.nbytes), ended.last_depth))
            done += 1
        size = align(interval.nbytes)
        first, end, length = _best(free, size, interval.depth, top)
        if first == end:
            interval.offset, top = top, top + size
            continue
        interval.offset = free[first][0]
        top += max(size - length, 0)  # a run at the end grows
        free[first:end] = _without(free[first:end], interval.offset + size)
    return top


def _best(free: Sequence[Block], size: int, depth: int, top: int) -> tuple[int, int, int]:
    """Return the run of free blocks to use.

    It has a first block, an end, and bytes. It is the smallest that holds the size, or else one
    that ends at the top, or none: (0, 0, 0).
    """
    best = last = (0, 0, 0)
    first = 0
    while first < len(free):
        if free[first][2] >= depth:
            first += 1
            continue
        offset, length, _ = free[first]
        end = first + 1
        while end < len(free) and free[end][0] == offset + length and free[end][2] < depth:
            length += free[end][1]
            end += 1
        if length >= size and (not best[1] or length < best[2]):
            best = first, end, length
        if offset + length == top:
            last = first, end, length
        first = end
    return best if best[1] else last


def _without(blocks: Sequence[Block], start: int) -> list[Block]:
    """Return the parts of blocks behind an offset."""
    return [
        (max(offset, start), offset + size - max(offset, start), depth)
        for offset, size, depth in blocks
        if offset + size > start
    ]


def _give_back(free: list[Block], block: Block) -> None:
    """Add a free block; neighbours of its depth merge with it."""
    offset, size, depth = block
    at = bisect_left(free, block)
    if at < len(free) and free[at][0] == offset + size and free[at][2] == depth:
        size += free.pop(at)[1]
    if at and sum(free[at - 1][:2]) == offset and free[at - 1][2] == depth:
        at -= 1
        before = free.pop(at)
        offset, size = before[0], before[1] + size
    free.insert(at, (offset, size, depth))


__all__ = ["MOST_GROWTH", "SMALL_ARENA", "DeepInterval", "lay_out_branches"]
