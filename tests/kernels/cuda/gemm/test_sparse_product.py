"""Products of sparse and dense matrices on simulated GPUs, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_call
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import TensorSpec, Unsupported

RNG = np.random.default_rng(4)
OP = "SparseTensorDenseMatMul"


def matrix(rows: int, columns: int, count: int, index: str) -> np.ndarray:
    """Return places of entries, some of them twice, in any order."""
    return RNG.integers(0, (rows, columns), (count, 2)).astype(index)


@pytest.mark.parametrize("adjoint_b", [False, True])
@pytest.mark.parametrize("adjoint_a", [False, True])
@pytest.mark.parametrize(
    ("dtype", "index"),
    [("float32", "int64"), ("float32", "int32"), ("float64", "int64"), ("int32", "int64")],
)
def test_products(dtype: str, index: str, adjoint_a: bool, adjoint_b: bool) -> None:
    for count, columns in ((9, 3), (0, 3), (1, 1), (5, 0)):
        rows, inner = (3, 5) if adjoint_a else (5, 3)
        values = (RNG.normal(size=count) * 9).astype(dtype)
        right = (RNG.normal(size=(3, columns)) * 9).astype(dtype)
        shape = np.int64([rows, inner])
        check(OP, matrix(rows, inner, count, index), values, shape,
              right.T if adjoint_b else right, near=1e-5, adjoint_a=adjoint_a,
              adjoint_b=adjoint_b)  # fmt: skip


def test_special_values() -> None:
    places = np.int64([[0, 0], [1, 1], [2, 0], [2, 1]])
    values = np.float32([np.inf, -0.0, np.nan, 1])
    dense = np.float32([[1, -0.0, 0], [np.inf, -np.inf, 2]])
    with np.errstate(invalid="ignore"):
        check(OP, places, values, np.int64([3, 2]), dense, adjoint_a=False, adjoint_b=False)


def test_an_entry_outside_adds_nothing() -> None:
    places = np.int64([[0, 0], [2, 0], [-1, 1], [1, 2], [1, 1]])
    inputs = [places, np.ones(5, np.float32), np.int64([2, 2]), np.float32([[1, 2], [3, 4]])]
    out = TensorSpec(d.float32, (2, 2))
    (found,), _ = run_call(call_of(OP, inputs, [out]), inputs, [out])
    np.testing.assert_array_equal(found, [[1, 2], [3, 4]])


def test_forms_without_a_kernel() -> None:
    places, dense = np.int64([[0, 0]]), np.ones((2, 2), np.complex64)
    inputs = [places, np.ones(1, np.complex64), np.int64([2, 2]), dense]
    with pytest.raises(Unsupported, match="complex64"):
        call_of(OP, inputs, [tensor(dense)])
    floats = np.ones((2, 2), np.float32)
    with pytest.raises(Unsupported, match="do not fit"):
        call_of(OP, [places, np.ones(2, np.float32), inputs[2], floats], [tensor(floats)])
