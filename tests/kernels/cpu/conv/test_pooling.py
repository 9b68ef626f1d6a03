"""Compiled pooling and its gradients against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case, node_spec, run_tensorflow_pool_and_grad
from tfjit.framework.types import dtypes
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_native, find_reference


@pytest.mark.parametrize("case", nn_cases.pool_cases() + nn_cases.pool_grad_cases(), ids=str)
def test_pool_equals_tensorflow(case: Case) -> None:
    native_nn.check(case)


@pytest.mark.parametrize("channels", [1, 5, 16, 37])
def test_max_pool_of_nan_and_infinity(channels: int) -> None:
    n = np.nan
    rows = [
        [n, 1, 2],
        [1, n, 2],
        [1, 2, n],
        [n, n, n],
        [-np.inf] * 3,
        [np.inf, n, 1],
        [3, 3, 1],
        [-1, -1, -2],
    ]
    x = np.repeat(np.array(rows, np.float32).reshape(len(rows), 1, 3, 1), channels, axis=3)
    attrs = {"ksize": [1, 1, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    wanted, grad = run_tensorflow_pool_and_grad(x, attrs)
    for op, arrays, right in (
        ("MaxPool", [x], wanted),
        ("MaxPoolGrad", [x, wanted, np.ones_like(wanted)], grad),
    ):
        call = find_native(op)(node_spec(op, arrays, attrs, right))  # type: ignore[misc]
        (found,) = NativeRunner(call, arrays, native_nn.specs(right)).run()
        np.testing.assert_array_equal(found, right)


def test_explicit_padding_and_input_sizes() -> None:
    x = np.random.default_rng(2).standard_normal((2, 7, 6, 9)).astype(np.float32)
    attrs = {
        "ksize": [1, 3, 2, 1],
        "strides": [1, 2, 1, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0],
    }
    for op, arrays in (
        ("MaxPool", [x]),
        ("MaxPoolV2", [x, np.array([1, 3, 2, 1], np.int32), np.array([1, 2, 1, 1], np.int32)]),
    ):
        own = attrs if op == "MaxPool" else {"padding": "SAME"}
        reference = find_reference(op)
        assert reference is not None
        (wanted,) = reference(node_spec(op, arrays, own, x), arrays)
        call = find_native(op)(node_spec(op, arrays, own, wanted, range(1, len(arrays))))  # type: ignore[misc]
        (found,) = NativeRunner(call, arrays, native_nn.specs(wanted)).run()
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "attrs",
    [
        {"ksize": (1, 1, 1, 2), "strides": (1, 1, 1, 2)},
        {"ksize": (1, 2, 1, 1), "strides": (1, 2, 1, 1), "data_format": b"NCHW"},
    ],
)
def test_windows_over_channels_are_left_to_the_reference(attrs: dict[str, object]) -> None:
    builder = find_native("MaxPool")
    assert builder is not None
    x = TensorSpec(dtypes.float32, (1, 4, 4, 4))
    with pytest.raises(Unsupported):
        builder(NodeSpec("p", "MaxPool", {**attrs, "padding": b"VALID"}, (x,), (x,)))


def test_empty_batch() -> None:
    x = np.zeros((0, 4, 4, 3), np.float32)
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    call = find_native("MaxPool")(
        node_spec("MaxPool", [x], attrs, np.zeros((0, 2, 2, 3), np.float32))
    )  # type: ignore[misc]
    assert call.launches == ()
