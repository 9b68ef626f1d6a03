"""Winograd convolutions: values against TensorFlow and float64, error beside the direct form's,
NaN, chunks, when it is chosen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.conv import conv, winograd
from tfjit.kernels.cpu.conv.window import make_window
from tfjit.kernels.cpu.gemm.micro_kernels import tile_of
from tfjit.kernels.cpu.reference.layers.convolution import convolve
from tfjit.kernels.registry import NativeCall, TensorSpec, find_native, find_reference


def _forced(*args: Any) -> bool:
    return all((w.size, w.stride, w.dilation) == (3, 1, 1) for w in args[2:4])


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's form wherever it is possible."""
    monkeypatch.setattr(winograd, "pays", _forced)


def _uses_winograd(call: NativeCall) -> bool:
    return any("winograd" in launch.source.title for launch in call.launches)


SHAPES = (
    # input, filter, padding, explicit
    ((1, 8, 8, 1), (3, 3, 1, 16), "SAME", ()),
    ((3, 4, 4, 16), (3, 3, 16, 32), "SAME", ()),
    ((1, 9, 12, 5), (3, 3, 5, 7), "EXPLICIT", (0, 2, 1, 3)),
    ((1, 3, 30, 2), (3, 3, 2, 65), "SAME", ()),
    ((2, 9, 10, 6), (3, 3, 6, 1), "SAME", ()),
    ((2, 3, 3, 7), (3, 3, 7, 9), "VALID", ()),
    ((1, 1, 1, 3), (3, 3, 3, 4), "SAME", ()),
    ((2, 40, 6, 9), (3, 3, 9, 40), "VALID", ()),
    ((1, 7, 7, 512), (3, 3, 512, 48), "SAME", ()),
    ((1, 6, 5, 8), (3, 3, 8, 17), "EXPLICIT", (5, 4, 6, 7)),
)


@pytest.mark.parametrize("constants", [(1,), ()], ids=["constant filter", "variable filter"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("x", "w", "padding", "explicit"), SHAPES, ids=str)
def test_equals_tensorflow(
    always: None,
    x: Any,
    w: Any,
    padding: str,
    explicit: Any,
    dtype: str,
    constants: tuple[int, ...],
) -> None:
    case = Case("Conv2D", (x, w), nn_cases.conv_attrs((1, 1), padding, (1, 1), explicit), dtype)
    assert _uses_winograd(
        native_nn.build(case, case.arrays(), np.zeros((1, 1, 1, 1), dtype), constants)
    )
    native_nn.check(case, constants=constants)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("x_shape", "w_shape", "padding", "explicit"), SHAPES, ids=str)
def test_input_gradient(
    always: None,
    x_shape: Any,
    w_shape: Any,
    padding: str,
    explicit: Any,
    dtype: str,
    constant: bool,
) -> None:
    rng = np.random.default_rng(7)
    attrs = nn_cases.conv_attrs((1, 1), padding, (1, 1), explicit)
    w = rng.standard_normal(w_shape).astype(dtype)
    x = np.zeros(x_shape, dtype)
    (y,) = find_reference("Conv2D")(nn_cases.node_spec("Conv2D", [x, w], attrs, x), [x, w])  # type: ignore[misc]
    arrays = [np.array(x_shape, np.int32), w, rng.standard_normal(np.shape(y)).astype(dtype)]
    exact = [arrays[0], w.astype(np.float64), arrays[2].astype(np.float64)]
    op = "Conv2DBackpropInput"
    (wanted,) = find_reference(op)(
        nn_cases.node_spec(op, exact, attrs, x.astype(np.float64)), exact
    )  # type: ignore[misc]
    call = find_native(op)(nn_cases.node_spec(op, arrays, attrs, x, (1,) if constant else ()))  # type: ignore[misc]
    assert _uses_winograd(call)
    runner = NativeRunner(call, arrays, native_nn.specs(x))
    terms = 9 * w_shape[3]
    for chunks, threads in ((1, False), (3, False), (None, True)):
        (found,) = runner.run(chunks, threads)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2 * np.finfo(dtype).eps * terms)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("tap", range(9))
