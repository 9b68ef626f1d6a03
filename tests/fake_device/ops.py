"""Compute FAKE's ops.

One NumPy function an op type, of attrs and input arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Attrs = Mapping[str, Any]


def _windows(x: Array, size: Sequence[int], strides: Sequence[int], fill: float) -> Array:
    """Return x [n, h, w, c] as SAME-padded windows.

    Shape [n, h', w', c, *size].
    """
    pads = [(0, 0)]
    for length, k, s in zip(x.shape[1:3], size, strides, strict=True):
        total = max((-(-length // s) - 1) * s + k - length, 0)
        pads.append((total // 2, total - total // 2))
    padded = np.pad(x, [*pads, (0, 0)], constant_values=fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(size), (1, 2))
    return windows[:, :: strides[0], :: strides[1]]


def _check_same(attrs: Attrs) -> None:
    assert attrs["padding"] in (b"SAME", "SAME") and attrs["data_format"] in (b"NHWC", "NHWC")
    assert tuple(attrs.get("dilations", (1, 1, 1, 1))) == (1, 1, 1, 1)


def _conv2d(attrs: Attrs, x: Array, w: Array) -> Array:
    _check_same(attrs)
    windows = _windows(x, w.shape[:2], attrs["strides"][1:3], 0)
    return np.einsum("nyxckl,klcd->nyxd", windows, w, optimize=True)


def _max_pool(attrs: Attrs, x: Array) -> Array:
    _check_same(attrs)
    return _windows(x, attrs["ksize"][1:3], attrs["strides"][1:3], -np.inf).max((-2, -1))


def _matmul(attrs: Attrs, a: Array, b: Array) -> Array:
    return (a.T if attrs["transpose_a"] else a) @ (b.T if attrs["transpose_b"] else b)


def _softmax(attrs: Attrs, x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


OPS: Final[Mapping[str, Callable[..., Array]]] = {
    "AddV2": lambda attrs, x, y: x + y,
    "BiasAdd": lambda attrs, x, bias: x + bias,
    "Conv2D": _conv2d,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Mul": lambda attrs, x, y: x * y,
    "Relu": lambda attrs, x: np.maximum(x, 0),
    "Reshape": lambda attrs, x, shape: x.reshape(shape),
    "Softmax": _softmax,
    "Tanh": lambda attrs, x: np.tanh(x),
}
