"""Hash strings to words of 64 bits.

Sources: FarmHash 1.1, Fingerprint64 (the "na" form); SipHash-2-4, Aumasson and Bernstein 2012.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.strings.string_function import NOT_BYTES, StringFunction, address_of

_LOOP: Final = f"""\
def kernel(args, chunk, nchunks):
    items, count = word(args, 2), word(args, 3)
    size_at, data_at = word(args, 6), word(args, 7)
    out, first, second = ptr_i64(word(args, 8)), word(args, 9), word(args, 10)
    if not are_bytes(args):
        store_word(args, {NOT_BYTES})
        return
    for k in range(count):
        item = load_word(items + 8 * k)
        at, size = item + data_at, load_word(item + size_at)
        st_any(out, k, int64(hashed(at, size, uint64(first), uint64(second))))
"""

_FARM: Final = """\
K0 = uint64(0xC3A5C85C97CB3127)
K1 = uint64(0xB492B66FBE98F273)
K2 = uint64(0x9AE16A3B2F90404F)


@njit(error_model="numpy")
def eight(at):
    return uint64(ld_any(ptr_u64(at), 0))


@njit(error_model="numpy")
def four(at):
    return uint64(ld_any(ptr_u32(at), 0))


@njit(error_model="numpy")
def rotate(value, right):
    return (value >> uint64(right)) | (value << uint64(64 - right))


@njit(error_model="numpy")
def mix(value):
    return value ^ (value >> uint64(47))


@njit(error_model="numpy")
def pair(u, v, mul):
    a = mix((u ^ v) * mul)
    return mix((v ^ a) * mul) * mul


@njit(error_model="numpy")
def up_to_16(at, size):
    mul = K2 + uint64(2 * size)
    if size >= 8:
        a, b = eight(at) + K2, eight(at + size - 8)
        return pair(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul)
    if size >= 4:
        return pair(uint64(size) + (four(at) << uint64(3)), four(at + size - 4), mul)
    if size > 0:
        y = uint64(byte_at(at)) + (uint64(byte_at(at + (size >> 1))) << uint64(8))
        z = uint64(size) + (uint64(byte_at(at + size - 1)) << uint64(2))
        return mix((y * K2) ^ (z * K0)) * K2
    return K2


@njit(error_model="numpy")
def up_to_32(at, size):
    mul = K2 + uint64(2 * size)
    a, b = eight(at) * K1, eight(at + 8)
    c, d = eight(at + size - 8) * mul, eight(at + size - 16) * K2
    return pair(rotate(a + b, 43) + rotate(c, 30) + d, a + rotate(b + K2, 18) + c, mul)


@njit(error_model="numpy")
def up_to_64(at, size):
    mul = K2 + uint64(2 * size)
    a, b = eight(at) * K2, eight(at + 8)
    c, d = eight(at + size - 8) * mul, eight(at + size - 16) * K2
    y = rotate(a + b, 43) + rotate(c, 30) + d
    z = pair(y, a + rotate(b + K2, 18) + c, mul)
    e, f = eight(at + 16) * mul, eight(at + 24)
    g, h = (y + eight(at + size - 32)) * mul, (z + eight(at + size - 24)) * mul
    return pair(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul)


@njit(error_model="numpy")
def weak(at, a, b):
    x, y, z = eight(at + 8), eight(at + 16), eight(at + 24)
    a += eight(at)
    b = rotate(b + a + z, 21)
    c = a
    a += x + y
    b += rotate(a, 44)
    return a + z, b + c


@njit(error_model="numpy")
def block(at, x, y, z, v0, v1, w0, w1, mul, times):
    x = rotate(x + y + v0 + eight(at + 8), 37) * mul
    y = rotate(y + v1 + eight(at + 48), 42) * mul
    x ^= w1 * times
    y += v0 * times + eight(at + 40)
    z = rotate(z + w0, 33) * mul
    v0, v1 = weak(at, v1 * mul, x + w0)
    w0, w1 = weak(at + 32, z + w1, y + eight(at + 16))
    return z, y, x, v0, v1, w0, w1


