"""Compiled gradients of convolutions against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case, node_spec
from tfjit.kernels.cpu.conv.conv_grad import input_phases
from tfjit.kernels.cpu.conv.window import Window
from tfjit.kernels.registry import find_native, find_reference


@pytest.mark.parametrize("case", nn_cases.conv_grad_cases(), ids=str)
def test_gradient_equals_tensorflow(case: Case) -> None:
    native_nn.check(case)


@pytest.mark.parametrize(
    "case", [c for c in nn_cases.conv_grad_cases() if c.op.endswith("BackpropInput")][::2], ids=str
)
def test_input_gradient_with_a_constant_filter(case: Case) -> None:
    native_nn.check(case, constants=(1,))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(
    ("prefix", "w_shape"),
    [
        ("Conv2D", (3, 2, 6, 7)),
        ("Conv2D", (3, 2, 2, 9)),
        ("DepthwiseConv2dNative", (3, 2, 6, 1)),
        ("DepthwiseConv2dNative", (3, 2, 6, 2)),
    ],
)
def test_dilated_grouped_and_padded_gradients(
    prefix: str, w_shape: tuple[int, ...], dilation: int
) -> None:
    """TensorFlow's CPU kernels refuse some of these, so the reference, checked against TensorFlow
    elsewhere, is the oracle.
    """
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 11, 9, 6)).astype(np.float32)
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "stride"),
    [
        ((9, 28, 26, 1), (3, 3, 1, 32), 1),  # taps joined, several parts, blocks of rows
        # blocks of several images, the last one short; a narrow last panel
        ((9, 7, 7, 30), (3, 3, 30, 33), 1),
        ((3, 21, 20, 5), (5, 4, 5, 27), 2),  # a wide last panel that is not full
        ((2, 30, 31, 14), (1, 1, 14, 16), 1),
        ((2, 9, 8, 24), (3, 3, 8, 51), 1),  # groups
        # a window larger than the image: taps that no output reads
        ((1, 3, 2, 7), (5, 7, 7, 3), 1),
    ],
)
def test_filter_gradient_in_blocks_and_parts(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], stride: int, dtype: str
) -> None:
    """Against float64 sums by the reference. The sums walk at random: rounding of a chain of n
    terms has a deviation of about eps / 2 * n / sqrt(2), that of chains of 400 added up about eps /
    2 * sqrt(400 n / 2).
    """
    rng = np.random.default_rng(2)
    attrs = nn_cases.conv_attrs((stride, stride), "SAME")
    x = rng.standard_normal(x_shape)
    out = (x_shape[0], -(-x_shape[1] // stride), -(-x_shape[2] // stride), w_shape[3])
    dy = rng.standard_normal(out)
    arrays = [x.astype(dtype), np.array(w_shape, np.int32), dy.astype(dtype)]
    exact = [arrays[0].astype(np.float64), arrays[1], arrays[2].astype(np.float64)]
    (wanted,) = find_reference("Conv2DBackpropFilter")(  # type: ignore[misc]
        node_spec("Conv2DBackpropFilter", exact, attrs, np.zeros(w_shape)), exact
    )
    call = find_native("Conv2DBackpropFilter")(  # type: ignore[misc]
        node_spec("Conv2DBackpropFilter", arrays, attrs, np.zeros(w_shape, dtype))
    )
    runner = NativeRunner(call, arrays, native_nn.specs(np.zeros(w_shape, dtype)))
    (whole,) = (np.array(o) for o in runner.run(1))
    terms = out[0] * out[1] * out[2]
    deviation = np.finfo(dtype).eps / 2 * np.sqrt(min(terms, 400) * terms / 2)
    np.testing.assert_allclose(whole, wanted, rtol=0, atol=6 * deviation)
    for chunks, threads in ((2, True), (None, True)):
        (found,) = runner.run(chunks, threads)
        np.testing.assert_array_equal(found, whole)


def test_gradient_of_an_empty_batch_is_zero() -> None:
    x, dy = np.zeros((0, 5, 5, 2), np.float32), np.zeros((0, 5, 5, 3), np.float32)
    arrays = [x, np.array([3, 3, 2, 3], np.int32), dy]
    wanted = np.zeros((3, 3, 2, 3), np.float32)
    attrs = nn_cases.conv_attrs((1, 1), "SAME")
    call = find_native("Conv2DBackpropFilter")(
        node_spec("Conv2DBackpropFilter", arrays, attrs, wanted)
    )  # type: ignore[misc]
    (found,) = NativeRunner(call, arrays, native_nn.specs(wanted)).run()
    np.testing.assert_array_equal(found, wanted)


@settings(max_examples=200, deadline=None)
@given(
    length=st.integers(1, 20),
    size=st.integers(1, 7),
    stride=st.integers(1, 5),
    dilation=st.integers(1, 4),
    before=st.integers(0, 6),
    after=st.integers(0, 6),
)
def test_phases_sum_what_each_input_went_into(
    length: int, size: int, stride: int, dilation: int, before: int, after: int
) -> None:
    window = Window(length, size, stride, dilation, before, after)
    wanted: list[set[tuple[int, int]]] = [set() for _ in range(length)]
    for o in range(window.out):
        for t in range(size):
            i = o * stride + t * dilation - before
            if 0 <= i < length:
                wanted[i].add((o, t))
    found: list[set[tuple[int, int]]] = [set() for _ in range(length)]
    for start, phase in enumerate(input_phases(window)):
        if phase is None:
            assert not any(wanted[start::stride])
            continue
        inner, where = phase
        assert inner.length == window.out and where.length == length
        assert inner.out == len(wanted[start::stride])
        for j in range(inner.out):
            for m in range(inner.size):
                o, tap = j + m * inner.dilation - inner.before, where.first + m * where.step
                if 0 <= o < window.out:
                    found[where.start + j * where.stride].add((o, size - 1 - tap))
    assert found == wanted
