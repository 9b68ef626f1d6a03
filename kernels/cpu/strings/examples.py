"""Read features of serialized Example messages.

Source: Protocol Buffers, "Encoding". A first function finds the lists of the wanted features in
each message and counts their values; a second one reads the values of all messages, a feature at a
time. Messages with errors or rare forms are left to Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfjit.kernels.cpu.strings.string_function import (
    MAKERS,
    NOT_BYTES,
    StringFunction,
    address_of,
)

_WIRE: Final = """\
@njit(error_model="numpy")
def read_varint(at, end):
    # (the number, the address behind it); the address is 0 for a number that does not end
    value, shift = 0, 0
    while at < end and shift < 70:
        c = byte_at(at)
        at += 1
        value |= (c & 127) << shift
        if c < 128:
            return value, at
        shift += 7
    return 0, 0


@njit(error_model="numpy")
def read_part(at, end):
    # (first byte, end) of a part with a length; the end is 0 for a wrong length
    size, first = read_varint(at, end)
    if first == 0 or size < 0 or size > end - first:
        return 0, 0
    return first, first + size


"""

_FIND: Final = f"""\
@njit(error_model="numpy")
def count_numbers(at, end):
    # the number of varints; -1 for one that is too long or does not end
    count, length = 0, 0
    while at < end:
        length += 1
        if byte_at(at) < 128:
            count += 1
            length = 0
        elif length == 10:
            return -1
        at += 1
    return count if length == 0 else -1


@njit(error_model="numpy")
def count_values(at, end, kind):
    # the number of values of a list; -1 where it is left to Python
    count = 0
    while at < end:
        tag = byte_at(at)
        at += 1
        if tag == 10:
            first, last = read_part(at, end)
            if last == 0:
                return -1
            at = last
            if kind == 1:
                count += 1
            elif kind == 2:
                if (last - first) & 3:
                    return -1
                count += (last - first) >> 2
            else:
                more = count_numbers(first, last)
                if more < 0:
                    return -1
                count += more
        elif tag == 13 and kind == 2:
            at += 4
            count += 1
            if at > end:
                return -1
        elif tag == 8 and kind == 3:
            _, at = read_varint(at, end)
            count += 1
            if at == 0:
                return -1
        else:
            return -1
    return count


@njit(error_model="numpy")
def same_bytes(at, other, size):
    for k in range(size):
        if byte_at(at + k) != byte_at(other + k):
            return False
    return True


@njit(error_model="numpy")
def key_number(at, size, keys, wanted, guess):
    # the number of a key; -1 for a feature that is not wanted
    for k in range(wanted):
        number = guess + k
        if number >= wanted:
            number -= wanted
        entry = keys + 24 * number
        if load_word(entry + 8) == size and same_bytes(at, load_word(entry), size):
            return number
    return -1


@njit(error_model="numpy")
def find_entry(at, end, keys, wanted, guess, row):
    # the number behind that of the entry's key; -1 where the message is left to Python
    key_first, key_last, value_first, value_last = 0, 0, 0, 0
    while at < end:
        tag = byte_at(at)
        first, last = read_part(at + 1, end)
        if last == 0:
            return -1
        if tag == 10:
            key_first, key_last = first, last
        elif tag == 18 and value_last == 0:
            value_first, value_last = first, last
        else:
            return -1
        at = last
    number = key_number(key_first, key_last - key_first, keys, wanted, guess)
    if number < 0:
        return guess
    place = row + 24 * number
    store_word(place, 0)
    store_word(place + 8, 0)
    store_word(place + 16, 0)
    if value_first == value_last:
        return number + 1
    kind = load_word(keys + 24 * number + 16)
    tag = byte_at(value_first)
    first, last = read_part(value_first + 1, value_last)
    if last != value_last or tag != 2 + 8 * kind:
        return -1
    count = count_values(first, last, kind)
    if count < 0:
        return -1
    store_word(place, first)
    store_word(place + 8, last)
    store_word(place + 16, count)
    return number + 1


@njit(error_model="numpy")
def find_features(at, end, keys, wanted, row):
    if at == end:
        return True
    first, last = read_part(at + 1, end)
    if byte_at(at) != 10 or last != end:
        return False
    at, guess = first, 0
    while at < end:
        first, last = read_part(at + 1, end)
        if byte_at(at) != 10 or last == 0:
            return False
        guess = find_entry(first, last, keys, wanted, guess, row)
        if guess < 0:
            return False
        at = last
    return True


def kernel(args, chunk, nchunks):
    items, count = word(args, 2), word(args, 3)
    size_at, data_at = word(args, 6), word(args, 7)
    keys, wanted, table = word(args, 8), word(args, 9), word(args, 10)
    if not are_bytes(args):
        store_word(args, {NOT_BYTES})
        return
    for k in range(count):
        item = load_word(items + 8 * k)
        at = item + data_at
        end = at + load_word(item + size_at)
        if not find_features(at, end, keys, wanted, table + 24 * wanted * k):
            store_word(args, 1)
            return
