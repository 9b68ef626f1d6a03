"""Compiled gradients of convolutions against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case, node_spec
from tfjit.kernels.cpu.conv_grad import mirrored
from tfjit.kernels.cpu.window import Window
from tfjit.kernels.registry import Unsupported, find_native, find_reference


def _compiled(case: Case) -> bool:
    """Whether the case has a compiled form: one result a channel, one group."""
    x, w = case.shapes[0], case.shapes[1]
    return w[3] == 1 if "Depthwise" in case.op else x[3] == w[2]


@pytest.mark.parametrize("case", [c for c in nn_cases.conv_grad_cases() if _compiled(c)], ids=str)
def test_gradient_equals_tensorflow(case: Case) -> None:
    native_nn.check(case)


@pytest.mark.parametrize("case", [c for c in nn_cases.conv_grad_cases() if c.op == "Conv2DBackpropInput"][:4], ids=str)
def test_input_gradient_with_a_constant_filter(case: Case) -> None:
    native_nn.check(case, constants=(1,))


@pytest.mark.parametrize("case", [c for c in nn_cases.conv_grad_cases() if not _compiled(c)], ids=str)
def test_other_gradients_are_left_to_the_reference(case: Case) -> None:
    arrays = case.arrays()
    shape = case.shapes[0] if "Input" in case.op else case.shapes[1]
    with pytest.raises(Unsupported, match="several results"):
        native_nn.build(case, arrays, np.zeros(shape, np.float32))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("prefix", ["Conv2D", "DepthwiseConv2dNative"])
def test_dilated_and_padded_gradients(prefix: str, dilation: int) -> None:
    """TensorFlow's CPU kernels refuse dilation here, so the reference, checked against TensorFlow without it, is the oracle."""
    rng = np.random.default_rng(1)
    w_shape = (3, 2, 5, 1) if "Depthwise" in prefix else (3, 2, 5, 7)
    x = rng.standard_normal((2, 11, 9, 5)).astype(np.float32)
    w = rng.standard_normal(w_shape).astype(np.float32)
    attrs = nn_cases.conv_attrs((1, 2), "EXPLICIT", (dilation, dilation), (3, 0, 1, 4))
    (y,) = find_reference(prefix)(node_spec(prefix, [x, w], attrs, x), [x, w])  # type: ignore[misc]
    dy = rng.standard_normal(np.shape(y)).astype(np.float32)
    for op, arrays in (
        (prefix + "BackpropInput", [np.array(x.shape, np.int32), w, dy]),
        (prefix + "BackpropFilter", [x, np.array(w.shape, np.int32), dy]),
    ):
        (wanted,) = find_reference(op)(node_spec(op, arrays, attrs, x), arrays)  # type: ignore[misc]
        wanted = np.asarray(wanted)
        call = find_native(op)(node_spec(op, arrays, attrs, wanted))  # type: ignore[misc]
        (found,) = NativeRunner(call, arrays, native_nn.specs(wanted)).run()
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_gradient_of_an_empty_batch_is_zero() -> None:
    x, dy = np.zeros((0, 5, 5, 2), np.float32), np.zeros((0, 5, 5, 3), np.float32)
    arrays = [x, np.array([3, 3, 2, 3], np.int32), dy]
    wanted = np.zeros((3, 3, 2, 3), np.float32)
    attrs = nn_cases.conv_attrs((1, 1), "SAME")
    call = find_native("Conv2DBackpropFilter")(node_spec("Conv2DBackpropFilter", arrays, attrs, wanted))  # type: ignore[misc]
    (found,) = NativeRunner(call, arrays, native_nn.specs(wanted)).run()
    np.testing.assert_array_equal(found, wanted)


def test_mirrored_window_gives_every_input() -> None:
    for window in (Window(9, 3, 1, 1, 1, 1), Window(10, 3, 2, 1, 0, 1), Window(11, 2, 3, 2, 1, 0), Window(8, 1, 2)):
        assert mirrored(window).out == window.length
