"""Convolutions by a library, with kernels around its routines, against the references."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests import hardware
from tests.kernels.cuda.harness import run_call
from tests.kernels.cuda.libraries.fake_cudnn import Engine, FakeCudnn
from tests.kernels.cuda.libraries.form_runs import DeviceWithCudnn, kinds_of, run_form
from tests.kernels.cuda.tiny_tiles import TINY, floats
from tests.kernels.groups import GroupBuilder
from tests.kernels.launching import tensor
from tests.kernels.nn_cases import conv_attrs, node_spec
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.conv import conv, library_forms
from tfjit.kernels.cuda.fused import group_call
from tfjit.kernels.cuda.libraries.convolution_problem import ConvolutionProblem
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.ir.fused_group import FusedGroup, Ref
from tfjit.kernels.registry import (
    LibraryForm,
    LibraryLaunch,
    NativeCall,
    NodeSpec,
    TensorSpec,
    find_reference,
)
from tfjit.runtime.offload.library_forms import chosen_form


@pytest.fixture(autouse=True)
def no_size_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_forms, "_LEAST_WORK", 0)
    monkeypatch.setattr(library_forms, "pays", lambda *_: True)
    monkeypatch.setattr(library_forms, "is_installed", lambda _: True)


def built(op: str, arrays: list[np.ndarray], attrs: dict[str, Any], known: tuple[int, ...] = ()) -> tuple[NativeCall, np.ndarray]:  # fmt: skip
    """The call of a node, and the reference's answer."""
    kernel, builder = find_reference(op), find_builder(op)
    assert kernel is not None and builder is not None
    wanted = np.asarray(kernel(node_spec(op, arrays, attrs, arrays[0]), list(arrays))[0])
    return builder(node_spec(op, arrays, attrs, wanted, known)), wanted


def problem_in(form: LibraryForm) -> ConvolutionProblem:
    (found,) = (one.problem for one in form.launches if isinstance(one, LibraryLaunch))
    assert isinstance(found, ConvolutionProblem)
    return found


def check(op: str, arrays: list[np.ndarray], attrs: dict[str, Any], known: tuple[int, ...] = ()) -> LibraryForm:  # fmt: skip
    """The only form of a node gives the reference's answer."""
    call, wanted = built(op, arrays, attrs, known)
    (form,) = call.library_forms
    (found,) = run_form(form, arrays, [tensor(wanted)])
    scale = max(1.0, float(np.abs(wanted.astype(np.float64)).max()))
    # TF32 keeps 10 bits of mantissa, bfloat16 7
    eps = {2: 2e-2, 4: 4e-3 if hardware.is_chosen() else 1e-5, 8: 1e-12}[wanted.dtype.itemsize]
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=eps, atol=eps * scale
    )
    return form


def drawn(seed: int) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Images and filter of a random convolution, with its attrs."""
    choose, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = d.as_dtype(choose.choice(["float32", "float32", "float64", "float16", "bfloat16"]))
    taps = choose.randint(1, 4), choose.randint(1, 4)
    dilations = choose.choice([(1, 1), (1, 1), (2, 1), (1, 3)])
    extents = [(n - 1) * s + 1 for n, s in zip(taps, dilations)]
    sizes = [n + choose.randint(0, 6) for n in extents]
    strides = (1, 1) if max(dilations) > 1 else (choose.randint(1, 3), choose.randint(1, 3))
    padding = choose.choice(["SAME", "VALID", "EXPLICIT"])
    pads = tuple(choose.randint(0, 3) for _ in range(4)) if padding == "EXPLICIT" else None
    channels = choose.choice([1, 3, 8, 9]), choose.choice([1, 4, 10])
    x = numbers.standard_normal((choose.randint(1, 3), *sizes, channels[0]))
    w = numbers.standard_normal((*taps, *channels))
    kind = dtype.as_numpy_dtype
    attrs = conv_attrs(strides, padding, dilations, *(() if pads is None else (pads,)))
    return [x.astype(kind), w.astype(kind)], attrs


@pytest.mark.parametrize("seed", range(24))
def test_random_convolutions_and_gradients(seed: int) -> None:
    (x, w), attrs = drawn(seed)
    call, y = built("Conv2D", [x, w], attrs)
    if not call.library_forms:  # a pointwise convolution is a product
        assert w.shape[:2] == (1, 1)
        return
    check("Conv2D", [x, w], attrs, (1,) if seed % 2 else ())
    dy = np.random.default_rng(seed).standard_normal(y.shape).astype(y.dtype)
    sizes = np.array(x.shape, np.int32)
    check("Conv2DBackpropInput", [sizes, w, dy], attrs, (0, 1) if seed % 2 else (0,))
    check("Conv2DBackpropFilter", [x, np.array(w.shape, np.int32), dy], attrs, (1,))


@pytest.mark.parametrize("seed", range(6))
def test_channels_first(seed: int) -> None:
    """The answer is that of transposed images."""
    (x, w), attrs = drawn(100 + seed)
    kernel = find_reference("Conv2D")
    assert kernel is not None
    wanted = np.asarray(kernel(node_spec("Conv2D", [x, w], attrs, x), [x, w])[0])
    images, results = (np.ascontiguousarray(a.transpose(0, 3, 1, 2)) for a in (x, wanted))
    spec = node_spec("Conv2D", [images, w], first(attrs), results)
    (form,) = find_builder("Conv2D")(spec).library_forms  # type: ignore[misc]
    assert not problem_in(form).channels_last
    (found,) = run_form(form, [images, w], [tensor(results)])
    eps = 5e-2 if x.dtype.itemsize == 2 else 1e-2 if hardware.is_chosen() else 1e-4
    np.testing.assert_allclose(
        found.astype(np.float64), results.astype(np.float64), rtol=eps, atol=eps
    )


def first(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attrs of NHWC as those of NCHW."""
    held = {"data_format": "NCHW"}
    for name, values in attrs.items():
        if name in ("strides", "dilations"):
            held[name] = [values[k] for k in (0, 3, 1, 2)]
        elif name == "explicit_paddings":
            held[name] = [*values[:2], *values[6:], *values[2:6]]
        elif name != "data_format":
            held[name] = values
    return held


