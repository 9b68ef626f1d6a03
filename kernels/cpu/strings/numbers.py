"""Read numbers from strings."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.strings.number_text import NUMBERS, powers_of_five
from tfjit.kernels.cpu.strings.string_function import NOT_BYTES, StringFunction, address_of

_TEXT: Final = f"""\
def kernel(args, chunk, nchunks):
    items, count = word(args, 2), word(args, 3)
    size_at, data_at = word(args, 6), word(args, 7)
    kind, out, others, powers = word(args, 8), word(args, 9), word(args, 10), word(args, 11)
    low, high = word(args, 12), word(args, 13)
    if not are_bytes(args):
        store_word(args, {NOT_BYTES})
        return
    left = 0
    for k in range(count):
        item = load_word(items + 8 * k)
        at = item + data_at
        end = at + load_word(item + size_at)
        if kind <= 1:
            good, value = read_float(at, end, powers, kind == 0)
        else:
            good, value = read_integer(at, end)
            good = good and low <= value and value <= high
        if not good:
            store_word(others + 8 * left, k)
            left += 1
        elif kind == 0 or kind == 2:
            st_any(ptr_i32(out), k, value)
        else:
            store_word(out + 8 * k, value)
    store_word(args + 8, left)
"""
"""The words behind the head.

The kind of numbers (float32, float64, integers of 32 and 64 bits), the results, places of
the strings that are left to Python, the powers of five, the least and greatest integer.

The detail is the number of those strings."""

_function: Final = StringFunction(NUMBERS + _TEXT, "numbers of strings", __name__)
FUNCTIONS: Final = (_function,)


def read_numbers(items: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the numbers of strings.

    Behind them are the places of the strings that Python has to read. items: a vector of bytes.
    dtype: float32, float64, or of integers of 32 or 64 bits. None where the function is not
    compiled.
    """
    out = np.empty(items.size, dtype)
    others = np.empty(items.size, np.int64)
    if dtype.kind == "f":
        kind, low, high = (0 if dtype.itemsize == 4 else 1), 0, 0
    else:
        limits = np.iinfo(dtype)
        kind = 2 if dtype.itemsize == 4 else 3
        low, high = int(limits.min), min(int(limits.max), np.iinfo(np.int64).max)
    result = _function(
        items, kind, address_of(out), address_of(others), address_of(powers_of_five()), low, high
    )
    return None if result is None else (out, others[: result[1]])