@njit(error_model="numpy")
def hashed(at, size, first, second):
    if size <= 16:
        return up_to_16(at, size)
    if size <= 32:
        return up_to_32(at, size)
    if size <= 64:
        return up_to_64(at, size)
    y = uint64(81) * K1 + uint64(113)
    z = mix(y * K2 + uint64(113)) * K2
    x = uint64(81) * K2 + eight(at)
    v0, v1, w0, w1 = uint64(0), uint64(0), uint64(0), uint64(0)
    for k in range((size - 1) >> 6):
        x, y, z, v0, v1, w0, w1 = block(at + 64 * k, x, y, z, v0, v1, w0, w1, K1, uint64(1))
    mul = K1 + ((z & uint64(255)) << uint64(1))
    w0 += uint64((size - 1) & 63)
    v0 += w0
    w0 += v0
    x, y, z, v0, v1, w0, w1 = block(at + size - 64, x, y, z, v0, v1, w0, w1, mul, uint64(9))
    return pair(pair(v0, w0, mul) + mix(y) * K0 + z, pair(v1, w1, mul) + x, mul)


"""

_SIP: Final = """\
@njit(error_model="numpy")
def rotate(value, left):
    return (value << uint64(left)) | (value >> uint64(64 - left))


@njit(error_model="numpy")
def two_rounds(v0, v1, v2, v3):
    for _ in range(2):
        v0 += v1
        v2 += v3
        v1 = rotate(v1, 13) ^ v0
        v3 = rotate(v3, 16) ^ v2
        v0 = rotate(v0, 32)
        v2 += v1
        v0 += v3
        v1 = rotate(v1, 17) ^ v2
        v3 = rotate(v3, 21) ^ v0
        v2 = rotate(v2, 32)
    return v0, v1, v2, v3


@njit(error_model="numpy")
def hashed(at, size, first, second):
    v0, v1 = first ^ uint64(0x736F6D6570736575), second ^ uint64(0x646F72616E646F6D)
    v2, v3 = first ^ uint64(0x6C7967656E657261), second ^ uint64(0x7465646279746573)
    whole = size >> 3
    for k in range(whole + 1):
        piece = uint64(0)
        if k < whole:
            piece = uint64(ld_any(ptr_u64(at), k))
        else:
            for n in range(8 * whole, size):
                piece |= uint64(byte_at(at + n)) << uint64(8 * (n & 7))
            piece |= uint64(size & 255) << uint64(56)
        v3 ^= piece
        v0, v1, v2, v3 = two_rounds(v0, v1, v2, v3)
        v0 ^= piece
    v2 ^= uint64(255)
    v0, v1, v2, v3 = two_rounds(v0, v1, v2, v3)
    v0, v1, v2, v3 = two_rounds(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


"""

_fingerprints: Final = StringFunction(_FARM + _LOOP, "FarmHash of strings", __name__)
_siphashes: Final = StringFunction(_SIP + _LOOP, "SipHash of strings", __name__)
FUNCTIONS: Final = (_fingerprints, _siphashes)


def _hashes(function: StringFunction, items: np.ndarray, key: tuple[int, int]) -> np.ndarray | None:
    out = np.empty(items.size, np.uint64)
    words = np.array(key, np.uint64).view(np.int64).tolist()
    return None if function(items, address_of(out), *words) is None else out


def fingerprints(items: np.ndarray) -> np.ndarray | None:
    """Return FarmHash's Fingerprint64 of each string, uint64; items: a vector of bytes.

    None where the function is not compiled.
    """
    return _hashes(_fingerprints, items, (0, 0))


def siphashes(items: np.ndarray, key: tuple[int, int]) -> np.ndarray | None:
    """Return SipHash-2-4 of each string, uint64.

    key: two unsigned words of 64 bits. items: a vector of bytes. None where the function is not
    compiled.
    """
    return _hashes(_siphashes, items, key)
