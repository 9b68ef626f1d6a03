"""Conditions on inputs: texts recorded with TensorFlow 2.21 and tf_keras."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tfjit as tf
from tfjit.client.network.input_spec import InputSpec, check_inputs


def x(*shape: int | None) -> tf.Tensor:
    return tf.placeholder(tf.float32, shape)


BROKEN = [
    ({"ndim": 3}, "expected ndim=3, found ndim=2. Full shape received: (None, 4)"),
    ({"max_ndim": 1}, "expected max_ndim=1, found ndim=2"),
    ({"min_ndim": 3}, "expected min_ndim=3, found ndim=2. Full shape received: (None, 4)"),
    (
        {"axes": {-1: 5}},
        "expected axis -1 of input shape to have value 5, but received input with shape (None, 4)",
    ),
    (
        {"axes": {1: 5}},
        "expected axis 1 of input shape to have value 5, but received input with shape (None, 4)",
    ),
    ({"shape": (None, 7)}, "expected shape=(None, 7), found shape=(None, 4)"),
    ({"shape": (None, 2, 2)}, "expected ndim=3, found ndim=2. Full shape received: (None, 4)"),
    ({"dtype": "float64"}, "expected dtype=float64, found dtype=<dtype: 'float32'>"),
]


@pytest.mark.parametrize(("arguments", "fault"), BROKEN)
def test_broken_conditions(arguments: dict[str, Any], fault: str) -> None:
    text = f'Input 0 of layer "some" is incompatible with the layer: {fault}'
    with tf.Graph().as_default(), pytest.raises(ValueError, match=re.escape(text)):
        check_inputs(InputSpec(**arguments), x(None, 4), "some")


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": (None, None), "dtype": tf.float32},
        {"axes": {-1: 4, 0: 8}, "min_ndim": 1, "max_ndim": 2},
        {"shape": (None, 4, 1), "allow_last_axis_squeeze": True},
    ],
)
def test_fitting_inputs(arguments: dict[str, Any]) -> None:
    with tf.Graph().as_default():
        check_inputs(InputSpec(**arguments), x(None, 4), "some")
        check_inputs(InputSpec(**arguments), tf.placeholder(tf.float32), "some")


def test_several_inputs() -> None:
    specs = [InputSpec(ndim=2), InputSpec(ndim=3)]
    with tf.Graph().as_default():
        check_inputs(specs, [x(2, 3), x(2, 3, 4)], "some")
        with pytest.raises(ValueError, match='Input 1 of layer "some" is .* expected ndim=3'):
            check_inputs(specs, [x(2, 3), x(2, 3)], "some")
        with pytest.raises(ValueError, match=r"expects 2 input\(s\), but it received 1 input"):
            check_inputs(specs, x(2, 3), "some")


def test_specs() -> None:
    assert repr(InputSpec(min_ndim=2, axes={-1: 4})) == "InputSpec(min_ndim=2, axes={-1: 4})"
    assert repr(InputSpec(shape=(None, 3))) == "InputSpec(shape=(None, 3), ndim=2)"
    assert InputSpec(ndim=3, shape=(2, 3)).ndim == 2
    with pytest.raises(ValueError, match="Axis 5 is greater than the maximum allowed value: 2"):
        InputSpec(axes={5: 2}, ndim=3)
    with pytest.raises(TypeError, match="must be a dict with integer keys"):
        InputSpec(axes={"a": 2})  # type: ignore[dict-item]


def test_a_layer_of_a_user_has_conditions() -> None:
    class Pairs(tf.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.input_spec = tf.layers.InputSpec(ndim=2, axes={-1: 2})

    with tf.Graph().as_default():
        Pairs()(x(None, 2))
        with pytest.raises(ValueError, match='Input 0 of layer "pairs_2" is incompatible'):
            Pairs()(x(None, 3))
