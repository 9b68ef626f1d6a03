"""Pooling of GPUs and its gradients against TensorFlow, in the simulator."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.kernels import nn_cases
from tests.kernels.cuda.conv.oracle import check
from tests.kernels.cuda.harness import VECTOR_LOAD, VECTOR_STORE, call_ptx, run_call
from tests.kernels.cuda.tiny_tiles import floats
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import Case, node_spec, run_tensorflow_pool_and_grad
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_reference

CASES = (*nn_cases.pool_cases(), *nn_cases.pool_grad_cases())


@pytest.mark.parametrize("case", [c for c in CASES if c.dtype == "float32"], ids=str)
def test_pooling_equals_tensorflow(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", [c for c in CASES if c.dtype == "float64"][::3], ids=str)
def test_double_precision(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("channels", [1, 4])
def test_nan_and_infinity(channels: int) -> None:
    n = np.nan
    rows = [
        [n, 1, 2], [1, n, 2], [1, 2, n], [n, n, n], [-np.inf] * 3, [np.inf, n, 1], [3, 3, 1],
        [-1, -1, -2],
    ]  # fmt: skip
    x = np.repeat(np.array(rows, np.float32).reshape(len(rows), 1, 3, 1), channels, axis=3)
    attrs = {"ksize": [1, 1, 3, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    wanted, grad = run_tensorflow_pool_and_grad(x, attrs)
    for op, arrays, right in (
        ("MaxPool", [x], wanted),
        ("MaxPoolGrad", [x, wanted, np.ones_like(wanted)], grad),
    ):
        call = find_builder(op)(node_spec(op, arrays, attrs, right))  # type: ignore[misc]
        (found,), _ = run_call(call, arrays, [tensor(right)])
        np.testing.assert_array_equal(found, right)


def test_ties_go_to_the_first_tap_of_overlapping_windows() -> None:
    x = np.random.default_rng(0).integers(0, 3, (1, 6, 7, 4)).astype(np.float32)
    attrs: dict[str, Any] = {
        "ksize": [1, 3, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME",
    }  # fmt: skip
    wanted, grad = run_tensorflow_pool_and_grad(x, attrs)
    arrays = [x, wanted, np.ones_like(wanted)]
    call = find_builder("MaxPoolGrad")(node_spec("MaxPoolGrad", arrays, attrs, grad))  # type: ignore[misc]
    (found,), _ = run_call(call, arrays, [tensor(grad)])
    np.testing.assert_array_equal(found, grad)


@pytest.mark.parametrize("op", ["MaxPool", "AvgPool"])
def test_channels_first(op: str) -> None:
    x = floats(2, 3, 7, 6)
    attrs: dict[str, Any] = {
        "ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 2], "padding": "SAME", "data_format": "NCHW",
    }  # fmt: skip
    reference = find_reference(op)
    assert reference is not None
    (y,) = (np.asarray(v) for v in reference(node_spec(op, [x], attrs, x), [x]))
    (found,), _ = run_call(find_builder(op)(node_spec(op, [x], attrs, y)), [x], [tensor(y)])  # type: ignore[misc]
    np.testing.assert_allclose(found, y, rtol=1e-6)
    dy = floats(*y.shape, seed=1)
    size = np.array(x.shape, np.int32)
    arrays, constants = ([x, y, dy], ()) if op == "MaxPool" else ([size, dy], (0,))
    spec = node_spec(f"{op}Grad", arrays, attrs, x, constants)
    (dx,) = find_reference(f"{op}Grad")(spec, arrays)  # type: ignore[misc]
    (found,), _ = run_call(find_builder(f"{op}Grad")(spec), arrays, [tensor(x)])  # type: ignore[misc]
    np.testing.assert_allclose(found, dx, rtol=1e-6, atol=1e-7)


def test_window_sizes_as_inputs() -> None:
    x = floats(1, 6, 7, 4)
    sizes = [np.array([1, 3, 2, 1], np.int32), np.array([1, 2, 1, 1], np.int32)]
    (wanted,) = find_reference("MaxPoolV2")(  # type: ignore[misc]
        node_spec("MaxPoolV2", [x, *sizes], {"padding": "SAME"}, x), [x, *sizes]
    )
    spec = node_spec("MaxPoolV2", [x, *sizes], {"padding": "SAME"}, np.asarray(wanted), (1, 2))
    (found,), _ = run_call(find_builder("MaxPoolV2")(spec), [x, *sizes], spec.outputs)  # type: ignore[misc]
    np.testing.assert_array_equal(found, wanted)
    unknown = node_spec("MaxPoolV2", [x, *sizes], {"padding": "SAME"}, np.asarray(wanted))
    with pytest.raises(Unsupported, match="not known while planning"):
        find_builder("MaxPoolV2")(unknown)  # type: ignore[misc]


def test_windows_over_channels() -> None:
    attrs = {"ksize": (1, 1, 1, 2), "strides": (1, 1, 1, 2), "padding": b"VALID"}
    x = TensorSpec(d.float32, (1, 4, 4, 4))
    spec = NodeSpec("n", "MaxPool", attrs, (x,), (TensorSpec(d.float32, (1, 4, 4, 2)),))
    with pytest.raises(Unsupported, match="windows over channels"):
        find_builder("MaxPool")(spec)  # type: ignore[misc]


def test_compiled_code() -> None:
    attrs = {"ksize": (1, 2, 2, 1), "strides": (1, 2, 2, 1), "padding": b"SAME"}
    x, y = TensorSpec(d.float32, (32, 56, 56, 64)), TensorSpec(d.float32, (32, 28, 28, 64))
    for op, inputs, out in (("MaxPool", (x,), y), ("MaxPoolGrad", (x, y, y), x)):
        call = find_builder(op)(NodeSpec("n", op, attrs, inputs, (out,)))  # type: ignore[misc]
        for ptx in call_ptx(call).values():
            assert re.search(VECTOR_LOAD, ptx) and re.search(VECTOR_STORE, ptx)
            assert "div.s64" not in ptx and "rem.s64" not in ptx
