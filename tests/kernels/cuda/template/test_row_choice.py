"""Rows for many or short ones, shared ranges for few long ones."""

from __future__ import annotations

from tfjit.kernels.cuda.template.row_choice import prefers_rows


def test_rows_or_reduction() -> None:
    assert prefers_rows((100, 64), (1,)) and prefers_rows((1000, 1 << 20), (1,))
    assert not prefers_rows((4, 1 << 20), (1,))
    assert not prefers_rows((100, 64), (0,)) and not prefers_rows((100,), (0,))
