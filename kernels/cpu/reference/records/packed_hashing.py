"""Hash many strings at once in NumPy.

The hashes are those of `hashing.py`, which names their sources. Strings of one class of sizes share
the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tfjit.kernels.cpu.reference.records.packed_strings import PackedStrings

Words = np.ndarray
"""uint64, one of each string."""
_U: Final = np.uint64
_K0: Final = _U(0xC3A5C85C97CB3127)
_K1: Final = _U(0xB492B66FBE98F273)
_K2: Final = _U(0x9AE16A3B2F90404F)


def _rotate(value: Words, right: int) -> Words:
    return value >> _U(right) | value << _U(64 - right)


def _mix(value: Words) -> Words:
    return value ^ value >> _U(47)


def _pair(u: Words, v: Words, mul: Words) -> Words:
    a = _mix((u ^ v) * mul)
    return _mix((v ^ a) * mul) * mul


def _multiplier(strings: PackedStrings) -> Words:
    return _K2 + _U(2) * strings.sizes.astype(_U)


def _up_to_3(strings: PackedStrings) -> Words:
    sizes = strings.sizes
    y = strings.bytes_at(0) + (strings.bytes_at(sizes >> 1) << _U(8))
    z = sizes.astype(_U) + (strings.bytes_at(sizes - 1) << _U(2))
    return _mix(y * _K2 ^ z * _K0) * _K2


def _up_to_7(strings: PackedStrings) -> Words:
    sizes = strings.sizes
    first, last = strings.words(0, "<u4"), strings.words(sizes - 4, "<u4")
    return _pair(sizes.astype(_U) + (first << _U(3)), last, _multiplier(strings))


def _up_to_16(strings: PackedStrings) -> Words:
    mul = _multiplier(strings)
    a, b = strings.words(0) + _K2, strings.words(strings.sizes - 8)
    return _pair(_rotate(b, 37) * mul + a, (_rotate(a, 25) + b) * mul, mul)


def _up_to_32(strings: PackedStrings) -> Words:
    mul, sizes = _multiplier(strings), strings.sizes
    a, b = strings.words(0) * _K1, strings.words(8)
    c, d = strings.words(sizes - 8) * mul, strings.words(sizes - 16) * _K2
    return _pair(_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, mul)


def _up_to_64(strings: PackedStrings) -> Words:
    mul, sizes = _multiplier(strings), strings.sizes
    a, b = strings.words(0) * _K2, strings.words(8)
    c, d = strings.words(sizes - 8) * mul, strings.words(sizes - 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _pair(y, a + _rotate(b + _K2, 18) + c, mul)
    e, f = strings.words(16) * mul, strings.words(24)
    g, h = (y + strings.words(sizes - 32)) * mul, (z + strings.words(sizes - 24)) * mul
    return _pair(_rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, mul)


class _LongStrings:
    """The state of strings of more than 64 bytes."""

    def __init__(self, strings: PackedStrings) -> None:
        count = strings.sizes.size
        self.x = np.full(count, 81, _U) * _K2 + strings.words(0)
        self.y = np.full(count, 81, _U) * _K1 + _U(113)
        self.z = _mix(self.y * _K2 + _U(113)) * _K2
        self.v = [np.zeros(count, _U), np.zeros(count, _U)]
        self.w = [np.zeros(count, _U), np.zeros(count, _U)]

    def take(self, chosen: np.ndarray) -> _LongStrings:
        """Return the state of some of the strings."""
        taken = object.__new__(_LongStrings)
        taken.x, taken.y, taken.z = self.x[chosen], self.y[chosen], self.z[chosen]
        taken.v, taken.w = [v[chosen] for v in self.v], [w[chosen] for w in self.w]
        return taken

    def put(self, chosen: np.ndarray, state: _LongStrings) -> None:
        """Write the state of some of the strings."""
        self.x[chosen], self.y[chosen], self.z[chosen] = state.x, state.y, state.z
        for mine, theirs in zip([*self.v, *self.w], [*state.v, *state.w], strict=True):
            mine[chosen] = theirs

    def mix_block(
        self, strings: PackedStrings, at: np.ndarray | int, mul: Words | np.uint64, times: int
    ) -> None:
        """Mix 64 bytes of each string into its state."""
        word, v, w = strings.words, self.v, self.w
        x = _rotate(self.x + self.y + v[0] + word(at + 8), 37) * mul
        y = _rotate(self.y + v[1] + word(at + 48), 42) * mul
        x = x ^ w[1] * _U(times)
        y = y + v[0] * _U(times) + word(at + 40)
        z = _rotate(self.z + w[0], 33) * mul
        first = _weak(strings, at, v[1] * mul, x + w[0])
        second = _weak(strings, at + 32, z + w[1], y + word(at + 16))
        self.x, self.y, self.z, self.v, self.w = z, y, x, first, second


def _weak(strings: PackedStrings, at: np.ndarray | int, a: Words, b: Words) -> list[Words]:
    """Hash 32 bytes of each string with two seeds to two words."""
    w, x, y, z = (strings.words(at + 8 * k) for k in range(4))
    a = a + w
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y
    b = b + _rotate(a, 44)
    return [a + z, b + c]


def _above_64(strings: PackedStrings) -> Words:
    state, sizes = _LongStrings(strings), strings.sizes
    blocks = (sizes - 1) // 64
    for block in range(int(blocks.max())):
        chosen = np.flatnonzero(blocks > block)
        some = state.take(chosen)
        some.mix_block(strings.take(chosen), 64 * block, _K1, 1)
        state.put(chosen, some)
    mul = _K1 + ((state.z & _U(0xFF)) << _U(1))
    v, w = state.v, state.w
    w[0] = w[0] + ((sizes - 1) & 63).astype(_U)
    v[0] = v[0] + w[0]
    w[0] = w[0] + v[0]
    state.mix_block(strings, sizes - 64, mul, 9)
    v, w = state.v, state.w
    left = _pair(v[0], w[0], mul) + _mix(state.y) * _K0 + state.z
    return _pair(left, _pair(v[1], w[1], mul) + state.x, mul)


_CLASSES: Final[tuple[tuple[int, Callable[[PackedStrings], Words]], ...]] = (
    (0, lambda strings: np.full(strings.sizes.size, _K2)),
    (3, _up_to_3),
    (7, _up_to_7),
    (16, _up_to_16),
    (32, _up_to_32),
    (64, _up_to_64),
    (1 << 62, _above_64),
)
"""Largest size of a class, and its hash."""


def fingerprints(strings: PackedStrings) -> Words:
    """Return FarmHash's Fingerprint64 of each string."""
    out = np.empty(strings.sizes.size, _U)
    kinds = np.searchsorted([most for most, _ in _CLASSES], strings.sizes)
    for kind, (_, hashed) in enumerate(_CLASSES):
        chosen = np.flatnonzero(kinds == kind)
        if chosen.size:
            out[chosen] = hashed(strings.take(chosen))
    return out


