"""List nodes that cover matrix products and systems, convolutions, pooling, their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.conv.filter_grad import outer_source
from tfjit.kernels.cpu.gemm.micro_kernels import VECTORS, tile_of
from tfjit.kernels.precompile.nodes import Input, integers, node, tensor
from tfjit.kernels.registry import NodeSpec
from tfjit.kernels.source import KernelSource

_SIZES: Final = (
    (300, 40, 60),  # rows, inner size, columns
    (300, 300, 4),
    (300, 400, 300),  # a transposed A is transposed first
    (2, 40, 60),  # B is read in place
    (300, 40, 1),
    (1, 40, 60),
    (5, 40, 1),
    (1, 40, 1),
)
_IMAGES: Final = (
    # batch, height, channels, filter, results, stride
    (2, 28, 3, 5, 32, 1),
    (2, 28, 32, 5, 64, 1),
    (2, 28, 32, 3, 64, 2),
    (2, 28, 32, 3, 64, 1),
    (8, 14, 64, 3, 64, 1),
    (2, 14, 64, 1, 128, 1),
    (2, 14, 64, 1, 128, 2),
    (2, 14, 64, 1, 4, 1),
    (2, 28, 1, 3, 32, 1),
    (2, 28, 1, 5, 6, 1),
    (1, 7, 512, 3, 512, 1),
)


def product_nodes() -> Iterator[NodeSpec]:
    """Yield the nodes."""
    for dtype in (d.float32, d.float64):
        yield from _products(dtype)
    yield from _plain_products()
    yield from _systems()
    for image in _IMAGES:
        yield from _convolutions(d.float32, *image)
    yield from _depthwise()
    yield from _pooling()


def tile_sources() -> Iterator[KernelSource]:
    """Yield the micro-kernels of filter gradients, one a tile's size."""
    tile = tile_of(d.float32)
    for height in range(1, tile.height + 1):
        for vectors, masked in itertools.product((1, VECTORS), (False, True)):
            yield outer_source(tile, height, vectors, masked)


def _systems() -> Iterator[NodeSpec]:
    x, right, dtype = tensor(d.float32, 2, 30, 30), tensor(d.float32, 2, 30, 4), {"T": d.float32}
    yield node("Cholesky", [x], [x], **dtype)
    yield node("MatrixInverse", [x], [x], adjoint=False, **dtype)
    yield node("MatrixSolve", [x, right], [right], adjoint=False, **dtype)
    attrs = {"lower": True, "adjoint": False}
    yield node("MatrixTriangularSolve", [x, right], [right], **attrs, **dtype)


def _known(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def _products(dtype: DType) -> Iterator[NodeSpec]:
    for (m, k, n), left, right in itertools.product(_SIZES, (False, True), (False, True)):
        a, b = (k, m) if left else (m, k), (n, k) if right else (k, n)
        inputs = [tensor(dtype, *a), tensor(dtype, *b)]
        transposed = {"transpose_a": left, "transpose_b": right}
        yield node("MatMul", inputs, [tensor(dtype, m, n)], T=dtype, **transposed)
        if dtype is d.float32:
            fixed: list[Input] = [tensor(dtype, *a), _known(*b)]
            yield node("MatMul", fixed, [tensor(dtype, m, n)], T=dtype, **transposed)
        batches = [tensor(dtype, 6, *a), tensor(dtype, 6, *b)]
        result = [tensor(dtype, 6, m, n)]
        yield node("BatchMatMulV2", batches, result, T=dtype, adj_x=left, adj_y=right)


def _plain_products() -> Iterator[NodeSpec]:
    inputs = [tensor(d.int32, 30, 40), tensor(d.int32, 40, 60)]
    attrs = {"T": d.int32, "transpose_a": False, "transpose_b": False}
    yield node("MatMul", inputs, [tensor(d.int32, 30, 60)], **attrs)


def _attrs(stride: int, padding: bytes = b"SAME") -> dict[str, object]:
    return {
        "T": d.float32,
        "strides": (1, stride, stride, 1),
        "padding": padding,
        "dilations": (1, 1, 1, 1),
        "explicit_paddings": (),
        "data_format": b"NHWC",
    }


def _convolutions(
    dtype: DType, batch: int, side: int, channels: int, size: int, results: int, stride: int
) -> Iterator[NodeSpec]:
    x = tensor(dtype, batch, side, side, channels)
    w = (size, size, channels, results)
    out = -(-side // stride)
    y = tensor(dtype, batch, out, out, results)
    attrs = _attrs(stride)
    yield node("Conv2D", [x, tensor(dtype, *w)], [y], **attrs)
    yield node("Conv2D", [x, _known(*w)], [y], **attrs)
    yield node("Conv2DBackpropInput", [integers(*x.shape), tensor(dtype, *w), y], [x], **attrs)
    yield node("Conv2DBackpropFilter", [x, integers(*w), y], [tensor(dtype, *w)], **attrs)


def _depthwise() -> Iterator[NodeSpec]:
    for side, stride, multiple in ((28, 1, 1), (28, 2, 1), (14, 1, 2)):
        x = tensor(d.float32, 2, side, side, 32)
        w = (3, 3, 32, multiple)
        out = -(-side // stride)
        y = tensor(d.float32, 2, out, out, 32 * multiple)
        attrs = _attrs(stride)
        yield node("DepthwiseConv2dNative", [x, tensor(d.float32, *w)], [y], **attrs)
        yield node("DepthwiseConv2dNative", [x, _known(*w)], [y], **attrs)
        back: list[Input] = [integers(*x.shape), tensor(d.float32, *w), y]
        yield node("DepthwiseConv2dNativeBackpropInput", back, [x], **attrs)
        if multiple == 1:
            grad: list[Input] = [x, integers(*w), y]
            result = [tensor(d.float32, *w)]
            yield node("DepthwiseConv2dNativeBackpropFilter", grad, result, **attrs)


def _pooling() -> Iterator[NodeSpec]:
    for size, stride, padding in ((2, 2, b"VALID"), (3, 2, b"SAME"), (3, 1, b"SAME")):
        x = tensor(d.float32, 4, 28, 28, 32)
        out = -(-28 // stride)
        y = tensor(d.float32, 4, out, out, 32)
        attrs = {
            "T": d.float32,
            "ksize": (1, size, size, 1),
            "strides": (1, stride, stride, 1),
            "padding": padding,
            "explicit_paddings": (),
            "data_format": b"NHWC",
        }
        yield node("MaxPool", [x], [y], **attrs)
        yield node("AvgPool", [x], [y], **attrs)
        yield node("MaxPoolGrad", [x, y, y], [x], **attrs)
        yield node("AvgPoolGrad", [integers(*x.shape), y], [x], **attrs)
