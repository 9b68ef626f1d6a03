"""The binary search over event limits, and its answer as text."""

from __future__ import annotations

import pytest

from tfjit.lab.rewrites.search import Bisection, Culprit, Search, Trial


@pytest.mark.parametrize("first", [1, 2, 63, 64, 100])
def test_the_first_bad_limit_is_found(first: int) -> None:
    asked = []

    def judge(limit: int | None) -> tuple[bool, str]:
        asked.append(limit)
        return limit is not None and limit < first, ""

    search = Search(judge)
    assert not search.try_limit(None).good and search.try_limit(0).good
    assert search.first_bad(100) == first
    assert search.exceptions(first, 100) == ()
    assert len(asked) == len(set(asked)) <= 2 + 7 + 6


def test_limits_that_disagree_are_named() -> None:
    """Bad from 10 on, good again from 50 to 59."""
    search = Search(lambda limit: (limit is not None and (limit < 10 or 50 <= limit < 60), "off"))
    assert search.first_bad(99) == 10
    exceptions = search.exceptions(10, 99)
    assert [trial.limit for trial in exceptions] == [54]
    answer = Bisection(Culprit(10, "fuse"), 99, tuple(search.trials), exceptions)
    assert not answer.is_monotone and "another rewrite may be at fault" in str(answer)


def test_the_answer_as_text_and_html() -> None:
    culprit = Culprit(
        3, "simplify", "while/body", "identity", "x", "dropped", before="x = <A>()\n", after="y\n"
    )
    answer = Bisection(culprit, 9, (Trial(None, False, "y:0 is 1, not 2"),), note="bad: y:0 is 1")
    text = str(answer)
    assert text.splitlines()[0] == ("pass simplify (identity) in while/body, rewrite 3: x dropped")
    assert "before:\n  x = <A>()" in text and "9 rewrites, 1 runs" in text
    assert "x = &lt;A&gt;()" in answer._repr_html_()
    assert str(answer.trials[0]) == "all rewrites: bad, y:0 is 1, not 2"
