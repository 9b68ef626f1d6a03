"""NumPy reference kernels of segments and counts against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(3)
CLOSE = (1e-5, 1e-6)
NONE = np.zeros(0, np.int32)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def ids(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


def _sparse_segments() -> Iterator[Case]:
    odd = floats(6, 3)
    odd[2, 1], odd[4] = np.nan, np.inf
    segments = np.sort(ids(5, 12))
    for kind in ("Sum", "Mean", "SqrtN"):
        op = f"SparseSegment{kind}"
        for data in (odd, floats(6), floats(6, 2, 2), floats(6, 0)):
            yield Case(op, [data, ids(6, 12), segments], {}, CLOSE)
            wide = [data, ids(6, 12).astype(np.int64), segments, np.int32(7)]
            yield Case(f"{op}WithNumSegments", wide, {}, CLOSE)
        yield Case(op, [odd, NONE, NONE], {}, CLOSE)
        yield Case(op, [odd, np.array([0, 6], np.int32), ids(1, 2)])
        for form in ("Grad", "GradV2"):
            gradient = [floats(5, 3), ids(6, 12), segments, np.int32(6)]
            yield Case(op + form, gradient, {}, CLOSE)
        yield Case(f"{op}GradV2", [floats(5, 3), NONE, NONE, np.int32(6)], {}, CLOSE)


def _counts() -> Iterator[Case]:
    for weights in (np.zeros(0, np.float32), floats(20), ids(5, 20).astype(np.int64)):
        yield Case("Bincount", [ids(9, 20), np.int32(6), weights], {}, CLOSE)
        matrix = weights.reshape(4, 5) if weights.size else weights
        yield Case("DenseBincount", [ids(9, 4, 5), np.int32(6), matrix], {}, CLOSE)
    binary = [ids(9, 4, 5), np.int32(6), np.zeros(0, np.float32)]
    yield Case("DenseBincount", binary, {"binary_output": True})
    yield Case("Bincount", [NONE, np.int32(0), np.zeros(0, np.float32)])


def test_against_tensorflow() -> None:
    assert not differences([*_sparse_segments(), *_counts()])
