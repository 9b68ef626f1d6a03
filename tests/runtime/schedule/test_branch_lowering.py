"""Loops and branches as jumps: which may become so, and where each goes."""

from __future__ import annotations

import pytest

from tests.runtime.lowered_programs import compiled, read
from tfjit.kernels.executor.table_executor import JUMP, TEST_BYTE, TEST_INT32, TEST_INT64
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.schedule.branch_lowering import Jump, Labels, compiled_constructs

NESTED = """
    lowered feeds=3
    %0: bool<> = feed 0 'p'
    %1: float32<3> = feed 1 'x'
    %2: {selector} = feed 2 's'
    %3: float32<3> = handle 'v' resource
    loop 'l' While
        %4: float32<3> = reference 'a' Neg(%1)
    test %0
        branch 'b' Case %2
            %5: float32<3> = reference 'c' Neg(%1)
        case
            {inside}
        case
            %6: float32<3> = reference 'e' Neg(%1)
        join
    repeat
    fetch
"""
PLAIN = "%7: float32<3> = reference 'd' Neg(%1)"


def constructs(made: Lowered, found: set[int]) -> set[str]:
    return {
        i.construct.node.name
        for i in made.instructions
        if i.construct is not None and id(i.construct) in found
    }


def rows(made: Lowered) -> list[Jump | str]:
    """The rows of a table: names of nodes, and jumps with the rows they go on with."""
    labels, found = Labels(), list[Jump | str]()
    for instruction in made.instructions:
        if instruction.role is None:
            found.append(instruction.node.name)
            continue
        for row, target in labels.arrive(instruction, len(found)):
            jump = found[row]
            assert isinstance(jump, Jump)
            jump.target = target
        found += labels.leave(instruction, len(found))
    return found


@pytest.mark.parametrize(
    ("selector", "inside", "without", "expected"),
    [
        ("int32<>", PLAIN, (), {"l", "b"}),
        ("int32<>", PLAIN, ("d",), set()),  # what is around a Python kernel is Python's
        ("int32<>", PLAIN, ("a",), {"b"}),  # what is inside may be jumps
        ("int32<>", "runtime 'd' AssignAddVariableOp(%3, %1)", (), set()),  # it holds a lock
        ("float16<>", PLAIN, (), set()),  # no test of such a scalar
    ],
)
def test_what_may_be_jumps(
    selector: str, inside: str, without: tuple[str, ...], expected: set[str]
) -> None:
    text = NESTED.format(selector=selector, inside=inside)
    made = read(text)
    found = compiled_constructs(made.instructions, compiled(made, without=without))
    assert constructs(made, found) == expected


def test_the_jumps_of_a_loop_around_three_cases() -> None:
    assert rows(read(NESTED.format(selector="int64<>", inside=PLAIN))) == [
        "a",
        Jump(10, TEST_BYTE, (-1, 0, 0)),  # over: behind the loop
        Jump(5, TEST_INT64, (-1, 0, 1)),  # not 0: the next case
        "c",
        Jump(9, JUMP),  # behind the branch
        Jump(8, TEST_INT64, (-1, 1, 1)),
        "d",
        Jump(9, JUMP),
        "e",  # the last case takes all other numbers
        Jump(0, JUMP),
    ]


@pytest.mark.parametrize(
    ("dtype", "kind", "mask"),
    [
        ("bool", TEST_BYTE, -1),
        ("uint8", TEST_BYTE, -1),
        ("int32", TEST_INT32, -1),
        ("float32", TEST_INT32, 0x7FFFFFFF),  # -0.0 is false
        ("float64", TEST_INT64, 0x7FFFFFFFFFFFFFFF),
    ],
)
def test_an_if_goes_on_with_its_second_case_where_its_scalar_is_zero(
    dtype: str, kind: int, mask: int
) -> None:
    made = read(f"""
        lowered feeds=2
        %0: {dtype}<> = feed 0 'p'
        %1: float32<3> = feed 1 'x'
        branch 'b' If %0
            %2: float32<3> = reference 'y' Neg(%1)
        case
            %3: float32<3> = reference 'z' Tanh(%1)
        join
        fetch
    """)
    assert rows(made) == [Jump(3, kind, (mask, 0, 0)), "y", Jump(4, JUMP), "z"]
