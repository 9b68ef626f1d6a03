"""Declare audio: WAV files, spectrograms, coefficients of speech."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.apply import call, tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    fail,
    require_scalars,
)

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def spectrogram(c: ShapeContext) -> Shapes:
    """Infer the shape of spectrograms.

    input [samples, channels] -> [channels, windows, bins], of windows of `window_size` samples a
    `stride` apart.
    """
    samples, channels = c.with_rank(0, 2)
    window, stride = c.attr("window_size"), c.attr("stride")
    if window <= 1:
        raise fail(f"window size must be > 1, got {window}")
    if stride <= 0:
        raise fail(f"stride must be strictly positive, got {stride}")
    count = None
    if samples is not None:
        count = 0 if samples - window < 0 else 1 + (samples - window) // stride
    bins = 1 + (1 << max(0, (window - 1).bit_length())) // 2
    return [(channels, count, bins)]


def mfcc(c: ShapeContext) -> Shapes:
    """Infer the shape of mel coefficients.

    spectrogram [channels, windows, bins], sample_rate [] -> [channels, windows,
    dct_coefficient_count].
    """
    shape = c.with_rank(0, 3)
    require_scalars(c, 1)
    return [(shape[0], shape[1], c.attr("dct_coefficient_count"))]


register_op(
    "AudioSpectrogram",
    inputs=("input: float",),
    outputs=("spectrogram: float",),
    attrs=("window_size: int", "stride: int", "magnitude_squared: bool = false"),
    shape=spectrogram,
)


def _wav(c: ShapeContext) -> Shapes:
    c.with_rank(0, 2)
    c.with_rank(1, 0)
    return [()]


def _audio(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    channels, samples = int(c.attr("desired_channels")), int(c.attr("desired_samples"))
    if channels < -1 or channels == 0:
        raise fail(f"channels must be non-negative, got {channels}")
    if samples < -1:
        raise fail(f"samples must be non-negative, got {samples}")
    return [(None if samples == -1 else samples, None if channels == -1 else channels), ()]


register_op(
    "DecodeWav",
    inputs=("contents: string",),
    outputs=("audio: float", "sample_rate: int32"),
    attrs=("desired_channels: int = -1", "desired_samples: int = -1"),
    shape=_audio,
)
register_op(
    "EncodeWav",
    inputs=("audio: float", "sample_rate: int32"),
    outputs=("contents: string",),
    shape=_wav,
)
register_op(
    "Mfcc",
    inputs=("spectrogram: float", "sample_rate: int32"),
    outputs=("output: float",),
    attrs=(
        "upper_frequency_limit: float = 4000.0",
        "lower_frequency_limit: float = 20.0",
        "filterbank_channel_count: int = 40",
        "dct_coefficient_count: int = 13",
    ),
    shape=mfcc,
)


def decode_wav(
    contents: TensorLike,
    desired_channels: int = -1,
    desired_samples: int = -1,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (audio [samples, channels], sample rate) of a WAV file's content.

    audio: float32 in -1..1, of 16-bit samples. desired_channels, desired_samples: sizes of the
    result: missing channels repeat the last one, missing samples are 0.
    """
    found: tuple[Tensor, Tensor] = call(
        "DecodeWav",
        name,
        contents=contents,
        desired_channels=desired_channels,
        desired_samples=desired_samples,
    )
    return found


def encode_wav(audio: TensorLike, sample_rate: TensorLike, name: str | None = None) -> Tensor:
    """Return the content of a WAV file.

    audio: [samples, channels] in -1..1.
    """
    return tensor("EncodeWav", name, audio=audio, sample_rate=sample_rate)