def test_a_filter_that_is_not_finite(always: None, value: float, tap: int) -> None:
    rng = np.random.default_rng(6)
    x, w = (
        rng.standard_normal((2, 6, 7, 5)).astype(np.float32),
        rng.standard_normal((3, 3, 5, 21)).astype(np.float32),
    )
    w[tap // 3, tap % 3, 2, 4] = value
    wanted = nn_cases.run_tensorflow("Conv2D", [x, w], nn_cases.conv_attrs((1, 1), "VALID"))
    call = conv.conv2d_call(native_nn.specs(x, w), padding="VALID")
    (found,) = NativeRunner(call, [x, w], [TensorSpec(dtypes.float32, wanted.shape)]).run(1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(1, 70),
    st.sampled_from(["SAME", "VALID"]),
)
def test_random_shapes(
    batch: int, height: int, width: int, channels: int, out_channels: int, padding: str
) -> None:
    if padding == "VALID":
        height, width = height + 2, width + 2
    rng = np.random.default_rng(height * 100 + width)
    x = rng.standard_normal((batch, height, width, channels)).astype(np.float32)
    w = rng.standard_normal((3, 3, channels, out_channels)).astype(np.float32)
    windows = [make_window(n, 3, 1, 1, padding) for n in (height, width)]
    wanted = convolve(x.astype(np.float64), w.astype(np.float64), *windows)
    # rounding follows the terms of a tile, of whatever sign: measured up to 1.8 eps of their sum,
    # for one channel
    largest = convolve(np.abs(x).astype(np.float64), np.abs(w).astype(np.float64), *windows).max()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "pays", _forced)
        call = conv.conv2d_call(native_nn.specs(x, w), padding=padding, constants={1: w})
    assert _uses_winograd(call)
    runner = NativeRunner(call, [x, w], [TensorSpec(dtypes.float32, wanted.shape)])
    for chunks, threads in ((1, False), (3, False), (None, True)):
        runner.outputs[0].view(np.uint8)[...] = 0xFF
        (found,) = runner.run(chunks, threads)
        np.testing.assert_allclose(
            found, wanted, rtol=0, atol=3 * np.finfo(np.float32).eps * largest
        )


