"""Buckets of histogram summaries: against a bisection for each value."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import pytest

from tfjit.kernels.cpu.reference.records import summary
from tfjit.kernels.float_control import flushed


@pytest.mark.parametrize("flushing", [False, True])
def test_values_at_and_beside_each_limit(flushing: bool) -> None:
    """The table of buckets is the same, whichever thread made it."""
    summary._first_buckets.cache_clear()
    (flushed(summary._first_buckets) if flushing else summary._first_buckets)()
    rng = np.random.default_rng(1)
    limits = summary._limits()
    inner = limits[1:-1]
    values = np.concatenate(
        [
            limits,
            np.nextafter(inner, -np.inf),
            np.nextafter(inner, np.inf),
            rng.standard_normal(5000) * 10.0 ** rng.integers(-14, 22, 5000),
            [0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e308, -1e308],
        ]
    )
    places = [min(bisect_right(limits, value), len(limits) - 1) for value in values.tolist()]
    wanted = np.bincount(places, minlength=len(limits))
    np.testing.assert_array_equal(summary._bucket_counts(values), wanted)
    for count in (0, 1, summary._BLOCK, summary._BLOCK + 1):
        assert summary._bucket_counts(np.ones(count)).sum() == count
