"""Compute string ops in NumPy, on object arrays of bytes.

Patterns, case, pieces, joins.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[np.ndarray]


def each_element(call: Callable[..., Any], *values: Any, dtype: Any = object) -> np.ndarray:
    """Apply `call` to the broadcast elements of string tensors."""
    arrays = [np.asarray(v, object) for v in values]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    items = [np.broadcast_to(a, shape).reshape(-1).tolist() for a in arrays]
    out = np.empty(len(items[0]), dtype)
    out[:] = list(map(call, *items))
    return out.reshape(shape)


@functools.lru_cache(maxsize=256)
def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(
            None, None, f"Invalid pattern: {pattern.decode(errors='replace')}, error: {error}"
        ) from None


def scalar_string(value: Any, what: str) -> bytes:
    """Return the bytes of a string scalar. Raises InvalidArgumentError."""
    array = np.asarray(value, object)
    if array.shape != ():
        raise InvalidArgumentError(
            None, None, f"{what} must be scalar, but received {list(array.shape)}"
        )
    item: bytes = array.item()
    return item


@reference("StringJoin")
def _string_join(node: NodeSpec, inputs: Arrays) -> Arrays:
    separator = node.attrs.get("separator", b"")
    shapes = {np.shape(x) for x in inputs if np.shape(x) != ()}
    if len(shapes) > 1:
        raise InvalidArgumentError(None, None, f"Input shapes do not match: {sorted(shapes)}")
    return (each_element(lambda *items: separator.join(items), *inputs),)


@reference("StaticRegexFullMatch")
def _static_full_match(node: NodeSpec, inputs: Arrays) -> Arrays:
    pattern = _pattern(node.attrs["pattern"])
    return (
        each_element(lambda item: pattern.fullmatch(item) is not None, inputs[0], dtype=np.bool_),
    )


@reference("RegexFullMatch")
def _full_match(node: NodeSpec, inputs: Arrays) -> Arrays:
    pattern = _pattern(scalar_string(inputs[1], "Pattern"))
    return (
        each_element(lambda item: pattern.fullmatch(item) is not None, inputs[0], dtype=np.bool_),
    )


def _replace(node: NodeSpec, text: Any, pattern: bytes, rewrite: bytes) -> Arrays:
    compiled = _pattern(pattern)
    count = 0 if node.attrs.get("replace_global", True) else 1
    # \0 is the whole match, \1 to \9 are groups, \\ is a backslash
    parts = re.split(rb"\\([0-9\\])", rewrite)

    def expand(match: re.Match[bytes]) -> bytes:
        out = bytearray()
        for i, part in enumerate(parts):
            out += part if i % 2 == 0 else b"\\" if part == b"\\" else match.group(int(part)) or b""
        return bytes(out)

    if any(int(p) > compiled.groups for p in parts[1::2] if p != b"\\"):
        raise InvalidArgumentError(
            None, None, f"Invalid rewrite pattern: {rewrite.decode(errors='replace')}"
        )
    replacement = expand if b"\\" in rewrite else rewrite
    return (each_element(lambda item: compiled.sub(replacement, item, count=count), text),)


@reference("StaticRegexReplace")
def _static_replace(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _replace(node, inputs[0], node.attrs["pattern"], node.attrs["rewrite"])


@reference("RegexReplace")
def _regex_replace(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _replace(
        node, inputs[0], scalar_string(inputs[1], "Pattern"), scalar_string(inputs[2], "Rewrite")
    )


@reference("StringLength")
def _string_length(node: NodeSpec, inputs: Arrays) -> Arrays:
    if node.attrs.get("unit", b"BYTE") == b"BYTE":
        return (each_element(len, inputs[0], dtype=np.int32),)
    return (
        each_element(
            lambda item: sum(byte & 0xC0 != 0x80 for byte in item), inputs[0], dtype=np.int32
        ),
    )


def _case(change: Callable[[Any], Any]) -> Callable[[NodeSpec, Arrays], Arrays]:
    def kernel(node: NodeSpec, inputs: Arrays) -> Arrays:
        if node.attrs.get("encoding", b"") == b"":
            return (each_element(change, inputs[0]),)
        return (
            each_element(lambda item: change(item.decode(errors="replace")).encode(), inputs[0]),
        )

    return kernel


reference("StringLower")(_case(lambda text: text.lower()))
reference("StringUpper")(_case(lambda text: text.upper()))


@reference("StringStrip")
def _string_strip(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (each_element(lambda item: item.strip(b" \t\n\v\f\r"), inputs[0]),)


_SPACES: Final = b" \t\n\v\f\r"
_WORD: Final = re.compile(rb"[^ \t\n\v\f\r]+")


def invalid_strings(message: str) -> InvalidArgumentError:
    """Return the error of strings that do not fit."""
    return InvalidArgumentError(None, None, message)


def as_strings(items: Sequence[bytes], shape: Sequence[int] | None = None) -> np.ndarray:
    """Return byte strings as an array of objects."""
    out = np.empty(len(items), object)
    out[:] = items
    return out if shape is None else out.reshape(shape)


def _byte_slice(item: bytes, start: int, size: int, where: str) -> bytes:
    count = len(item)
    if not -count <= start <= count:
        raise invalid_strings(
            f"pos {start} out of range for string b'{item.decode(errors='replace')}' at index "
            f"{where}"
        )
    first = start + count if start < 0 else start
    return item[first:] if size < 0 else item[first : first + size]


def _character_slice(item: bytes, start: int, size: int, where: str) -> bytes:
    starts = [k for k, byte in enumerate(item) if byte & 0xC0 != 0x80]
    count = len(starts)
    if not -count <= start <= count:
        raise invalid_strings(f"pos {start} out of range for string at index {where}")
    first = start + count if start < 0 else start
    starts.append(len(item))
    return item[starts[first] : starts[min(count, first + max(size, 0))]]


@reference("Substr")
def _substr(node: NodeSpec, inputs: Arrays) -> Arrays:
    text, start, size = (np.asarray(value) for value in inputs)
    if start.shape != size.shape:
        raise invalid_strings(
            f"pos and len should have the same shape, got: {format_shape(start.shape)} vs. "
            f"{format_shape(size.shape)}"
        )
    cut = _character_slice if node.attrs["unit"] == b"UTF8_CHAR" else _byte_slice
    plain = start.shape in ((), text.shape)
    try:
        shape = text.shape if plain else np.broadcast_shapes(text.shape, start.shape)
    except ValueError:
        raise invalid_strings(
            f"Incompatible shapes: {format_shape(text.shape)} vs. {format_shape(start.shape)}"
        ) from None
    if not plain and len(shape) > 2:
        raise invalid_strings(f"Substr broadcast not implemented for {len(shape)} dimensions")
    if cut is _byte_slice and start.shape == ():
        texts, first, count = text.reshape(-1).tolist(), int(start), int(size)
        if 0 <= first <= min(map(len, texts), default=0):
            end = first + count if count >= 0 else None
            return (as_strings([item[first:end] for item in texts], shape),)
    broadcast = [np.broadcast_to(value, shape).reshape(-1) for value in (text, start, size)]
    items = []
    for k, (item, first, count) in enumerate(zip(*broadcast, strict=True)):
        where = f"({k // shape[1]}, {k % shape[1]})" if not plain and len(shape) == 2 else str(k)
        items.append(cut(item, int(first), int(count), where))
    return (as_strings(items, shape),)


def _splitter(delimiters: bytes, skip_empty: bool) -> Callable[[bytes], list[bytes]]:
    """Return a function that splits a string at each delimiter byte."""
    if not delimiters:
        return lambda text: [text[k : k + 1] for k in range(len(text))]
    several = re.compile(b"[" + re.escape(delimiters) + b"]")
    split: Callable[[bytes], list[bytes]] = (
        (lambda text: text.split(delimiters)) if len(delimiters) == 1 else several.split
    )
    if skip_empty:
        return lambda text: [piece for piece in split(text) if piece]
    return lambda text: split(text) if text else []


def _split_words(text: bytes, most: int) -> list[bytes]:
    """Split at white space; after `most` words the rest stands whole.

    The rest may be empty.
    """
    if most < 0:
        return text.split()
    pieces: list[bytes] = []
    for match in _WORD.finditer(text):
        pieces.append(match.group())
        if 0 < most == len(pieces):
            pieces.append(text[match.end() :].lstrip(_SPACES))
            break
    return pieces


def _rows(pieces: Sequence[list[bytes]]) -> Arrays:
    """Return lists of strings as a sparse matrix."""
    counts = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    indices = np.empty((total, 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(pieces)), counts)
    indices[:, 1] = np.arange(total) - np.repeat(ends - counts, counts)
    values = as_strings(list(itertools.chain.from_iterable(pieces)))
    return indices, values, np.array([len(pieces), counts.max(initial=0)], np.int64)


def _split_arguments(inputs: Arrays, what: str) -> tuple[np.ndarray, bytes]:
    text, separator = (np.asarray(value, object) for value in inputs)
    if text.ndim != 1:
        raise invalid_strings(f"input must be a vector, got shape: {format_shape(text.shape)}")
    if separator.ndim:
        raise invalid_strings(
            f"{what} must be a scalar, got shape: {format_shape(separator.shape)}"
        )
    return text, separator.item()


@reference("StringSplit")
def _string_split(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Split at each byte of the delimiter."""
    text, delimiters = _split_arguments(inputs, "delimiter")
    split = _splitter(delimiters, node.attrs["skip_empty"])
    return _rows([split(item) for item in text.tolist()])


