"""Compute spectrograms, mel frequency cepstral coefficients and WAV files in NumPy.

Speech recognition reads the coefficients.
"""

from __future__ import annotations

import functools

import numpy as np

from tfjit.framework.files.wav import pack_wav
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.records import wav_files
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray
_FLOOR = 1e-12  # lower bound of the logarithm's argument, for silence


@reference("AudioSpectrogram")
def _spectrogram(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the spectrum of each Hann window.

    input [samples, channels] -> [channels, windows, bins]: magnitudes, or their squares.
    """
    samples = inputs[0]
    if samples.ndim != 2:
        invalid(f"input must be 2-dimensional{shape_text(samples)}")
    window, stride = node.attrs["window_size"], node.attrs["stride"]
    length = 1 << (window - 1).bit_length()
    count = 0 if len(samples) < window else 1 + (len(samples) - window) // stride
    if not count or not samples.shape[1]:
        return (np.zeros((samples.shape[1], count, length // 2 + 1), np.float32),)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    frames = np.lib.stride_tricks.sliding_window_view(samples.T.astype(np.float64), window, axis=1)[
        :, ::stride
    ]
    found = np.fft.rfft(frames * hann, length)
    power = found.real * found.real + found.imag * found.imag
    return ((power if node.attrs["magnitude_squared"] else np.sqrt(power)).astype(np.float32),)


def _mel(hertz: Array | float) -> Array:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


@functools.lru_cache(maxsize=16)
def _filters(bins: int, rate: float, channels: int, lower: float, upper: float) -> Array | None:
    """Return the weight of each bin in each triangular filter, [bins, channels].

    None where the bins end below the upper limit.
    """
    low = float(_mel(lower))
    centers = low + (float(_mel(upper)) - low) / (channels + 1) * np.arange(1, channels + 2)
    hertz_a_bin = 0.5 * rate / (bins - 1)
    start, end = int(1.5 + lower / hertz_a_bin), int(upper / hertz_a_bin)
    if end >= bins:
        return None
    used = np.arange(start, end + 1)
    mel = _mel(used * hertz_a_bin)
    # the filter with the bin on its rising edge; the bin is on the falling edge of the one before
    above = np.minimum(np.searchsorted(centers, mel), channels)
    left = np.where(above > 0, centers[np.maximum(above - 1, 0)], low)
    falling = (centers[above] - mel) / (centers[above] - left)
    weights = np.zeros((bins, channels))
    down = above > 0
    weights[used[down], above[down] - 1] = falling[down]
    up = above < channels
    weights[used[up], above[up]] += 1 - falling[up]
    return weights


@functools.lru_cache(maxsize=16)
def _cosines(channels: int, count: int) -> Array:
    """Return the discrete cosine transform of type II, [channels, count]."""
    return np.sqrt(2 / channels) * np.cos(
        np.pi / channels * np.outer(np.arange(channels) + 0.5, np.arange(count))
    )


@reference("Mfcc")
@on_free_cores
def _mfcc(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute mel frequency cepstral coefficients.

    spectrogram [channels, windows, bins] of squared magnitudes, sample_rate [] in Hz -> [channels,
    windows, dct_coefficient_count].
    """
    spectrogram, rate = inputs
    if spectrogram.ndim != 3:
        invalid(f"spectrogram must be 3-dimensional{shape_text(spectrogram)}")
    if rate.ndim:
        invalid(f"Input sample_rate should be a scalar tensor, got {shape_text(rate)} instead.")
    lower, upper = node.attrs["lower_frequency_limit"], node.attrs["upper_frequency_limit"]
    channels, count = node.attrs["filterbank_channel_count"], node.attrs["dct_coefficient_count"]
    bins = spectrogram.shape[2]
    if (
        channels < 1
        or rate <= 0
        or bins < 2
        or lower < 0
        or upper <= lower
        or not 1 <= count <= channels
    ):
        invalid(
            f"Mfcc initialization failed for channel count {bins}, sample rate {rate} and "
            f"filterbank_channel_count {channels}"
        )
    filters = _filters(bins, float(rate), channels, lower, upper)
    if filters is None:
        return (np.zeros((*spectrogram.shape[:2], count), np.float32),)
    with np.errstate(all="ignore"):
        energy = np.sqrt(spectrogram.astype(np.float64)) @ filters
        # a NaN stays one
        return (
            (np.log(np.where(energy < _FLOOR, _FLOOR, energy)) @ _cosines(channels, count)).astype(
                np.float32
            ),
        )


@reference("EncodeWav")
def _encode_wav(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the content of a WAV file of audio [samples, channels]."""
    audio, rate = (np.asarray(v) for v in inputs)
    if audio.ndim != 2:
        invalid(f"audio must be 2-dimensional{shape_text(audio)}")
    if rate.ndim:
        invalid(f"Input sample_rate should be a scalar tensor, got {shape_text(rate)}")
    if not audio.shape[1]:
        invalid("num_channels must be positive")
    return (np.array(pack_wav(audio, int(rate)), object),)


@reference("DecodeWav")
def _decode_wav(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return (audio [samples, channels], rate) of a WAV file's content."""
    (content,) = inputs
    if np.ndim(content):
        invalid(f"contents must be scalar, got shape {shape_text(np.asarray(content))}")
    audio, rate = wav_files.decoded(bytes(np.asarray(content, object)[()]))
    channels, samples = int(node.attrs["desired_channels"]), int(node.attrs["desired_samples"])
    if channels != -1:
        audio = audio[:, np.minimum(np.arange(channels), audio.shape[1] - 1)]
    if samples != -1:
        audio = np.pad(audio[:samples], ((0, max(0, samples - len(audio))), (0, 0)))
    return np.ascontiguousarray(audio), np.array(rate, np.int32)
