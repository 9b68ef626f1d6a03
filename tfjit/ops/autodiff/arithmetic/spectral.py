"""Define gradients of Fourier transforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

_RANKS = {"FFT": 1, "FFT2D": 2, "FFT3D": 3}


def _size(x: Tensor, rank: int, like_this: Tensor) -> Tensor:
    """Return the number of elements of one transform."""
    sizes = raw.Shape(input=x)[-rank:]
    return raw.Cast(x=raw.Prod(input=sizes, reduction_indices=0), DstT=like_this.dtype.base_dtype)


@RegisterGradient("FFT")
@RegisterGradient("FFT2D")
@RegisterGradient("FFT3D")
def _fft(op: Operation, grad: Tensor) -> Gradients:
    return getattr(raw, f"I{op.type}")(input=grad) * _size(grad, _RANKS[op.type], grad)


@RegisterGradient("IFFT")
@RegisterGradient("IFFT2D")
@RegisterGradient("IFFT3D")
def _ifft(op: Operation, grad: Tensor) -> Gradients:
    forward = op.type.removeprefix("I")
    size = _size(grad, _RANKS[forward], grad)
    return getattr(raw, forward)(input=grad) * raw.Reciprocal(x=size)


def _single_columns(spectrum: Tensor, length: Tensor, once: float, twice: float) -> Tensor:
    """Return weights along the last axis of half a spectrum, [columns].

    A real signal's spectrum is symmetric, so each column but the first has a twin that is left out;
    the last has none either if the length is even. once, twice: the weight of a column without and
    with a twin.
    """
    column = raw.Range(start=0, limit=raw.Shape(input=spectrum)[-1], delta=1)
    alone = raw.Equal(x=raw.FloorMod(x=column * 2, y=length[-1]), y=convert_to_tensor(0))
    weights = raw.SelectV2(condition=alone, t=convert_to_tensor(once), e=convert_to_tensor(twice))
    return raw.Cast(x=weights, DstT=spectrum.dtype.base_dtype)


def _padded(gradient: Tensor, x: Tensor) -> Tensor:
    """Return a gradient with zeros for elements beyond the transform."""
    beyond = raw.Shape(input=x) - raw.Shape(input=gradient)
    paddings = raw.Pack(values=[raw.ZerosLike(x=beyond), beyond], axis=1)
    return raw.Pad(input=gradient, paddings=paddings)


@RegisterGradient("RFFT")
@RegisterGradient("RFFT2D")
def _rfft(op: Operation, grad: Tensor) -> Gradients:
    """Return the real part of the adjoint transform.

    The inverse counts a column with a twin twice, so half of it is passed.
    """
    x, length = op.inputs
    weighted = grad * _single_columns(grad, length, 1.0, 0.5)
    inverse = getattr(raw, f"I{op.type}")(
        input=weighted, fft_length=length, Treal=x.dtype.base_dtype
    )
    rank = 2 if op.type.endswith("2D") else 1
    return _padded(inverse * _size(inverse, rank, inverse), x), None


@RegisterGradient("IRFFT")
@RegisterGradient("IRFFT2D")
def _irfft(op: Operation, grad: Tensor) -> Gradients:
    spectrum, length = op.inputs
    forward = getattr(raw, op.type.removeprefix("I"))(
        input=grad, fft_length=length, Tcomplex=spectrum.dtype.base_dtype
    )
    rank = 2 if op.type.endswith("2D") else 1
    weights = _single_columns(forward, length, 1.0, 2.0)
    scaled = forward * (weights * raw.Reciprocal(x=_size(grad, rank, forward)))
    return _padded(scaled, spectrum), None
