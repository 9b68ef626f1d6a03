"""Values as text, and text cut into pieces: AsString, StringFormat, Substr, StringSplit, n-grams,
Base64.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]
_SPACES: Final = b" \t\n\v\f\r"
_WORD: Final = re.compile(rb"[^ \t\n\v\f\r]+")
_ESCAPES: Final = {
    ord("\n"): b"\\n",
    ord("\r"): b"\\r",
    ord("\t"): b"\\t",
    ord('"'): b'\\"',
    ord("'"): b"\\'",
    ord("\\"): b"\\\\",
}


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _strings(items: Sequence[bytes], shape: Sequence[int] | None = None) -> np.ndarray:
    out = np.empty(len(items), object)
    out[:] = items
    return out if shape is None else out.reshape(shape)


# numbers as text


def _printf(node: NodeSpec) -> tuple[str, str, str]:
    """Flag, width and precision of the node's printf format. Raises InvalidArgumentError for attrs
    that do not fit the dtype.
    """
    a = node.attrs
    dtype, precision, fill = a["T"], int(a["precision"]), a["fill"].decode(errors="replace")
    if dtype.is_integer or dtype.name == "bool":
        if a["scientific"] or a["shortest"]:
            raise _fail(f"scientific and shortest format not supported for datatype {dtype.name}")
        if precision >= 0:
            raise _fail(f"precision not supported for datatype {dtype.name}")
    if len(fill) > 1:
        raise _fail("Fill string must be one or fewer characters")
    if a["scientific"] and a["shortest"]:
        raise _fail("Cannot select both scientific and shortest notation")
    if fill not in ("", " ", "+", "-", "0"):
        raise _fail(f'Fill argument not supported: "{fill}"')
    width = int(a["width"])
    return fill, str(width) if width > 0 else "", f".{precision}" if precision >= 0 else ""


@reference("AsString")
def _as_string(node: NodeSpec, inputs: Arrays) -> Arrays:
    flag, width, precision = _printf(node)
    kind: str = np.asarray(inputs[0]).dtype.kind
    values = np.asarray(inputs[0])
    letter = "e" if node.attrs["scientific"] else "g" if node.attrs["shortest"] else "f"
    finite = f"%{flag}{width}{precision}{letter}"
    # zeros do not go before nan and inf
    other = f"%{flag.replace('0', '')}{width}{precision}{letter}"

    def number(value: float) -> str:
        return (finite if abs(value) < float("inf") else other) % value

    if kind == "b":
        return (
            _strings(
                [b"true" if v else b"false" for v in values.reshape(-1).tolist()], values.shape
            ),
        )
    if kind == "O":
        # strings know of "-" alone, as printf's %s does
        size = int(width or 0)
        return (
            _strings(
                [v.ljust(size) if flag == "-" else v.rjust(size) for v in values.reshape(-1)],
                values.shape,
            ),
        )
    if kind in "iu":
        form = f"%{flag if kind == 'i' else flag.strip(' +')}{width}d"
        texts = [form % v for v in values.reshape(-1).tolist()]
    elif kind == "c":
        texts = [f"({number(v.real)},{number(v.imag)})" for v in values.reshape(-1).tolist()]
    else:
        texts = [number(v) for v in values.reshape(-1).astype(np.float64).tolist()]
    return (_strings([t.encode() for t in texts], values.shape),)


def _quoted(item: bytes) -> bytes:
    parts = [
        _ESCAPES.get(byte) or (b"\\%03o" % byte if byte < 0x20 or byte == 0x7F else bytes([byte]))
        for byte in item
    ]
    return b'"' + b"".join(parts) + b'"'


def _element_text(value: np.ndarray) -> Callable[[Any], bytes]:
    kind = value.dtype.kind
    if kind == "O":
        return _quoted
    if kind in "iub":
        return lambda item: b"%d" % int(item)
    if kind == "c":
        return lambda item: b"?"
    kept = np.dtype(np.float64 if value.dtype.itemsize == 8 else np.float32)
    short, full = (15, 17) if kept.itemsize == 8 else (6, 9)

    def number(item: Any) -> bytes:
        # the shorter of two forms if it reads as the same number
        text = b"%.*g" % (short, float(item))
        return text if kept.type(float(text)) == kept.type(item) else b"%.*g" % (full, float(item))

    return number


def summary(value: np.ndarray, summarize: int) -> bytes:
    """A tensor's elements in brackets, `summarize` of them at both ends of each dimension (-1:
    all), as StringFormat prints them.
    """
    text = _element_text(value)
    if summarize < 0:
        summarize = max((2, *value.shape))
    ends = min(summarize, value.size)

    def written(part: Any, depth: int) -> bytes:
        if depth == value.ndim:
            return text(part)
        size = value.shape[depth]
        gap = (
            b" "
            if depth == value.ndim - 1
            else b"\n" * (value.ndim - depth - 1) + b" " * (depth + 1)
        )
        items = [written(part[i], depth + 1) for i in range(min(size, ends))]
        out = gap.join(items)
        if size > 2 * ends:
            out += gap + b"..."
        for i in range(max(ends, size - ends), size):
            out += gap + written(part[i], depth + 1)
        return b"[" + out + b"]"

    return written(value if value.ndim else value[()], 0)


@reference("StringFormat")
def _string_format(node: NodeSpec, inputs: Arrays) -> Arrays:
    """The template with each placeholder replaced by the summary of a tensor."""
    template, placeholder = node.attrs["template"], node.attrs["placeholder"]
    parts = template.split(placeholder)
    if len(parts) != len(inputs) + 1:
        raise _fail(
            f"num placeholders in template and num inputs must match: {len(parts) - 1} vs. "
            f"{len(inputs)}"
        )
    texts = [summary(np.asarray(value), int(node.attrs["summarize"])) for value in inputs]
    joined = parts[0] + b"".join(text + part for text, part in zip(texts, parts[1:], strict=True))
    return (np.array(joined, object),)


# pieces


def _byte_slice(item: bytes, start: int, size: int, where: str) -> bytes:
    count = len(item)
    if not -count <= start <= count:
        raise _fail(
            f"pos {start} out of range for string b'{item.decode(errors='replace')}' at index "
            f"{where}"
        )
    first = start + count if start < 0 else start
    return item[first:] if size < 0 else item[first : first + size]


def _character_slice(item: bytes, start: int, size: int, where: str) -> bytes:
    starts = [k for k, byte in enumerate(item) if byte & 0xC0 != 0x80]
    count = len(starts)
    if not -count <= start <= count:
        raise _fail(f"pos {start} out of range for string at index {where}")
    first = start + count if start < 0 else start
    starts.append(len(item))
    return item[starts[first] : starts[min(count, first + max(size, 0))]]


@reference("Substr")
def _substr(node: NodeSpec, inputs: Arrays) -> Arrays:
    text, start, size = (np.asarray(value) for value in inputs)
    if start.shape != size.shape:
        raise _fail(
            f"pos and len should have the same shape, got: {format_shape(start.shape)} vs. "
            f"{format_shape(size.shape)}"
        )
    cut = _character_slice if node.attrs["unit"] == b"UTF8_CHAR" else _byte_slice
    plain = start.shape in ((), text.shape)
    try:
        shape = text.shape if plain else np.broadcast_shapes(text.shape, start.shape)
    except ValueError:
        raise _fail(
            f"Incompatible shapes: {format_shape(text.shape)} vs. {format_shape(start.shape)}"
        ) from None
    if not plain and len(shape) > 2:
        raise _fail(f"Substr broadcast not implemented for {len(shape)} dimensions")
    broadcast = [np.broadcast_to(value, shape).reshape(-1) for value in (text, start, size)]
    items = []
    for k, (item, first, count) in enumerate(zip(*broadcast, strict=True)):
        where = f"({k // shape[1]}, {k % shape[1]})" if not plain and len(shape) == 2 else str(k)
        items.append(cut(item, int(first), int(count), where))
    return (_strings(items, shape),)


def _split_at_any(text: bytes, delimiters: bytes, skip_empty: bool) -> list[bytes]:
    if not text:
        return []
    if not delimiters:
        return [text[k : k + 1] for k in range(len(text))]
    pieces = re.split(b"[" + re.escape(delimiters) + b"]", text)
    return [piece for piece in pieces if piece] if skip_empty else pieces


def _split_words(text: bytes, most: int) -> list[bytes]:
    """Words between white space; after `most` of them the rest stands whole, even if
    it is empty.
    """
    pieces: list[bytes] = []
    for match in _WORD.finditer(text):
        pieces.append(match.group())
        if 0 < most == len(pieces):
            pieces.append(text[match.end() :].lstrip(_SPACES))
            break
    return pieces


def _rows(pieces: Sequence[list[bytes]]) -> Arrays:
    """Lists of strings as a sparse matrix."""
    counts = [len(row) for row in pieces]
    indices = np.array(
        [(i, j) for i, count in enumerate(counts) for j in range(count)], np.int64
    ).reshape(-1, 2)
    return (
        indices,
        _strings([piece for row in pieces for piece in row]),
        np.array([len(pieces), max(counts, default=0)], np.int64),
    )


def _split_arguments(inputs: Arrays, what: str) -> tuple[np.ndarray, bytes]:
    text, separator = (np.asarray(value, object) for value in inputs)
    if text.ndim != 1:
        raise _fail(f"input must be a vector, got shape: {format_shape(text.shape)}")
    if separator.ndim:
        raise _fail(f"{what} must be a scalar, got shape: {format_shape(separator.shape)}")
    return text, separator.item()


@reference("StringSplit")
def _string_split(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Split at each byte of the delimiter."""
    text, delimiters = _split_arguments(inputs, "delimiter")
    return _rows([_split_at_any(item, delimiters, node.attrs["skip_empty"]) for item in text])


