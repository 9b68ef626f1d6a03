"""Test second derivatives of layers against TensorFlow's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import Program, compare, signed, smooth

IMAGES: Final = signed(2, 4, 4, 2)
VOLUMES: Final = signed(1, 3, 4, 4, 2)
POOL: Final = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
CUBES: Final = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 2, 1], "padding": "SAME"}


def _batch_norm(training: bool) -> Program:
    def program(m: Any, x: Any, scale: Any, offset: Any) -> Any:
        known = {} if training else {"mean": scale * 0.0 + 0.1, "variance": scale * 0.0 + 2.0}
        empty = {"mean": [], "variance": []} if training else {}
        made = m.raw_ops.FusedBatchNormV3(
            x=x,
            scale=scale,
            offset=offset,
            is_training=training,
            **known,
            **empty,
        )
        return m.tanh(made[0])

    return program


CASES: Final[dict[str, tuple[Program, list[np.ndarray]]]] = {
    "elu": (lambda m, x: m.nn.elu(x) ** 2, [signed(3, 4)]),
    "selu": (lambda m, x: m.nn.selu(x) ** 2, [signed(3, 4)]),
    "leaky relu": (lambda m, x: m.nn.leaky_relu(x, 0.3) ** 2, [signed(3, 4)]),
    "depthwise": (
        lambda m, x, w: m.nn.depthwise_conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME") ** 2,
        [IMAGES, signed(3, 3, 2, 2)],
    ),
    "conv3d": (
        lambda m, x, w: m.nn.conv3d(x, w, strides=[1, 1, 2, 1, 1], padding="SAME") ** 2,
        [VOLUMES, signed(2, 2, 2, 2, 3)],
    ),
    "max_pool of tensors": (
        lambda m, x: (
            m.raw_ops.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
            ** 2
        ),
        [IMAGES],
    ),
    "max_pool3d": (lambda m, x: m.raw_ops.MaxPool3D(input=x, **CUBES) ** 2, [VOLUMES]),
    "mirrored": (lambda m, x: m.pad(x**2, [[1, 1], [2, 1]], "SYMMETRIC") ** 2, [smooth(2, 3)]),
    "batch norm": (_batch_norm(True), [IMAGES, smooth(2), signed(2)]),
    "batch norm, inference": (_batch_norm(False), [IMAGES, smooth(2), signed(2)]),
}


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives(name: str) -> None:
    compare(*CASES[name], second=True)


def test_batch_norm_of_leading_channels() -> None:
    """TensorFlow's CPU kernels are of the other layout: that layout is compared with it above."""
    import tfjit

    def found(leading: bool) -> np.ndarray:
        with tfjit.Graph().as_default():
            x, scale = tfjit.constant(IMAGES), tfjit.constant([0.5, 2.0])
            image = tfjit.transpose(x, [0, 3, 1, 2]) if leading else x
            made = tfjit.raw_ops.FusedBatchNormV3(
                x=image,
                scale=scale,
                offset=scale,
                mean=[],
                variance=[],
                is_training=True,
                data_format="NCHW" if leading else "NHWC",
            )
            (first,) = tfjit.gradients(tfjit.tanh(made[0]), [x])
            (second,) = tfjit.gradients(first**2, [x])
            with tfjit.Session() as session:
                result: np.ndarray = session.run(second)
                return result

    np.testing.assert_allclose(found(True), found(False), rtol=1e-4, atol=1e-4)
