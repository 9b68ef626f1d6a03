"""Formulas of sizes: they fit all samples, or there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjit.runtime.sizes.size_formulas import Ambiguous, NotGeneric, fit, merged

ONE = [(3,), (5,), (16,), (17,), (18,), (19,), (101,)]
TWO = [(3, 5), (101, 5), (3, 90), (101, 90), (50, 40), (51, 43), (52, 46), (53, 41), (54, 44)]


@given(st.integers(-5, 9), st.integers(-4, 4), st.integers(-2, 2), st.integers(-2, 2))
def test_sums_and_products_are_found(start: int, a: int, b: int, c: int) -> None:
    def rule(n: int, m: int) -> int:
        return start + a * n + b * m + c * n * m

    formula = fit([rule(*s) for s in TWO], TWO)
    assert all(formula.at((n, m)) == rule(n, m) for n in range(1, 200, 7) for m in range(1, 90, 5))


@pytest.mark.parametrize("start", [-3, -1, 0, 1])
@pytest.mark.parametrize("scale", [1, 16])
def test_halves_are_found(start: int, scale: int) -> None:
    formula = fit([(n + start) // 2 * scale for (n,) in ONE], ONE)
    assert all(formula.at((n,)) == (n + start) // 2 * scale for n in range(3, 101))


def test_quotients_that_the_samples_do_not_tell_apart_are_refused() -> None:
    with pytest.raises(Ambiguous):
        fit([n // 8 for n in (16, 33, 50, 67)], [(16,), (33,), (50,), (67,)])


@pytest.mark.parametrize(
    "rule",
    [lambda n: min(n, 17), lambda n: n % 4, lambda n: n**3, lambda n: 2**n, lambda n: int(n == 17)],
)
def test_other_rules_are_refused(rule: Any) -> None:
    with pytest.raises(NotGeneric):
        fit([rule(n) for (n,) in ONE], ONE)


@dataclass(frozen=True)
class _Part:
    name: str
    shape: tuple[int, ...]
    table: np.ndarray


def test_dataclasses_are_made_for_other_sizes() -> None:
    table = np.arange(3)
    parts = [_Part("x", (n, 64, n * 64), table) for (n,) in ONE]
    made = merged(parts, ONE, "part")
    assert made is not None
    found = made((30,))
    assert found.name == "x" and found.shape == (30, 64, 1920) and found.table is table
    assert merged([_Part("x", (2,), table)] * 7, ONE, "part") is None


@pytest.mark.parametrize(
    "parts",
    [
        [_Part("x", (n,), np.array([n], "f4")) for (n,) in ONE],
        [_Part("x", (n,), np.arange(n)) for (n,) in ONE],
        [_Part(f"x{n}", (n,), np.zeros(1)) for (n,) in ONE],
        [_Part("x", (n,) * (1 + n % 2), np.zeros(1)) for (n,) in ONE],
    ],
    ids=["floats", "lengths", "text", "rank"],
)
def test_parts_that_no_formula_gives_are_refused(parts: list[_Part]) -> None:
    with pytest.raises(NotGeneric, match="part"):
        merged(parts, ONE, "part")


def test_few_integers_are_formulas_of_the_sizes() -> None:
    parts = [_Part("x", (n,), np.array([[0, 4], [n, 2 * n]], np.int32)) for (n,) in ONE]
    made = merged(parts, ONE, "part")
    assert made is not None
    table = made((100,)).table
    assert table.dtype == np.int32
    np.testing.assert_array_equal(table, [[0, 4], [100, 200]])


def test_products_need_more_samples_than_sums() -> None:
    samples = [(5,), (8,), (11,)]
    assert fit([3 * n + 1 for (n,) in samples], samples).at((20,)) == 61
    with pytest.raises(Ambiguous, match="too few samples"):
        fit([n * n for (n,) in samples], samples)
    samples = [*samples, (17,)]
    assert fit([n * n for (n,) in samples], samples).at((20,)) == 400