def test_filters_are_transposed_by_a_kernel_unless_they_are_known() -> None:
    x, w = np.ones((1, 5, 6, 3), np.float32), np.ones((3, 3, 3, 4), np.float32)
    attrs = conv_attrs((1, 1), "SAME")
    form = check("Conv2D", [x, w], attrs)
    assert kinds_of(form)[1:] == ["routine"] and "copy" in kinds_of(form)[0]
    form = check("Conv2D", [x, w], attrs, (1,))
    assert kinds_of(form) == ["routine"]
    (held,) = form.constants
    assert held.shape == (4, 3, 3, 3) and held.flags.c_contiguous


def test_uneven_padding_of_strides() -> None:
    x, w = np.ones((1, 6, 6, 3), np.float32), np.ones((3, 3, 3, 4), np.float32)
    problem = problem_in(check("Conv2D", [x, w], conv_attrs((2, 2), "SAME")))
    assert (problem.before, problem.after, problem.out) == ((0, 0), (1, 1), (3, 3))


def test_pointwise_convolutions_stay_products() -> None:
    x, w = np.ones((1, 5, 6, 3), np.float32), np.ones((1, 1, 3, 4), np.float32)
    call, _ = built("Conv2D", [x, w], conv_attrs((1, 1), "SAME"))
    assert not any(
        isinstance(one, LibraryLaunch) and isinstance(one.problem, ConvolutionProblem)
        for form in call.library_forms
        for one in form.launches
    )


def test_small_convolutions_keep_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(library_forms, "is_installed", lambda _: True)
    monkeypatch.setattr(library_forms, "allows_tf32", lambda: True)  # off on hardware
    attrs = {"strides": (1, 1, 1, 1), "padding": b"SAME", "dilations": (1, 1, 1, 1)}

    def forms(size: int) -> int:
        x, w = (TensorSpec(d.float32, s) for s in ((1, size, size, 64), (3, 3, 64, 64)))
        builder = find_builder("Conv2D")
        assert builder is not None
        return len(builder(NodeSpec("n", "Conv2D", attrs, (x, w), (x,))).library_forms)

    assert [forms(size) for size in (0, 8, 56)] == [0, 0, 1]
    monkeypatch.setattr(library_forms, "is_installed", lambda _: False)
    assert forms(56) == 0


# epilogues


class Layer:
    """A convolution of [2, 6, 5, 4] with 8 filters, and operands of its results."""

    def __init__(self, dtype: Any = np.float32) -> None:
        numbers = np.random.default_rng(5)
        shapes = (2, 6, 5, 4), (3, 3, 4, 8), (8,), (2, 6, 5, 8)
        arrays = [numbers.integers(-2, 3, shape).astype(dtype) for shape in shapes]
        self.attrs = conv_attrs((1, 1), "SAME")
        _, wanted = built("Conv2D", arrays[:2], self.attrs)
        self.b = GroupBuilder(*arrays)
        held = {k: v.encode() if isinstance(v, str) else tuple(v) for k, v in self.attrs.items()}
        self.product = self.b.op("Conv2D", self.b.input(0), self.b.input(1), value=wanted, **held)

    def biased(self, ref: Ref) -> Ref:
        value = self.b.values[ref] + self.b.arrays[2]
        return self.b.op("BiasAdd", ref, self.b.input(2), value=value)

    def group(self, *outputs: Ref) -> FusedGroup:
        return replace(self.b.group(*outputs), kind="conv2d")

    def check(self, *outputs: Ref, number: int = 0, known: tuple[int, ...] = ()) -> LibraryForm:
        group = self.group(*outputs)
        call = group_call(group, {k: self.b.arrays[k] for k in known})
        form = call.library_forms[number]
        found = run_form(form, self.b.arrays, [group.tensor(ref) for ref in group.outputs])
        for ref, result in zip(outputs, found, strict=True):
            # small whole numbers: sums are exact
            np.testing.assert_array_equal(result, self.b.values[ref])
        return form


