"""NumPy reference kernels of reductions, scans, segments, normalisation and losses against
TensorFlow, errors included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences
from tfjit.framework.types import dtypes

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(11)
SINGLE = (2e-6, 2e-6)
HALF = (4e-3, 4e-3)


def f(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape)).astype(dtype)


def w(*shape: int, dtype: Any = np.int32, high: int = 20) -> np.ndarray:
    return np.asarray(RNG.integers(-high, high, shape)).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def n(value: Any, dtype: Any = np.int32) -> np.ndarray:
    return np.array(value, dtype)


NAN = np.array(
    [[1, np.nan, 2], [-np.inf, 3, np.inf], [np.nan, np.nan, np.nan], [-np.inf, -np.inf, -np.inf]],
    np.float32,
)


def reduction_cases() -> Iterator[Case]:
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"):
        for kind in (np.float32, np.float64, np.int32, np.int64, np.float16):
            if op == "EuclideanNorm" and np.dtype(kind).kind == "i":
                # an integer norm is cut, and TensorFlow's square root differs in whole numbers
                continue
            x = (
                f(3, 4, 5, dtype=kind)
                if np.dtype(kind).kind == "f"
                else w(3, 4, 5, dtype=kind, high=3)
            )
            near = HALF if kind is np.float16 else SINGLE if np.dtype(kind).kind == "f" else None
            for axes in ((0,), (1, 2), (-1, 0), (), (0, 1, 2)):
                yield Case(op, [x, ints(*axes)], {"keep_dims": len(axes) == 1}, near)
            yield (
                Case(op, [x[:0], ints(0)], {}, near if np.dtype(kind).kind == "f" else None)
                if not (op == "Mean" and np.dtype(kind).kind == "i")
                else Case(op, [x, n(0)])
            )
        yield Case(op, [f(3), ints(1)])
        yield Case(op, [f(3, 4), ints(0, 0)], {}, SINGLE)
        yield Case(op, [f(3, 4), np.zeros(0, np.int32)], {}, SINGLE)
        yield Case(op, [f(), np.zeros(0, np.int32)], {}, SINGLE)
    for op in ("Max", "Min", "Sum"):
        yield Case(op, [NAN, ints(1)])
    for kind in (np.int8, np.uint8, np.int16):
        yield Case("Sum", [w(4, 50, dtype=kind, high=100), ints(1)])
        yield Case("Max", [w(4, 5, dtype=kind), ints(1)])
        yield Case("Mean", [w(4, 5, dtype=kind, high=5), ints(1)])
    yield Case("Mean", [np.array([2**31 - 1, 2**31 - 1, 5], np.int32), ints(0)])
    yield Case("Sum", [np.array([2**31 - 1, 2**31 - 1, 5], np.int32), ints(0)])
    for kind in (np.complex64, np.complex128):
        z = (f(3, 4) + 1j * f(3, 4)).astype(kind)
        for op in ("Sum", "Mean", "Prod"):
            yield Case(op, [z, ints(1)], {}, SINGLE)
            yield Case(op, [z[:0], ints(0)], {}, SINGLE)
    b = RNG.random((3, 4)) > 0.3
    for op in ("All", "Any"):
        for axes in ((0,), (0, 1), ()):
            yield Case(op, [b, ints(*axes)])
        yield Case(op, [b[:0], ints(0)])
    for op in ("ArgMax", "ArgMin"):
        for kind in (np.float32, np.float64, np.int32, np.uint8, np.int64, np.float16):
            x = w(3, 4, 5, high=4).astype(kind)
            for axis in (0, 1, -1):
                yield Case(op, [x, n(axis)])
        yield Case(op, [NAN, n(1)])
        yield Case(op, [f(3, 4), n(1)], {"output_type": dtypes.int32})
        yield Case(op, [f(3, 0), n(1)])
        yield Case(op, [f(0, 3), n(1)])
        yield Case(op, [f(3, 4), n(2)])
        yield Case(op, [b, n(0)])
    for op in ("Cumsum", "Cumprod"):
        for exclusive in (False, True):
            for reverse in (False, True):
                attrs = {"exclusive": exclusive, "reverse": reverse}
                for kind in (np.float32, np.int32, np.float64):
                    x = f(3, 4, 2, dtype=kind) if np.dtype(kind).kind == "f" else w(3, 4, 2, high=3)
                    yield Case(op, [x, n(1)], attrs, SINGLE if np.dtype(kind).kind == "f" else None)
                yield Case(op, [f(0, 3), n(0)], attrs)
        yield Case(op, [f(3, 4), n(2)])
    for exclusive in (False, True):
        yield Case(
            "CumulativeLogsumexp",
            [f(3, 4), n(-1)],
            {"exclusive": exclusive, "reverse": True},
            SINGLE,
        )
    yield Case("Cross", [f(2, 3), f(2, 3)], {}, SINGLE)
    yield Case("Einsum", [f(2, 3), f(3, 4)], {"equation": "ij,jk->ik", "N": 2}, (1e-5, 1e-5))
    yield Case(
        "Einsum", [f(5, 2, 3), f(3, 4)], {"equation": "...ij,jk->...ik", "N": 2}, (1e-5, 1e-5)
    )
    yield Case("Einsum", [f(3, 3)], {"equation": "ii->i", "N": 1}, SINGLE)
    s = np.array([[b"a", b"b"], [b"c", b"d"]], object)
    for axes in ((0,), (1,), (0, 1), (1, 0)):
        yield Case("ReduceJoin", [s, ints(*axes)], {"separator": "-"})


def segment_cases() -> Iterator[Case]:
    ids = ints(0, 0, 2, 2, 2, 5)
    for op in ("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"):
        for kind in (np.float32, np.float64, np.int32):
            x = f(6, 3, dtype=kind) if np.dtype(kind).kind == "f" else w(6, 3, high=5)
            yield Case(op, [x, ids], {}, SINGLE if np.dtype(kind).kind == "f" else None)
        yield Case(op, [f(6, 3), ints(0, 1, 0, 2, 3, 4)])
        yield Case(op, [f(6, 3), ints(-1, 0, 1, 2, 3, 4)])
        yield Case(op, [f(0, 3), np.zeros(0, np.int32)])
        yield Case(op, [f(5, 3), ids])
    for op in (
        "UnsortedSegmentSum",
        "UnsortedSegmentProd",
        "UnsortedSegmentMax",
        "UnsortedSegmentMin",
    ):
        for kind in (np.float32, np.int32):
            x = f(6, 3, dtype=kind) if np.dtype(kind).kind == "f" else w(6, 3, high=5)
            yield Case(
                op,
                [x, ints(3, 0, -1, 3, 1, 0), n(5)],
                {},
                SINGLE if np.dtype(kind).kind == "f" else None,
            )
        yield Case(op, [f(2, 3, 4), np.array([[0, 1, 0], [2, 2, 1]], np.int32), n(3)], {}, SINGLE)
        yield Case(op, [f(2, 3, 0), ints(0, 1), n(3)])
        yield Case(op, [f(3), ints(0, 1, 5), n(3)])
        yield Case(op, [f(3), ints(0, 1, 2), n(-3)])
    rows = ints(2, 0, 3, 3, 1)
    for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        yield Case(op, [f(4, 3), rows, ints(0, 0, 1, 3, 3)], {}, SINGLE)
        yield Case(op, [f(4, 3), ints(2, 0, 9), ints(0, 0, 1)])
        yield Case(op, [f(4, 3), ints(2, 0, 1), ints(0, 1, 0)], own_words=True)
        yield Case(f"{op}WithNumSegments", [f(4, 3), rows, ints(0, 0, 1, 3, 3), n(6)], {}, SINGLE)
        for grad in (f"{op}Grad", f"{op}GradV2"):
            yield Case(grad, [f(3, 2), rows, ints(0, 0, 1, 2, 2), n(5)], {}, SINGLE)
            yield Case(grad, [f(3, 2), ints(2, 9), ints(0, 1), n(5)])
            yield Case(grad, [f(3, 2), ints(2, 1, 0), ints(0, 1), n(5)])
        # V1 of TensorFlow leaves it unset
        yield Case(f"{op}GradV2", [f(0, 2), ints(), ints(), n(5)])
        yield Case(
            f"{op}GradV2",
            [f(3, 2, 2), rows.astype(np.int64), ints(0, 0, 1, 2, 2), n(5)],
            {},
            SINGLE,
        )
    yield Case("Bincount", [ints(1, 0, 3, 1), n(5), np.zeros(0, np.float32)])
    yield Case("Bincount", [ints(1, 0, 3, 1), n(3), f(4)], {}, SINGLE)
    yield Case("Bincount", [ints(1, -1), n(3), np.zeros(0, np.float32)])
    yield Case("DenseBincount", [ints(1, 0, 3, 1), n(5), np.zeros(0, np.float32)])
    yield Case(
        "DenseBincount",
        [np.array([[1, 0], [3, 3]], np.int32), n(5), np.zeros(0, np.float32)],
        {"binary_output": True},
    )
    yield Case(
        "HistogramFixedWidth",
        [np.array([-1, 0, 1.5, 2, 5, 15], np.float32), np.array([0, 5], np.float32), n(5)],
    )
    yield Case("HistogramFixedWidth", [f(4), np.array([5, 0], np.float32), n(5)])


def batch_norm_cases() -> Iterator[Case]:
    """Outputs that only gradients read, and gradients of channels first, are oneDNN's
    (tests/oracle.py).
    """
    for layout, shape in (("NHWC", (3, 4, 2, 5)), ("NCHW", (3, 5, 4, 2))):
        for training in (True, False):
            x, scale, offset = f(*shape), f(5), f(5)
            mean, variance = f(5), np.abs(f(5)) + 0.1
            stats = [np.zeros(0, np.float32)] * 2 if training else [mean, variance]
            attrs = {"data_format": layout, "is_training": training, "epsilon": 0.01}
            for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
                yield Case(op, [x, scale, offset, *stats], attrs, (1e-5, 1e-5))
            if training:
                yield Case(
                    "FusedBatchNormV3",
                    [x, scale, offset, mean, variance],
                    {**attrs, "exponential_avg_factor": 0.3},
                    (1e-5, 1e-5),
                    modes_differ=True,
                )
            else:
                yield Case(
                    "FusedBatchNormV3",
                    [x.astype(np.float16), scale, offset, mean, variance],
                    attrs,
                    HALF,
                    compared=3,
                )
            for op in ("FusedBatchNormGrad", "FusedBatchNormGradV2"):
                yield Case(op, [f(*shape), x, scale, mean, variance], attrs, (2e-5, 2e-5))
            yield Case(
                "FusedBatchNormGradV3",
                [f(*shape), x, scale, mean, variance, np.zeros(0, np.float32)],
                attrs,
                (2e-5, 2e-5),
                modes_differ=True,
            )
    yield Case(
        "FusedBatchNormV3",
        [f(1, 1, 1, 3), f(3), f(3), *[np.zeros(0, np.float32)] * 2],
        {"is_training": True},
        (1e-5, 1e-5),
        modes_differ=True,
    )


def nn_cases() -> Iterator[Case]:
    for kind, near in ((np.float32, SINGLE), (np.float64, SINGLE), (np.float16, HALF)):
        x = f(4, 7, dtype=kind)
        for op in ("Softmax", "LogSoftmax"):
            yield Case(op, [x], {}, near)
            yield Case(op, [f(2, 3, 5, dtype=kind)], {}, near)
            yield Case(op, [x * 100], {}, near)
        labels = np.abs(f(4, 7, dtype=kind))
        yield Case(
            "SoftmaxCrossEntropyWithLogits",
            [x, labels],
            {},
            near if kind is not np.float16 else (2e-2, 2e-2),
        )
        yield Case("SparseSoftmaxCrossEntropyWithLogits", [x, ints(0, 6, 3, 3)], {}, near)
        yield Case("L2Loss", [x], {}, near)
        yield Case("BiasAdd", [x, f(7, dtype=kind)])
        yield Case("BiasAddGrad", [f(2, 3, 5, dtype=kind)], {}, near)
    for op in ("Softmax", "LogSoftmax"):
        # float64, since TensorFlow's float32 softmax is oneDNN's, which keeps a NaN to itself; its
        # own kernel makes the whole row NaN
        yield Case(op, [np.array([[np.inf, 1], [np.nan, 1], [-np.inf, 1]], np.float64)], {}, SINGLE)
        yield Case(op, [f(0, 3)])
        yield Case(op, [f(3, 0)])
    yield Case("SoftmaxCrossEntropyWithLogits", [f(4, 3), f(1, 3)], {}, SINGLE)
    yield Case("SoftmaxCrossEntropyWithLogits", [f(4, 3), f(4, 2)])
    yield Case("SoftmaxCrossEntropyWithLogits", [f(0, 3), f(0, 3)])
    yield Case(
        "SoftmaxCrossEntropyWithLogits",
        [np.array([[-np.inf, 1, 2]], np.float32), np.array([[0, 0.5, 0.5]], np.float32)],
        {},
        SINGLE,
    )
    yield Case("SparseSoftmaxCrossEntropyWithLogits", [f(4, 3), ints(0, 1, 3, 2)])
    yield Case("SparseSoftmaxCrossEntropyWithLogits", [f(4, 3), ints(0, 1, -1, 2)])
    yield Case("SparseSoftmaxCrossEntropyWithLogits", [f(4, 3), ints(0, 1)])
    yield Case("SparseSoftmaxCrossEntropyWithLogits", [f(0, 3), np.zeros(0, np.int64)])
    yield Case("BiasAdd", [f(2, 3, 4, 5), f(3)], {"data_format": "NCHW"})
    yield Case("BiasAdd", [w(2, 3), w(3)])
    yield Case("BiasAdd", [f(2, 3), f(4)])
    yield Case("BiasAddGrad", [f(2, 3, 4, 5)], {"data_format": "NCHW"}, SINGLE)
    for radius in (1, 2, 9):
        attrs = {"depth_radius": radius, "bias": 1.2, "alpha": 0.3, "beta": 0.7}
        x = f(2, 3, 2, 6)
        yield Case("LRN", [x], attrs, (1e-5, 1e-5))
        yield Case("LRNGrad", [f(2, 3, 2, 6), x, f(2, 3, 2, 6)], attrs, (1e-5, 1e-5))
    for x in (
        f(3, 6),
        w(3, 6, high=3),
        w(3, 6, dtype=np.uint8),
        f(6),
        f(2, 3, 4, dtype=np.float64),
    ):
        for k in (0, 1, 3):
            yield Case("TopKV2", [x, n(k)])
    yield Case("TopKV2", [f(3, 6), n(7)])
    yield Case("TopKV2", [f(3, 6), n(-1)])
    scores = np.array(
        [[0.1, 0.5, 0.5, 0.2], [np.nan, 1, 2, 3], [1, np.inf, 0, 0], [4, 3, 2, 1]], np.float32
    )
    for targets in (ints(1, 1, 1, 3), ints(2, 3, 0, 9), ints(0, 0, 2, -1)):
        for k in (1, 2, 3):
            yield Case("InTopKV2", [scores, targets, n(k)])
            yield Case("InTopK", [scores, targets], {"k": k})


def bfloat16_cases() -> Iterator[Case]:
    import ml_dtypes

    kind = ml_dtypes.bfloat16
    near = (2e-2, 2e-2)
    x, ids = f(4, 3, dtype=kind), ints(0, 0, 2, 2)
    for op in ("Sum", "Max", "Min", "Mean", "Prod"):
        yield Case(op, [x, ints(1)], {}, near)
        yield Case(op, [x[:0], ints(0)], {}, near)
    for op in ("Cumsum", "Cumprod"):
        yield Case(op, [x, n(1)], {}, near)
    for op in ("SegmentSum", "SegmentMean", "SegmentMax"):
        yield Case(op, [x, ids], {}, near)
    for op in ("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin"):
        yield Case(op, [x, ids, n(4)], {}, near)
    for op in ("Softmax", "LogSoftmax", "L2Loss", "BiasAddGrad"):
        yield Case(op, [x], {}, near)
    yield Case("SparseSoftmaxCrossEntropyWithLogits", [x, ints(1, 2, 0, 0)], {}, near)
    yield Case("ArgMax", [x, n(1)])
    yield Case("TopKV2", [x, n(2)])
    yield Case("BiasAdd", [x, f(3, dtype=kind)])


def test_bfloat16() -> None:
    wrong = differences(list(bfloat16_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_reductions_and_scans() -> None:
    wrong = differences(list(reduction_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_segments() -> None:
    wrong = differences(list(segment_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_normalization_and_losses() -> None:
    norms = [replace(case, modes_differ=True) for case in batch_norm_cases()]
    wrong = differences([*norms, *nn_cases()])
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
