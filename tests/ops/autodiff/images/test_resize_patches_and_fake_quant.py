"""Gradients of images, patches and simulated quantisation: the same program built with tfjit and
with TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

RNG = np.random.default_rng(23)
IMAGES = RNG.random((2, 5, 6, 3)).astype(np.float32)
BOXES = np.array(
    [[0.1, 0.03, 0.7, 0.83], [0.2, 0.3, 1.2, 0.8], [0.02, 0.01, 0.97, 0.93]], np.float32
)
PATCHES = {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1]}
LOW, HIGH = np.array([-0.2, 0.1, 0.3], np.float32), np.array([0.5, 0.9, 0.6], np.float32)

VOLUME = RNG.standard_normal((2, 2, 3, 3, 2)).astype(np.float32)
CELL = [
    RNG.standard_normal(shape).astype(np.float32)
    for shape in ((12, 2), (12, 2), (5, 8), (2,), (2,), (2,), (8,))
]

Program = Callable[[Any, Any], Any]


def _pools(m: Any, x: Any) -> Any:
    attrs = {"ksize": [1, 2, 2, 3, 1], "strides": [1, 1, 2, 1, 1], "padding": "VALID"}
    return m.raw_ops.MaxPool3D(input=x, **attrs) + m.raw_ops.AvgPool3D(input=x, **attrs)


def _sequences(m: Any, x: Any) -> Any:
    cs, h, w, wci, wcf, wco, b = CELL
    made = m.raw_ops.BlockLSTM(
        seq_len_max=np.int64(5),
        x=x,
        cs_prev=cs,
        h_prev=h,
        w=w,
        wci=wci,
        wcf=wcf,
        wco=wco,
        b=b,
        use_peephole=True,
    )
    return made.h + made.cs


PROGRAMS: dict[str, Program] = {
    "bilinear": lambda m, x: m.raw_ops.ResizeBilinear(images=x, size=[7, 4]),
    "bilinear, centres": lambda m, x: m.raw_ops.ResizeBilinear(
        images=x, size=[7, 4], half_pixel_centers=True
    ),
    "nearest": lambda m, x: m.raw_ops.ResizeNearestNeighbor(
        images=x, size=[7, 4], align_corners=True
    ),
    "bicubic": lambda m, x: m.raw_ops.ResizeBicubic(images=x, size=[3, 8]),
    "scaled": lambda m, x: m.raw_ops.ScaleAndTranslate(
        images=x, size=[4, 7], scale=[0.7, 1.3], translation=[0.5, -0.2]
    ),
    "crops": lambda m, x: m.raw_ops.CropAndResize(
        image=x, boxes=BOXES, box_ind=[0, 1, 1], crop_size=[3, 4]
    ),
    "patches": lambda m, x: m.raw_ops.ExtractImagePatches(images=x, padding="SAME", **PATCHES),
    "valid patches": lambda m, x: m.raw_ops.ExtractImagePatches(
        images=x, padding="VALID", **PATCHES
    ),
    "argmax": lambda m, x: m.raw_ops.MaxPoolWithArgmax(
        input=x, ksize=[1, 2, 2, 1], strides=[1, 1, 2, 1], padding="SAME"
    )[0],
    "pools of volumes": lambda m, x: _pools(m, m.expand_dims(x, 0)),
    "volumes": lambda m, x: m.raw_ops.Conv3D(
        input=m.expand_dims(x, 0), filter=VOLUME, strides=[1, 1, 2, 1, 1], padding="SAME"
    ),
    "sequences": lambda m, x: _sequences(m, m.reshape(x, [5, 12, 3])),
    "fake args": lambda m, x: m.raw_ops.FakeQuantWithMinMaxArgs(inputs=x, min=0.1, max=0.8),
    "fake vars": lambda m, x: m.raw_ops.FakeQuantWithMinMaxVars(inputs=x, min=0.1, max=0.8),
    "fake channels": lambda m, x: m.raw_ops.FakeQuantWithMinMaxVarsPerChannel(
        inputs=x, min=LOW, max=HIGH
    ),
    "there and back": lambda m, x: m.raw_ops.QuantizeAndDequantizeV2(
        input=x, input_min=0.0, input_max=0.7, range_given=True
    ),
    "there and back, v4": lambda m, x: m.raw_ops.QuantizeAndDequantizeV4(
        input=x, input_min=0.0, input_max=0.7, range_given=True
    ),
}


def _gradient(module: Any, session: Any, gradients: Any, program: Program) -> np.ndarray:
    v1 = module.compat.v1
    with module.Graph().as_default() as graph:
        x = v1.placeholder(module.float32, [None, None, None, 3])
        y = program(module, x)
        (grad,) = gradients(y * y, [x])
        with session(graph=graph) as run:
            return np.asarray(run.run(grad, {x: IMAGES}))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_equal_tensorflow(name: str) -> None:
    theirs = _gradient(tf, tf.compat.v1.Session, tf.compat.v1.gradients, PROGRAMS[name])
    ours = _gradient(tfjit, tfjit.Session, tfjit.gradients, PROGRAMS[name])
    np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)


def test_gradients_of_boxes_and_ranges_equal_tensorflow() -> None:
    def programs(module: Any) -> list[np.ndarray]:
        v1 = module.compat.v1
        with module.Graph().as_default() as graph:
            boxes, low, high = (v1.placeholder(module.float32, s) for s in ([3, 4], [3], [3]))
            x = module.constant(IMAGES)
            crops = module.raw_ops.CropAndResize(
                image=x, boxes=boxes, box_ind=[0, 1, 1], crop_size=[3, 4]
            )
            fake = module.raw_ops.FakeQuantWithMinMaxVarsPerChannel(inputs=x, min=low, max=high)
            found = [*v1.gradients(crops * crops, [boxes]), *v1.gradients(fake * fake, [low, high])]
            with v1.Session(graph=graph) as session:
                return [
                    np.asarray(v) for v in session.run(found, {boxes: BOXES, low: LOW, high: HIGH})
                ]

    for ours, theirs in zip(programs(tfjit), programs(tf)):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)
