"""The exact interval of the signed-rank test, against SciPy's tables and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjit.lab.measure.signed_rank import _rank, centre, fewest_values


def test_ranks_are_those_of_the_tables() -> None:
    """Hollander, Wolfe and Chicken, table A.4: the critical value, counted from the lower end."""
    assert [_rank(n, 0.95) for n in (5, 6, 10, 20)] == [0, 1, 9, 53]
    assert [_rank(n, 0.99) for n in (7, 8, 15, 20)] == [0, 1, 16, 38]
    assert (fewest_values(0.95), fewest_values(0.99)) == (6, 8)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy", "laplace"])
def test_the_interval_covers_the_centre(draw: str) -> None:
    rng = np.random.default_rng(0)
    found = [centre(3 + getattr(rng, draw)(size=15), 0.95) for _ in range(400)]
    assert sum(not i.low <= 3 <= i.high for i in found) <= 30


def test_outliers_do_not_move_it() -> None:
    values = [*np.linspace(0.99, 1.01, 16), 50.0, 60.0, 70.0, 80.0]
    assert centre(values, 0.99).estimate == pytest.approx(1.0, abs=0.01)


def test_ends() -> None:
    assert centre([2.0] * 3, 0.99).largest == math.inf
    assert centre([2.0] * 9, 0.99).largest == 2.0
    with pytest.raises(ValueError, match="no values"):
        centre([], 0.99)


@given(st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=25), st.floats(-100, 100))
def test_it_moves_with_the_values(values: list[float], shift: float) -> None:
    here, there = centre(values, 0.99), centre([v + shift for v in values], 0.99)
    assert here.low <= here.estimate <= here.high
    assert there.estimate == pytest.approx(here.estimate + shift, abs=1e-6)
    assert centre([-v for v in values], 0.99).low == pytest.approx(-here.high, abs=1e-6)
