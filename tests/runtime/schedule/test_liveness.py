"""Liveness of values, and which copies go away, on lowered texts."""

from __future__ import annotations

import pytest

from tests.runtime.lowered_programs import compiled, read, schedule
from tfjit.kernels.registry import NativeCall
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.schedule.liveness import Liveness

LOOP = """
    lowered feeds=3
    %0: float32<3> = feed 0 'x'
    %1: float32<3> = feed 1 'k'
    %2: bool<> = feed 2 'p'
    %3: float32<3> = reference 'before' Neg(%1)
    %4: float32<3> level=1 from 'l' = move 'l' %0
    loop 'l' While
    test %2
        {body}
        %4 = move 'l' %5
    repeat
    fetch {fetch}
"""


def lives(made: Lowered, calls: dict[int, NativeCall]) -> Liveness:
    return Liveness(made, schedule(made), calls)


def spans(found: Liveness) -> dict[int, tuple[int, int]]:
    return {index: (first, found.last[index]) for index, first in found.first.items()}


def copies_left(made: Lowered, found: Liveness) -> list[int]:
    """Positions of copies between different buffers."""
    return [
        position
        for position, i in enumerate(made.instructions)
        if i.moves and found.root(i.inputs[0]) is not found.root(i.outputs[0])
    ]


def test_a_value_lives_from_its_maker_to_its_last_use() -> None:
    made = read("""
        lowered feeds=1
        %0: float32<3> = feed 0 'x'
        %1: float32<3> = reference 'a' Neg(%0)
        %2: float32<3> = view %1 'v'
        %3: float32<3> = reference 'b' Neg(%1)
        %4: float32<3> = reference 'c' AddV2(%2, %3)
        %5: float32<3> = reference 'd' Neg(%3)
        fetch %5
    """)
    assert spans(lives(made, {})) == {0: (0, 0), 1: (0, 2), 3: (1, 3), 4: (2, 2), 5: (3, 4)}


def test_what_all_iterations_use_lives_until_the_loop_ends() -> None:
    made = read(LOOP.format(body="%5: float32<3> = reference 'y' AddV2(%4, %3)", fetch="%4"))
    found = spans(lives(made, {}))
    loop_ends = len(made.instructions) - 1
    assert made.instructions[loop_ends].role == "repeat"
    assert found[3] == (0, loop_ends)  # made before, used in each iteration
    assert found[5] == (4, 5)  # of one iteration alone
    assert found[4] == (1, loop_ends + 1)  # fetched: behind all


def test_the_next_value_is_made_over_the_present_one() -> None:
    made = read(LOOP.format(body="%5: float32<3> = reference 'y' Neg(%4)", fetch="%4"))
    found = lives(made, compiled(made, {"y": [(0, 0)]}))
    assert found.root(made.values[5]) is made.values[4]
    assert copies_left(made, found) == [1]  # the first value, which is a feed


@pytest.mark.parametrize(
    ("body", "in_place", "without"),
    [
        ("%5: float32<3> = reference 'y' Neg(%4)", False, ()),  # its kernel needs another buffer
        ("%5: float32<3> = reference 'y' Neg(%4)", True, ("y",)),  # NumPy makes an array
        # the present value is read after the next is made
        (
            "%5: float32<3> = reference 'y' Neg(%4)\n        %6: float32<3> = reference 'z' Neg(%4)",
            True,
            (),
        ),
        # the kernel reads the present value twice
        ("%5: float32<3> = reference 'y' Mul(%4, %4)", True, ()),
    ],
)
def test_a_copy_stays_where_the_present_value_is_still_needed(
    body: str, in_place: bool, without: tuple[str, ...]
) -> None:
    made = read(LOOP.format(body=body, fetch="%4"))
    pairs = {"y": [(0, 0)]} if in_place else {}
    found = lives(made, compiled(made, pairs, without))
    assert found.root(made.values[5]) is made.values[5]
    assert copies_left(made, found) == [1, len(made.instructions) - 2]


def test_a_branch_makes_its_result_where_it_belongs() -> None:
    made = read("""
        lowered feeds=2
        %0: bool<> = feed 0 'p'
        %1: float32<3> = feed 1 'x'
        branch 'b' If %0
            %2: float32<3> = reference 'y' Neg(%1)
            %3: float32<3> = move 'b' %2
        case
            %4: float32<3> = reference 'z' Tanh(%1)
            %3 = move 'b' %4
        join
        fetch %3
    """)
    found = lives(made, compiled(made))
    assert found.root(made.values[2]) is found.root(made.values[4]) is made.values[3]
    assert copies_left(made, found) == []
    assert [c.node.name for c in found.loops(made.instructions[1])] == []