@reference("StringSplitV2")
def _string_split_v2(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Split at the separator, or at white space where it is empty."""
    text, separator = _split_arguments(inputs, "sep")
    most = int(node.attrs["maxsplit"])
    if most == 0:
        return _rows([[item] for item in text])
    return _rows(
        [item.split(separator, most) if separator else _split_words(item, most) for item in text]
    )


def _grams(row: Sequence[bytes], width: int, node: NodeSpec) -> Iterator[bytes]:
    """The n-grams of one width; padding stands for what lies before and behind the row."""
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
        raise _fail(
            f"data and data_splits must be vectors, got shapes {format_shape(data.shape)} and "
            f"{format_shape(splits.shape)}"
        )
    bounds = splits.tolist()
    if a["preserve_short_sequences"] and not a["ngram_widths"] and a["pad_width"] < 0:
        raise _fail(
            "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are "
            f"not provided, got {a['pad_width']}"
        )
    if not bounds:
        # as many empty n-grams as strings: so does TensorFlow
        return np.full(data.shape, b"", object), splits.copy()
    if bounds[0] != 0:
        raise _fail(f"First split value must be 0, got {bounds[0]}")
    for before, after in itertools.pairwise(bounds):
        if not before <= after <= data.size:
            raise _fail(f"Invalid split value {after}, must be in [{before}, {data.size}]")
    if bounds[-1] != data.size:
        raise _fail(f"Last split value must be data size. Expected {data.size}, got {bounds[-1]}")
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
    return _strings(grams), np.array(ends, splits.dtype)


@reference("UnsortedSegmentJoin")
def _unsorted_segment_join(node: NodeSpec, inputs: Arrays) -> Arrays:
    """The strings of each segment in one, in the order of the rows."""
    data, ids, wanted = np.asarray(inputs[0], object), np.asarray(inputs[1]), np.asarray(inputs[2])
    if wanted.ndim:
        raise _fail("Number of segments must be a scalar")
    count = int(wanted)
    if count < 0:
        raise _fail("Number of segments must be non-negative")
    if data.ndim < ids.ndim:
        raise _fail(f"Invalid segment_id rank {ids.ndim} for input with {data.ndim} dimension(s)")
    for rank, (size, expected) in enumerate(zip(ids.shape, data.shape)):
        if size != expected:
            raise _fail(
                f"Segment dimension is {size} while input dimension is {expected} in rank {rank}"
            )
    rest = data.shape[ids.ndim :]
    rows = data.reshape(ids.size, int(np.prod(rest, dtype=np.int64)))
    joined: list[list[list[bytes]]] = [[[] for _ in range(rows.shape[1])] for _ in range(count)]
    for row, segment in zip(rows, ids.reshape(-1).tolist(), strict=True):
        if not 0 <= segment < count:
            raise _fail(
                "segment_ids are not allowed to exceed num_segments or to have negative values."
            )
        for column, item in zip(joined[segment], row, strict=True):
            column.append(item)
    separator = node.attrs["separator"]
    return (
        _strings(
            [separator.join(items) for columns in joined for items in columns], (count, *rest)
        ),
    )


# Base64


@reference("EncodeBase64")
def _encode_base64(node: NodeSpec, inputs: Arrays) -> Arrays:
    """The form that is safe in file names and URLs."""
    values = np.asarray(inputs[0], object)
    encoded = [base64.urlsafe_b64encode(item) for item in values.reshape(-1)]
    if not node.attrs["pad"]:
        encoded = [item.rstrip(b"=") for item in encoded]
    return (_strings(encoded, values.shape),)


def _decoded(item: bytes) -> bytes:
    if len(item) % 4 == 1:
        raise _fail("Base64 string length cannot be 1 modulo 4.")
    pad = 0
    if item and len(item) % 4 == 0:
        pad = len(item) - len(item[-2:].rstrip(b"=")) - len(item[:-2])
    body = item[: len(item) - pad]
    if re.fullmatch(rb"[A-Za-z0-9_-]*", body) is None or (pad and len(body) % 4 == 1):
        raise _fail("Invalid character found in base64.")
    return base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))


@reference("DecodeBase64")
def _decode_base64(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Padding may be missing. Raises InvalidArgumentError for what is no Base64."""
    values = np.asarray(inputs[0], object)
    return (_strings([_decoded(item) for item in values.reshape(-1)], values.shape),)