def test_bias_and_activation_are_the_routines() -> None:
    layer = Layer()
    relu = layer.b.op("Relu", layer.biased(layer.product))
    form = layer.check(relu)
    assert problem_in(form).epilogue == ("bias", "relu")
    assert kinds_of(layer.check(relu, known=(1,))) == ["routine"]
    # the second form has a kernel behind the routine
    form = layer.check(relu, number=1)
    assert problem_in(form).epilogue == () and kinds_of(form)[1] == "routine"
    assert len(form.launches) == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_residuals_are_added_before_the_bias(dtype: Any) -> None:
    layer = Layer(dtype)
    added = layer.b.op("AddV2", layer.b.input(3), layer.biased(layer.product))
    form = layer.check(layer.b.op("Relu", added), known=(1,))
    assert problem_in(form).epilogue == ("add", "bias", "relu")
    assert problem_in(layer.check(added)).epilogue == ("add", "bias")


def test_bias_alone() -> None:
    layer = Layer()
    assert problem_in(layer.check(layer.biased(layer.product))).epilogue == ("bias",)


def test_other_epilogues_are_a_kernel_behind_the_routine() -> None:
    layer = Layer()
    biased = layer.biased(layer.product)
    for outputs in (
        (layer.b.op("Tanh", layer.b.op("Mul", biased, layer.b.input(3))),),
        (layer.b.op("Relu", layer.b.op("AddV2", layer.b.op("Relu", biased), layer.b.input(3))),),
    ):
        group = layer.group(*outputs)
        (form,) = group_call(group, {}).library_forms
        (found,) = run_form(form, layer.b.arrays, [group.tensor(outputs[0])])
        np.testing.assert_allclose(found, layer.b.values[outputs[0]], rtol=1e-5, atol=1e-6)
        assert problem_in(form).epilogue == ()


def test_several_results_of_a_group() -> None:
    layer = Layer()
    relu = layer.b.op("Relu", layer.biased(layer.product))
    form = layer.check(relu, layer.product)
    assert problem_in(form).epilogue == () and len(form.launches) == 3
    # the product is written to its place at once
    (routine,) = (one for one in form.launches if isinstance(one, LibraryLaunch))
    assert getattr(routine.words[2], "kind", "") == "out"


def test_relu_of_nan() -> None:
    layer = Layer()
    layer.b.arrays[2][3] = np.nan
    relu = layer.b.op("Relu", layer.biased(layer.product))
    group = layer.group(relu)
    (found,) = run_form(
        group_call(group, {}).library_forms[0], layer.b.arrays, [group.tensor(relu)]
    )
    assert np.isnan(found[..., 3]).all() and not np.isnan(found[..., :3]).any()


@pytest.mark.simulator
def test_a_library_without_a_plan_leaves_the_text() -> None:
    layer = Layer()
    call = group_call(layer.group(layer.b.op("Relu", layer.biased(layer.product))), {})
    fake = FakeCudnn()
    device = DeviceWithCudnn(fake)
    assert chosen_form(call, device) is not call
    fake.rankings = {3: [Engine(plans=False)], 2: []}
    assert chosen_form(call, device) is call


IN_PLANES = (
    ((1, 1), "SAME", (1, 1), ()),
    ((2, 3), "SAME", (1, 1), ()),
    ((1, 2), "EXPLICIT", (1, 1), (2, 0, 1, 3)),
    ((1, 1), "VALID", (2, 1), ()),
)


def in_planes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def reference(op: str, arrays: list[np.ndarray], attrs: dict[str, Any]) -> np.ndarray:
    kernel = find_reference(op)
    assert kernel is not None
    return np.asarray(kernel(node_spec(op, arrays, attrs, arrays[-1]), arrays)[0])


@pytest.mark.parametrize("form", IN_PLANES, ids=str)
@pytest.mark.parametrize("op", ["Conv2DBackpropInput", "Conv2DBackpropFilter"])
def test_gradients_in_planes(
    op: str, form: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conv, "choose", lambda *sizes: TINY)
    x, w = floats(2, 7, 6, 4), floats(3, 2, 4, 6, seed=1)
    attrs = conv_attrs(*form)
    dy = floats(*reference("Conv2D", [x, w], attrs).shape, seed=2)
    if op == "Conv2DBackpropInput":
        last = [np.array(x.shape, np.int32), w, dy]
        given = [np.array(in_planes(x).shape, np.int32), w, in_planes(dy)]
        wanted = in_planes(reference(op, last, attrs))
    else:
        last = [x, np.array(w.shape, np.int32), dy]
        given = [in_planes(x), last[1], in_planes(dy)]
        wanted = reference(op, last, attrs)
    spec = node_spec(op, given, first(attrs), wanted)
    call = find_builder(op)(spec)  # type: ignore[misc]
    (found,), _ = run_call(call, given, [tensor(wanted)])
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    (library,) = call.library_forms
    # the images stay as they are; the filter alone is in another order
    assert sorted(kinds_of(library)).index("routine") == 1 and len(library.launches) == 2
    (found,) = run_form(library, given, [tensor(wanted)])
    near = 1e-2 if hardware.is_chosen() else 2e-5
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near)
