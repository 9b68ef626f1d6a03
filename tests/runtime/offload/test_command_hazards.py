"""Tests of the order that commands need: all conflicts have a path, and no other pair has one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tfjit.runtime.offload import command_hazards
from tfjit.runtime.offload.command_hazards import (
    MemoryUse,
    Range,
    depths,
    find_hazards,
    in_sequence,
)

SPANS = st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda s: (s[0], s[0] + s[1]))
USES = st.builds(
    MemoryUse,
    st.lists(SPANS, max_size=3).map(tuple),
    st.lists(SPANS, max_size=2).map(tuple),
)


def overlap(some: tuple[Range, ...], others: tuple[Range, ...]) -> bool:
    """Return whether ranges share a byte."""
    return any(max(a, c) < min(b, d) for a, b in some for c, d in others)


def conflict(first: MemoryUse, then: MemoryUse) -> bool:
    """Return whether the order of two commands matters."""
    return (
        overlap(first.writes, then.reads)
        or overlap(first.reads, then.writes)
        or overlap(first.writes, then.writes)
    )


def ancestors(follows: command_hazards.Follows) -> list[set[int]]:
    """Return all the commands before each one."""
    found: list[set[int]] = []
    for before in follows:
        found.append(set(before).union(*[found[command] for command in before]))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(USES, max_size=14))
def test_every_conflict_has_a_path_and_every_pair_conflicts(uses: list[MemoryUse]) -> None:
    follows = find_hazards(uses)
    behind = ancestors(follows)
    for command, use in enumerate(uses):
        for earlier in range(command):
            if conflict(uses[earlier], use):
                assert earlier in behind[command]
        for earlier in follows[command]:
            assert earlier < command and conflict(uses[earlier], use)
            assert not any(earlier in behind[other] for other in follows[command])


def test_memory_that_is_used_again_makes_an_order() -> None:
    """A value placed where another one has died waits for the readers of that one."""
    uses = [
        MemoryUse(writes=((0, 64),)),
        MemoryUse(reads=((0, 64),), writes=((64, 128),)),
        MemoryUse(reads=((200, 264),), writes=((32, 96),)),
        MemoryUse(reads=((200, 264),), writes=((300, 364),)),
    ]
    assert find_hazards(uses) == ((), (0,), (1,), ())
    assert depths(find_hazards(uses)) == [0, 1, 2, 0]


def test_rows_of_an_array_are_apart() -> None:
    whole = MemoryUse(reads=((0, 40),))
    rows = [MemoryUse(writes=((10 * k, 10 * k + 10),)) for k in range(4)]
    assert find_hazards([whole, *rows, whole]) == ((), (0,), (0,), (0,), (0,), (1, 2, 3, 4))


def test_readers_in_a_chain_are_one() -> None:
    """The weights of a recurrent cell: the update waits for the last iteration alone."""
    weights = (1000, 2000)
    cells = [
        MemoryUse((weights, (16 * k, 16 * k + 16)), ((16 * k + 16, 16 * k + 32),))
        for k in range(50)
    ]
    assert find_hazards([*cells, MemoryUse(writes=(weights,))])[-1] == (49,)


def test_a_long_program_takes_linear_time() -> None:
    """Commands of one after the other, with buffers that alternate."""
    buffers = ((0, 256), (256, 512))
    uses = [MemoryUse((buffers[k % 2],), (buffers[1 - k % 2],)) for k in range(16384)]
    assert find_hazards(uses) == in_sequence(16384)


def test_ranges_in_pieces_end_in_sequence(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Where finding the order would take long, commands follow each other."""
    uses = [MemoryUse(writes=((k, k + 1),)) for k in range(40)]
    uses += [MemoryUse(reads=((0, 40),)) for _ in range(40)]
    assert find_hazards(uses)[-1] == tuple(range(40))
    monkeypatch.setattr(command_hazards, "MOST_VISITS", 200)
    assert find_hazards(uses) == in_sequence(80)


def test_a_command_of_unknown_memory_is_in_order_with_all_others() -> None:
    uses = [MemoryUse(writes=((64 * k, 64 * k + 64),)) for k in range(4)]
    unknown = MemoryUse(writes=(command_hazards.EVERYTHING,))
    follows = find_hazards([*uses[:2], unknown, *uses[2:]])
    assert follows == ((), (), (0, 1), (2,), (2,))
