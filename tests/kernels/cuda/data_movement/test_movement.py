"""Tests of ops that move elements, by simulated threads beside NumPy's references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.harness import run_node
from tfjit.kernels.cuda.data_movement.movement import OPS
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import find_native

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


CASES: list[tuple[str, list[np.ndarray], dict[int, np.ndarray], np.ndarray, dict[str, Any]]] = [
    ("Transpose", [X, ints(2, 0, 1)], {1: ints(2, 0, 1)}, X.transpose(2, 0, 1), {}),
    ("ConcatV2", [X, X, np.int32(1)], {2: np.int32(1)}, np.concatenate([X, X], 1), {"N": 2}),  # type: ignore[list-item,dict-item]
    ("Pack", [X, -X], {}, np.stack([X, -X], 1), {"axis": 1, "N": 2}),
    ("Slice", [X, ints(0, 1, 1), ints(2, 2, 2)], {1: ints(0, 1, 1), 2: ints(2, 2, 2)}, X[:, 1:3, 1:3], {}),
    ("Tile", [X, ints(1, 2, 3)], {1: ints(1, 2, 3)}, np.tile(X, (1, 2, 3)), {}),
    ("ReverseV2", [X, ints(0, 2)], {1: ints(0, 2)}, X[::-1, :, ::-1], {}),
    ("Pad", [X, np.int32([[1, 0], [0, 2], [1, 1]])], {1: np.int32([[1, 0], [0, 2], [1, 1]])},
     np.pad(X, [(1, 0), (0, 2), (1, 1)]), {}),
    ("Roll", [X, ints(1), ints(2)], {1: ints(1), 2: ints(2)}, np.roll(X, 1, 2), {}),
    ("Reshape", [X, ints(4, 6)], {1: ints(4, 6)}, X.reshape(4, 6), {}),
    ("ZerosLike", [X], {}, np.zeros_like(X), {}),
    ("BroadcastTo", [X[:, :1], ints(2, 5, 4)], {1: ints(2, 5, 4)}, np.broadcast_to(X[:, :1], (2, 5, 4)), {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "known", "expected", "attrs"), CASES)
def test_values(
    op: str,
    inputs: list[np.ndarray],
    known: dict[int, np.ndarray],
    expected: np.ndarray,
    attrs: dict[str, Any],
) -> None:
    arrays = [np.asarray(value) for value in inputs]
    expected = np.ascontiguousarray(expected)
    (found,) = run_node(find_builder(op), op, arrays, [expected], known, **attrs)
    np.testing.assert_array_equal(found, expected)


def test_each_op_has_a_builder_of_the_host() -> None:
    assert [op for op in OPS if find_native(op) is None] == []
