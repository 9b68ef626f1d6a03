"""Plan rings and trees: the sends and receives of each member."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfjit.runtime.collectives.collective_params import REDUCTION, Group

RECEIVE: Final = "receive"
MERGE: Final = "merge"
FINISH: Final = "finish"
SEND: Final = "send"

_ALIGNMENT_BYTES: Final = 64
"""Chunks of a reduction begin at multiples of it, as TensorFlow's do."""
_MAX_CHUNK_BYTES: Final = 4 << 20
_DEFAULT_SUBDIVS: Final = 2


def aligned_chunk_size(itemsize: int, total: int, chunks: int) -> int:
    """Return the elements of a chunk of a reduction.

    The last ones may have fewer. A chunk of whole alignments is one alignment longer: the members
    of a group have to agree.
    """
    size = -(-total // chunks)
    return size + (_ALIGNMENT_BYTES - size * itemsize % _ALIGNMENT_BYTES) // itemsize


def chunk_bounds(size: int, total: int, chunks: int) -> list[tuple[int, int]]:
    """Return (begin, end) of each chunk of `size` elements."""
    return [(min(i * size, total), min((i + 1) * size, total)) for i in range(chunks)]


def subdiv_offsets(
    given: tuple[int, ...], max_subdivs: int, group: Group, total_bytes: int
) -> tuple[int, ...]:
    """Return the offsets of the rings of a reduction.

    given: of the op. max_subdivs: rings for each device of a task, -1 for one ring at all, 0 for
    the default number.
    """
    if given:
        return given
    if max_subdivs == -1:
        return (0,)
    per_task = group.size // len(group.devices_per_task())
    limit = (max_subdivs or _DEFAULT_SUBDIVS) * per_task
    count = 1
    while count < limit and total_bytes // (group.size * count) > _MAX_CHUNK_BYTES:
        count += 1
    stride = max(1, per_task // count)
    return tuple(stride * i * (-1 if i % 2 else 1) for i in range(count))


def ring(group: Group, offset: int) -> list[int]:
    """Return the ranks of a ring in order.

    Within each task, the ring begins `offset` devices later; backwards for a negative offset.
    """
    order: list[int] = []
    for count in group.devices_per_task():
        first = len(order)
        places = [(i + abs(offset)) % count for i in range(count)]
        order += [first + (count - 1 - place if offset < 0 else place) for place in places]
    return order


def ring_actions(kind: int, place: int, chunk: int, size: int) -> tuple[tuple[str, int], ...]:
    """Return (action, pass) of one member for one chunk, in order.

    place: of the member in the ring. In pass 0 the chunk goes around once, and each member merges
    its own values into it; a gather has nothing to merge, and no second pass. In pass 1 the result
    goes around.
    """
    actions: list[tuple[str, int]] = []
    if kind == REDUCTION:
        if place != chunk:
            actions += [(RECEIVE, 0), (MERGE, 0)]
        if place != (chunk - 1) % size:
            actions.append((SEND, 0))
        elif actions:
            actions.append((FINISH, 0))
        if place != (chunk - 1) % size:
            actions.append((RECEIVE, 1))
        if place != (chunk - 2) % size:
            actions.append((SEND, 1))
        return tuple(actions)
    if place != chunk:
        actions.append((RECEIVE, 0))
    if place != (chunk - 1) % size:
        actions.append((SEND, 0))
    return tuple(actions)


@dataclass(frozen=True, slots=True)
class Tree:
    """One broadcast of a hierarchical one, as one member sees it.

    number: of the subdivision, part of the keys. ranks: of the members by their place in the tree.
    place: of this member. parent: the place that it receives from, None for the source.
    """

    number: int
    ranks: tuple[int, ...]
    place: int
    parent: int | None
    children: tuple[int, ...]


def trees(group: Group, rank: int, source_rank: int) -> list[Tree]:
    """Return the trees of a member, in order.

    With several tasks, the first tree has one member of each: the source, and the first member of
    each other task. The others are those within the tasks.
    """
    counts = group.devices_per_task()
    firsts = [sum(counts[:i]) for i in range(len(counts))]
    within = [
        tuple(range(first, first + count)) for first, count in zip(firsts, counts, strict=True)
    ]
    found: list[tuple[tuple[int, ...], int]] = []
    if len(counts) > 1:
        heads = tuple(source_rank if source_rank in ranks else ranks[0] for ranks in within)
        found.append((heads, heads.index(source_rank)))
    for ranks in within:
        found.append((ranks, ranks.index(source_rank) if source_rank in ranks else 0))
    made = []
    for number, (ranks, source) in enumerate(found):
        if rank in ranks:
            place = ranks.index(rank)
            parent = _parent(place, source)
            # only the member with the value itself sends as a source that is not the first place
            children = _children(place, source, len(ranks), rank == source_rank)
            made.append(Tree(number, ranks, place, parent, children))
    return made


def _parent(place: int, source: int) -> int | None:
    if place == source:
        return None
    if source == 0:
        return (place - 1) // 2
    above = place // 2 - 1
    return source if above < 0 else above


def _children(place: int, source: int, size: int, is_source: bool) -> tuple[int, ...]:
    """Return the places that a member sends to.

    A source that is not the first place stands before it, too: its children are the places 0 and 1
    besides those of its place.
    """
    found = []
    if is_source and source != 0:
        if size > 1:
            found.append(0)
        if size > 2 and source != 1:
            found.append(1)
    first = 2 * place + (1 if source == 0 else 2)
    found += [child for child in (first, first + 1) if child < size and child != source]
    return tuple(found)


__all__ = [
    "FINISH",
    "MERGE",
    "RECEIVE",
    "SEND",
    "Tree",
    "aligned_chunk_size",
    "chunk_bounds",
    "ring",
    "ring_actions",
    "subdiv_offsets",
    "trees",
]