@reference("StringSplitV2")
def _string_split_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Split at the separator, or at white space where it is empty."""
    text, separator = _split_arguments(inputs, "sep")
    most = int(node.attrs["maxsplit"])
    if most == 0:
        return _rows([[item] for item in text.tolist()])
    return _rows(
        [
            item.split(separator, most) if separator else _split_words(item, most)
            for item in text.tolist()
        ]
    )


def _grams(row: Sequence[bytes], width: int, node: NodeSpec) -> Iterator[bytes]:
    """Return the n-grams of one width.

    Missing words before and behind the row are padding.
    """
    a = node.attrs
    asked = int(a["pad_width"])
    pad = min(asked if asked >= 0 else width - 1, width - 1)
    padded = [a["left_pad"]] * pad + list(row) + [a["right_pad"]] * pad
    for first in range(len(padded) - width + 1):
        yield a["separator"].join(padded[first : first + width])


@reference("StringNGrams")
def _string_ngrams(node: NodeSpec, inputs: Arrays) -> Arrays:
    data, splits = np.asarray(inputs[0], object), np.asarray(inputs[1])
    a = node.attrs
    if data.ndim != 1 or splits.ndim != 1:
        raise invalid_strings(
            f"data and data_splits must be vectors, got shapes {format_shape(data.shape)} and "
            f"{format_shape(splits.shape)}"
        )
    bounds = splits.tolist()
    if a["preserve_short_sequences"] and not a["ngram_widths"] and a["pad_width"] < 0:
        raise invalid_strings(
            "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are "
            f"not provided, got {a['pad_width']}"
        )
    if not bounds:
        # as many empty n-grams as strings: so does TensorFlow
        return np.full(data.shape, b"", object), splits.copy()
    if bounds[0] != 0:
        raise invalid_strings(f"First split value must be 0, got {bounds[0]}")
    for before, after in itertools.pairwise(bounds):
        if not before <= after <= data.size:
            raise invalid_strings(
                f"Invalid split value {after}, must be in [{before}, {data.size}]"
            )
    if bounds[-1] != data.size:
        raise invalid_strings(
            f"Last split value must be data size. Expected {data.size}, got {bounds[-1]}"
        )
    grams: list[bytes] = []
    ends = [0]
    for before, after in itertools.pairwise(bounds):
        row = data[before:after].tolist()
        found = [gram for width in a["ngram_widths"] for gram in _grams(row, int(width), node)]
        if not found and row and a["preserve_short_sequences"]:
            asked = max(0, int(a["pad_width"]))
            found = [
                a["separator"].join([*[a["left_pad"]] * asked, *row, *[a["right_pad"]] * asked])
            ]
        grams += found
        ends.append(len(grams))
    return as_strings(grams), np.array(ends, splits.dtype)
