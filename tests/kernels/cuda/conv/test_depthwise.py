"""Depthwise convolutions of GPUs and their gradients against TensorFlow, in the simulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels import nn_cases
from tests.kernels.cuda.conv.oracle import check, check_in_planes
from tests.kernels.cuda.harness import VECTOR_LOAD, call_ptx, run_call
from tests.kernels.cuda.tiny_tiles import floats
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import Case, conv_attrs, node_spec
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.conv import depthwise
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_reference

GRADIENTS = [c for c in nn_cases.conv_grad_cases() if c.op.startswith("Depthwise")]
FORWARD = [c for k, c in enumerate(nn_cases.depthwise_cases()) if c.dtype == "float32" or k % 4]


@pytest.mark.parametrize("case", [*FORWARD, *GRADIENTS], ids=str)
def test_depthwise_equals_tensorflow(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "case",
    [c for c in GRADIENTS if "Filter" in c.op and c.shapes[0][1:3] in ((8, 11), (8, 7))],
    ids=str,
)
def test_filter_gradient_with_split_sums(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depthwise, "_LEAST_PIXELS", 20)
    assert len(check(case).launches) == 2


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
def test_forms_without_a_kernel_of_tensorflow(multiplier: int, dilation: int) -> None:
    """The reference kernels answer where TensorFlow's CPU kernels refuse."""
    x, w = floats(2, 9, 8, 4), floats(3, 2, 4, multiplier, seed=1)
    attrs = conv_attrs((1, 2), "EXPLICIT", (dilation, dilation), (3, 0, 1, 4))
    name = "DepthwiseConv2dNative"
    (y,) = find_reference(name)(node_spec(name, [x, w], attrs, x), [x, w])  # type: ignore[misc]
    dy = floats(*np.shape(y), seed=2)
    for op, arrays in (
        (name, [x, w]),
        (f"{name}BackpropInput", [np.array(x.shape, np.int32), w, dy]),
        (f"{name}BackpropFilter", [x, np.array(w.shape, np.int32), dy]),
    ):
        (wanted,) = find_reference(op)(node_spec(op, arrays, attrs, x), arrays)  # type: ignore[misc]
        spec = node_spec(op, arrays, attrs, np.asarray(wanted))
        (found,), _ = run_call(find_builder(op)(spec), arrays, spec.outputs)  # type: ignore[misc]
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_channels_first() -> None:
    x, w = floats(2, 3, 7, 6), floats(3, 3, 3, 2, seed=1)
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NCHW"}
    name = "DepthwiseConv2dNative"
    (y,) = (np.asarray(v) for v in find_reference(name)(node_spec(name, [x, w], attrs, x), [x, w]))  # type: ignore[misc]
    (found,), _ = run_call(
        find_builder(name)(node_spec(name, [x, w], attrs, y)), [x, w], [tensor(y)]
    )  # type: ignore[misc]
    np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("multiplier", [1, 2])
def test_filter_gradient_in_planes(multiplier: int) -> None:
    x, dy = floats(2, 7, 6, 3), floats(2, 4, 3, 3 * multiplier, seed=1)
    sizes = np.array((3, 2, 3, multiplier), np.int32)
    op = "DepthwiseConv2dNativeBackpropFilter"
    check_in_planes(op, [x, sizes, dy], conv_attrs((2, 2), "SAME"))


def test_compiled_code() -> None:
    x, w = TensorSpec(d.float32, (32, 56, 56, 64)), TensorSpec(d.float32, (3, 3, 64, 1))
    attrs = {"strides": (1, 1, 1, 1), "padding": b"SAME", "dilations": (1, 1, 1, 1)}
    spec = NodeSpec("n", "DepthwiseConv2dNative", attrs, (x, w), (x,))
    for ptx in call_ptx(find_builder(spec.op)(spec)).values():  # type: ignore[misc]
        assert len(re.findall(VECTOR_LOAD, ptx)) >= 2
