"""Convolutions of GPUs and their gradients against TensorFlow, in the simulator."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import nn_cases
from tests.kernels.cuda.conv.oracle import check, check_in_planes
from tests.kernels.cuda.harness import VECTOR_LOAD, call_ptx, run_call
from tests.kernels.cuda.linked import resources
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import Case, conv_attrs, node_spec
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.conv.window import Layout
from tfjit.kernels.cuda.conv import conv
from tfjit.kernels.cuda.conv.conv import convolution_call
from tfjit.kernels.cuda.gemm import matmul
from tfjit.kernels.cuda.gemm.tiles import Plan
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported, find_reference


def is_grouped(case: Case) -> bool:
    x, w = case.shapes[:2]
    return x[3] != w[2]


def dense(cases: tuple[Case, ...], op: str) -> list[Case]:
    found = [case for case in cases if case.op == op and not is_grouped(case)]
    # every form in float32, some in float64
    return [c for k, c in enumerate(found) if c.dtype == "float32" or k % 4 == 1]


@pytest.fixture(autouse=True)
def tiny_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (conv, matmul):
        monkeypatch.setattr(module, "choose", lambda *sizes: TINY)


@pytest.mark.parametrize("case", dense(nn_cases.conv_cases(), "Conv2D"), ids=str)
def test_convolution_equals_tensorflow(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", dense(nn_cases.conv_grad_cases(), "Conv2DBackpropInput"), ids=str)
def test_input_gradient_equals_tensorflow(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(
    "case", dense(nn_cases.conv_grad_cases(), "Conv2DBackpropFilter")[::2], ids=str
)
def test_filter_gradient_equals_tensorflow(
    case: Case, splits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "choose", lambda *sizes: Plan(TINY.tile, splits))
    check(case)


@pytest.mark.parametrize("channels", [3, 4, 8])
def test_strided_input_gradient_with_split_sums(
    channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "choose", lambda *sizes: Plan(TINY.tile, 2))
    check(
        Case(
            "Conv2DBackpropInput", ((2, 5, 7, channels), (3, 2, channels, 8), (2, 3, 4, 8)),
            conv_attrs((2, 2), "SAME"), ints=(0,),
        )
    )  # fmt: skip


def test_strides_longer_than_the_window() -> None:
    # input pixels that no window reads have the gradient 0
    check(
        Case(
            "Conv2DBackpropInput", ((1, 8, 9, 4), (1, 2, 4, 3), (1, 3, 3, 3)),
            conv_attrs((3, 3), "VALID"), ints=(0,),
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("x", "w", "strides", "padding", "dilations"),
    [
        ((2, 3, 9, 7), (3, 2, 3, 5), (1, 1), "VALID", (1, 1)),
        ((1, 4, 8, 9), (3, 3, 4, 6), (2, 2), "SAME", (1, 1)),
        ((2, 4, 9, 8), (3, 3, 4, 4), (1, 1), "SAME", (2, 1)),
        ((2, 5, 4, 4), (1, 1, 5, 8), (1, 1), "SAME", (1, 1)),
    ],
)
def test_channels_first(
    x: tuple[int, ...], w: tuple[int, ...], strides: tuple[int, int], padding: str,
    dilations: tuple[int, int],
) -> None:  # fmt: skip
    """TensorFlow's CPU kernels take NHWC only: the answer is that of transposed images."""
    images, filters = floats(*x), floats(*w, seed=1)
    attrs = conv_attrs(strides, padding, dilations)
    last = np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    wanted = nn_cases.run_tensorflow("Conv2D", [last, filters], attrs).transpose(0, 3, 1, 2)
    first = {name: [v[0], v[3], v[1], v[2]] for name, v in attrs.items() if name != "padding"}
    held = {**first, "padding": padding, "data_format": "NCHW"}
    spec = node_spec("Conv2D", [images, filters], held, wanted)
    call = find_builder("Conv2D")(spec)  # type: ignore[misc]
    (found,), _ = run_call(call, [images, filters], [tensor(np.ascontiguousarray(wanted))])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("strides", "padding", "pads", "channels"),
    [
        ((1, 1), "SAME", (), 4), ((2, 1), "VALID", (), 3), ((2, 2), "SAME", (), 1),
        ((1, 2), "EXPLICIT", (3, 0, 1, 4), 5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("op", ["Conv2DBackpropInput", "Conv2DBackpropFilter"])
def test_gradients_in_planes(
    op: str, strides: tuple[int, int], padding: str, pads: tuple[int, ...], channels: int
) -> None:
    x, w = floats(2, 7, 6, channels), floats(3, 2, channels, 6, seed=1)
    attrs = conv_attrs(strides, padding, (1, 1), *([pads] if pads else []))
    (y,) = find_reference("Conv2D")(node_spec("Conv2D", [x, w], attrs, x), [x, w])  # type: ignore[misc]
    dy = floats(*np.shape(y), seed=2)
    makes_filter = op.endswith("Filter")
    arrays = [x, np.array(w.shape, np.int32)] if makes_filter else [np.array(x.shape, np.int32), w]
    check_in_planes(op, [*arrays, dy], attrs)


def test_no_gradient_in_planes() -> None:
    x, w = floats(0, 5, 5, 3), floats(2, 2, 3, 4)
    sizes = np.array(x.shape, np.int32)
    attrs = conv_attrs((1, 1), "SAME")
    call = check_in_planes("Conv2DBackpropInput", [sizes, w, floats(0, 5, 5, 4)], attrs)
    assert call.launches == ()


@pytest.mark.parametrize("dtype", [np.float16])
def test_half_floats(dtype: type) -> None:
    x, w = floats(1, 5, 6, 8, dtype=dtype), floats(3, 3, 8, 4, seed=1, dtype=dtype)
    attrs = conv_attrs((1, 1), "SAME")
    wide = nn_cases.run_tensorflow("Conv2D", [x.astype(np.float32), w.astype(np.float32)], attrs)
    spec = node_spec("Conv2D", [x, w], attrs, wide.astype(dtype))
    (found,), _ = run_call(find_builder("Conv2D")(spec), [x, w], spec.outputs)  # type: ignore[misc]
    np.testing.assert_allclose(found, wide, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dilation", [1, 2])
def test_explicit_padding_of_gradients(dilation: int) -> None:
    """TensorFlow's CPU kernels refuse some of these: the reference kernels answer."""
    x, w = floats(2, 11, 9, 4), floats(3, 2, 4, 6, seed=1)
    strides = (1, 1) if dilation > 1 else (1, 2)
    attrs = conv_attrs(strides, "EXPLICIT", (dilation, dilation), (3, 0, 1, 4))
    (y,) = find_reference("Conv2D")(node_spec("Conv2D", [x, w], attrs, x), [x, w])  # type: ignore[misc]
    dy = floats(*np.shape(y), seed=2)
    for op, arrays in (
        ("Conv2DBackpropInput", [np.array(x.shape, np.int32), w, dy]),
        ("Conv2DBackpropFilter", [x, np.array(w.shape, np.int32), dy]),
    ):
        (wanted,) = find_reference(op)(node_spec(op, arrays, attrs, x), arrays)  # type: ignore[misc]
        spec = node_spec(op, arrays, attrs, np.asarray(wanted))
        (found,), _ = run_call(find_builder(op)(spec), arrays, spec.outputs)  # type: ignore[misc]
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("op", ["Conv2DBackpropInput", "Conv2DBackpropFilter"])
def test_gradients_of_pointwise_convolutions_are_products(op: str) -> None:
    shapes = (2, 5, 7, 8), (1, 1, 8, 6), (2, 5, 7, 6)
    case = Case(op, shapes, conv_attrs((1, 1), "SAME"), ints=(0,) if op.endswith("Input") else (1,))
    titles = [launch.source.title for launch in check(case).launches]
    assert all("product" in title or "sum" in title for title in titles), titles
    assert not any("patch" in title for title in titles)


def test_forms_without_a_kernel() -> None:
    x, w = floats(1, 6, 7, 4), floats(1, 1, 2, 8)
    builder = find_builder("Conv2D")
    assert builder is not None
    spec = node_spec("Conv2D", [x, w], conv_attrs((1, 1), "SAME"), floats(1, 6, 7, 8))
    with pytest.raises(Unsupported, match="groups of 2 of 4 channels"):
        builder(spec)
    ints = TensorSpec(d.int32, x.shape), TensorSpec(d.int32, w.shape)
    with pytest.raises(Unsupported, match="int32"):
        builder(replace(spec, inputs=ints))


def large(op: str) -> NodeSpec:
    """A node of ResNet-50's middle, batch 32."""
    x, w = TensorSpec(d.float32, (32, 28, 28, 128)), TensorSpec(d.float32, (3, 3, 128, 128))
    sizes = TensorSpec(d.int32, (4,))
    attrs = {"strides": (1, 1, 1, 1), "padding": b"SAME", "dilations": (1, 1, 1, 1)}
    inputs = {"Conv2D": (x, w), "Conv2DBackpropInput": (sizes, w, x)}.get(op, (x, sizes, x))
    out = w if op.endswith("Filter") else x
    return NodeSpec("node", op, attrs, inputs, (out,))


def test_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    sources = []
    for op in ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"):
        call = find_builder(op)(large(op))  # type: ignore[misc]
        assert "128x128x8" in call.launches[0].source.title
        sources.append(call.launches[0].source)
    for found in resources(sources):
        # a few numbers of a slab's place leave the registers, so that two blocks fit
        assert found.local_bytes <= 96 and found.registers <= 128
    for ptx in call_ptx(find_builder("Conv2D")(large("Conv2D")), 0).values():  # type: ignore[misc]
        # Blackwell multiplies two numbers at a time
        assert ptx.count("fma.rn.f32 ") + 2 * ptx.count("fma.rn.f32x2") == 8 * 64
        assert len(re.findall(VECTOR_LOAD, ptx)) == 4
        assert "div.s64" not in ptx and "rem.s64" not in ptx


def test_no_pixels() -> None:
    layout = Layout(True, (1, 1), (1, 1), "SAME", ((0, 0), (0, 0)))
    x, w = TensorSpec(d.float32, (0, 5, 5, 3)), TensorSpec(d.float32, (3, 3, 3, 4))
    assert convolution_call([x, w], layout).launches == ()
