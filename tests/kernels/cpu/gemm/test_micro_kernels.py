"""Tile tables of other instruction sets than this host's, as far as this CPU can run them, and
their choice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels import native_nn
from tests.kernels.native_runner import NativeRunner
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.conv import conv, conv_grad, depthwise, pooling
from tfjit.kernels.cpu.conv.window import make_window
from tfjit.kernels.cpu.gemm import matmul, micro_kernels
from tfjit.kernels.cpu.reference.layers.convolution import convolve
from tfjit.kernels.jit import target
from tfjit.kernels.registry import Unsupported

# isa, bytes of a vector, rows of a tile
FORMS = {"avx2": (32, 6), "generic": (16, 4)}


@pytest.fixture(params=FORMS)
def other_isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every driver takes the tiles of another instruction set; the CPU runs them all, since vectors
    are only narrower.
    """
    width, height = FORMS[request.param]
    if width > target.host().vector_bytes:
        pytest.skip("this CPU has narrower vectors")

    def tile_of(dtype: DType) -> micro_kernels.Tile:
        return micro_kernels.Tile(
            micro_kernels.KINDS[dtype],
            request.param,
            width // dtype.size,
            height,
            dtype.size,
            request.param != "generic",
        )

    for module in (matmul, conv, depthwise, pooling, conv_grad):
        monkeypatch.setattr(module, "tile_of", tile_of)
    yield request.param


def test_other_instruction_sets_give_the_same_values(other_isa: str) -> None:
    rng = np.random.default_rng(8)
    a, b = (
        rng.standard_normal((45, 70)).astype(np.float32),
        rng.standard_normal((70, 43)).astype(np.float32),
    )
    (bias,) = native_nn.operands_of(native_nn.BIAS_RELU, (45, 43), rng)
    call = matmul.matmul_call(native_nn.specs(a, b, bias), epilogue=native_nn.BIAS_RELU)
    native_nn.check_epilogue(
        other_isa,
        call,
        [a, b, bias],
        native_nn.expected(native_nn.BIAS_RELU, a.astype(np.float64) @ b, [bias]),
    )
    (found,) = NativeRunner(
        matmul.matmul_call(native_nn.specs(a.T, b), transpose_a=True),
        [a.T, b],
        native_nn.specs(a @ b),
    ).run()
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=2e-5)

    x, w = (
        rng.standard_normal((2, 9, 11, 5)).astype(np.float32),
        rng.standard_normal((3, 3, 5, 19)).astype(np.float32),
    )
    windows = make_window(9, 3, 1, 1, "SAME"), make_window(11, 3, 1, 1, "SAME")
    wanted = convolve(x, w, *windows)
    (found,) = NativeRunner(
        conv.conv2d_call(native_nn.specs(x, w)), [x, w], native_nn.specs(wanted)
    ).run()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-5)

    w = rng.standard_normal((3, 3, 5, 1)).astype(np.float32)
    wanted = np.concatenate(
        [convolve(x[..., i : i + 1], w[:, :, i : i + 1], *windows) for i in range(5)], axis=3
    )
    (found,) = NativeRunner(
        depthwise.depthwise_call(native_nn.specs(x, w)), [x, w], native_nn.specs(wanted)
    ).run()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-5)


def test_tiles_of_this_host() -> None:
    single, double = micro_kernels.tile_of(dtypes.float32), micro_kernels.tile_of(dtypes.float64)
    assert single.lanes * single.size == double.lanes * double.size == target.host().vector_bytes
    assert single.height == double.height
    assert len(micro_kernels.matmul_tiles(single, 1).entries) == single.height
    with pytest.raises(Unsupported, match="float16"):
        micro_kernels.tile_of(dtypes.float16)
