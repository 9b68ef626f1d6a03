"""Reductions of sorted segments on simulated GPUs, with gradients, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_call
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import TensorSpec, Unsupported

RNG = np.random.default_rng(4)
SHAPES = [((9, 3), 4), ((5,), 7), ((1, 2, 2), 1), ((0, 3), 2), ((4, 0), 2)]


def near(dtype: str) -> float:
    return {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}.get(dtype, 0)


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (RNG.normal(size=shape) * 3).astype(dtype)


@pytest.mark.parametrize("kind", ["Sum", "Prod", "Max", "Min", "Mean"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_sorted_segments(kind: str, dtype: str) -> None:
    for shape, segments in SHAPES:
        ids = np.sort(RNG.integers(0, segments, shape[0]))
        x = numbers(shape, dtype)
        if not (kind == "Mean" and dtype == "int64"):
            check(f"Segment{kind}", x, ids, near=near(dtype))
        if kind != "Mean":
            count = np.int64(segments + 1)
            check(f"Segment{kind}V2", x, ids.astype("i4"), count, near=near(dtype))


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_rows_at_indices(kind: str, dtype: str) -> None:
    for shape, segments in SHAPES:
        count = 8 if shape[0] else 0
        ids = np.sort(RNG.integers(0, segments, count)).astype("i4")
        indices = RNG.integers(0, max(shape[0], 1), count)
        x = numbers(shape, dtype)
        check(f"SparseSegment{kind}", x, indices, ids, near=near(dtype))
        name = f"SparseSegment{kind}WithNumSegments"
        check(name, x, indices.astype("i4"), ids.astype("i8"), np.int32(segments + 2),
              near=near(dtype))  # fmt: skip


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients(kind: str, dtype: str) -> None:
    for shape, rows in SHAPES:
        count = 8 if shape[0] else 0
        ids = np.sort(RNG.integers(0, max(shape[0], 1), count)).astype("i4")
        indices = RNG.integers(0, rows, count)
        dy = numbers(shape, dtype)
        check(f"SparseSegment{kind}Grad", dy, indices, ids, np.int32(rows), near=near(dtype))


def test_special_values() -> None:
    x = np.float32([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, -0.0])
    ids = np.int64([0, 0, 1, 1, 2, 2, 4])
    with np.errstate(invalid="ignore"):
        for kind in ("Sum", "Prod", "Mean"):
            check(f"Segment{kind}", x, ids)
        for kind in ("Max", "Min"):  # like the host's kernel, they keep a NaN by its place
            check(f"Segment{kind}", x[1:], ids[1:] - ids[1])


def test_an_index_out_of_range_is_a_row_of_zeros() -> None:
    x = np.ones((2, 2), np.float32)
    inputs = [x, np.int64([0, 2, -1]), np.int64([0, 0, 1])]
    out = TensorSpec(d.float32, (2, 2))
    (found,), _ = run_call(call_of("SparseSegmentSum", inputs, [out]), inputs, [out])
    np.testing.assert_array_equal(found, [[1, 1], [0, 0]])


def test_forms_without_a_kernel() -> None:
    x, ids = np.ones(2, np.complex64), np.int64([0, 1])
    for op, value in (("SegmentMax", x), ("SegmentMean", x.real.astype(np.int64))):
        with pytest.raises(Unsupported, match=r"segments of|means of"):
            call_of(op, [value, ids], [tensor(value)])
    with pytest.raises(Unsupported, match="do not fit"):
        call_of("SegmentSum", [x, ids[:1]], [tensor(x)])
