"""Crops on simulated GPUs, with the gradient of their images, against the references."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_call
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import TensorSpec, Unsupported

RNG = np.random.default_rng(4)
BOXES = np.float32([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [-0.3, 0.4, 0.5, 1.4], [0.9, 0.8, 0.1, 0.2],
                    [0.5, 0.5, 0.5, 0.5]])  # fmt: skip
INDEX = np.int32([1, 0, 1, 1, 0])
METHODS = pytest.mark.parametrize("method", [b"bilinear", b"nearest"])


@METHODS
@pytest.mark.parametrize("dtype", ["float32", "uint8", "float16"])
def test_crops(dtype: str, method: bytes) -> None:
    image = (RNG.normal(size=(2, 5, 4, 3)) * 50 + 100).astype(dtype)
    for size in ((3, 5), (1, 1), (4, 2)):
        check("CropAndResize", image, BOXES, INDEX, np.int32(size), near=1e-5, method=method,
              extrapolation_value=-2.5)  # fmt: skip


@METHODS
@pytest.mark.parametrize("dtype", [d.float32, d.float64])
def test_gradient_of_images(dtype: d.DType, method: bytes) -> None:
    grads = RNG.normal(size=(5, 3, 4, 2)).astype("f4")
    check("CropAndResizeGradImage", grads, BOXES, INDEX, np.int32([2, 5, 4, 2]), near=1e-5,
          method=method, T=dtype)  # fmt: skip


def test_no_boxes() -> None:
    image, none = np.ones((1, 3, 3, 2), np.float32), np.zeros((0, 4), np.float32)
    index, size = np.zeros(0, np.int32), np.int32([2, 2])
    check("CropAndResize", image, none, index, size, method=b"bilinear", extrapolation_value=0.0)
    grads = np.zeros((0, 2, 2, 2), np.float32)
    check("CropAndResizeGradImage", grads, none, index, np.int32(image.shape), method=b"bilinear",
          T=d.float32)  # fmt: skip


def test_boxes_that_the_host_refuses_are_outside() -> None:
    image = np.ones((2, 3, 3, 1), np.float32)
    boxes = np.float32([[0, 0, 1, 1]] * 4)
    boxes[2:, 1] = np.nan, np.inf
    index = np.int32([-1, 2, 0, 1])
    out = TensorSpec(d.float32, (4, 2, 2, 1))
    inputs = [image, boxes, index, np.int32([2, 2])]
    call = call_of("CropAndResize", inputs, [out], method=b"bilinear", extrapolation_value=7.0)
    (found,), _ = run_call(call, inputs, [out])
    # the column at the right end is where NaN and infinity are multiplied by 0 or 1
    assert (found[:3] == 7).all()
    assert (found[3, :, 0] == 7).all()


def test_forms_without_a_kernel() -> None:
    image, out = np.ones((1, 3, 3, 1), np.float32), TensorSpec(d.float32, (2, 2, 2, 1))
    inputs = [image, BOXES[:2], INDEX[:3], np.int32([2, 2])]
    with pytest.raises(Unsupported, match="do not fit"):
        call_of("CropAndResize", inputs, [out], method=b"bilinear")
    grads = np.ones((5, 2, 2, 1), np.float32)
    with pytest.raises(Unsupported, match="float16"):
        call_of("CropAndResizeGradImage", [grads, BOXES, INDEX, np.int32([2, 3, 3, 1])],
                [TensorSpec(d.float16, (2, 3, 3, 1))], method=b"bilinear")  # fmt: skip
