"""Sizes of answers by request."""

from __future__ import annotations

import numpy as np

from tfjit.distributed.protocol.answer_sizes import AnswerSizes, bytes_of


def test_only_large_answers_are_kept() -> None:
    sizes = AnswerSizes(100, most=2)
    sizes.note("short", [np.zeros(99, np.uint8)])
    sizes.note("large", [np.zeros(60, np.uint8), b"a string", np.zeros(60, np.uint8)])
    assert (sizes.find("short"), sizes.find("large"), sizes.find("none")) == (0, 120, 0)
    sizes.note("large", [np.float32(1)])
    assert not sizes.find("large")
    for number in range(5):
        sizes.note(number, [np.zeros(200, np.uint8)])
        assert sizes.find(number) == 200
    assert not sizes.find(0)
    assert bytes_of([1.5, "text", np.float32(1)]) == 4
