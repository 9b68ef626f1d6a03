"""Rings and trees without any exchange: every member gets every value, in TensorFlow's chunks."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjit import protos
from tfjit.runtime.collectives.collective_params import GATHER, REDUCTION, Group, ranked
from tfjit.runtime.collectives.exchange_order import (
    FINISH,
    MERGE,
    RECEIVE,
    SEND,
    aligned_chunk_size,
    chunk_bounds,
    ring,
    ring_actions,
    subdiv_offsets,
    trees,
)


def group(*devices: int) -> Group:
    """Return a group whose task i has `devices[i]` members."""
    members = {}
    for task, count in enumerate(devices):
        for number in range(count):
            name = f"/job:worker/replica:0/task:{task}/device:CPU:{number}"
            members[name] = protos.DeviceAttributes(name=name)
    return Group(1, "CPU", ranked(members))


def test_ranks_follow_tasks_as_texts_and_devices_as_numbers() -> None:
    names = [
        f"/job:worker/replica:0/task:{task}/device:CPU:{number}"
        for task, number in ((10, 0), (2, 10), (2, 9), (1, 0))
    ]
    found = ranked({name: protos.DeviceAttributes(name=name) for name in names})
    assert [member.device for member in found] == [names[3], names[0], names[2], names[1]]


@pytest.mark.parametrize(
    ("itemsize", "total", "chunks", "expected"),
    [(4, 5, 2, 16), (4, 32, 2, 32), (4, 33, 2, 32), (8, 0, 3, 8), (2, 100, 3, 64), (4, 64, 2, 48)],
)
def test_chunks_of_a_reduction(itemsize: int, total: int, chunks: int, expected: int) -> None:
    assert aligned_chunk_size(itemsize, total, chunks) == expected
    bounds = chunk_bounds(expected, total, chunks)
    assert bounds[0][0] == 0 and bounds[-1][1] == total
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(bounds))


def test_rings_of_several_tasks() -> None:
    assert ring(group(2, 3), 0) == [0, 1, 2, 3, 4]
    assert ring(group(2, 3), 1) == [1, 0, 3, 4, 2]
    assert ring(group(2, 3), -1) == [0, 1, 3, 2, 4]


def test_numbers_of_rings() -> None:
    assert subdiv_offsets((3, -1), 0, group(2), 1) == (3, -1)
    assert subdiv_offsets((), -1, group(4), 1 << 30) == (0,)
    assert subdiv_offsets((), 0, group(4), 1 << 20) == (0,)
    assert subdiv_offsets((), 0, group(4), 1 << 30) == (0, -1, 2, -3, 4, -5, 6, -7)
    assert subdiv_offsets((), 1, group(4, 4), 1 << 30) == (0, -1, 2, -3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(-2, 2), st.booleans())
def test_every_member_gets_every_chunk(counts: list[int], offset: int, gathers: bool) -> None:
    members = group(*counts)
    size, order = members.size, ring(members, offset)
    assert sorted(order) == list(range(size))
    kind = GATHER if gathers else REDUCTION
    # of each place and chunk: whose values are in it
    held = [[{place} for _ in range(size)] for place in range(size)]
    finished = np.zeros((size, size), int)
    sent: dict[tuple[int, int, int], set[int]] = {}
    left = deque(
        (place, chunk, deque(ring_actions(kind, place, chunk, size)))
        for place in range(size)
        for chunk in range(size)
    )
    waits = 0
    while left:
        place, chunk, actions = left.popleft()
        while actions:
            action, turn = actions[0]
            key = turn, chunk, (place - 1) % size
            if action == RECEIVE and key not in sent:
                break
            actions.popleft()
            if action == SEND:
                assert (turn, chunk, place) not in sent
                sent[turn, chunk, place] = set(held[place][chunk])
            elif action == RECEIVE:
                value = sent.pop(key)
                merges = bool(actions) and actions[0][0] == MERGE
                held[place][chunk] = value | held[place][chunk] if merges else value
            elif action == FINISH:
                finished[place, chunk] = 1
                assert held[place][chunk] == set(range(size))
        waits = waits + 1 if actions else 0
        assert waits <= size * size, "a deadlock"
        if actions:
            left.append((place, chunk, actions))
    assert not sent
    for place in range(size):
        for chunk in range(size):
            assert held[place][chunk] == ({chunk} if gathers else set(range(size)))
    if not gathers and size > 1:
        assert finished.sum(0).tolist() == [1] * size


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_trees_reach_every_member_once(counts: list[int], data: st.DataObject) -> None:
    members = group(*counts)
    source = data.draw(st.integers(0, members.size - 1))
    ends = []
    for rank in range(members.size):
        for tree in trees(members, rank, source):
            assert tree.ranks[tree.place] == rank
            ends += [(tree.number, rank, tree.ranks[child]) for child in tree.children]
    wanted = [
        (tree.number, tree.ranks[tree.parent], rank)
        for rank in range(members.size)
        for tree in trees(members, rank, source)
        if tree.parent is not None
    ]
    assert sorted(ends) == sorted(wanted)
    reached = {source}
    for _ in range(members.size):
        reached |= {to for _, sender, to in ends if sender in reached}
    assert reached == set(range(members.size))
    assert len({to for _, _, to in ends}) == len(ends) == members.size - 1
