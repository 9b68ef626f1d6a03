"""Sizes in traced runs: for other sizes, a trace gives the numbers that the code itself gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfjit.kernels.ir.symbolic_size import (
    SizeTrace,
    at_least,
    is_symbolic,
    maximum,
    minimum,
    word_table,
)

PROGRAMS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "products": lambda n, m: [n * m * 4, (n + 3) * (m - 2), -n, 7 - m],
    "quotients": lambda n, m: [n // 4, -(-n // 12), n * 8 // 4, (n + m) // 3, n % 5, n * m % 8],
    "by sizes": lambda n, m: [n * m // m, (n + 1) // m, n % m, n // (m + 1)],
    "comparisons": lambda n, m: [n * 2 if n < m else m * 3, max(n, 20), min(m, 31), int(n == m)],
    "bounds": lambda n, m: [minimum(n, m * 2), maximum(n // 3, m), minimum(n, 1000), maximum(1, n)],
    "aligned": lambda n, m: [(n * 4 + 63) & -64, (m + 7) & -8],
    "numbers": lambda n, m: [
        list(range(n // 8))[-1] if n >= 8 else m,
        len("x" * (m // 16).__index__()),
    ],
    "truth": lambda n, m: [n if n - m else m, 1 if n else 0],
}


@pytest.mark.parametrize("name", PROGRAMS)
@given(st.integers(2, 60), st.integers(2, 60), st.integers(2, 60), st.integers(2, 60))
def test_a_trace_gives_what_the_code_gives(name: str, n: int, m: int, i: int, j: int) -> None:
    program = PROGRAMS[name]
    trace = SizeTrace((n, m), [(2, 60), (2, 60)])
    evaluate = trace.finish(program(*trace.symbols))
    assert evaluate(n, m) == program(n, m)
    assert evaluate(i, j) in (None, program(i, j))


def test_formulas_without_decisions_serve_all_sizes_in_the_bounds() -> None:
    trace = SizeTrace((10,), [(3, 40)])
    (n,) = trace.symbols
    evaluate = trace.finish([n * 64 + 1, -(-n // 6), minimum(n, 20)])
    assert [evaluate(k) for k in (3, 25, 40)] == [[193, 1, 3], [1601, 5, 20], [2561, 7, 20]]
    assert evaluate(2) is None and evaluate(41) is None
    assert not trace.guards and not trace.pinned


def test_decisions_that_the_bounds_settle_need_no_guard() -> None:
    trace = SizeTrace((10,), [(3, 40)])
    (n,) = trace.symbols
    assert n > 1 and n * 2 != 1 and not n > 50 and n * 8 == 8 * n and n + 1 > n
    assert maximum(n, 2) is n and at_least(n * 2 + 1) == 7 and at_least(5) == 5
    assert not trace.guards


def test_code_that_needs_a_number_pins_the_size() -> None:
    for ask in (int, float, str, lambda n: [0] * n.__index__(), lambda n: np.zeros(n, "i1")):
        trace = SizeTrace((10,), [(3, 40)])
        ask(trace.symbols[0])
        evaluate = trace.finish([trace.symbols[0] * 2])
        assert trace.pinned
        assert evaluate(10) == [20] and evaluate(11) is None


def test_a_pinned_quotient_leaves_other_sizes() -> None:
    trace = SizeTrace((10,), [(3, 40)])
    (n,) = trace.symbols
    rows = [k * n for k in range(-(-n // 6))]
    evaluate = trace.finish(rows)
    assert not trace.pinned
    assert evaluate(12) == [0, 12] and evaluate(13) is None


def test_predicted_times_decide_without_guards() -> None:
    trace = SizeTrace((10,), [(3, 40)])
    (n,) = trace.symbols
    assert n * 0.5 == 5.0 and 0.5 + n == 10.5 and n / 4 == 2.5 and n < 11.0 and 100 / n == 10.0
    assert not trace.guards


def test_tables_of_formulas_are_vectors_of_objects() -> None:
    (n,) = SizeTrace((10,), [(3, 40)]).symbols
    table = word_table([(1, 2), (n, n * 4)])
    assert table.dtype == object and [is_symbolic(x) for x in table] == [False, False, True, True]
    assert word_table([(1, 2), (3, 4)]).dtype == np.int64
    assert word_table(np.zeros((2, 2), np.int64)).shape == (4,)


def test_a_divisor_that_becomes_zero_is_an_error_behind_no_guard() -> None:
    trace = SizeTrace((10,), [(3, 40)])
    (n,) = trace.symbols
    with pytest.raises(ZeroDivisionError):
        _ = n // (n - 10)
