"""Convert between values and text in NumPy: numbers, formats, Base64."""

from __future__ import annotations

import base64
import contextlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.cpu.reference.records.number_parsing import float_parser, float_values
from tfjit.kernels.cpu.reference.records.string import as_strings, invalid_strings
from tfjit.kernels.cpu.strings.made_strings import (
    MOST_DECIMALS,
    base64_texts,
    base64_values,
    number_texts,
)
from tfjit.kernels.cpu.strings.numbers import read_numbers
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[np.ndarray]


@reference("StringToNumber")
def _string_to_number(node: NodeSpec, inputs: Arrays) -> Arrays:
    dtype = node.attrs["out_type"]
    strings = np.asarray(inputs[0], object, order="C")
    items = strings.reshape(-1)
    kind = np.dtype(dtype.as_numpy_dtype)
    read = read_numbers(items, kind)
    parse = float_parser(dtype) if kind.kind == "f" else _integer_parser(kind)
    if read is None:
        read = np.empty(items.size, kind), np.arange(items.size)
        with contextlib.suppress(ValueError):  # the loop finds the string and reports it
            texts = items.tolist()
            found = float_values(texts, dtype) if kind.kind == "f" else list(map(parse, texts))
            return (np.array(found, kind).reshape(strings.shape),)
    numbers, left = read
    with np.errstate(over="ignore"):
        for k in left:
            try:
                numbers[k] = parse(items[k])
            except ValueError:
                text = items[k].decode(errors="replace")
                raise InvalidArgumentError(
                    None, None, f"StringToNumberOp could not correctly convert string: {text}"
                ) from None
    return (numbers.reshape(strings.shape),)


def _integer_parser(kind: np.dtype) -> Callable[[bytes], int]:
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)

    def parse(item: bytes) -> int:
        if b"_" in item:  # Python's alone
            raise ValueError
        number = int(item)
        if not low <= number <= high:
            raise ValueError
        return number

    return parse


_ESCAPES: Final = {
    ord("\n"): b"\\n",
    ord("\r"): b"\\r",
    ord("\t"): b"\\t",
    ord('"'): b'\\"',
    ord("'"): b"\\'",
    ord("\\"): b"\\\\",
}


def _printf(node: NodeSpec) -> tuple[str, str, str]:
    """Return flag, width and precision of the node's printf format.

    Raises InvalidArgumentError for attrs that do not fit the dtype.
    """
    a = node.attrs
    dtype, precision, fill = a["T"], int(a["precision"]), a["fill"].decode(errors="replace")
    if dtype.is_integer or dtype.name == "bool":
        if a["scientific"] or a["shortest"]:
            raise invalid_strings(
                f"scientific and shortest format not supported for datatype {dtype.name}"
            )
        if precision >= 0:
            raise invalid_strings(f"precision not supported for datatype {dtype.name}")
    if len(fill) > 1:
        raise invalid_strings("Fill string must be one or fewer characters")
    if a["scientific"] and a["shortest"]:
        raise invalid_strings("Cannot select both scientific and shortest notation")
    if fill not in ("", " ", "+", "-", "0"):
        raise invalid_strings(f'Fill argument not supported: "{fill}"')
    width = int(a["width"])
    return fill, str(width) if width > 0 else "", f".{precision}" if precision >= 0 else ""


@reference("AsString")
def _as_string(node: NodeSpec, inputs: Arrays) -> Arrays:
    flag, width, precision = _printf(node)
    kind: str = np.asarray(inputs[0]).dtype.kind
    values = np.asarray(inputs[0])
    decimals = int(node.attrs["precision"]) if precision else 6
    if not (flag or width or node.attrs["scientific"] or node.attrs["shortest"]) and (
        kind == "i" or (kind == "f" and 1 <= decimals <= MOST_DECIMALS)
    ):
        written = number_texts(values.reshape(-1), decimals)
        if written is not None:
            found, left = written
            for k in left:
                item = values.reshape(-1)[k]
                found[k] = b"%d" % item if kind == "i" else b"%.*f" % (decimals, float(item))
            return (found.reshape(values.shape),)
    letter = "e" if node.attrs["scientific"] else "g" if node.attrs["shortest"] else "f"
    finite = f"%{flag}{width}{precision}{letter}".encode()
    # zeros do not go before nan and inf
    other = f"%{flag.replace('0', '')}{width}{precision}{letter}".encode()

    def number(value: float) -> bytes:
        return (finite if abs(value) < float("inf") else other) % value

    if kind == "b":
        return (
            as_strings(
                [b"true" if v else b"false" for v in values.reshape(-1).tolist()], values.shape
            ),
        )
    if kind == "O":
        # strings know of "-" alone, as printf's %s does
        size = int(width or 0)
        return (
            as_strings(
                [v.ljust(size) if flag == "-" else v.rjust(size) for v in values.reshape(-1)],
                values.shape,
            ),
        )
    if kind in "iu":
        form = f"%{flag if kind == 'i' else flag.strip(' +')}{width}d".encode()
        texts = [form % v for v in values.reshape(-1).tolist()]
    elif kind == "c":
        parts = values.reshape(-1).tolist()
        texts = [b"(%b,%b)" % (number(v.real), number(v.imag)) for v in parts]
    else:
        texts = [number(v) for v in values.reshape(-1).astype(np.float64).tolist()]
    return (as_strings(texts, values.shape),)


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
    """Return a tensor's elements in brackets, as StringFormat prints them.

    `summarize` elements at both ends of each dimension are shown (-1: all).
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
    """Replace each placeholder of the template by a tensor's summary."""
    template, placeholder = node.attrs["template"], node.attrs["placeholder"]
    parts = template.split(placeholder)
    if len(parts) != len(inputs) + 1:
        raise invalid_strings(
            f"num placeholders in template and num inputs must match: {len(parts) - 1} vs. "
            f"{len(inputs)}"
        )
    texts = [summary(np.asarray(value), int(node.attrs["summarize"])) for value in inputs]
    joined = parts[0] + b"".join(text + part for text, part in zip(texts, parts[1:], strict=True))
    return (np.array(joined, object),)


@reference("EncodeBase64")
def _encode_base64(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Encode in Base64 that is safe in file names and URLs."""
    values = np.asarray(inputs[0], object, order="C")
    texts = base64_texts(values.reshape(-1), bool(node.attrs["pad"]))
    if texts is not None:
        return (texts.reshape(values.shape),)
    encoded = [base64.urlsafe_b64encode(item) for item in values.reshape(-1)]
    if not node.attrs["pad"]:
        encoded = [item.rstrip(b"=") for item in encoded]
    return (as_strings(encoded, values.shape),)


def _decoded(item: bytes) -> bytes:
    if len(item) % 4 == 1:
        raise invalid_strings("Base64 string length cannot be 1 modulo 4.")
    pad = 0
    if item and len(item) % 4 == 0:
        pad = len(item) - len(item[-2:].rstrip(b"=")) - len(item[:-2])
    body = item[: len(item) - pad]
    if re.fullmatch(rb"[A-Za-z0-9_-]*", body) is None or (pad and len(body) % 4 == 1):
        raise invalid_strings("Invalid character found in base64.")
    return base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))


@reference("DecodeBase64")
def _decode_base64(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode Base64; padding may be missing.

    Raises InvalidArgumentError for text that is not Base64.
    """
    values = np.asarray(inputs[0], object, order="C")
    decoded = base64_values(values.reshape(-1))
    if decoded is not None:
        return (decoded.reshape(values.shape),)
    return (as_strings([_decoded(item) for item in values.reshape(-1)], values.shape),)
