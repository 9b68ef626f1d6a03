"""Gradients of resizing float64 images, and bicubic resizing, to TensorFlow's last bits."""

from typing import Any

import numpy as np
import pytest
import tensorflow.compat.v1 as tf1

import tfjit

RNG = np.random.default_rng(0)
FLAGS = ({}, {"align_corners": True}, {"half_pixel_centers": True})
SIZES = (((3, 5), (7, 4)), ((8, 6), (3, 11)), ((5, 5), (10, 10)))


def run(api: Any, op: str, inputs: dict[str, Any], attrs: dict[str, bool]) -> Any:
    with api.Graph().as_default():
        fetch = getattr(api.raw_ops, op)(
            **{name: api.constant(value) for name, value in inputs.items()}, **attrs
        )
        with api.Session() as session:
            return session.run(fetch)


@pytest.mark.parametrize("op", ["ResizeBilinearGrad", "ResizeBicubicGrad"])
@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_gradients_in_float64(op: str, flags: dict[str, bool], sizes: Any) -> None:
    (height, width), out = sizes
    images = RNG.standard_normal((2, height, width, 3))
    inputs = {
        "grads": RNG.standard_normal((2, *out, 3)).astype(np.float32),
        "original_image": images,
    }
    expected, got = (run(api, op, inputs, flags) for api in (tf1, tfjit))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14, strict=True)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bicubic_resizing(dtype: Any, flags: dict[str, bool], sizes: Any) -> None:
    (height, width), out = sizes
    inputs = {
        "images": RNG.standard_normal((2, height, width, 3)).astype(dtype),
        "size": np.array(out, np.int32),
    }
    expected, got = (run(api, "ResizeBicubic", inputs, flags) for api in (tf1, tfjit))
    np.testing.assert_array_equal(got, expected, strict=True)
