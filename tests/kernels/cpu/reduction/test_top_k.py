"""The largest elements of rows, against the references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.against_reference import check
from tfjit.framework.types import dtypes as d

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("k", [0, 1, 2, 5, 32, 33, 100, 300])
@pytest.mark.parametrize("distinct", [3, 1 << 20])
def test_top_k(k: int, distinct: int) -> None:
    x = (RNG.integers(0, distinct, (4, 300)) - distinct // 2).astype(np.float32)
    check("TopKV2", x, np.int32(k), nchunks=3, sorted=True)


# A few elements and many are found in two ways, each over any order of keys, which the dtype makes;
# the type of an index only says what is stored: each dtype meets both ways, and both index types.
@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (dtype, number)
        for number, dtype in enumerate(
            ["float64", "float16", "int8", "uint8", "int16", "int32", "int64", "uint32"]
        )
    ],
)
def test_top_k_of_every_type(dtype: str, number: int) -> None:
    arrays = (
        (RNG.standard_normal((3, 2, 80)) * 60).astype(np.int64).astype(dtype),
        RNG.integers(0, 255, 500).astype(dtype),
    )
    index_types = [d.int32, d.int64][:: 1 if number % 2 else -1]
    for k, index_type in zip((4, 50), index_types, strict=True):
        for x in arrays:
            check("TopKV2", x, np.int32(k), sorted=True, index_type=index_type)


@pytest.mark.parametrize("k", [6, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_order_of_special_values(k: int, dtype: str) -> None:
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.0, -1.0, np.finfo(dtype).max], dtype
    )
    check("TopKV2", RNG.permutation(np.repeat(special, 7)).reshape(1, 70), np.int32(k), sorted=True)


def test_extreme_integers() -> None:
    x = np.array([np.iinfo(np.int32).min, np.iinfo(np.int32).max, 0, -1] * 20, np.int32)
    for k in (3, 30, 80):
        check("TopKV2", x, np.int32(k), sorted=True)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 700), st.integers(1, 4), st.data())
def test_random_rows(length: int, rows: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, length))
    x = np.random.default_rng(length).standard_normal((rows, length)).astype(np.float32)
    if data.draw(st.booleans()):
        x.sort(axis=-1)
    check(
        "TopKV2",
        np.round(x, data.draw(st.sampled_from([0, 2, 7]))),
        np.int32(k),
        nchunks=data.draw(st.sampled_from([0, 2])),
        sorted=True,
    )


def test_in_top_k() -> None:
    scores = np.round(RNG.standard_normal((40, 21)) * 4).astype(np.float32)
    scores[3, 2], scores[5, 7], scores[6, 1] = np.nan, np.inf, -np.inf
    targets = RNG.integers(-1, 22, 40).astype(np.int32)
    for k in (1, 4, 21, 30):
        check("InTopKV2", scores, targets, np.int32(k), nchunks=3)
        check("InTopK", scores, targets.astype(np.int64), k=k)
