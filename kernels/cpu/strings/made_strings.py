"""Make strings: numbers as text, and Base64."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.strings.string_function import (
    MAKERS,
    NOT_BYTES,
    StringFunction,
    address_of,
)

MOST_DECIMALS: Final = 6
"""Greatest number of decimals.

A fraction of 53 bits times its power of ten has less than 74 bits."""

_NUMBERS: Final = """\
@njit(error_model="numpy")
def write_digits(end, value, least):
    # the digits of a number in front of `end`, `least` of them or more; returns the first's address
    at = end
    while value > 0 or end - at < least:
        following = value // 10
        at -= 1
        st_any(ptr_u8(at), 0, 48 + value - 10 * following)
        value = following
    return at


@njit(error_model="numpy")
def fraction_digits(part, places, scale):
    # part / 2 ** places * scale, rounded to the nearest integer, ties to even; part < 2 ** 53
    if places > 74:
        return 0
    high = (part >> 32) * scale
    low = (part & 0xFFFFFFFF) * scale
    high += low >> 32
    low &= 0xFFFFFFFF
    if places <= 32:
        value = (high << (32 - places)) + (low >> places)
        rest = 2 * (low & ((1 << places) - 1)) - (1 << places)
    else:
        value = high >> (places - 32)
        rest = 2 * (high & ((1 << (places - 32)) - 1)) - (1 << (places - 32))
        if rest == 0 and low > 0:
            rest = 1
    if rest > 0 or (rest == 0 and (value & 1) == 1):
        value += 1
    return value


def kernel(args, chunk, nchunks):
    slots, count = word(args, 2), word(args, 3)
    kind, values, decimals, scale = word(args, 8), word(args, 9), word(args, 10), word(args, 11)
    scratch, make, drop, others = word(args, 12), word(args, 13), word(args, 14), word(args, 15)
    end = scratch + 64
    left = 0
    for k in range(count):
        at = end
        good = True
        if kind == 2:
            value = load_word(values + 8 * k)
            good = value != -0x8000000000000000
            negative = value < 0
            at = write_digits(end, -value if negative else value, 1)
        else:
            bits = load_word(values + 8 * k)
            negative = bits < 0
            power = (bits >> 52) & 2047
            mantissa = bits & 0xFFFFFFFFFFFFF
            if power == 0:
                power = 1
            else:
                mantissa |= 1 << 52
            places = 1075 - power
            good = places >= 0
            if good:
                whole, part = 0, mantissa
                if places <= 52:
                    whole = mantissa >> places
                    part = mantissa & ((1 << places) - 1)
                digits = fraction_digits(part, places, scale) if places > 0 else 0
                if digits == scale:
                    whole += 1
                    digits = 0
                at = write_digits(end, digits, decimals) - 1
                st_any(ptr_u8(at), 0, 46)
                at = write_digits(at, whole, 1)
        if good:
            if negative:
                at -= 1
                st_any(ptr_u8(at), 0, 45)
            made = call_value(make, at, end - at)
            if made == 0:
                return
            replace_item(slots + 8 * k, made, drop)
        else:
            store_word(others + 8 * left, k)
            left += 1
    store_word(args + 8, left)
"""
"""The words behind the head.

The kind of numbers (float64 or int64: 1, 2), the numbers, decimals and their power of
ten, 64 bytes of scratch, the makers, the places of the numbers left to Python.

The detail is the number of those."""

_ENCODE: Final = f"""\
def kernel(args, chunk, nchunks):
    items, count = word(args, 2), word(args, 3)
    size_at, data_at = word(args, 6), word(args, 7)
    slots, make, drop = word(args, 8), word(args, 9), word(args, 10)
    alphabet, pad = word(args, 11), word(args, 12)
    if not are_bytes(args):
        store_word(args, {NOT_BYTES})
        return
    letters = ptr_u8(alphabet)
    for k in range(count):
        item = load_word(items + 8 * k)
        size, at = load_word(item + size_at), item + data_at
        triples = size // 3
        rest = size - 3 * triples
        length = 4 * triples
        if rest > 0:
            length += 4 if pad else rest + 1
        made = call_value(make, 0, length)
        if made == 0:
            return
        to = ptr_u8(made + data_at)
        for t in range(triples):
            bits = (byte_at(at) << 16) | (byte_at(at + 1) << 8) | byte_at(at + 2)
            at += 3
            st_any(to, 4 * t, ld_any(letters, bits >> 18))
            st_any(to, 4 * t + 1, ld_any(letters, (bits >> 12) & 63))
            st_any(to, 4 * t + 2, ld_any(letters, (bits >> 6) & 63))
            st_any(to, 4 * t + 3, ld_any(letters, bits & 63))
        if rest > 0:
            bits = byte_at(at) << 16
            if rest == 2:
                bits |= byte_at(at + 1) << 8
            st_any(to, 4 * triples, ld_any(letters, bits >> 18))
            st_any(to, 4 * triples + 1, ld_any(letters, (bits >> 12) & 63))
            if rest == 2:
                st_any(to, 4 * triples + 2, ld_any(letters, (bits >> 6) & 63))
            if pad:
                if rest == 1:
                    st_any(to, 4 * triples + 2, 61)
                st_any(to, 4 * triples + 3, 61)
        replace_item(slots + 8 * k, made, drop)
