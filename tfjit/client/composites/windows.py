"""Window functions of signals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops import math as tf_math
from tfjit.ops import nn
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike


def _float(dtype: DTypeLike) -> DType:
    """Return the dtype; raise ValueError for one that is no float."""
    kind = as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {kind}")
    return kind


def _length(window_length: TensorLike) -> Tensor:
    """Return a window's length, an int32 scalar."""
    length = convert_to_tensor(window_length, dtype=dtypes.int32)
    length.shape.assert_has_rank(0)
    return length


def kaiser_window(
    window_length: TensorLike,
    beta: TensorLike = 12.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Kaiser window, [window_length].

    beta: the larger, the wider the main lobe and the lower the others. Raises ValueError for a
    dtype that is no float. Source: Kaiser 1974, "Nonrecursive digital filter design".
    """
    with name_scope(name, "kaiser_window"):
        kind = _float(dtype)
        length = _length(window_length)
        known = constant_value(length)
        if known == 1:
            return ops.ones([1], dtype=kind)
        half = (ops.cast(length, dtypes.float32) - 1.0) / 2.0
        places = ops.cast(ops.range(-half, half + 0.1, dtype=dtypes.float32), kind)
        shape = ops.cast(beta, kind)
        inside = ops.cast(1.0, kind) - ops.square(places / ops.cast(half, kind))
        argument = shape * ops.sqrt(nn.relu(inside))
        scaled = tf_math.bessel_i0e(argument) / tf_math.bessel_i0e(shape)
        window = ops.exp(argument - shape) * scaled
        window.set_shape([None if known is None else int(known)])
        return window


def kaiser_bessel_derived_window(
    window_length: TensorLike,
    beta: TensorLike = 12.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Kaiser-Bessel derived window, [window_length], for an MDCT.

    Its squares sum up to 1 with those of its neighbour at half a window's distance.
    """
    with name_scope(name, "kaiser_bessel_derived_window"):
        kind = _float(dtype)
        half = _length(window_length) // 2
        sums = ops.cumsum(kaiser_window(half + 1, beta, dtype=kind))
        rising = ops.sqrt(sums[:-1] / sums[-1])
        return ops.concat((rising, rising[::-1]), axis=0)


def vorbis_window(
    window_length: TensorLike, dtype: DTypeLike = dtypes.float32, name: str | None = None
) -> Tensor:
    """Return the window of the codec Vorbis, [window_length]."""
    with name_scope(name, "vorbis_window"):
        kind = _float(dtype)
        length = _length(window_length)
        places = ops.cast(ops.range(length), kind)
        inner = ops.sin(math.pi / ops.cast(length, kind) * (places + 0.5))
        return ops.sin(math.pi / 2.0 * ops.pow(inner, 2.0))


def hann_window(
    window_length: TensorLike,
    periodic: TensorLike = True,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Hann window, [window_length].

    periodic: the window continues where the next one begins, for spectra; else it is symmetric, for
    filters. Raises ValueError for a dtype that is no float.
    """
    return _raised_cosine(name, "hann_window", window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(
    window_length: TensorLike,
    periodic: TensorLike = True,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return a Hamming window, [window_length].

    The arguments are those of `hann_window`.
    """
    return _raised_cosine(name, "hamming_window", window_length, periodic, dtype, 0.54, 0.46)


def _raised_cosine(
    name: str | None,
    function: str,
    window_length: TensorLike,
    periodic: TensorLike,
    dtype: DTypeLike,
    mean: float,
    swing: float,
) -> Tensor:
    """Return mean - swing * cos(2 pi i / n).

    n depends on `periodic`.
    """
    kind = _float(dtype)
    with name_scope(name, function, [window_length, periodic]):
        length = convert_to_tensor(window_length, dtype=dtypes.int32, name="window_length")
        length.shape.assert_has_rank(0)
        known = constant_value(length)
        if known == 1:
            return ops.ones([1], dtype=kind)
        repeats = ops.cast(
            convert_to_tensor(periodic, dtype=dtypes.bool, name="periodic"), dtypes.int32
        )
        repeats.shape.assert_has_rank(0)
        even = 1 - ops.mod(length, 2)
        period = ops.cast(length + repeats * even - 1, kind)
        places = ops.cast(ops.range(length), kind)
        angle = ops.constant(2 * math.pi, dtype=kind) * places / period

        def window() -> Tensor:
            return ops.cast(mean - swing * ops.cos(angle), kind)

        if known is not None:
            return window()
        return ops.cond(
            ops.equal(length, 1), lambda: ops.ones(ops.stack([length]), dtype=kind), window
        )
