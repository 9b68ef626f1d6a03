"""Write the functions that read a number from bytes, correctly rounded.

Source of the rounding: Lemire, "Number Parsing at a Gigabyte per Second", Software: Practice and
Experience 51 (2021), with truncated powers of five of 128 bits. Numbers of more than 19 digits,
names of numbers and wrong texts are left to Python.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

_LEAST, _GREATEST = -342, 308
"""Exponents of ten of the table."""

NUMBERS: Final = """\
@njit(error_model="numpy")
def is_space(c):
    return c == 32 or (9 <= c and c <= 13)


@njit(error_model="numpy")
def first_character(at, end):
    while at < end and is_space(byte_at(at)):
        at += 1
    return at


@njit(error_model="numpy")
def behind_last_character(at, end):
    while at < end and is_space(byte_at(end - 1)):
        end -= 1
    return end


@njit(error_model="numpy")
def read_integer(at, end):
    # (whether it is an integer of up to 18 digits, its value)
    at = first_character(at, end)
    end = behind_last_character(at, end)
    negative = at < end and byte_at(at) == 45
    if negative:
        at += 1
    if at == end or end - at > 18:
        return False, 0
    value = 0
    while at < end:
        digit = byte_at(at) - 48
        if digit < 0 or digit > 9:
            return False, 0
        value = 10 * value + digit
        at += 1
    return True, -value if negative else value


@njit(error_model="numpy")
def rounded_bits(w, q, powers, single):
    # bits of the binary number next to w * 10 ** q
    fraction, bias, infinite = 52, 1023, 2047
    even_low, even_high = -4, 23
    if single:
        fraction, bias, infinite = 23, 127, 255
        even_low, even_high = -17, 10
    if w == uint64(0) or q < -342:
        return 0
    if q > 308:
        return infinite << fraction
    zeros = leading_zeros(w)
    w = w << uint64(zeros)
    entry = powers + 16 * (q + 342)
    head = uint64(ld_any(ptr_u64(entry), 0))
    low = w * head
    high = mulhi_u64(w, head)
    rest = uint64(0xFFFFFFFFFFFFFFFF) >> uint64(fraction + 3)
    if (high & rest) == rest:
        more = mulhi_u64(w, uint64(ld_any(ptr_u64(entry), 1)))
        low = low + more
        if low < more:
            high = high + uint64(1)
    upper = int64(high >> uint64(63))
    shift = uint64(upper + 61 - fraction)
    mantissa = int64(high >> shift)
    power = ((217706 * q) >> 16) + 63 + upper - zeros + bias
    if power <= 0:
        if power <= -63:
            return 0
        mantissa >>= 1 - power
        mantissa = (mantissa + (mantissa & 1)) >> 1
        return mantissa
    if low <= uint64(1) and even_low <= q and q <= even_high and (mantissa & 3) == 1:
        if uint64(mantissa) << shift == high:
            mantissa -= 1
    mantissa = (mantissa + (mantissa & 1)) >> 1
    if mantissa >= 2 << fraction:
        mantissa >>= 1
        power += 1
    if power >= infinite:
        return infinite << fraction
    return (power << fraction) | (mantissa & ((1 << fraction) - 1))


@njit(error_model="numpy")
def read_float(at, end, powers, single):
    # (whether it is a decimal number of up to 19 digits, its bits)
    at = first_character(at, end)
    end = behind_last_character(at, end)
    negative = False
    if at < end and (byte_at(at) == 45 or byte_at(at) == 43):
        negative = byte_at(at) == 45
        at += 1
    w = uint64(0)
    digits, exponent, places, found = 0, 0, 0, False
    while at < end:
        c = byte_at(at)
        if c == 46 and places == 0:
            places = 1
        else:
            c -= 48
            if c < 0 or c > 9:
                break
            found = True
            if digits > 0 or c > 0:
                digits += 1
            w = w * uint64(10) + uint64(c)
            exponent -= places
        at += 1
    if not found or digits > 19:
        return False, 0
    if at < end and (byte_at(at) | 32) == 101:
        at += 1
        below = False
        if at < end and (byte_at(at) == 45 or byte_at(at) == 43):
            below = byte_at(at) == 45
            at += 1
        if at == end or end - at > 6:
            return False, 0
        given = 0
        while at < end:
            c = byte_at(at) - 48
            if c < 0 or c > 9:
                return False, 0
            given = 10 * given + c
            at += 1
        exponent += -given if below else given
    if at != end:
        return False, 0
    bits = rounded_bits(w, exponent, powers, single)
    if negative:
        bits |= -(1 << 31) if single else -0x8000000000000000
    return True, bits


"""


@functools.cache
def powers_of_five() -> np.ndarray:
    """Return the 128 highest bits of each 5 ** q.

    uint64 [powers, 2], the higher half first. Positive powers are cut off, reciprocals are rounded
    up.
    """
    rows = []
    for q in range(_LEAST, _GREATEST + 1):
        power = 5 ** abs(q)
        if q < 0:
            bits = power.bit_length() + 127
            value = (1 << bits) // power + 1
            value >>= value.bit_length() - 128
        else:
            bits = power.bit_length()
            value = power << 128 - bits if bits <= 128 else power >> bits - 128
        rows.append((value >> 64, value & (1 << 64) - 1))
    return np.array(rows, np.uint64)
