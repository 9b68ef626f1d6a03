"""The check of lowered partitions: each rule broken once."""

from __future__ import annotations

import pytest

from tests.runtime.lowered_programs import read
from tfjit.framework.errors import InternalError
from tfjit.runtime.lowering.lowered import Value

HEAD = """
lowered feeds=2
%0: bool<> = feed 0 'p'
%1: float32<3> = feed 1 'x'
"""


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            "branch 'b' If %0\n%2: float32<3> = reference 'y' Neg(%1)\ncase\njoin\nfetch %2",
            "a fetch reads value %2 of 'y' before it is written",
        ),
        (
            "loop 'l' While\ntest %0\n%2: float32<3> = reference 'y' Neg(%1)\nrepeat\nfetch %2",
            "a fetch reads value %2 of 'y' before it is written",
        ),
        (
            "%2: float32<3> = reference 'y' Neg(%1)\n%2 = reference 'z' Neg(%1)\nfetch",
            "'z' writes %2, which 'y' has written",
        ),
        ("%1 = move 'y' %1\nfetch", "'y' writes %1, a feed"),
        ("%2: float32<4> = move 'y' %1\nfetch", "'y' copies .*3.* to .*4"),
        ("%2: float32<4> = view %1 'y'\nfetch", "a view of another size"),
        ("%2: float32<3> = feed 2 'z'\nfetch", "feed 2 of 2"),
        ("loop 'l' While\nrepeat\nfetch", "'repeat' of 'l' stands in the wrong place"),
        (
            "%2: float32<3> level=1 = reference 'y' Neg(%1)\nfetch",
            "value %2 of 'y' has level 1, but is written in 0 loops",
        ),
        (
            "loop 'l' While\ntest %0\n%2: float32<3> level=0 = reference 'y' Neg(%1)\nrepeat\nfetch",
            "'l/body/y' writes %2 of level 0 in 1 loops",
        ),
        (
            "%2: float32<3> = handle 'v' resource\n%3: float32<3> = read %2 'r'\n"
            "runtime 'w' AssignVariableOp(%2, %1)\n%4: float32<3> = reference 'y' Neg(%3)\nfetch",
            "value %3 of 'r' is used after its variable changed",
        ),
    ],
)
def test_faults_are_found(lines: str, reason: str) -> None:
    with pytest.raises(InternalError, match=reason):
        read(HEAD + lines)


def test_what_all_ways_write_may_be_read() -> None:
    read(
        HEAD + "branch 'b' If %0\n%2: float32<3> = reference 'y' Neg(%1)\n"
        "%3: float32<3> = move 'b' %2\ncase\n%3 = move 'b' %1\njoin\n"
        "loop 'l' While\n%4: float32<3> = reference 'z' Neg(%3)\ntest %0\nrepeat\nfetch %3, %4"
    )


def test_states_that_no_text_has() -> None:
    from tfjit.runtime.lowering.verifier import verify_lowered

    made = read(HEAD + "%2: float32<3> = reference 'y' Neg(%1)\nfetch %2")
    inputs = made.instructions[0].inputs
    stranger = Value(1, inputs[0].dtype, inputs[0].shape, "feed", feed=1)
    made.instructions[0].inputs = [stranger]
    with pytest.raises(InternalError, match="takes value %1, which is not listed"):
        verify_lowered(made)
    made.instructions[0].inputs = inputs
    made.values[1].index = 2
    with pytest.raises(InternalError, match="value %2 of 'x' stands at place 1"):
        verify_lowered(made)