def siphashes(strings: PackedStrings, key: tuple[int, int]) -> Words:
    """Return SipHash-2-4 of each string; key: two unsigned words of 64 bits."""
    out = np.empty(strings.sizes.size, _U)
    counts = strings.sizes >> 3
    for count in np.unique(counts).tolist():  # strings of equally many whole words together
        chosen = np.flatnonzero(counts == count)
        out[chosen] = _siphashes(strings.take(chosen), count, key)
    return out


def _siphashes(strings: PackedStrings, count: int, key: tuple[int, int]) -> Words:
    """Return the hashes of strings that have `count` whole words each."""
    k0, k1 = key
    seeds = (k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261,
             k1 ^ 0x7465646279746573)  # fmt: skip
    v0, v1, v2, v3 = (np.full(strings.sizes.size, seed, _U) for seed in seeds)

    def rounds(times: int, v0: Words, v1: Words, v2: Words, v3: Words) -> list[Words]:
        for _ in range(times):
            v0, v2 = v0 + v1, v2 + v3
            v1, v3 = _rotate(v1, 51) ^ v0, _rotate(v3, 48) ^ v2
            v0 = _rotate(v0, 32)
            v2, v0 = v2 + v1, v0 + v3
            v1, v3 = _rotate(v1, 47) ^ v2, _rotate(v3, 43) ^ v0
            v2 = _rotate(v2, 32)
        return [v0, v1, v2, v3]

    sizes = strings.sizes.astype(_U)
    for k in range(count + 1):
        word = strings.words(8 * k)
        if k == count:
            rest = _U(8) * (sizes & _U(7))
            word = word & ((_U(1) << rest) - _U(1)) | (sizes & _U(0xFF)) << _U(56)
        v0, v1, v2, v3 = rounds(2, v0, v1, v2, v3 ^ word)
        v0 = v0 ^ word
    v0, v1, v2, v3 = rounds(4, v0, v1, v2 ^ _U(0xFF), v3)
    return v0 ^ v1 ^ v2 ^ v3
