"""NumPy reference kernels of volumes, second derivatives of pooling and morphology against
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences, ours

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(29)
LOOSE = (1e-4, 1e-4)


def n(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape)).astype(dtype)


def out_of(length: int, size: int, stride: int, padding: str) -> int:
    return -(-length // stride) if padding == "SAME" else (length - size) // stride + 1


SHAPES = (
    ((2, 4, 5, 6, 3), (2, 3, 2), (1, 2, 1)),
    ((1, 3, 3, 3, 1), (1, 1, 1), (1, 1, 1)),
    ((2, 5, 4, 4, 2), (3, 2, 2), (2, 1, 3)),
    ((0, 3, 3, 3, 1), (2, 2, 2), (1, 1, 1)),
)


def convolutions() -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        for shape, sizes, strides in SHAPES:
            for kind in (np.float32, np.float64):
                attrs = {"strides": [1, *strides, 1], "padding": padding}
                filters = (*sizes, shape[4], 4)
                dy = (
                    shape[0],
                    *(out_of(a, k, s, padding) for a, k, s in zip(shape[1:4], sizes, strides)),
                    4,
                )
                if not shape[0]:
                    continue
                yield Case("Conv3D", [n(*shape, dtype=kind), n(*filters, dtype=kind)], attrs, LOOSE)
                yield Case(
                    "Conv3DBackpropInputV2",
                    [np.array(shape, np.int32), n(*filters, dtype=kind), n(*dy, dtype=kind)],
                    attrs,
                    LOOSE,
                )
                yield Case(
                    "Conv3DBackpropFilterV2",
                    [n(*shape, dtype=kind), np.array(filters, np.int32), n(*dy, dtype=kind)],
                    attrs,
                    LOOSE,
                )


def pools() -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        for shape, sizes, strides in SHAPES:
            attrs = {"ksize": [1, *sizes, 1], "strides": [1, *strides, 1], "padding": padding}
            x = n(*shape)
            dy = n(
                shape[0],
                *(out_of(a, k, s, padding) for a, k, s in zip(shape[1:4], sizes, strides)),
                shape[4],
            )
            yield Case("MaxPool3D", [x], attrs)
            yield Case("AvgPool3D", [x], attrs, LOOSE)
            if not shape[0]:
                continue
            outputs, _ = ours(Case("MaxPool3D", [x], attrs))
            assert outputs is not None
            yield Case("MaxPool3DGrad", [x, outputs[0], dy], attrs, LOOSE)
            yield Case("AvgPool3DGrad", [np.array(shape, np.int32), dy], attrs, LOOSE)


def second_derivatives() -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        attrs = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": padding}
        x, g = n(2, 5, 6, 3), n(2, 5, 6, 3)
        outputs, _ = ours(Case("MaxPool", [x], attrs))
        assert outputs is not None
        y = outputs[0]
        for kind in (np.float32, np.float64, np.int32):
            factor = 100 if kind is np.int32 else 1
            yield Case("MaxPoolGradGrad", [(v * factor).astype(kind) for v in (x, y, g)], attrs)
        sizes = [np.array(attrs[name], np.int32) for name in ("ksize", "strides")]
        yield Case("MaxPoolGradGradV2", [x, y, g, *sizes], {"padding": padding})


def argmax() -> Iterator[Case]:
    for padding in ("SAME", "VALID"):
        for batch in (False, True):
            attrs = {
                "ksize": [1, 2, 3, 1],
                "strides": [1, 2, 1, 1],
                "padding": padding,
                "include_batch_in_index": batch,
            }
            for kind in (np.float32, np.float64, np.int32, np.float16):
                x = (n(2, 5, 6, 3) * 10).astype(kind)
                yield Case("MaxPoolWithArgmax", [x], attrs)
            yield Case("MaxPoolWithArgmax", [n(2, 5, 6, 3)], {**attrs, "Targmax": 3})
            yield Case("MaxPoolWithArgmax", [np.round(n(2, 5, 6, 3))], attrs)


@pytest.mark.parametrize("cases", [convolutions, pools, second_derivatives, argmax])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
