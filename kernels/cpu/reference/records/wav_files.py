"""Read WAV files of 16-bit samples; `framework/files/wav.py` writes them."""

from __future__ import annotations

import struct

import numpy as np

from tfjit.kernels.cpu.reference.inputs import invalid

# compression, channels, rate, bytes per second, bytes of a frame, bits
_FORMAT = struct.Struct("<HHIIHH")
_LEVELS = 1 << 15


class _Reader:
    """Read the parts of a file in order."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes; raise InvalidArgumentError where the file ends."""
        end = self.at + count
        if end > len(self.content):
            invalid("Data too short when trying to read string")
        found = self.content[self.at : end]
        self.at = end
        return found

    def expect(self, text: bytes) -> None:
        """Read a text; raise InvalidArgumentError for another."""
        found = self.take(len(text))
        if found != text:
            invalid(
                f"Header mismatch: Expected {text.decode()} but found "
                f"{found.decode('utf-8', 'replace')}"
            )

    def number(self) -> int:
        """Read a number of four bytes."""
        return int.from_bytes(self.take(4), "little")


def decoded(content: bytes) -> tuple[np.ndarray, int]:
    """Return (float32 samples [samples, channels], rate) of a file's content.

    Raises InvalidArgumentError for content that is no WAV file of 16-bit samples.
    """
    reader = _Reader(content)
    reader.expect(b"RIFF")
    reader.number()
    reader.expect(b"WAVE")
    reader.expect(b"fmt ")
    size = reader.number()
    if size not in (16, 18):
        invalid(f"Bad format chunk size for WAV: Expected 16 or 18, but got{size}")
    kind, channels, rate, per_second, frame, bits = _FORMAT.unpack(reader.take(_FORMAT.size))
    reader.take(size - _FORMAT.size)
    if kind != 1:
        invalid(f"Bad audio format for WAV: Expected 1 (PCM), but got{kind}")
    if bits != 16:
        invalid(f"Can only read 16-bit WAV files, but received {bits}")
    if frame * 8 != bits * channels:
        invalid(
            f"Bad bytes per sample in WAV header: Expected {bits * channels // 8} but got {frame}"
        )
    if per_second != frame * rate:
        invalid(
            f"Bad bytes per second in WAV header: Expected {frame * rate} but got {per_second} "
            f"(sample_rate={rate}, bytes_per_sample={frame})"
        )
    while reader.at < len(content):
        name, length = reader.take(4), reader.number()
        if name == b"data":
            count = length // frame
            words = np.frombuffer(reader.take(count * frame), "<i2").reshape(count, channels)
            return words.astype(np.float32) / np.float32(_LEVELS), rate
        reader.take(min(length, len(content) - reader.at))
    invalid("No data chunk found in WAV")
