"""Tests of staging memory: large feeds go in pieces, each behind its own bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.runtime.lowering.lowered import Value
from tfjit.runtime.offload import staging
from tfjit.runtime.offload.staging import Staging

pytestmark = pytest.mark.simulator


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "LARGE", 200)
    monkeypatch.setattr(staging, "PIECE", 96)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The bytes of the copies outside of programs."""
    found: list[int] = []
    copy_in = SimulatedAccelerator.copy_in

    def record(self: SimulatedAccelerator, target: int, source: int, nbytes: int) -> None:
        found.append(nbytes)
        copy_in(self, target, source, nbytes)

    monkeypatch.setattr(SimulatedAccelerator, "copy_in", record)
    yield found


def value(index: int, dtype: str, *shape: int) -> Value:
    return Value(index, as_dtype(dtype), shape, "feed")


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "complex128"])
def test_pieces_carry_the_whole_feed(copies: list[int], dtype: str) -> None:
    device = SimulatedAccelerator(1 << 20)
    fed = value(0, dtype, 5, 13)
    memory = Staging([fed], [], 0)
    memory.allocate(device)
    array = np.random.default_rng(1).integers(0, 2, (5, 13)).astype(fed.dtype.as_numpy_dtype)
    target = device.allocate(array.nbytes)
    memory.send(device, fed, array, target)
    found = np.empty_like(array)
    device.read(found, target)
    np.testing.assert_array_equal(found, array)
    assert sum(copies) == array.nbytes and len(copies) == -(-array.nbytes // 96)


def test_an_array_with_gaps_is_one_copy(copies: list[int]) -> None:
    device = SimulatedAccelerator(1 << 20)
    fed = value(0, "float32", 10, 7)
    memory = Staging([fed], [], 0)
    memory.allocate(device)
    array = np.arange(70, dtype=np.float32).reshape(7, 10).T
    target = device.allocate(280)
    memory.send(device, fed, array, target)
    found = np.empty((10, 7), np.float32)
    device.read(found, target)
    np.testing.assert_array_equal(found, array)
    assert copies == [280]


def test_places_do_not_overlap() -> None:
    device = SimulatedAccelerator(1 << 20)
    feeds = [value(0, "float32", 3), value(1, "int8", 70)]
    results = [value(2, "float64", 9), value(3, "float32")]
    memory = Staging(feeds, results, 16)
    assert not memory.is_allocated
    memory.allocate(device)
    starts = [*map(memory.feed_address, feeds), *memory.result_addresses(), memory.stream_address]
    sizes = [12, 70, 72, 4, 16]
    for start, size, then in zip(starts, sizes, starts[1:], strict=False):
        assert start + size <= then and start % 64 == starts[0] % 64
    memory.release()
    assert not memory.is_allocated


def test_runs_with_large_and_small_feeds(
    copies: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run has its own feeds, whatever their layout."""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    rng = np.random.default_rng(2)
    with simulated_gpu(), tf.Graph().as_default() as graph:
        large = tf.placeholder(tf.float32, [10, 7])
        small = tf.placeholder(tf.float32, [10, 1])
        with tf.device("/device:GPU:0"):
            result = tf.reverse(large, [1]) * 2.0 + small
        with tf.Session(graph=graph) as session:
            for run in range(3):
                a: Any = rng.normal(size=(10, 7)).astype(np.float32)
                if run == 1:
                    a = np.asfortranarray(a)
                b = rng.normal(size=(10, 1)).astype(np.float32)
                found = session.run(result, {large: a, small: b})
                np.testing.assert_allclose(found, a[:, ::-1] * 2 + b, rtol=1e-6)
    assert sum(copies) == 3 * 280
