"""Compiled gradients of crops against TensorFlow."""

from __future__ import annotations

import numpy as np

from tests.kernels.kernel_cases import Case, native_differences
from tfjit.framework.types import dtypes as d

RNG = np.random.default_rng(8)


def test_gradients_of_crops() -> None:
    close, cases = (1e-4, 1e-4), []
    for shape in ((2, 5, 7, 3), (1, 1, 1, 2), (3, 12, 11, 16)):
        image = RNG.random(shape).astype(np.float32)
        boxes = (RNG.random((6, 4)) * 1.6 - 0.3).astype(np.float32)
        index = RNG.integers(0, shape[0], 6).astype(np.int32)
        for size in ((3, 4), (1, 5), (7, 1)):
            grads = RNG.standard_normal((6, *size, shape[3])).astype(np.float32)
            attrs = {"method": b"bilinear"}
            sizes = np.array(shape, np.int32)
            cases.append(
                Case(
                    "CropAndResizeGradImage",
                    [grads, boxes, index, sizes],
                    {**attrs, "T": d.float32},
                    close,
                    known=(3,),
                )
            )
            cases.append(Case("CropAndResizeGradBoxes", [grads, image, boxes, index], attrs, close))
    wrong = [grads, boxes, index + 3, sizes]
    attrs = {"method": b"bilinear", "T": d.float32}
    cases.append(
        Case("CropAndResizeGradImage", wrong, attrs, known=(3,), failed_shape=(3, 12, 11, 16))
    )
    assert not native_differences(cases)
