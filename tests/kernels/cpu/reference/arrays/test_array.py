"""NumPy reference kernels of array movement and indexing against TensorFlow, errors included."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences
from tfjit.framework.types import dtypes

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(7)


def f(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Distinct values."""
    size = int(np.prod(shape))
    return (RNG.permutation(size) - size // 2).reshape(shape).astype(dtype)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def n(value: int, dtype: Any = np.int32) -> np.ndarray:
    return np.array(value, dtype)


def text(*values: str) -> np.ndarray:
    return np.array([v.encode() for v in values], object)


def shape_cases() -> Iterator[Case]:
    for x in (f(2, 3), f(), f(0, 4), f(5, dtype=np.int64), text("a", "bc")):
        for op in ("Shape", "Size", "Rank", "Identity", "ZerosLike"):
            yield Case(op, [x])
        yield Case("ShapeN", [x, x], {"N": 2})
        yield Case("Squeeze", [x])
    yield Case("Shape", [f(2, 3)], {"out_type": dtypes.int64})
    yield Case("OnesLike", [f(2, 3)])
    for wanted in (
        (3, 2),
        (-1,),
        (2, -1),
        (6,),
        (1, 6),
        (4, 2),
        (-1, 4),
        (-1, -1),
        (-2, 3),
        (2, 3, 1),
    ):
        yield Case("Reshape", [f(2, 3), ints(*wanted)])
    for wanted in ((0,), (-1, 3), (0, -1), (2, 0), (3,), (-1,)):
        yield Case("Reshape", [f(0, 3), ints(*wanted)])
    yield Case("Reshape", [f(1), np.zeros(0, np.int32)])
    yield Case("Reshape", [f(4), np.array([[2, 2]], np.int32)])
    for dims in ((), (0,), (2,), (-1,), (1,), (0, 2), (5,)):
        yield Case("Squeeze", [f(1, 3, 1)], {"squeeze_dims": list(dims)})
    for axis in (0, 1, -1, 2, -3, 3, -4):
        yield Case("ExpandDims", [f(2, 3), n(axis)])
    yield Case("Fill", [ints(2, 3), n(7, np.float32)])
    yield Case("Fill", [ints(2, -3), n(7, np.float32)])
    yield Case("Fill", [ints(0), n(7, np.int64)])
    yield Case("Fill", [ints(2), np.array(b"x", object)])
    yield Case("BroadcastTo", [f(3), ints(2, 3)])
    yield Case("BroadcastTo", [f(2, 1), ints(4, 2, 3)])
    yield Case("BroadcastTo", [f(2, 1), ints(3)])
    yield Case("BroadcastTo", [f(2), ints(3)])
    yield Case("BroadcastArgs", [ints(2, 1), ints(3)])
    yield Case("BroadcastArgs", [ints(2, 4), ints(3)])
    for a, b in (
        ((2, 3), (3,)),
        ((2, 3), (2, 3)),
        ((2, 1), (1, 3)),
        ((), (2,)),
        ((1,), (1,)),
        ((1, 2), (2,)),
        ((2, 3), (4, 3)),
        ((0, 2), (1, 2)),
    ):
        yield Case("BroadcastGradientArgs", [ints(*a), ints(*b)])
    for a, b, d in (
        (0, 10, 3),
        (10, 0, -3),
        (0, 0, 1),
        (5, 1, 1),
        (0, 5, 0),
        (0, 5, -1),
        (-3, 200, 7),
    ):
        for kind in (np.int32, np.int64, np.float32, np.float64):
            yield Case("Range", [n(a, kind), n(b, kind), n(d, kind)])
    yield Case("Range", [n(0, np.float32), n(1, np.float32), np.array(0.1, np.float32)])
    for count in (1, 2, 5, 0):
        yield Case(
            "LinSpace", [n(0, np.float32), n(3, np.float32), n(count)], tolerance=(1e-6, 1e-6)
        )
    for perm in ((2, 0, 1), (0, 0, 1), (0, 3, 1), ()):
        yield Case("InvertPermutation", [ints(*perm)])
    yield Case("ConcatOffset", [n(1), ints(2, 3, 4), ints(2, 5, 4), ints(2, 1, 4)], {"N": 3})
    yield Case("ConcatOffset", [n(0), ints(2, 3), ints(2, 5)], {"N": 2})
    yield Case("EnsureShape", [f(2, 3)], {"shape": [None, 3]})
    yield Case("CheckNumerics", [f(2, 3)], {"message": "m"})
    for bad in (np.nan, np.inf):
        yield Case("CheckNumerics", [np.array([1, bad], np.float32)], {"message": "m"})
    yield Case("Diag", [f(2, 3)])
    yield Case("DiagPart", [f(2, 3, 2, 3)])
    yield Case("DiagPart", [f(2, 3)])
    for x, t in (
        (f(2, 3), "int32"),
        (f(2, 3), "uint8"),
        (f(2, 2), "float64"),
        (f(2, 4, dtype=np.uint8), "float32"),
        (f(3), "float64"),
    ):
        yield Case("Bitcast", [x], {"type": dtypes.as_dtype(t)})


def movement_cases() -> Iterator[Case]:
    for perm in ((2, 0, 1), (0, 1, 2), (0, -1, 1), (0, 1), (0, 3, 1), (0, 0, 1)):
        yield Case("Transpose", [f(2, 3, 5), ints(*perm)])
    yield Case("Transpose", [f(), np.zeros(0, np.int32)])
    yield Case("Transpose", [text("a", "b").reshape(1, 2), ints(1, 0)])
    yield Case("ConjugateTranspose", [(f(2, 3) + 1j * f(2, 3)).astype(np.complex64), ints(1, 0)])
    for axis in (0, 1, -1, 2, -3):
        yield Case("ConcatV2", [f(2, 3), f(2, 5), n(axis)], {"N": 2})
        yield Case("ConcatV2", [f(2, 3), f(4, 3), f(0, 3), n(axis)], {"N": 3})
        yield Case("Concat", [n(axis), f(2, 3), f(2, 3)], {"N": 2})
        yield Case("Pack", [f(2, 3), f(2, 3)], {"N": 2, "axis": axis})
        yield Case("Split", [n(axis), f(4, 6)], {"num_split": 2})
        yield Case("Unpack", [f(2, 2)], {"num": 2, "axis": axis})
        yield Case("ReverseV2", [f(2, 3), ints(axis)])
    yield Case("ConcatV2", [f(), f(), n(0)], {"N": 2})
    yield Case("ConcatV2", [text("a"), text("b", "c"), n(0)], {"N": 2})
    yield Case("Pack", [f(2, 3), f(2, 4)], {"N": 2})
    yield Case("Pack", [f(), f()], {"N": 2})
    yield Case("Split", [n(0), f(3, 6)], {"num_split": 2})
    for sizes in ((1, 2, 3), (1, -1, 3), (1, 2, 4), (-1, -1, 2), (3, -1, 4), (0, 6, 0)):
        yield Case("SplitV", [f(6, 2), ints(*sizes), n(0)], {"num_split": 3})
    yield Case("SplitV", [f(2, 6), ints(1, 5), n(-1)], {"num_split": 2})
    yield Case("Tile", [f(2, 3), ints(2, 1)])
    yield Case("Tile", [f(2, 3), ints(0, 2)])
    yield Case("Tile", [f(2, 3), ints(2)])
    yield Case("Tile", [f(2, 3), ints(-1, 2)])
    yield Case("Tile", [f(), np.zeros(0, np.int32)])
    pads = np.array([[1, 2], [0, 3]], np.int32)
    yield Case("Pad", [f(4, 5), pads])
    yield Case("PadV2", [f(4, 5), pads, n(9, np.float32)])
    yield Case("Pad", [f(4, 5), pads[:1]])
    yield Case("Pad", [f(4, 5), -pads])
    yield Case("Pad", [f(), np.zeros((0, 2), np.int32)])
    for mode in ("REFLECT", "SYMMETRIC"):
        for p in (
            pads,
            np.array([[3, 3], [4, 4]], np.int32),
            np.array([[4, 3], [0, 5]], np.int32),
            np.array([[5, 0], [0, 0]], np.int32),
        ):
            yield Case("MirrorPad", [f(4, 5), p], {"mode": mode})
        yield Case("MirrorPadGrad", [f(7, 8), pads], {"mode": mode})
    for axes in ((), (1, 0), (0, 0), (2,)):
        yield Case("ReverseV2", [f(2, 3), np.array(axes, np.int32)])
    yield Case("Reverse", [f(2, 3), np.array([True, False])])
    for lengths in ((1, 2, 4), (0, 3, 1), (1, 2, 5), (1, 2), (-1, 2, 1)):
        yield Case(
            "ReverseSequence",
            [f(3, 4, 2), np.array(lengths, np.int64)],
            {"seq_dim": 1, "batch_dim": 0},
        )
    yield Case(
        "ReverseSequence", [f(4, 3), np.array([1, 2, 4], np.int64)], {"seq_dim": 0, "batch_dim": 1}
    )
    yield Case("Roll", [f(4, 5), n(2), n(1)])
    yield Case("Roll", [f(4, 5), ints(-1, 7), ints(0, 1)])
    yield Case("Roll", [f(4, 5), ints(1), ints(2)])
    yield Case("SpaceToBatchND", [f(1, 4, 4, 3), ints(2, 3), np.array([[1, 1], [0, 2]], np.int32)])
    yield Case("SpaceToBatchND", [f(2, 4, 3), ints(2), np.array([[0, 0]], np.int32)])
    yield Case("SpaceToBatchND", [f(1, 5, 4, 3), ints(2, 3), np.array([[0, 0], [0, 0]], np.int32)])
    yield Case("BatchToSpaceND", [f(6, 3, 2, 3), ints(2, 3), np.array([[1, 1], [0, 2]], np.int32)])
    yield Case("BatchToSpaceND", [f(5, 3, 2, 3), ints(2, 3), np.array([[1, 1], [0, 2]], np.int32)])
    yield Case(
        "SpaceToBatch", [f(1, 3, 4, 2), np.array([[1, 0], [0, 2]], np.int32)], {"block_size": 2}
    )
    yield Case(
        "BatchToSpace", [f(4, 3, 4, 2), np.array([[1, 0], [0, 2]], np.int32)], {"block_size": 2}
    )
    yield Case("SpaceToDepth", [f(2, 4, 6, 3)], {"block_size": 2})
    yield Case("DepthToSpace", [f(2, 3, 2, 8)], {"block_size": 2})
    yield Case("SpaceToDepth", [f(2, 5, 6, 3)], {"block_size": 2})
    yield Case("DepthToSpace", [f(2, 3, 2, 6)], {"block_size": 2})


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
STRIDED: list[tuple[tuple[int, ...], ...]] = [
    ((0, 1), (2, 3), (1, 1), ()),
    ((3, 1), (0, 9), (-1, 2), ()),
    ((0, 0), (0, 0), (1, 1), (3, 3)),
    ((0, 0), (2, 2), (1, 1), (0, 0, 1)),
    ((0, 0), (2, 2), (1, 1), (0, 0, 2)),
    ((0, 0, 0), (2, 2, 2), (1, 1, 1), (0, 0, 2, 1)),
    ((1, 0, 2), (2, 2, 3), (1, 1, 1), (0, 0, 2, 0, 5)),
    ((9,), (10,), (1,), (0, 0, 0, 0, 1)),
    ((-1,), (0,), (1,), (0, 0, 0, 0, 1)),
    ((0,), (2,), (0,), ()),
    ((0, 1), (2, 3), (1, -1), (0, 0, 0, 0, 2)),
    ((5, -9), (-9, 9), (-2, 3), ()),
    ((2,), (1,), (1,), ()),
    ((0, 0), (3, 3), (1, 1), (0, 0, 3)),
    ((0, 0), (0, 0), (-1, -2), (3, 3)),
    ((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), (0, 0, 0, 8)),
    ((0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1), ()),
]


def indexing_cases() -> Iterator[Case]:
    for b, e, s, masks in STRIDED:
        attrs = dict(zip(MASKS, masks))
        yield Case("StridedSlice", [f(4, 5, 6), ints(*b), ints(*e), ints(*s)], attrs)
        probe = Case("StridedSlice", [f(4, 5, 6), ints(*b), ints(*e), ints(*s)], attrs)
        from tests.kernels.kernel_cases import ours

        out, _ = ours(probe)
        if out is not None:
            dy = f(*out[0].shape)
            yield Case("StridedSliceGrad", [ints(4, 5, 6), ints(*b), ints(*e), ints(*s), dy], attrs)
            yield Case(
                "TensorStridedSliceUpdate", [f(4, 5, 6), ints(*b), ints(*e), ints(*s), dy], attrs
            )
    for begin, size in (
        ((1, 0), (1, 2)),
        ((1, 0), (-1, -1)),
        ((3, 0), (1, 1)),
        ((0, 0), (3, 1)),
        ((0, 0), (-2, 1)),
        ((2, 3), (0, 0)),
        ((0,), (1,)),
    ):
        yield Case("Slice", [f(2, 3), ints(*begin), ints(*size)])
    yield Case("Slice", [f(0, 3), ints(0, 1), ints(0, 2)])
    for axis in (0, 1, -1, 2):
        for batch in (0, 1, -1):
            yield Case(
                "GatherV2",
                [f(3, 4), RNG.integers(0, 3, (3, 5)).astype(np.int32), n(axis)],
                {"batch_dims": batch},
                own_words=axis == 2,
            )
    yield Case("GatherV2", [f(3, 4, 2), n(2), n(1)])
    yield Case("GatherV2", [text("a", "b", "c"), ints(2, 0), n(0)])
    for bad in (ints(1, 7), ints(-1), n(9), np.array([[0, 1], [2, 5]], np.int32)):
        yield Case("GatherV2", [f(3, 4), bad, n(0)])
        yield Case("Gather", [f(3, 4), bad])
    yield Case("GatherV2", [f(0, 4), np.zeros(0, np.int32), n(0)])
    yield Case("GatherNd", [f(3, 4, 2), np.array([[0, 1], [2, 3]], np.int32)])
    yield Case("GatherNd", [f(3, 4, 2), np.array([[[0], [1]]], np.int32)])
    yield Case("GatherNd", [f(3, 4), np.array([[0, 1], [3, 3]], np.int32)])
    yield Case("GatherNd", [f(3, 4), np.zeros((2, 0), np.int32)])
    yield Case("ScatterNd", [np.array([[1], [3], [1]], np.int32), f(3, 2), ints(4, 2)])
    yield Case("ScatterNd", [np.array([[1], [3], [1]], np.int32), f(3, 2) > 0, ints(4, 2)])
    yield Case("ScatterNd", [np.array([[1, 0], [0, 1]], np.int32), f(2), ints(2, 2)])
    yield Case("ScatterNd", [np.array([[1], [4]], np.int32), f(2, 2), ints(4, 2)])
    for op in (
        "TensorScatterUpdate",
        "TensorScatterAdd",
        "TensorScatterSub",
        "TensorScatterMax",
        "TensorScatterMin",
    ):
        yield Case(op, [f(4, 2), np.array([[1], [3], [0]], np.int32), f(3, 2)])
        yield Case(op, [f(4, 2), np.array([[1], [7]], np.int32), f(2, 2)])
    for axis in (-1, 0, 1, 2):
        yield Case(
            "OneHot",
            [np.array([[0, 2], [5, -1]], np.int32), n(3), n(5, np.float32), n(-1, np.float32)],
            {"axis": axis},
        )
    yield Case("OneHot", [n(1), n(3), n(1), n(0)])
    yield Case("OneHot", [ints(1), n(-3), n(1), n(0)])
    for x in (
        np.array([[True, False], [True, True]]),
        np.array(True),
        np.array(False),
        np.array([0.0, 2.0, np.nan], np.float32),
        np.zeros((0, 2), bool),
    ):
        yield Case("Where", [x])
    x = np.array([3, 1, 3, 2, 1, 1], np.int32)
    for op in ("Unique", "UniqueWithCounts"):
        yield Case(op, [x])
        yield Case(op, [x.astype(np.float32)])
        yield Case(op, [text("b", "a", "b")])
        yield Case(op, [np.zeros(0, np.int64)])
    yield Case("Unique", [f(2, 2)])
    rows = np.array([[1, 2], [3, 4], [1, 2]], np.int32)
    for axis in ((0,), (1,), (-1,)):
        yield Case("UniqueV2", [rows, np.array(axis, np.int32)])
        yield Case("UniqueWithCountsV2", [rows, np.array(axis, np.int32)])
    yield Case("UniqueV2", [x, np.zeros(0, np.int32)])
    yield Case("ListDiff", [x, ints(3, 9)])
    for op in ("LowerBound", "UpperBound"):
        yield Case(
            op,
            [
                np.array([[1, 2, 2, 5], [0, 0, 1, 9]], np.float32),
                np.array([[2, 6, 0], [0, 1, 10]], np.float32),
            ],
        )
    yield Case("UnravelIndex", [ints(5, 0, 3), ints(2, 3)])
    yield Case("UnravelIndex", [n(4), ints(2, 3)])
    yield Case("Bucketize", [f(3, 4)], {"boundaries": [-2.0, 0.0, 3.0]})
    yield Case("DynamicPartition", [f(4, 2), ints(1, 0, 2, 1)], {"num_partitions": 3})
    yield Case("DynamicPartition", [f(4, 2), ints(1, 0, 3, 1)], {"num_partitions": 3})
    yield Case(
        "DynamicPartition", [f(2, 2), np.array([[0, 1], [1, 1]], np.int32)], {"num_partitions": 2}
    )
    yield Case("DynamicPartition", [f(4, 0), ints(1, 0, 2, 1)], {"num_partitions": 3})
    yield Case("DynamicStitch", [ints(0, 2), ints(1, 3), f(2, 0, 3), f(2, 0, 3)], {"N": 2})
    yield Case("DynamicStitch", [ints(0, 2), ints(1, 2), f(2, 3), f(2, 3)], {"N": 2})
    yield Case("DynamicStitch", [n(1), ints(0, 2), f(), f(2)], {"N": 2})
    for reverse in (False, True):
        yield Case("NthElement", [f(3, 5), n(2)], {"reverse": reverse})
    yield Case("NthElement", [f(3, 5), n(5)])
    for op in ("InplaceAdd", "InplaceSub", "InplaceUpdate"):
        yield Case(op, [f(4, 2), ints(1, 3), f(2, 2)])


def diagonal_cases() -> Iterator[Case]:
    for below, above in ((0, 0), (-1, 0), (1, -1), (1, 2), (5, 0)):
        yield Case("MatrixBandPart", [f(2, 4, 5), n(below, np.int64), n(above, np.int64)])
    for shape in ((2, 3, 5), (5, 3), (4, 4)):
        yield Case("MatrixDiagPart", [f(*shape)])
        for k in ((0,), (1,), (-1,), (-1, 1), (0, 2), (-2, -1), (7,)):
            band = np.array(k, np.int32)
            yield Case("MatrixDiagPartV2", [f(*shape), band, n(9, np.float32)])
            for align in ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"):
                yield Case(
                    "MatrixDiagPartV3", [f(*shape), band, n(9, np.float32)], {"align": align}
                )
    yield Case("MatrixDiag", [f(2, 3)])
    yield Case("MatrixSetDiag", [f(2, 3, 5), f(2, 3)])
    for k, shape, rows, columns in (
        ((0,), (2, 3), -1, -1),
        ((1,), (3,), -1, -1),
        ((-1,), (3,), 4, 5),
        ((-1, 1), (3, 4), 4, 4),
        ((-1, 1), (3, 4), -1, -1),
        ((0,), (3,), 2, 2),
    ):
        for align in ("LEFT_RIGHT", "RIGHT_LEFT"):
            given = [f(*shape), np.array(k, np.int32), n(rows), n(columns), n(7, np.float32)]
            yield Case("MatrixDiagV3", given, {"align": align}, own_words=True)
        yield Case("MatrixDiagV2", given, own_words=True)
    for align in ("LEFT_RIGHT", "RIGHT_LEFT"):
        yield Case(
            "MatrixSetDiagV3",
            [f(2, 4, 5), f(2, 3, 4), np.array([-1, 1], np.int32)],
            {"align": align},
        )
    yield Case("MatrixSetDiagV2", [f(4, 5), f(4), np.array([1], np.int32)])
    yield Case("MatrixSetDiagV2", [f(4, 5), f(3), np.array([1], np.int32)], own_words=True)


def test_diagonals() -> None:
    wrong = differences(list(diagonal_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_shapes_and_constructors() -> None:
    wrong = differences(list(shape_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_movement() -> None:
    wrong = differences(list(movement_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def test_indexing() -> None:
    wrong = differences(list(indexing_cases()))
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
