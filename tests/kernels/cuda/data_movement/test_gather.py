"""Tests of gathers, scatters and one-hot rows by simulated threads."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_node, run_node_state
from tfjit.kernels.cuda.template.registry import find_builder

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


@pytest.mark.parametrize("op", ["ScatterAdd", "ResourceScatterSub", "ScatterUpdate"])
def test_scatter(op: str) -> None:
    indices = np.int32([4, 0, 9, 4] if "Update" not in op else [4, 0, 9, 2])
    updates = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = TABLE.copy()
    for row, k in enumerate(indices):
        if k < 5:
            if "Update" in op:
                expected[k] = updates[row]
            else:
                expected[k] += updates[row] if "Add" in op else -updates[row]
    _, after = run_node_state(find_builder(op), op, [TABLE, indices, updates], [])
    np.testing.assert_array_equal(after[0], expected)


def test_sum_of_segments() -> None:
    data = np.arange(12, dtype=np.float32).reshape(4, 3)
    ids = np.int32([1, 0, 1, -1])
    expected = np.zeros((3, 3), np.float32)
    for row, k in enumerate(ids):
        if k >= 0:
            expected[k] += data[row]
    builder = find_builder("UnsortedSegmentSum")
    inputs = [data, ids, np.asarray(np.int32(3))]
    (found,) = run_node(builder, "UnsortedSegmentSum", inputs, [expected])
    np.testing.assert_array_equal(found, expected)
