"""Read lines of CSV to columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from tfjit.kernels.cpu.strings.number_text import NUMBERS, powers_of_five
from tfjit.kernels.cpu.strings.string_function import (
    MAKERS,
    NOT_BYTES,
    StringFunction,
    address_of,
)

_TEXT: Final = f"""\
@njit(error_model="numpy")
def field_end(at, end, delimiter, quotes):
    # behind a field without quotes; -1 where a character is not allowed
    while at < end:
        c = byte_at(at)
        if c == delimiter:
            return at
        if c == 10 or c == 13 or (c == 34 and quotes):
            return -1
        at += 1
    return at


@njit(error_model="numpy")
def quoted_end(at, end, delimiter):
    # the place of the closing quote; -1 for a field that has other quotes, or no end
    while at < end and byte_at(at) != 34:
        at += 1
    if at == end or (at + 1 < end and byte_at(at + 1) != delimiter):
        return -1
    return at


@njit(error_model="numpy")
def is_missing(at, end, mark, mark_size):
    if at == end:
        return True
    if end - at != mark_size:
        return False
    for k in range(mark_size):
        if byte_at(at + k) != byte_at(mark + k):
            return False
    return True


@njit(error_model="numpy")
def read_record(args, at, end, row):
    # whether the record is read to its row of the columns
    delimiter, quotes = word(args, 8), word(args, 9) != 0
    places, most, columns = word(args, 10), word(args, 11), word(args, 12)
    mark, mark_size, powers = word(args, 13), word(args, 14), word(args, 15)
    make, drop, wanted = word(args, 16), word(args, 17), word(args, 18)
    number, found, more = 0, 0, at < end
    while more:
        if quotes and at < end and byte_at(at) == 34:
            first = at + 1
            last = quoted_end(first, end, delimiter)
            stop = last + 1
        else:
            first = at
            last = field_end(first, end, delimiter, quotes)
            stop = last
        if last < 0:
            return False
        column = load_word(places + 8 * (number if number < most else most))
        if column == -2:
            return False
        if column >= 0:
            entry = columns + 40 * column
            kind, out = load_word(entry), load_word(entry + 8)
            if is_missing(first, last, mark, mark_size):
                if load_word(entry + 16) == 0:
                    return False
                value = load_word(entry + 24)
                first = value
                last = first + load_word(entry + 32)
            elif kind <= 1:
                good, value = read_float(first, last, powers, kind == 0)
                if not good:
                    return False
            elif kind <= 3:
                good, value = read_integer(first, last)
                if not good or (kind == 2 and (value < -(1 << 31) or value >= 1 << 31)):
                    return False
            else:
                value = 0
            if kind == 4:
                made = call_value(make, first, last - first)
                if made == 0:
                    return False
                replace_item(out + 8 * row, made, drop)
            elif kind == 0 or kind == 2:
                st_any(ptr_i32(out), row, value)
            else:
                store_word(out + 8 * row, value)
            found += 1
        number += 1
        more = stop < end
        at = stop + 1
    return found == wanted


def kernel(args, chunk, nchunks):
    items, count = word(args, 2), word(args, 3)
    size_at, data_at = word(args, 6), word(args, 7)
    others = word(args, 19)
    if not are_bytes(args):
        store_word(args, {NOT_BYTES})
        return
    left = 0
    for k in range(count):
        item = load_word(items + 8 * k)
        at = item + data_at
        if not read_record(args, at, at + load_word(item + size_at), k):
            store_word(others + 8 * left, k)
            left += 1
    store_word(args + 8, left)
"""
"""The words behind the head.

Delimiter, whether fields may have quotes, the column of each field (-1: none, -2: the
record has too many), the place there of all further fields, the columns, the mark of a missing
field and its size, the powers of five, the makers, the number of columns, the records left to
Python.

A column is five words: kind (float32, float64, int32, int64, string), results, whether it has a
default, the default's bits or the address of its bytes, their number."""

_KINDS: Final = {"float32": 0, "float64": 1, "int32": 2, "int64": 3, "object": 4}

_function: Final = StringFunction(NUMBERS + _TEXT, "records of CSV", __name__)
FUNCTIONS: Final = (_function,)


def read_records(
    records: np.ndarray,
    dtypes: Sequence[np.dtype],
    defaults: Sequence[np.ndarray],
    delimiter: bytes,
    quotes: bool,
    missing: bytes,
    select: Sequence[int],
) -> tuple[list[np.ndarray], np.ndarray] | None:
    """Return the columns of records, and the records left to Python.

    The latter are places in `records`.

        records: a vector of bytes. dtypes, defaults: of the columns; a default has one element or
        none. select: the fields of the columns, all by default. None where the function is not
        compiled.
    """
    if not _function.is_ready(records.size) or delimiter in b'"\r\n':
        return None
    fields = list(select) or list(range(len(dtypes)))
    places = np.full(max(fields) + 2, -1, np.int64)
    places[fields] = np.arange(len(fields))
    places[-1] = -1 if select else -2  # of all fields behind the last column
    outs = [np.empty(records.size, dtype) for dtype in dtypes]
    table = np.zeros((len(dtypes), 5), np.int64)
    texts = []
    for row, out, default in zip(table, outs, defaults, strict=True):
        row[:2] = _KINDS[out.dtype.name], address_of(out)
        if default.size:
            row[2] = 1
            value = default.reshape(-1)[:1]
            if out.dtype.kind == "O":
                text = np.frombuffer(bytes(value[0]) + b"\0", np.uint8)
                texts.append(text)
                row[3:] = address_of(text), text.size - 1
            else:
                row[3:4] = np.resize(value.astype(out.dtype), 2).view(f"i{out.dtype.itemsize}")[:1]
    others = np.empty(records.size, np.int64)
    mark = np.frombuffer(missing + b"\0", np.uint8)
    result = _function(
        records, delimiter[0], int(quotes), address_of(places), places.size - 1, address_of(table),
        address_of(mark), len(missing), address_of(powers_of_five()), *MAKERS, len(dtypes),
        address_of(others),
    )  # fmt: skip
    return None if result is None else (outs, others[: result[1]])
