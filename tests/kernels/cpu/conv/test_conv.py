"""Compiled convolutions: values against TensorFlow, epilogues, chunks, padding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import native_nn, nn_cases
from tests.kernels.native_runner import NativeRunner
from tests.kernels.nn_cases import Case
from tfjit.framework.types import dtypes
from tfjit.kernels.cpu.conv import conv
from tfjit.kernels.cpu.conv.window import make_window
from tfjit.kernels.cpu.gemm.micro_kernels import tile_of
from tfjit.kernels.cpu.reference.layers.convolution import convolve
from tfjit.kernels.registry import TensorSpec


@pytest.mark.parametrize("constants", [(), (1,)], ids=["packed at run time", "constant filter"])
@pytest.mark.parametrize("case", nn_cases.conv_cases(), ids=str)
def test_conv2d_equals_tensorflow(case: Case, constants: tuple[int, ...]) -> None:
    native_nn.check(case, constants)


@pytest.mark.parametrize("name", native_nn.EPILOGUES)
@pytest.mark.parametrize(
    ("x_shape", "w_shape", "strides"),
    [
        ((2, 9, 8, 3), (3, 3, 3, 16), (2, 2)),
        ((3, 30, 31, 8), (1, 1, 8, 20), (1, 1)),
        ((1, 7, 7, 70), (3, 3, 70, 200), (1, 1)),
    ],
    ids=str,
)
def test_conv2d_with_epilogue(
    name: str, x_shape: tuple[int, ...], w_shape: tuple[int, ...], strides: tuple[int, int]
) -> None:
    rng = np.random.default_rng(3)
    epilogue = native_nn.EPILOGUES[name]
    x, w = (
        rng.standard_normal(x_shape).astype(np.float32),
        rng.standard_normal(w_shape).astype(np.float32),
    )
    windows = [make_window(x_shape[1 + i], w_shape[i], strides[i], 1, "SAME") for i in (0, 1)]
    product = convolve(x.astype(np.float64), w.astype(np.float64), *windows)
    operands = native_nn.operands_of(epilogue, product.shape, rng)
    inputs = [x, w, *operands]
    wanted = native_nn.expected(epilogue, product, operands)
    for constants in ({}, {i: v for i, v in enumerate(inputs) if i and v.shape != product.shape}):
        call = conv.conv2d_call(
            native_nn.specs(*inputs), strides=strides, epilogue=epilogue, constants=constants
        )
        native_nn.check_epilogue(name, call, inputs, wanted)


def test_nan_stays_in_its_windows() -> None:
    x = np.ones((1, 6, 7, 2), np.float32)
    x[0, 2, 3, 1] = np.nan
    w = np.ones((3, 3, 2, 5), np.float32)
    (found,) = NativeRunner(
        conv.conv2d_call(native_nn.specs(x, w)), [x, w], [TensorSpec(dtypes.float32, (1, 6, 7, 5))]
    ).run()
    wanted = np.zeros((6, 7), bool)
    wanted[1:4, 2:5] = True
    np.testing.assert_array_equal(np.isnan(found[0]).all(-1), wanted)
    np.testing.assert_array_equal(np.isnan(found[0]).any(-1), wanted)


def test_kernels_do_not_depend_on_sizes() -> None:
    def sources(x: tuple[int, ...], w: tuple[int, ...], strides: tuple[int, int]) -> set[str]:
        call = conv.conv2d_call(
            (TensorSpec(dtypes.float32, x), TensorSpec(dtypes.float32, w)), strides=strides
        )
        return {s.digest for s in call.sources()}

    # columns of a group: as many, in both, as one vector of this CPU takes
    lanes = tile_of(dtypes.float32).lanes
    assert sources((1, 8, 8, 1), (3, 3, 1, lanes), (1, 1)) == sources(
        (4, 20, 21, 8), (5, 7, 2, 4 * (lanes - 1)), (2, 3)
    )
