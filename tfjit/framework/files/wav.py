"""Write sounds as WAV files: 16-bit PCM, little-endian."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError

_PCM: Final = 1
_BYTES: Final = 2  # of a sample


def pack_wav(samples: np.ndarray, sample_rate: int) -> bytes:
    """Return a WAV file of samples.

    samples: float32 [frames, channels] between -1 and 1. Values outside are cut off, and NaN is 0.
    Raises InvalidArgumentError for a rate or a size that the header cannot hold.
    """
    frames, channels = samples.shape
    if not 0 < sample_rate < 1 << 32:
        raise InvalidArgumentError(
            None, None, f"sample_rate must be in (0, 2^32), got: {sample_rate}"
        )
    if not 0 < channels < 1 << 16:
        raise InvalidArgumentError(
            None, None, f"num_channels must be in (0, 2^16), got: {channels}"
        )
    size = frames * channels * _BYTES
    rate = sample_rate * channels * _BYTES
    if size + 36 >= 1 << 32 or rate >= 1 << 32:
        raise InvalidArgumentError(
            None, None, "Provided channels and frames cannot be encoded as a WAV."
        )
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = samples.astype(np.float32) * np.float32(32768)
        whole = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    levels = np.clip(np.nan_to_num(whole, nan=0.0), -32768, 32767).astype("<i2")
    return (
        struct.pack("<4sI4s4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16)
        + struct.pack("<HHIIHH", _PCM, channels, sample_rate, rate, channels * _BYTES, 8 * _BYTES)
        + struct.pack("<4sI", b"data", size)
        + levels.tobytes()
    )
