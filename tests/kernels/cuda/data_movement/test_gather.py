"""Tests of gathers and one-hot rows by simulated threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_node
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import Unsupported

TABLE = np.arange(30, dtype=np.float32).reshape(5, 6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_gather(dtype: str, axis: int, index: str) -> None:
    table = TABLE.astype(dtype)
    indices = np.array([[1, 4, 0], [2, 2, 3]], index)
    expected = np.take(table, indices, axis)
    known = {2: np.array(axis, np.int32)}
    inputs = [table, indices, known[2]]
    (found,) = run_node(find_builder("GatherV2"), "GatherV2", inputs, [expected], known)
    np.testing.assert_array_equal(found, expected)


def test_gather_of_batches() -> None:
    table = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    indices = np.int32([[3, 0], [1, 1]])
    expected = np.stack([table[b][indices[b]] for b in range(2)])
    known = {2: np.array(1, np.int32)}
    builder = find_builder("GatherV2")
    inputs = [table, indices, known[2]]
    (found,) = run_node(builder, "GatherV2", inputs, [expected], known, batch_dims=1)
    np.testing.assert_array_equal(found, expected)


def test_indices_out_of_range_give_zeros() -> None:
    indices = np.int32([0, 7, -1])
    expected = np.stack([TABLE[0], np.zeros(6, "f4"), np.zeros(6, "f4")])
    known = {2: np.array(0, np.int32)}
    inputs = [TABLE, indices, known[2]]
    (found,) = run_node(find_builder("GatherV2"), "GatherV2", inputs, [expected], known)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    indices = np.int64([[0, 3, -1], [2, 9, 1]])
    rows = np.where(np.arange(4) == indices[..., None], np.float32(5), np.float32(-1))
    expected = np.ascontiguousarray(np.moveaxis(rows, -1, axis))
    inputs = [indices, np.int32(4), np.float32(5), np.float32(-1)]
    builder = find_builder("OneHot")
    (found,) = run_node(builder, "OneHot", list(map(np.asarray, inputs)), [expected], axis=axis)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "uint8", "bool", "int64", "complex64", "complex128"]
)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_gather_by_vectors(dtype: str, depth: int) -> None:
    rng = np.random.default_rng(depth)
    params = rng.integers(0, 9, (2, 3, 5)).astype(dtype)
    for shape, index in (((4,), "int32"), ((2, 3), "int64"), ((), "int32")):
        vectors = [rng.integers(0, n, shape) for n in params.shape[:depth]]
        check("GatherNd", params, np.stack(vectors, -1).astype(index))


def test_vectors_out_of_range_give_zeros() -> None:
    bad = np.int64([[0, 3], [5, 0], [1, -1], [4, 6], [2, 2], [1 << 62, 1 << 62]])
    expected = np.float32([3, 0, 0, 0, 14, 0])
    (found,) = run_node(find_builder("GatherNd"), "GatherNd", [TABLE, bad], [expected])
    np.testing.assert_array_equal(found, expected)


def test_vectors_that_are_left_to_the_host() -> None:
    one, none = np.int32([[1]]), np.zeros((3, 0), np.int32)
    for policy in (b"ERROR", b"bogus"):
        with pytest.raises(Unsupported, match=f"policy {policy.decode()} is the host's"):
            call_of("GatherNd", [TABLE, one], [tensor(TABLE[:1])], bad_indices_policy=policy)
    with pytest.raises(Unsupported, match="index vectors of 0"):
        call_of("GatherNd", [TABLE, none], [tensor(TABLE)])
