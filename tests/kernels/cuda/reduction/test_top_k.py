"""The largest elements of rows on a GPU, against the references and TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_node
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.reduction import top_k
from tfjit.kernels.cuda.template import sort
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(5)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "TILE", 8)
    monkeypatch.setattr(sort, "_LEAST_THREADS", 4)


@pytest.mark.parametrize("k", [0, 1, 4, 5, 30])
@pytest.mark.parametrize("distinct", [3, 1 << 20])
def test_long_rows(k: int, distinct: int, small_tiles: None) -> None:
    x = (RNG.integers(0, distinct, (2, 30)) - distinct // 2).astype(np.float32)
    check("TopKV2", x, np.int32(k), sorted=True)
    check("TopKV2", x.astype(np.float64), np.int32(k), sorted=True, index_type=d.int64)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint32"],
)
def test_types(dtype: str) -> None:
    x = (RNG.standard_normal((3, 2, 9)) * 60).astype(np.int64).astype(dtype)
    check("TopKV2", x, np.int32(4), sorted=True, index_type=d.int64)
    check("TopK", x[0, 0], k=9, sorted=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [6, 24])
def test_special_values(k: int, dtype: str, small_tiles: None) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(dtype).max]
    check("TopKV2", RNG.permutation(np.repeat(special, 3)).astype(dtype), np.int32(k), sorted=True)


def test_extreme_integers() -> None:
    for dtype in ("int32", "int64", "uint32"):
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, 0, limits.max - 1] * 4, dtype)
        check("TopKV2", x, np.int32(16), sorted=True)


@pytest.mark.parametrize("reverse", [False, True])
def test_nth_element(reverse: bool, small_tiles: None) -> None:
    x = np.round(RNG.standard_normal((2, 21)) * 3).astype(np.float32)
    x[0, 4], x[1, 2] = np.inf, -np.inf
    for n in (0, 3, 20):
        check("NthElement", x, np.int32(n), reverse=reverse)
    check("NthElement", RNG.integers(-9, 9, 12), np.int32(2), reverse=reverse)
    for n in (-1, 21):
        with pytest.raises(Unsupported, match="out of range"):
            call_of("NthElement", [x, np.int32(n)], [tensor(x[:, 0])], reverse=reverse)


def test_values_of_tensorflow(small_tiles: None) -> None:
    """Ties, infinities and both zeros in rows of several tiles.

    TensorFlow's order of NaN depends on the other elements.
    """
    tf = pytest.importorskip("tensorflow")
    x = np.round(RNG.standard_normal((3, 21)) * 2).astype(np.float32)
    x[0, 5], x[1, 3], x[1, 9], x[2, ::2] = -0.0, np.inf, -np.inf, -0.0
    for k in (1, 3, 21):
        wanted = [a.numpy() for a in tf.math.top_k(x, k)]
        inputs = [x, np.asarray(np.int32(k))]
        found = run_node(find_builder("TopKV2"), "TopKV2", inputs, wanted, sorted=True)
        for result, want in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(result, want)


def test_types_without_an_order() -> None:
    for dtype in ("uint64", "bool"):
        x = np.zeros((2, 3), dtype)
        with pytest.raises(Unsupported, match="no order"):
            call_of("TopKV2", [x, np.int32(2)], [tensor(x[:, :2]), tensor(np.int32([[0, 0]] * 2))])


@pytest.mark.parametrize("long", [4, 1024])
def test_in_top_k(long: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a warp or a block of two a row."""
    monkeypatch.setattr(top_k, "_LONG", long)
    monkeypatch.setattr(top_k, "THREADS", 64)
    scores = np.round(RNG.standard_normal((9, 37)) * 4).astype(np.float32)
    scores[3, 2], scores[5, 7], scores[6, 1] = np.nan, np.inf, -np.inf
    targets = np.int32([0, 36, 37, 2, 5, 7, 1, -1, 20])
    for k in (1, 5, 37):
        check("InTopKV2", scores, targets, np.int32(k))
    check("InTopK", scores, targets.astype(np.int64), k=9)
    check("InTopK", scores[:0], targets[:0], k=9)


def test_no_registers_are_spilled() -> None:
    x = np.zeros((3, 5000))
    outputs = [tensor(x), tensor(np.zeros((3, 5000), np.int32))]
    sources = [*call_of("TopKV2", [x, np.int32(5000)], outputs).sources()]
    assert len(sources) == 3  # tiles, merged runs, the last of them
    scores, targets = np.zeros((3, 5000), np.float32), np.int32([1, 2, 3])
    sources += call_of("InTopKV2", [scores, targets, np.int32(2)], [tensor(targets > 0)]).sources()
    for found in resources(sources, *ALL):
        # a block of 1024 threads has 64 registers a thread
        assert found.local_bytes == 0 and found.registers <= 64
