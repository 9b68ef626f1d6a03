"""Strings in NumPy: object arrays of bytes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[np.ndarray]


def _each(call: Callable[..., Any], *values: Any, dtype: Any = object) -> np.ndarray:
    """`call` on the broadcast elements of string tensors."""
    arrays = [np.asarray(v, object) for v in values]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    out = np.empty(shape, dtype)
    flat = out.reshape(-1)
    for i, items in enumerate(
        zip(*(np.broadcast_to(a, shape).reshape(-1) for a in arrays), strict=True)
    ):
        flat[i] = call(*items)
    return out


@functools.lru_cache(maxsize=256)
def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(
            None, None, f"Invalid pattern: {pattern.decode(errors='replace')}, error: {error}"
        ) from None


def _scalar(value: Any, what: str) -> bytes:
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
    return (_each(lambda *items: separator.join(items), *inputs),)


@reference("StaticRegexFullMatch")
def _static_full_match(node: NodeSpec, inputs: Arrays) -> Arrays:
    pattern = _pattern(node.attrs["pattern"])
    return (_each(lambda item: pattern.fullmatch(item) is not None, inputs[0], dtype=np.bool_),)


@reference("RegexFullMatch")
def _full_match(node: NodeSpec, inputs: Arrays) -> Arrays:
    pattern = _pattern(_scalar(inputs[1], "Pattern"))
    return (_each(lambda item: pattern.fullmatch(item) is not None, inputs[0], dtype=np.bool_),)


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
    return (_each(lambda item: compiled.sub(expand, item, count=count), text),)


@reference("StaticRegexReplace")
def _static_replace(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _replace(node, inputs[0], node.attrs["pattern"], node.attrs["rewrite"])


@reference("RegexReplace")
def _regex_replace(node: NodeSpec, inputs: Arrays) -> Arrays:
    return _replace(node, inputs[0], _scalar(inputs[1], "Pattern"), _scalar(inputs[2], "Rewrite"))


@reference("StringLength")
def _string_length(node: NodeSpec, inputs: Arrays) -> Arrays:
    if node.attrs.get("unit", b"BYTE") == b"BYTE":
        return (_each(len, inputs[0], dtype=np.int32),)
    return (
        _each(lambda item: sum(byte & 0xC0 != 0x80 for byte in item), inputs[0], dtype=np.int32),
    )


def _case(change: Callable[[Any], Any]) -> Callable[[NodeSpec, Arrays], Arrays]:
    def kernel(node: NodeSpec, inputs: Arrays) -> Arrays:
        if node.attrs.get("encoding", b"") == b"":
            return (_each(change, inputs[0]),)
        return (_each(lambda item: change(item.decode(errors="replace")).encode(), inputs[0]),)

    return kernel


reference("StringLower")(_case(lambda text: text.lower()))
reference("StringUpper")(_case(lambda text: text.upper()))


@reference("StringStrip")
def _string_strip(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (_each(lambda item: item.strip(b" \t\n\v\f\r"), inputs[0]),)


@reference("ShardedFilename")
def _sharded_filename(node: NodeSpec, inputs: Arrays) -> Arrays:
    base = _scalar(inputs[0], "basename")
    return (np.array(b"%s-%05d-of-%05d" % (base, int(inputs[1]), int(inputs[2])), object),)


@reference("ShardedFilespec")
def _sharded_filespec(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (
        np.array(b"%s-?????-of-%05d" % (_scalar(inputs[0], "basename"), int(inputs[1])), object),
    )


@reference("StringToNumber")
def _string_to_number(node: NodeSpec, inputs: Arrays) -> Arrays:
    dtype = node.attrs["out_type"]
    limits = np.iinfo(dtype.as_numpy_dtype) if dtype.is_integer else None

    def parse(item: bytes) -> int | float:
        try:
            if b"_" in item:  # Python's alone
                raise ValueError
            number = float(item) if limits is None else int(item)
            if limits is not None and not limits.min <= number <= limits.max:
                raise ValueError
        except ValueError:
            text = item.decode(errors="replace")
            raise InvalidArgumentError(
                None, None, f"StringToNumberOp could not correctly convert string: {text}"
            ) from None
        return number

    with np.errstate(over="ignore"):
        return (_each(parse, inputs[0], dtype=dtype.as_numpy_dtype),)