"""
"""Words: the keys, their number, the table of lists.

A key is three words: address, size, kind. An entry of the table is the first byte of a list (0 for
a message without it), its end, the number of its values. Status 1: a message is left to Python."""

_READ: Final = """\
@njit(error_model="numpy")
def read_list(at, end, kind, out, make, drop):
    # whether all values are read; `out` is the address of the first
    while at < end:
        tag = byte_at(at)
        at += 1
        last = end
        if tag == 10:
            at, last = read_part(at, end)
        if kind == 1:
            made = call_value(make, at, last - at)
            if made == 0:
                return False
            replace_item(out, made, drop)
            out += 8
            at = last
        elif kind == 2:
            size = last - at if tag == 10 else 4
            copy_bytes(out, at, size)
            out += size
            at += size
        elif tag == 10:
            while at < last:
                value, at = read_varint(at, last)
                store_word(out, value)
                out += 8
        else:
            value, at = read_varint(at, end)
            store_word(out, value)
            out += 8
    return True


def kernel(args, chunk, nchunks):
    count, wanted = word(args, 3), word(args, 9)
    jobs, number, table = word(args, 8), word(args, 10), word(args, 11)
    make, drop = word(args, 12), word(args, 13)
    for j in range(number):
        job = jobs + 40 * j
        feature, kind = load_word(job), load_word(job + 8)
        out, stride, starts = load_word(job + 16), load_word(job + 24), load_word(job + 32)
        size = 4 if kind == 2 else 8
        for k in range(count):
            entry = table + 24 * (wanted * k + feature)
            first = load_word(entry)
            if first != 0:
                start = load_word(starts + 8 * k) if starts != 0 else stride * k
                if not read_list(first, load_word(entry + 8), kind, out + size * start, make, drop):
                    return
"""
"""The words behind the head.

The jobs, the number of keys, that of jobs, the table of lists, the makers.

A job is five words: feature, kind, results, the number of values between the results of two
messages, or the address of the places of their first values."""

_find: Final = StringFunction(_WIRE + _FIND, "lists of examples", __name__)
_read: Final = StringFunction(_WIRE + _READ, "values of examples", __name__)
FUNCTIONS: Final = (_find, _read)

_KINDS: Final = {"O": 1, "f": 2, "i": 3}


@dataclass(frozen=True)
class FoundLists:
    """The lists of features in messages.

    items: the messages, which have to live on. table: int64 [messages, features, 3], the address of
    a list (0 for none), its end, the number of its values.
    """

    items: np.ndarray
    table: np.ndarray

    def found(self, feature: int) -> np.ndarray:
        """Return whether each message has a feature."""
        return self.table[:, feature, 0] != 0

    def counts(self, feature: int) -> np.ndarray:
        """Return the numbers of a feature's values, int64."""
        return self.table[:, feature, 2]

    def read(self, jobs: Sequence[tuple[int, np.ndarray, int | np.ndarray]]) -> bool:
        """Read the values of features into arrays.

        Returns whether the function is compiled. jobs: the feature's number; the results; the place
        there of each message's first value, or the number of values between these.
        """
        words: list[int] = []
        for feature, out, places in jobs:
            stride, starts = (places, 0) if isinstance(places, int) else (0, address_of(places))
            words += feature, _KINDS[out.dtype.kind], address_of(out), stride, starts
        rows = (ctypes.c_int64 * len(words))(*words)
        result = _read(
            self.items, ctypes.addressof(rows), self.table.shape[1], len(jobs),
            address_of(self.table), *MAKERS,
        )  # fmt: skip
        return result is not None


def find_lists(
    items: np.ndarray, keys: tuple[str, ...], dtypes: Sequence[np.dtype]
) -> FoundLists | None:
    """Return the lists of features in serialized Example messages.

    items: a vector of bytes. keys, dtypes: of the features: float32, int64, object. None where the
    functions are not compiled, for two features of one key, and where a message has a wrong or rare
    form, or a feature another type.
    """
    work = items.size * max(len(keys), 1)
    if not (_find.is_ready(work) and _read.is_ready(work)):
        return None
    rows = _key_rows(keys, tuple([dtype.kind for dtype in dtypes]))
    if rows is None:
        return None
    table = np.zeros((items.size, len(keys), 3), np.int64)
    result = _find(items, address_of(rows[0]), len(keys), address_of(table))
    return FoundLists(items, table) if result is not None and result[0] == 0 else None


@functools.lru_cache(maxsize=64)
def _key_rows(
    keys: tuple[str, ...], kinds: tuple[str, ...]
) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return the words of the keys, and the memory that they name.

    None for equal keys."""
    if len(set(keys)) != len(keys):
        return None
    texts = [np.frombuffer(key.encode(errors="surrogateescape") + b"\0", np.uint8) for key in keys]
    rows = [
        (address_of(text), text.size - 1, _KINDS[kind])
        for text, kind in zip(texts, kinds, strict=True)
    ]
    return np.array(rows, np.int64).reshape(len(keys), 3), texts
