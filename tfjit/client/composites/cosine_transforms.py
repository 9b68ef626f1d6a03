"""Discrete cosine transforms of the last axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites.spectra import irfft, rfft
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}


def _check(x: Tensor, kind: int, n: int | Tensor | None, axis: int, norm: str | None) -> None:
    """Raise an error for arguments that no transform has."""
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if kind not in _INVERSE:
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    if kind == 1:
        if norm == "ortho":
            raise ValueError("Normalization is not supported for the Type-I DCT.")
        size = x.shape.as_list()[-1]
        if size is not None and size < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")


def dct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return a discrete cosine transform of the last axis.

    input: float32 or float64 [..., n]. type: 1 to 4. n: a length to which the input is cut or
    padded first. norm: "ortho" for an orthonormal transform. Raises ValueError for other types and
    norms, and for "ortho" with type 1; NotImplementedError for another axis.
    """
    value = convert_to_tensor(input)
    _check(value, type, n, axis, norm)
    return _transformed(value, type, n, norm, name)


def idct(
    input: TensorLike,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the inverse of `dct`, which may have a factor.

    It has one without a norm. The factor is 2 (n - 1) for type 1, and 2 n for the others.
    """
    value = convert_to_tensor(input)
    _check(value, type, n, axis, norm)
    return _transformed(value, _INVERSE[type], n, norm, name)


def _last(x: Tensor) -> int | Tensor:
    """Return the size of the last axis."""
    return x.shape.as_list()[-1] or ops.shape(x)[-1]


def _fitted(x: Tensor, n: int | Tensor) -> Tensor:
    """Cut or pad the last axis to a length."""
    size = _last(x)
    outer = [[0, 0]] * (len(x.shape) - 1)
    if isinstance(size, int) and isinstance(n, int):
        return x[..., :n] if n <= size else ops.pad(x, [*outer, [0, n - size]])
    more = ops.stack([*outer, ops.stack([0, ops.maximum(0, n - size)])])
    return ops.pad(x[..., :n], more)


def _transformed(
    x: Tensor, kind: int, n: int | Tensor | None, norm: str | None, name: str | None
) -> Tensor:
    """Return the transform of a type, by a real Fourier transform."""
    with name_scope(name, "dct", [x]):
        x = x if n is None else _fitted(x, n)
        size = _last(x)
        if kind == 1:
            return ops.real(rfft(ops.concat([x, x[..., -2:0:-1]], axis=-1)))
        length = ops.cast(size, x.dtype)
        if kind == 4:
            odd = _transformed(x, 2, 2 * size, None, None)[..., 1::2]
            return odd * (math.sqrt(0.5) * ops.rsqrt(length)) if norm else odd
        angle = ops.range(length) * (math.pi * 0.5) / length
        phase = ops.complex(ops.zeros_like(angle), -angle if kind == 2 else angle)
        scale = 2.0 * ops.exp(phase)
        if kind == 2:
            half = rfft(x, fft_length=ops.stack([2 * size]))[..., :size]
            result = ops.real(half * scale)
            first = 0.5 * ops.rsqrt(length)
            return result * _weights(first, first * math.sqrt(2.0), size) if norm else result
        first = ops.sqrt(length)
        x = x * (_weights(first, first * math.sqrt(0.5), size) if norm else length)
        shifted = scale * ops.complex(x, ops.zeros_like(x))
        return irfft(shifted, fft_length=ops.stack([2 * size]))[..., :size]


def _weights(first: Tensor, others: Tensor, size: int | Tensor) -> Tensor:
    """Return [size] weights, of which the first differs."""
    return ops.pad(ops.expand_dims(first, 0), [[0, size - 1]], constant_values=others)
