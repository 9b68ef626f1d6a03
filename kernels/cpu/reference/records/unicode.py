"""Decode and encode Unicode by Python's codecs."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]
_LAST: Final = 0x10FFFF
_CONTROL: Final = 0x20  # code points below it are C0's


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def _encoding(name: bytes, data: bytes) -> str:
    """Return Python's name of an encoding.

    UTF-16 and UTF-32 without a byte order mark are big-endian.
    """
    text = name.decode(errors="replace")
    try:
        found = codecs.lookup(text).name
    except LookupError:
        raise _fail(f"Could not create converter for input encoding: {text}") from None
    if found in ("utf-16", "utf-32"):
        marks = (
            (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            if found == "utf-16"
            else (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
        )
        return found if data.startswith(marks) else found + "-be"
    return found


def _characters(data: bytes, encoding: str) -> Iterator[tuple[int | None, int]]:
    """Yield (code point, place of its first byte).

    Bytes that encode nothing give None.
    """
    at = 0
    while at < len(data):
        try:
            text, end, stop = data[at:].decode(encoding), len(data), len(data)
        except UnicodeDecodeError as error:
            text, end, stop = (
                data[at : at + error.start].decode(encoding),
                at + error.start,
                at + error.end,
            )
        for character in text:
            yield ord(character), at
            at += len(character.encode(encoding))
        if stop > end:
            yield None, end
        at = stop


class _Policy:
    """Apply the node's policy to invalid bytes and control characters."""

    def __init__(self, node: NodeSpec) -> None:
        a = node.attrs
        self.errors: bytes = a["errors"]
        self.control: bool = a.get("replace_control_characters", False)
        self.replacement = int(a["replacement_char"])
        # A transcoder sees a control character as an error of the input, a decoder as a character
        # to replace.
        self.strict_control = node.op == "UnicodeTranscode"
        if not 0 <= self.replacement <= _LAST:
            raise _fail("replacement_char out of unicode codepoint range")

    def decoded(self, data: bytes, encoding: bytes) -> list[tuple[int, int]]:
        """Return (code point, place of its first byte) of each character."""
        found = []
        for point, at in _characters(data, _encoding(encoding, data)):
            if point is not None and not (self.control and point < _CONTROL):
                found.append((point, at))
                continue
            if self.errors == b"strict" and (point is None or self.strict_control):
                raise _fail("Invalid formatting on input string")
            if self.errors != b"ignore":
                found.append((self.replacement, at))
        return found


def _encoded(points: Sequence[int], encoding: bytes) -> bytes:
    # no byte order mark: the names of the attr say the order
    return "".join(map(chr, points)).encode(encoding.decode(), "surrogatepass")


@reference("UnicodeDecode", "UnicodeDecodeWithOffsets")
def _unicode_decode(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decode strings to code points.

    Returns the code points of all strings, the start of each string, and the bytes at which code
    points begin.
    """
    policy = _Policy(node)
    rows = [
        policy.decoded(item, node.attrs["input_encoding"])
        for item in np.asarray(inputs[0], object).reshape(-1)
    ]
    _encoding(node.attrs["input_encoding"], b"")  # an unknown one is refused without strings too
    splits = np.cumsum([0, *map(len, rows)]).astype(node.attrs["Tsplits"].as_numpy_dtype)
    pairs = np.array([pair for row in rows for pair in row], np.int64).reshape(-1, 2)
    outputs = (splits, pairs[:, 0].astype(np.int32), pairs[:, 1].copy())
    return outputs if node.op == "UnicodeDecodeWithOffsets" else outputs[:2]


@reference("UnicodeTranscode")
def _unicode_transcode(node: NodeSpec, inputs: Arrays) -> Arrays:
    policy = _Policy(node)
    text = np.asarray(inputs[0], object)
    out = np.empty(text.size, object)
    _encoding(node.attrs["input_encoding"], b"")
    for k, item in enumerate(text.reshape(-1)):
        points = [point for point, _ in policy.decoded(item, node.attrs["input_encoding"])]
        out[k] = _encoded(points, node.attrs["output_encoding"])
    return (out.reshape(text.shape),)


@reference("UnicodeEncode")
def _unicode_encode(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Encode a string for each row of code points."""
    policy = _Policy(node)
    values, splits = np.asarray(inputs[0]).tolist(), np.asarray(inputs[1]).tolist()
    if not splits:
        raise _fail("Input_splits should contain elements, but given input_values has 0 elements")
    if splits[0] != 0:
        raise _fail("First value in input_splits must be zero.")
    if splits[-1] != len(values):
        raise _fail("Last value in input_splits must be equal to length of input_tensor.")
    if any(a > b for a, b in itertools.pairwise(splits)):
        raise _fail("Values in input_splits must be equal or in ascending order.")
    out = np.empty(len(splits) - 1, object)
    for k, (first, last) in enumerate(itertools.pairwise(splits)):
        points = []
        for point in values[first:last]:
            if 0 <= point <= _LAST and not 0xD800 <= point < 0xE000:
                points.append(point)
            elif policy.errors == b"strict":
                raise _fail("Code point is out of range for Unicode, or is a surrogate.")
            elif policy.errors == b"replace":
                points.append(policy.replacement)
        out[k] = _encoded(points, node.attrs["output_encoding"])
    return (out,)
