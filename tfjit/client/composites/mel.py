"""Map spectra to the mel scale and to cepstral coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.composites.cosine_transforms import dct
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, TensorLike

# Mel of a frequency in Hz: 1127 log(1 + f / 700).
# Source: O'Shaughnessy 1987, "Speech communication: human and machine".
_BREAK_HERTZ = 700.0
_MEL_PER_FACTOR = 1127.0


def _mel(hertz: Tensor) -> Tensor:
    """Return frequencies on the mel scale."""
    with name_scope(None, "hertz_to_mel", [hertz]):
        return _MEL_PER_FACTOR * ops.log(1.0 + hertz / _BREAK_HERTZ)


def _check(bins: int, rate: TensorLike, low: float, high: float, dtype: DType) -> None:
    """Raise ValueError for frequencies that do not fit."""
    if bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {bins}")
    if low < 0.0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {low}")
    if low >= high:
        raise ValueError(f"lower_edge_hertz {low:.1f} >= upper_edge_hertz {high:.1f}")
    if not isinstance(rate, Tensor):
        number = float(rate)  # type: ignore[arg-type]
        if number <= 0.0:
            raise ValueError(f"sample_rate must be positive. Got: {number}")
        if high > number / 2:
            raise ValueError(
                "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / "
                f"2). Got {high} for sample_rate: {rate!r}"
            )
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Got: {dtype}")


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: int = 129,
    sample_rate: TensorLike = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return weights that map spectra to the mel scale.

    They are [spectrogram bins, mel bins]. Each mel bin is a triangle between the middles of its
    neighbours. The bins of the spectrogram go from 0 to sample_rate / 2. Raises ValueError for
    frequencies that do not fit.
    """
    with name_scope(name, "linear_to_mel_weight_matrix") as scope:
        kind = as_dtype(dtype)
        known = constant_value(sample_rate) if isinstance(sample_rate, Tensor) else None
        given = sample_rate if known is None else known
        _check(num_mel_bins, given, lower_edge_hertz, upper_edge_hertz, kind)
        rate = ops.cast(given, kind, name="sample_rate")
        low = convert_to_tensor(lower_edge_hertz, kind, name="lower_edge_hertz")
        high = convert_to_tensor(upper_edge_hertz, kind, name="upper_edge_hertz")
        zero = convert_to_tensor(0.0, kind)
        # The first bin, of frequency 0, is in no triangle.
        linear = ops.linspace(zero, rate / 2.0, num_spectrogram_bins)[1:]
        places = ops.expand_dims(_mel(linear), 1)
        edges = ops.linspace(_mel(low), _mel(high), num_mel_bins + 2)
        start, middle, end = (edges[k : num_mel_bins + k][None] for k in range(3))
        rising = (places - start) / (middle - start)
        falling = (end - places) / (end - middle)
        weights = ops.maximum(zero, ops.minimum(rising, falling))
        return ops.pad(weights, [[1, 0], [0, 0]], name=scope)


def mfccs_from_log_mel_spectrograms(
    log_mel_spectrograms: TensorLike, name: str | None = None
) -> Tensor:
    """Return mel-frequency cepstral coefficients of logarithms of mel spectra.

    log_mel_spectrograms [..., mel bins]; the result has its shape. Raises ValueError for no bins.
    """
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        value = convert_to_tensor(log_mel_spectrograms)
        bins = value.shape.as_list()[-1]
        if bins == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {value}")
        found = dct(value, type=2)
        count = ops.shape(value)[-1] if bins is None else bins
        return found * ops.rsqrt(ops.cast(count, found.dtype) * 2.0)