"""
"""Words: the results, the makers, the alphabet, whether to pad."""

_DECODE: Final = f"""\
def kernel(args, chunk, nchunks):
    items, count = word(args, 2), word(args, 3)
    size_at, data_at = word(args, 6), word(args, 7)
    slots, make, drop, table = word(args, 8), word(args, 9), word(args, 10), word(args, 11)
    if not are_bytes(args):
        store_word(args, {NOT_BYTES})
        return
    numbers = ptr_u8(table)
    for k in range(count):
        item = load_word(items + 8 * k)
        size, at = load_word(item + size_at), item + data_at
        if size > 0 and (size & 3) == 0:
            if byte_at(at + size - 1) == 61:
                size -= 1
                if byte_at(at + size - 1) == 61:
                    size -= 1
        quads = size >> 2
        rest = size & 3
        if rest == 1:
            store_word(args, 1)
            return
        made = call_value(make, 0, 3 * quads + (rest - 1 if rest > 0 else 0))
        if made == 0:
            return
        replace_item(slots + 8 * k, made, drop)
        to = ptr_u8(made + data_at)
        wrong = 0
        for q in range(quads):
            bits = 0
            for n in range(4):
                value = int64(ld_any(numbers, byte_at(at + n)))
                wrong |= value
                bits = (bits << 6) | (value & 63)
            at += 4
            st_any(to, 3 * q, bits >> 16)
            st_any(to, 3 * q + 1, (bits >> 8) & 255)
            st_any(to, 3 * q + 2, bits & 255)
        if rest > 0:
            bits = 0
            for n in range(rest):
                value = int64(ld_any(numbers, byte_at(at + n)))
                wrong |= value
                bits |= (value & 63) << (18 - 6 * n)
            st_any(to, 3 * quads, bits >> 16)
            if rest == 3:
                st_any(to, 3 * quads + 1, (bits >> 8) & 255)
        if wrong >= 64:
            store_word(args, 1)
            return
"""
"""The words behind the head.

The results, the makers, a number for each byte (64 for one that encodes nothing).

Status 1: a string is wrong."""

_ALPHABET: Final = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_VALUES: Final = np.full(256, 64, np.uint8)
_VALUES[_ALPHABET] = np.arange(64)

_number_texts: Final = StringFunction(_NUMBERS, "strings of numbers", __name__)
_encode: Final = StringFunction(_ENCODE, "strings to base64", __name__)
_decode: Final = StringFunction(_DECODE, "strings of base64", __name__)
FUNCTIONS: Final = (_number_texts, _encode, _decode)


def number_texts(values: np.ndarray, decimals: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return numbers as printf writes them.

    Behind them are the places of those that Python has to write. values: a vector of floats or of
    signed integers. decimals: of floats, 1 to MOST_DECIMALS. None where the function is not
    compiled.
    """
    wide = np.ascontiguousarray(values, np.float64 if values.dtype.kind == "f" else np.int64)
    slots = np.empty(values.size, object)
    scratch, others = np.empty(64, np.uint8), np.empty(values.size, np.int64)
    result = _number_texts(
        slots, 1 if values.dtype.kind == "f" else 2, address_of(wide), decimals, 10**decimals,
        address_of(scratch), *MAKERS, address_of(others),
    )  # fmt: skip
    return None if result is None else (slots, others[: result[1]])


def base64_texts(items: np.ndarray, pad: bool) -> np.ndarray | None:
    """Return strings in Base64 that is safe in URLs.

    items: a vector of bytes. None where the function is not compiled.
    """
    slots = np.empty(items.size, object)
    result = _encode(items, address_of(slots), *MAKERS, address_of(_ALPHABET), int(pad))
    return None if result is None else slots


def base64_values(items: np.ndarray) -> np.ndarray | None:
    """Return the strings that Base64 texts encode; items: a vector of bytes.

    None where the function is not compiled, and where a text is wrong.
    """
    slots = np.empty(items.size, object)
    result = _decode(items, address_of(slots), *MAKERS, address_of(_VALUES))
    return None if result is None or result[0] else slots
