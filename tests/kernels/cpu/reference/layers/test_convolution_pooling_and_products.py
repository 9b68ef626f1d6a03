"""The NumPy kernels of matmul, convolution and pooling against TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu.reference  # noqa: F401  (registers the kernels)
from tests.kernels import nn_cases
from tests.kernels.nn_cases import Case, assert_near, case_arrays, node_spec, run_tensorflow
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import find_reference

ALL = (
    nn_cases.matmul_cases()
    + nn_cases.conv_cases()
    + nn_cases.depthwise_cases()
    + nn_cases.conv_grad_cases()
    + nn_cases.pool_cases()
    + nn_cases.pool_grad_cases()
)


def run_reference(
    op: str, arrays: list[np.ndarray], attrs: dict[str, Any], out: np.ndarray
) -> np.ndarray:
    kernel = find_reference(op)
    assert kernel is not None
    (found,) = kernel(node_spec(op, arrays, attrs, out), arrays)
    return np.asarray(found)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_reference_equals_tensorflow(case: Case) -> None:
    arrays = case_arrays(case)
    wanted = run_tensorflow(case.op, arrays, case.attrs)
    assert_near(run_reference(case.op, arrays, case.attrs, wanted), wanted, case.terms)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
@pytest.mark.parametrize("op", ["MatMul", "Conv2D", "MaxPool", "AvgPool"])
def test_reference_of_other_types(op: str, dtype: str) -> None:
    if op == "AvgPool" and dtype == "int32":
        return  # TensorFlow has no such kernel
    attrs: dict[str, Any] = {}
    shapes: tuple[tuple[int, ...], ...] = ((3, 5), (5, 4))
    if op == "Conv2D":
        shapes, attrs = ((1, 5, 5, 2), (3, 3, 2, 3)), nn_cases.conv_attrs((1, 1), "SAME")
    elif op != "MatMul":
        shapes, attrs = (
            ((1, 5, 5, 2),),
            {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
        )
    arrays = Case(op, shapes, attrs, dtype).arrays()
    wanted = run_tensorflow(op, arrays, attrs)
    found = run_reference(op, arrays, attrs, wanted)
    assert found.dtype == wanted.dtype
    tolerance = {"float16": 4e-3, "bfloat16": 4e-2, "int32": 0}[dtype]
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("channels", [1, 5, 32])
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
    wanted, grad = nn_cases.run_tensorflow_pool_and_grad(x, attrs)
    np.testing.assert_array_equal(run_reference("MaxPool", [x], attrs, wanted), wanted)
    np.testing.assert_array_equal(
        run_reference("MaxPoolGrad", [x, wanted, np.ones_like(wanted)], attrs, grad), grad
    )


@pytest.mark.parametrize(
    "op", ["Conv2D", "MaxPool", "AvgPool", "Conv2DBackpropInput", "Conv2DBackpropFilter"]
)
def test_nchw_is_nhwc_transposed(op: str) -> None:
    table = (
        nn_cases.conv_cases()
        if op == "Conv2D"
        else nn_cases.pool_cases()
        if "Pool" in op
        else nn_cases.conv_grad_cases()
    )
    case = [c for c in table if c.op == op and c.dtype == "float32"][2]
    arrays = case.arrays()
    (wanted,) = find_reference(op)(node_spec(op, arrays, case.attrs, arrays[-1]), arrays)  # type: ignore[misc]

    def flip(value: Any, index: int = -1) -> Any:
        image = np.ndim(value) == 4 and not (index == 1 and "Conv" in op and "Filter" not in op)
        if image:
            return np.ascontiguousarray(np.transpose(value, (0, 3, 1, 2)))
        if index in case.ints and index == 0:
            return value[[0, 3, 1, 2]]
        return value

    attrs = {
        k: [v[i] for i in (0, 3, 1, 2)] if isinstance(v, list) else v for k, v in case.attrs.items()
    } | {"data_format": "NCHW"}
    flipped = [flip(a, i) for i, a in enumerate(arrays)]
    (found,) = find_reference(op)(node_spec(op, flipped, attrs, arrays[-1]), flipped)  # type: ignore[misc]
    np.testing.assert_allclose(
        found, wanted if op == "Conv2DBackpropFilter" else flip(wanted), rtol=1e-6
    )


def test_mismatched_sizes_are_named() -> None:
    a, b = np.zeros((2, 3), np.float32), np.zeros((4, 5), np.float32)
    with pytest.raises(InvalidArgumentError, match=r"In\[0\]: \[2,3\], In\[1\]: \[4,5\]$"):
        run_reference("MatMul", [a, b], {}, a)
