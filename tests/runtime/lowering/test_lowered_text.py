"""The text of lowered partitions: what is wrong with one is said with its line."""

from __future__ import annotations

import numpy as np
import pytest

from tests.runtime.lowered_programs import EVERYTHING, check_text, read
from tfjit.passes.text.value_text import TextError
from tfjit.runtime.lowering.lowered_parser import parse_lowered
from tfjit.runtime.lowering.lowered_text import print_lowered
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.schedule.kernel_selection import select_kernels


def test_all_parts_of_a_text() -> None:
    made = parse_lowered(EVERYTHING)
    assert made.is_body and made.feed_count == 3 and set(made.feeds) == {0, 2}
    assert [value.index for value in made.values] == list(range(13))
    weights, empty = made.values[3].variable, made.values[4].variable
    assert weights is not None and weights.name == "weights" and weights.value is not None
    assert empty is not None and empty.value is None and not empty.is_resource
    pair = made.instructions[0]
    assert pair.spec.constants.keys() == {1, 2} and pair.compute is not None
    loop = next(i.construct for i in made.instructions if i.role == "loop")
    assert (
        loop is not None and loop.changes_variables and loop.level == 1 and loop.parent.cases == 2
    )
    inner = next(i for i in made.instructions if i.node.name == "n")
    assert inner.path == "b/branch_1/l/body" and inner.construct is loop
    check_text(made, EVERYTHING)


def test_variables_may_be_those_of_a_session() -> None:
    mine = Variable("localhost", "weights", None, (6,))  # type: ignore[arg-type]
    made = parse_lowered(EVERYTHING, find_variable=lambda name: mine)
    assert made.values[3].variable is made.values[5].variable is mine


def test_comments_say_which_kernels_serve() -> None:
    made = read("""
        lowered feeds=1
        %0: float32<40,50> = feed 0 'x'
        %1: float32<40,50> = reference 'y' Neg(%0)
        %2: float32<40,50> = reference 'f' MatrixSquareRoot(%0)
        fetch %1
    """)
    select_kernels(made)
    text = print_lowered(made)
    assert "Neg(%0)  # compiled: loop neg" in text
    assert "# not compiled: no native builder for MatrixSquareRoot" in text
    assert print_lowered(parse_lowered(text), kernels=False) == print_lowered(made, kernels=False)


def test_large_tensors_are_elided_or_written_out() -> None:
    made = read("lowered feeds=0\n%0 = const 'k' float32<20>[0.5 ...]\nfetch %0")
    made.values[0].array = np.arange(20, dtype=np.float32)
    with pytest.raises(TextError, match="elided"):
        parse_lowered(print_lowered(made))
    again = parse_lowered(print_lowered(made, full=True))
    np.testing.assert_array_equal(again.values[0].array, made.values[0].array)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("fetch", "expected 'lowered'"),
        ("lowered feeds=0", "ends before 'fetch'"),
        ("lowered feeds=0\nfetch %0", "line 2, .*%0 is used before its definition"),
        ("lowered feeds=0\n%1 = const 'k' int32<>[1]\nfetch", "%0 is not defined"),
        ("lowered feeds=1\n%0 = feed 0 'x'\nfetch", "line 2, .*needs a type"),
        ("lowered feeds=1\n%0: int32<> = feed 0 'x'\n%0: int32<> = feed 0 'x'\nfetch", "twice"),
        ("lowered feeds=1\n%0: int32<> = feed 0 'x'\n%1 = move 'l' %0\nfetch", "needs a type"),
        ("lowered feeds=0\nrepeat\nfetch", "stands outside"),
        ("lowered feeds=0\nloop 'l' If\nfetch", "If is no loop"),
        ("lowered feeds=0\nloop 'l' While\nfetch", "'l' is open"),
        ("lowered feeds=0\nreference 'x' Nonsense()\nfetch", "line 2: .*Nonsense"),
        ("lowered feeds=0\nguess 'x' Neg()\nfetch", "'guess' is no statement"),
        ("lowered feeds=0\nfetch\nfetch", "nothing follows"),
        ("lowered feeds=0 soon\nfetch", "expected the end of the line"),
    ],
)
def test_faulty_texts_are_refused(lines: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        parse_lowered(lines)
