"""Builders of the registry, and the registers that kernels of many of them take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of
from tests.kernels.cuda.linked import resources
from tests.kernels.cuda.texts import need_numba_cuda
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template import registry
from tfjit.kernels.registry import NativeCall, NodeSpec

IMAGE, LARGE = np.zeros((2, 3, 3, 4), np.float32), np.zeros((2, 6, 7, 4), np.float32)
MATRIX, IDS = np.zeros((3, 2), np.float32), np.int64([0, 1, 2])
BOXES, OF = np.zeros((5, 4), np.float32), np.zeros(5, np.int32)
CROPS, PLACES = np.zeros((5, 2, 2, 4), np.float32), np.zeros((2, 2, 3, 4), np.int64)
SIZE, TWO = np.int32([6, 7]), np.int64(2)
POOLING = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 1, 1], "padding": b"SAME"}
POOLED = IMAGE[:, :2]
KERNELS: tuple[tuple[str, list[Any], list[Any], dict[str, Any]], ...] = (
    ("ResizeBilinear", [IMAGE, SIZE], [LARGE], {}),
    ("ResizeBilinearGrad", [LARGE, IMAGE], [IMAGE], {}),
    ("ResizeBilinearGrad", [LARGE, IMAGE.astype("f8")], [IMAGE.astype("f8")], {}),
    ("ResizeNearestNeighbor", [IMAGE, SIZE], [LARGE], {}),
    ("ResizeNearestNeighborGrad", [LARGE, SIZE], [IMAGE], {}),
    ("CropAndResize", [IMAGE, BOXES, OF, SIZE], [CROPS], {}),
    ("CropAndResizeGradImage", [CROPS, BOXES, OF, SIZE], [IMAGE], {}),
    ("MaxPoolWithArgmax", [IMAGE], [POOLED, PLACES], POOLING),
    ("MaxPoolGradWithArgmax", [IMAGE, POOLED, PLACES], [IMAGE], {}),
    ("MaxPoolGradGradWithArgmax", [IMAGE, IMAGE, PLACES], [POOLED], {}),
    ("LRN", [IMAGE], [IMAGE], {}),
    ("LRNGrad", [IMAGE, IMAGE, IMAGE], [IMAGE], {}),
    ("SegmentMax", [MATRIX, IDS], [MATRIX], {}),
    ("SparseSegmentSqrtN", [MATRIX, IDS, IDS], [MATRIX], {}),
    ("SparseSegmentMeanGrad", [MATRIX, IDS, IDS, np.int32(3)], [MATRIX], {}),
    ("SparseTensorDenseMatMul", [IDS[:2].reshape(1, 2), MATRIX[0, :1], IDS[:2], MATRIX], [MATRIX], {}),
    ("_PaddedUnique", [IDS], [IDS, IDS], {}),
    ("_PaddedUnique", [OF], [OF, OF], {}),
    ("MatrixBandPart", [MATRIX, TWO, TWO], [MATRIX], {}),
    ("MirrorPadGrad", [IMAGE[0, 0], np.int32([[0, 1], [1, 0]])], [np.zeros((2, 3), "f4")], {"mode": b"SYMMETRIC"}),
    ("ReverseSequence", [MATRIX, IDS], [MATRIX], {"seq_dim": 1}),
    ("LinSpace", [MATRIX[0, 0], MATRIX[0, 0], np.int32(5)], [MATRIX[0]], {}),
)  # fmt: skip


def made(op: str, inputs: list[Any], outputs: list[Any], attrs: dict[str, Any]) -> NativeCall:
    corners = {"align_corners": False, "half_pixel_centers": False}
    return call_of(op, inputs, [tensor(out) for out in outputs], **{**corners, **attrs})


def test_no_registers_are_spilled() -> None:
    """One subprocess links the kernels of all these rooms."""
    need_numba_cuda()
    sources = dict.fromkeys(source for case in KERNELS for source in made(*case).sources())
    assert len(sources) > 25
    assert all(found.local_bytes == 0 for found in resources(list(sources)))


def test_a_second_builder_is_an_error() -> None:
    def build(spec: NodeSpec) -> NativeCall:
        raise NotImplementedError

    registry.find_builder("Tanh")
    with pytest.raises(ValueError, match="two CUDA builders for Tanh"):
        registry.device_native("Tanh")(build)


def test_types_without_a_form() -> None:
    assert "float16" in registry.refused_types("UnsortedSegmentSum")
    assert registry.refused_types("Tanh") == registry.refused_types("no op") == frozenset()
