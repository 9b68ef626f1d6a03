"""MurmurHash64A, Appleby, with the seed that TensorFlow 2.21 was seen to use."""

from __future__ import annotations

from typing import Final

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 0xC6A4A7935BD1E995
_SEED: Final = 0xDECAFCAFFE
_GOLDEN: Final = 0x9E3779B97F4A7800


def murmur64(data: bytes, seed: int = _SEED) -> int:
    """Return the hash of bytes."""
    h = seed ^ len(data) * _FACTOR & _MASK
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        k = int.from_bytes(data[at : at + 8], "little") * _FACTOR & _MASK
        h = (h ^ (k ^ k >> 47) * _FACTOR & _MASK) * _FACTOR & _MASK
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    h = (h ^ h >> 47) * _FACTOR & _MASK
    return h ^ h >> 47


def combined(first: int, second: int) -> int:
    """Return one hash of two, which depends on their order."""
    return first ^ (second + _GOLDEN + (first << 10) + (first >> 4)) & _MASK


__all__ = ["combined", "murmur64"]
