"""Hash strings to buckets.

Sources: FarmHash 1.1, Fingerprint64 (the "na" form); SipHash-2-4, Aumasson and Bernstein 2012.
The choice of the hash by op: TensorFlow 2.21, observed by running it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.murmur_hash import murmur64
from tfjit.kernels.cpu.reference.records import packed_hashing
from tfjit.kernels.cpu.reference.records.packed_strings import PackedStrings
from tfjit.kernels.cpu.strings.hashes import fingerprints, siphashes
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]
_MANY: Final = 64
"""Least number of strings that are packed and hashed at once."""
_MASK: Final = (1 << 64) - 1
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotate(value: int, right: int) -> int:
    value &= _MASK
    return (value >> right | value << 64 - right) & _MASK


def _mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _pair(u: int, v: int, mul: int) -> int:
    a = _mix((u ^ v) * mul)
    return _mix((v ^ a) * mul) * mul & _MASK


def _up_to_16(data: bytes) -> int:
    size = len(data)
    mul = _K2 + 2 * size
    if size >= 8:
        a, b = _word(data, 0) + _K2 & _MASK, _word(data, size - 8)
        c = _rotate(b, 37) * mul + a & _MASK
        d = (_rotate(a, 25) + b) * mul & _MASK
        return _pair(c, d, mul)
    if size >= 4:
        return _pair(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), mul)
    if size:
        y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        return _mix(y * _K2 ^ z * _K0) * _K2 & _MASK
    return _K2


def _up_to_32(data: bytes) -> int:
    size = len(data)
    mul = _K2 + 2 * size
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * mul, _word(data, size - 16) * _K2
    return _pair(
        _rotate(a + b, 43) + _rotate(c, 30) + d & _MASK, a + _rotate(b + _K2, 18) + c & _MASK, mul
    )


def _up_to_64(data: bytes) -> int:
    size = len(data)
    mul = _K2 + 2 * size
    a, b = _word(data, 0) * _K2, _word(data, 8)
    c, d = _word(data, size - 8) * mul, _word(data, size - 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d & _MASK
    z = _pair(y, a + _rotate(b + _K2, 18) + c & _MASK, mul)
    e, f = _word(data, 16) * mul, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * mul, (z + _word(data, size - 24)) * mul
    return _pair(
        _rotate(e + f, 43) + _rotate(g, 30) + h & _MASK, e + _rotate(f + a, 18) + g & _MASK, mul
    )


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Hash 32 bytes with two seeds to two words."""
    w, x, y, z = (_word(data, at + 8 * k) for k in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    b += _rotate(a, 44)
    return a + z & _MASK, b + c & _MASK


def fingerprint64(data: bytes) -> int:
    """Return FarmHash's Fingerprint64."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        return _up_to_32(data)
    if size <= 64:
        return _up_to_64(data)
    seed = 81
    y = seed * _K1 + 113
    z = _mix(y * _K2 + 113) * _K2
    x = seed * _K2 + _word(data, 0)
    v, w = (0, 0), (0, 0)

    def block(
        at: int, x: int, y: int, z: int, mul: int, times: int
    ) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
        x = _rotate(x + y + v[0] + _word(data, at + 8), 37) * mul
        y = _rotate(y + v[1] + _word(data, at + 48), 42) * mul
        x = (x ^ w[1] * times) & _MASK
        y = y + v[0] * times + _word(data, at + 40) & _MASK
        z = _rotate(z + w[0], 33) * mul & _MASK
        first = _weak(data, at, v[1] * mul, x + w[0])
        second = _weak(data, at + 32, z + w[1], y + _word(data, at + 16))
        return z, y, x, first, second  # x and z change places

    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x, y, z, v, w = block(at, x, y, z, _K1, 1)
    mul = _K1 + ((z & 0xFF) << 1)
    w = (w[0] + ((size - 1) & 63), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = block(size - 64, x, y, z, mul, 9)
    return _pair(
        _pair(v[0], w[0], mul) + _mix(y) * _K0 + z & _MASK, _pair(v[1], w[1], mul) + x & _MASK, mul
    )


def siphash(data: bytes, key: tuple[int, int]) -> int:
    """Return SipHash-2-4 with a key of two 64-bit words."""
    k0, k1 = key
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def rounds(count: int, v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
        for _ in range(count):
            v0, v2 = v0 + v1 & _MASK, v2 + v3 & _MASK
            v1, v3 = _rotate(v1, 51) ^ v0, _rotate(v3, 48) ^ v2
            v0 = _rotate(v0, 32)
            v2, v0 = v2 + v1 & _MASK, v0 + v3 & _MASK
            v1, v3 = _rotate(v1, 47) ^ v2, _rotate(v3, 43) ^ v0
            v2 = _rotate(v2, 32)
        return v0, v1, v2, v3

    whole = len(data) & ~7
    words = [_word(data, at) for at in range(0, whole, 8)]
    words.append(_word(data, whole) | (len(data) & 0xFF) << 56)
    for word in words:
        v0, v1, v2, v3 = rounds(2, v0, v1, v2, v3 ^ word)
        v0 ^= word
    v0, v1, v2, v3 = rounds(4, v0, v1, v2 ^ 0xFF, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _buckets(
    node: NodeSpec,
    strings: np.ndarray,
    hashed: Callable[[bytes], int],
    all_hashed: Callable[[np.ndarray], np.ndarray | None] = lambda items: None,
    many_hashed: Callable[[PackedStrings], np.ndarray] | None = None,
) -> Arrays:
    """Return each string's hash modulo the number of buckets.

    all_hashed: the same hash of a vector of strings, by a compiled function; None without one.
    many_hashed: the same hash of packed strings, by NumPy.
    """
    count = int(node.attrs["num_buckets"])
    array = np.asarray(strings, object, order="C")
    items = array.reshape(-1)
    hashes = all_hashed(items)
    if hashes is None and many_hashed is not None and items.size >= _MANY:
        hashes = many_hashed(PackedStrings.of(items.tolist()))
    elif hashes is None:
        hashes = np.array([hashed(item) for item in items.tolist()], np.uint64)
    return ((hashes % np.uint64(count)).astype(np.int64).reshape(array.shape),)


@reference("StringToHashBucketFast")
def _fast(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _buckets(node, inputs[0], fingerprint64, fingerprints, packed_hashing.fingerprints)


@reference("StringToHashBucket")
def _legacy(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _buckets(node, inputs[0], murmur64)


@reference("StringToHashBucketStrong")
def _strong(node: NodeSpec, inputs: Arrays) -> Arrays:
    key = node.attrs["key"]
    if len(key) != 2:
        raise InvalidArgumentError(None, None, f"Key must have 2 elements, but it has {len(key)}")
    words = int(key[0]) & _MASK, int(key[1]) & _MASK
    return _buckets(
        node,
        inputs[0],
        lambda item: siphash(item, words),
        lambda items: siphashes(items, words),
        lambda strings: packed_hashing.siphashes(strings, words),
    )
