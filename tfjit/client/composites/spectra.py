"""Define Fourier transforms of the last axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value, constant_value_as_shape
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, TensorLike

_AXES = ("axis", "two axes", "three axes")


def _complex_transform(function: str, op_type: str) -> Callable[..., Tensor]:
    """Return the function of a transform of complex values."""
    rank = int(op_type[-2]) if op_type.endswith("D") else 1

    def transform(input: TensorLike, name: str | None = None) -> Tensor:
        return tensor(op_type, name, input=input)

    transform.__name__ = transform.__qualname__ = function
    kind = "inverse Fourier transform" if op_type.startswith("I") else "Fourier transform"
    transform.__doc__ = (
        f"Return the {kind} of the last {_AXES[rank - 1]}.\n\n"
        "input: complex64 or complex128, of which the shape is kept."
    )
    return transform


fft = _complex_transform("fft", "FFT")
fft2d = _complex_transform("fft2d", "FFT2D")
fft3d = _complex_transform("fft3d", "FFT3D")
ifft = _complex_transform("ifft", "IFFT")
ifft2d = _complex_transform("ifft2d", "IFFT2D")
ifft3d = _complex_transform("ifft3d", "IFFT3D")


def _last_sizes(x: Tensor, rank: int, inverse: bool) -> Tensor:
    """Return the length of each transformed axis of the result."""
    known = x.shape[-rank:]
    if not known.is_fully_defined():
        sizes = ops.shape(x)[-rank:]
        if not inverse:
            return sizes
        lengths = ops.unstack(sizes)
        lengths[-1] = ops.maximum(0, 2 * (lengths[-1] - 1))
        return ops.stack(lengths)
    fixed = known.as_list()
    if inverse and fixed:
        fixed[-1] = max(0, 2 * (fixed[-1] - 1))
    return convert_to_tensor(fixed, dtypes.int32)


def _padded(x: Tensor, rank: int, lengths: Tensor, inverse: bool) -> Tensor:
    """Pad the last axes to the length that a transform reads."""
    sizes, wanted = x.shape_tuple, constant_value_as_shape(lengths)
    if sizes is not None and 0 in sizes:
        return x
    known = wanted is not None and None not in wanted
    if wanted is not None and known and sizes is not None and None not in sizes[-rank:]:
        needed = [n or 0 for n in wanted]
        if inverse:
            needed[-1] = needed[-1] // 2 + 1
        more = [[0, max(n - (has or 0), 0)] for n, has in zip(needed, sizes[-rank:], strict=True)]
        if not any(after for _, after in more):
            return x
        return ops.pad(x, [[0, 0]] * (len(sizes) - rank) + more)
    outer_rank, inner = ops.rank(x), ops.shape(x)[-rank:]
    outer = ops.zeros([ops.maximum(0, outer_rank - rank)], lengths.dtype)
    if inverse:
        lengths = ops.concat([lengths[:-1], lengths[-1:] // 2 + 1], 0)
    after = ops.concat([outer, ops.maximum(0, lengths - inner)], 0)
    return ops.pad(x, ops.stack([ops.zeros_like(after), after], axis=1))


def _real_transform(function: str, op_type: str) -> Callable[..., Tensor]:
    """Return the function of a real transform or its inverse."""
    inverse = op_type.startswith("I")
    rank = int(op_type[-2]) if op_type.endswith("D") else 1
    kinds = (dtypes.complex64, dtypes.complex128) if inverse else (dtypes.float32, dtypes.float64)

    def transform(
        input_tensor: TensorLike, fft_length: TensorLike | None = None, name: str | None = None
    ) -> Tensor:
        with name_scope(name, function, [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=kinds[0])
            if x.dtype not in kinds:
                raise ValueError(
                    f"{op_type.rstrip('23D') or op_type} requires tf.{kinds[0].name} or "
                    f"tf.{kinds[1].name} inputs, got: {x}"
                )
            if fft_length is None:
                lengths = _last_sizes(x, rank, inverse)
            else:
                lengths = convert_to_tensor(fft_length, dtypes.int32)
            x = _padded(x, rank, lengths, inverse)
            known = constant_value(lengths)
            given = lengths if known is None else known
            if inverse:
                return tensor(op_type, scope, input=x, fft_length=given, Treal=x.dtype.real_dtype)
            wide = dtypes.complex64 if x.dtype is dtypes.float32 else dtypes.complex128
            return tensor(op_type, scope, input=x, fft_length=given, Tcomplex=wide)

    transform.__name__ = transform.__qualname__ = function
    axes = _AXES[rank - 1]
    transform.__doc__ = (
        (
            f"Return real values from half of a spectrum of the last {axes}.\n\n"
            "input_tensor: complex [..., n / 2 + 1] -> real [..., n]."
            if inverse
            else f"Return half of the spectrum of the last {axes} of real values.\n\n"
            "input_tensor: real [..., n] -> complex [..., n / 2 + 1]."
        )
        + " fft_length: the length n of each\ntransformed axis, to which the input is cut or padded"
        " with zeros; by default that of the input.\n\nRaises ValueError for another dtype."
    )
    return transform


rfft = _real_transform("rfft", "RFFT")
rfft2d = _real_transform("rfft2d", "RFFT2D")
rfft3d = _real_transform("rfft3d", "RFFT3D")
irfft = _real_transform("irfft", "IRFFT")
irfft2d = _real_transform("irfft2d", "IRFFT2D")
irfft3d = _real_transform("irfft3d", "IRFFT3D")


def _shifted(
    x: TensorLike, axes: AxisLike | None, name: str | None, function: str, sign: int
) -> Tensor:
    """Roll axes by half of their size, or back."""
    with name_scope(name, function) as scope:
        value = convert_to_tensor(x)
        sizes = ops.shape(value)
        places: object
        if axes is None:
            places, half = tuple(range(len(value.shape))), sizes // 2
        elif isinstance(axes, int):
            places, half = axes, sizes[axes] // 2
        else:
            given = convert_to_tensor(cast("TensorLike", axes))
            places = ops.where(ops.less(given, 0), given + ops.rank(value), given)
            half = ops.gather(sizes, places) // 2
        return ops.roll(value, half if sign > 0 else -half, places, name=scope)


def fftshift(x: TensorLike, axes: AxisLike | None = None, name: str | None = None) -> Tensor:
    """Roll a spectrum so that frequency 0 is in the middle.

    axes: one or several, by default all.
    """
    return _shifted(x, axes, name, "fftshift", 1)


def ifftshift(x: TensorLike, axes: AxisLike | None = None, name: str | None = None) -> Tensor:
    """Undo `fftshift`."""
    return _shifted(x, axes, name, "ifftshift", -1)


def _any_axes(function: str, op_type: str) -> Callable[..., Tensor]:
    """Return the function of a transform of given axes.

    CPUs have no kernel of these ops.
    """
    inverse, real = op_type.startswith("I"), "RFFT" in op_type
    hint = dtypes.float32 if op_type == "RFFTND" else dtypes.complex64

    def transform(
        input_tensor: TensorLike,
        fft_length: TensorLike | None = None,
        axes: TensorLike | None = None,
        norm: str | None = None,
        name: str | None = None,
    ) -> Tensor:
        with name_scope(name, function, [input_tensor, fft_length, axes]) as scope:
            x = convert_to_tensor(input_tensor, preferred_dtype=hint)
            places = np.arange(len(x.shape)) if axes is None else axes
            chosen = convert_to_tensor(places, dtypes.int32)
            rank = chosen.shape.as_list()[0] or 0
            halved = inverse and real
            if fft_length is None:
                lengths = _last_sizes(x, len(x.shape), halved)
            else:
                lengths = convert_to_tensor(fft_length, dtypes.int32)
            x = _padded(x, rank, lengths, halved)
            if norm in ("forward", "ortho"):
                count = ops.cast(ops.reduce_prod(lengths), x.dtype)
                count = ops.sqrt(count) if norm == "ortho" else count
                x = x * count if inverse else x / count
            kind = {}
            if op_type == "IRFFTND":
                kind = {"Treal": x.dtype.real_dtype}
            elif op_type == "RFFTND":
                narrow = x.dtype is dtypes.float32
                kind = {"Tcomplex": dtypes.complex64 if narrow else dtypes.complex128}
            return tensor(op_type, scope, input=x, fft_length=lengths, axes=chosen, **kind)

    transform.__name__ = transform.__qualname__ = function
    transform.__doc__ = (
        f"Build a node of {op_type}, which has no kernel on CPUs.\n\n"
        "fft_length: the length of each of `axes`; by default of all axes, as they are. norm:\n"
        '"backward" (the default), "forward" or "ortho".'
    )
    return transform


fftnd = _any_axes("fftnd", "FFTND")
ifftnd = _any_axes("ifftnd", "IFFTND")
rfftnd = _any_axes("rfftnd", "RFFTND")
irfftnd = _any_axes("irfftnd", "IRFFTND")


def plain_fftnd(
    input: TensorLike, fft_length: TensorLike, axes: TensorLike, name: str | None = None
) -> Tensor:
    """Build a node of FFTND with the input as it is."""
    return tensor("FFTND", name, input=input, fft_length=fft_length, axes=axes)


def plain_ifftnd(
    input: TensorLike, fft_length: TensorLike, axes: TensorLike, name: str | None = None
) -> Tensor:
    """Build a node of IFFTND with the input as it is."""
    return tensor("IFFTND", name, input=input, fft_length=fft_length, axes=axes)


def plain_rfftnd(
    input: TensorLike,
    fft_length: TensorLike,
    axes: TensorLike,
    Tcomplex: DTypeLike = dtypes.complex64,
    name: str | None = None,
) -> Tensor:
    """Build a node of RFFTND with the input as it is."""
    return tensor("RFFTND", name, input=input, fft_length=fft_length, axes=axes, Tcomplex=Tcomplex)


def plain_irfftnd(
    input: TensorLike,
    fft_length: TensorLike,
    axes: TensorLike,
    Treal: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Build a node of IRFFTND with the input as it is."""
    return tensor("IRFFTND", name, input=input, fft_length=fft_length, axes=axes, Treal=Treal)