@pytest.mark.parametrize("name", native_nn.EPILOGUES)
@pytest.mark.parametrize(
    ("x_shape", "w_shape"),
    [
        ((2, 33, 9, 20), (3, 3, 20, 50)),
        ((1, 7, 7, 70), (3, 3, 70, 200)),
        ((3, 5, 6, 8), (3, 3, 8, 3)),
    ],
    ids=str,
)
def test_epilogues(
    always: None, name: str, x_shape: tuple[int, ...], w_shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(3)
    epilogue = native_nn.EPILOGUES[name]
    x, w = (
        rng.standard_normal(x_shape).astype(np.float32),
        rng.standard_normal(w_shape).astype(np.float32),
    )
    product = convolve(
        x.astype(np.float64),
        w.astype(np.float64),
        *(make_window(n, 3, 1, 1, "SAME") for n in x_shape[1:3]),
    )
    operands = native_nn.operands_of(epilogue, product.shape, rng)
    inputs = [x, w, *operands]
    wanted = native_nn.expected(epilogue, product, operands)
    for constants in (
        {1: w},
        {i: v for i, v in enumerate(inputs) if i and v.shape != product.shape},
    ):
        call = conv.conv2d_call(native_nn.specs(*inputs), epilogue=epilogue, constants=constants)
        assert _uses_winograd(call)
        native_nn.check_epilogue(name, call, inputs, wanted)


@pytest.mark.parametrize("width", [6, 33])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_what_is_not_finite_stays_in_its_windows(always: None, value: float, width: int) -> None:
    rng = np.random.default_rng(5)
    x, w = (
        rng.standard_normal((2, width, 7, 5)).astype(np.float32),
        rng.standard_normal((3, 3, 5, 21)).astype(np.float32),
    )
    x[0, 2, 3, 1] = value
    x[1, 5, 6, 0] = value
    attrs = nn_cases.conv_attrs((1, 1), "SAME")
    wanted = nn_cases.run_tensorflow("Conv2D", [x, w], attrs)
    call = conv.conv2d_call(native_nn.specs(x, w), constants={1: w})
    for chunks in (1, None):
        (found,) = NativeRunner(call, [x, w], [TensorSpec(dtypes.float32, wanted.shape)]).run(
            chunks
        )
        with np.errstate(invalid="ignore"):
            far = np.abs(wanted) < 1e3
            np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
            np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
            np.testing.assert_array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
            if not np.isfinite(value):
                np.testing.assert_allclose(found[far], wanted[far], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("channels", [16, 64, 256])
def test_error_is_like_that_of_the_direct_form(
    always: None, channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(channels)
    x = rng.standard_normal((1, 16, 16, channels)).astype(np.float32)
    w = rng.standard_normal((3, 3, channels, 32)).astype(np.float32)
    wanted = convolve(
        x.astype(np.float64), w.astype(np.float64), *[make_window(16, 3, 1, 1, "SAME")] * 2
    )
    calls = [conv.conv2d_call(native_nn.specs(x, w), constants={1: w})]
    monkeypatch.setattr(winograd, "pays", lambda *args: False)
    calls.append(conv.conv2d_call(native_nn.specs(x, w), constants={1: w}))
    assert [_uses_winograd(call) for call in calls] == [True, False]
    errors = [
        np.abs(
            NativeRunner(c, [x, w], [TensorSpec(dtypes.float32, wanted.shape)]).run()[0] - wanted
        ).max()
        for c in calls
    ]
    tensorflow = np.abs(
        nn_cases.run_tensorflow("Conv2D", [x, w], nn_cases.conv_attrs((1, 1), "SAME")) - wanted
    ).max()
    assert errors[0] < 3 * max(errors[1], tensorflow), (errors, tensorflow)


def test_chosen_by_cost_and_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def uses(x: tuple[int, ...], w: tuple[int, ...], constant: bool = True, **options: Any) -> bool:
        value = np.ones(w, np.float32)
        call = conv.conv2d_call(
            (TensorSpec(dtypes.float32, x), TensorSpec(dtypes.float32, w)),
            constants={1: value} if constant else {},
            **options,
        )
        return _uses_winograd(call)

    assert uses((1, 56, 56, 64), (3, 3, 64, 64))
    assert uses((1, 14, 14, 256), (3, 3, 256, 256))
    assert uses((1, 56, 56, 64), (3, 3, 64, 64), constant=False)
    side = 7 if tile_of(dtypes.float32).fused else 2  # where products are slower, fewer of them
    # the filter's transform would take longer than the products
    assert not uses((1, side, side, 512), (3, 3, 512, 512), constant=False)
    assert not uses((1, 56, 56, 64), (3, 3, 64, 64), strides=(2, 2))
    assert not uses((1, 56, 56, 64), (3, 3, 64, 64), dilations=(2, 2))
    assert not uses((1, 56, 56, 64), (5, 5, 64, 64))
    assert not uses((1, 56, 56, 64), (3, 3, 32, 64))  # two groups
    assert not uses((1, 28, 28, 1), (3, 3, 1, 32))
    assert not uses((1, 2, 2, 1024), (3, 3, 1024, 1024))  # a single tile reads 64 MiB of filters
    monkeypatch.setenv("TFJIT_WINOGRAD", "0")
    assert not uses((1, 56, 56, 64), (3, 3, 64, 64))


def test_a_filter_that_is_not_finite_is_left_to_the_direct_form() -> None:
    window = make_window(56, 3, 1, 1, "SAME")
    w = np.ones((3, 3, 64, 64), np.float32)
    tile = tile_of(dtypes.float32)
    assert winograd.pays(tile, 1, window, window, 64, 64, w, 1e9)
    w[1, 1, 3, 4] = np.inf
    assert not winograd.pays(tile, 1, window, window, 64, 64, w, 1e9)


def test_kernels_do_not_depend_on_sizes(always: None) -> None:
    def sources(x: tuple[int, ...], w: tuple[int, ...]) -> set[str]:
        call = conv.conv2d_call(
            (TensorSpec(dtypes.float32, x), TensorSpec(dtypes.float32, w)),
            constants={1: np.ones(w, np.float32)},
        )
        return {s.digest for s in call.sources()}

    assert sources((9, 20, 21, 16), (3, 3, 16, 32)) == sources((4, 30, 31, 64), (3, 3, 64, 96))
