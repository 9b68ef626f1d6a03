"""NumPy reference kernels of strings against TensorFlow, errors included."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, Oracle, differences, ours
from tfjit.framework.types.dtypes import as_dtype
from tfjit.protos import Example, TensorProto

pytest.importorskip("tensorflow")

INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def strings(*items: bytes) -> np.ndarray:
    out = np.empty(len(items), object)
    out[:] = items
    return out


def string(item: bytes) -> np.ndarray:
    return np.array(item, object)


def _as_string() -> Iterator[Case]:
    values = np.array(
        [
            1.5,
            -2.25,
            1e10,
            float("nan"),
            float("inf"),
            -0.0,
            1 / 3,
            1e-7,
            123456789.0,
            -float("inf"),
        ]
    )
    forms: list[dict[str, Any]] = [
        {},
        {"precision": 2},
        {"scientific": True},
        {"shortest": True},
        {"width": 12},
    ]
    forms += [{"width": 12, "fill": fill} for fill in "0 -+"]
    forms += [
        {"shortest": True, "precision": 3, "width": 14, "fill": "0"},
        {"scientific": True, "precision": 0},
        {"fill": "+"},
    ]
    with np.errstate(over="ignore"):
        for form in forms:
            for kind in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16):
                yield Case("AsString", [values.astype(kind)], form)
            yield Case("AsString", [np.array([1 + 2j, -1.5 - 0.25j])], form)
            yield Case("AsString", [np.array([1 + 2j, -1.5 - 0.25j], np.complex64)], form)
            yield Case("AsString", [strings(b"ab", b"\xffc")], form)
            yield Case("AsString", [np.array([True, False])], form)
            for kind in INTEGERS:
                yield Case(
                    "AsString",
                    [np.array([0, 1, np.iinfo(kind).max, np.iinfo(kind).min], kind)],
                    form,
                )
    wrong: list[dict[str, Any]] = [
        {"scientific": True, "shortest": True},
        {"fill": "ab"},
        {"fill": "x"},
        {"fill": "*", "width": 4},
    ]
    for form in wrong:
        for value in (np.arange(2), np.array(2.5), np.array([True]), strings(b"q"), np.array(1j)):
            yield Case("AsString", [value], form)
    yield Case("AsString", [np.zeros((0, 2))])
    yield Case("AsString", [np.array(3)])


def _format() -> Iterator[Case]:
    yield Case(
        "StringFormat",
        [np.arange(10), np.arange(12, dtype=np.float32).reshape(3, 4)],
        {"template": "a %s b %s"},
    )
    for summarize in (-1, 0, 1, 2, 3, 100):
        for value in (
            np.arange(20).reshape(10, 2),
            np.arange(27).reshape(3, 3, 3),
            np.arange(8.0),
            np.zeros((2, 0)),
            np.zeros((0, 2)),
        ):
            yield Case("StringFormat", [value], {"summarize": summarize})
        yield Case(
            "StringFormat", [strings(b"ab", b"", b"x", b"y", b"z")], {"summarize": summarize}
        )
    yield Case("StringFormat", [strings(b"ab", b"c\n\"d\xff\x01\\\t\r'\x7f")])
    yield Case("StringFormat", [string(b"ab")], {"template": "x{}y", "placeholder": "{}"})
    for kind in (*INTEGERS, np.float64, np.float32, np.float16, np.bool_):
        yield Case("StringFormat", [np.array([1 / 3, 1, 1e2]).astype(kind)])
    yield Case("StringFormat", [np.array([1e-9, 1e10, float("nan"), -float("inf")], np.float32)])
    yield Case("StringFormat", [], {"template": "plain", "T": []})
    yield Case("StringFormat", [np.array(3.25)])


def _substr() -> Iterator[Case]:
    words = strings(b"hello", b"abc")
    unicode = strings("h\u00e9\u4e16x".encode(), b"\xff\xfeab")
    for start, size in (
        (1, 2),
        (-2, 1),
        (0, 10),
        (3, 1),
        (4, 1),
        (5, 1),
        (-4, 1),
        (-5, 1),
        (1, -1),
        (0, 0),
    ):
        for kind in (np.int32, np.int64):
            yield Case("Substr", [words, np.array(start, kind), np.array(size, kind)])
            yield Case(
                "Substr",
                [unicode, np.array(start, kind), np.array(size, kind)],
                {"unit": "UTF8_CHAR"},
            )
    one = np.array([1, 0])
    for text, start, size in (
        (words, one, one),
        (strings(b"hello", b"abc", b"d"), one[:, None], one[:, None]),
        (words[None], one[:, None], one[:, None]),
        (string(b"hello"), one, one),
        (string(b"hello"), np.array([1, 9]), one),
        (words[None], np.array([[1], [4]]), one[:, None]),
        (words, one, one[:1]),
        (words, one, np.array(2)),
        (np.full((2, 2, 2), b"abcd", object), np.ones((2, 1, 1), int), np.ones((2, 1, 1), int)),
        (np.full((2, 2, 2), b"abcd", object), np.ones((2, 2, 2), int), np.ones((2, 2, 2), int)),
        (words[:0], np.array(0), np.array(1)),
    ):
        yield Case("Substr", [text, start, size])
    yield Case("Substr", [words, np.zeros(3, int), np.zeros(3, int)], own_words=True)


def _split() -> Iterator[Case]:
    texts = (b"a b  c", b" x ", b"", b"a,b;c", b"a<>b<><>c", b"\t a\nb ")
    for separator in (b" ", b"", b",;", b"<>", b"]-"):
        for skip_empty in (True, False):
            yield Case(
                "StringSplit", [strings(*texts), string(separator)], {"skip_empty": skip_empty}
            )
        for most in (-1, 0, 1, 2, -3):
            yield Case("StringSplitV2", [strings(*texts), string(separator)], {"maxsplit": most})
    for op in ("StringSplit", "StringSplitV2"):
        yield Case(op, [string(b"a b"), string(b" ")])
        yield Case(op, [strings(b"a b"), strings(b" ", b"x")])
        yield Case(op, [strings(), string(b" ")])


def _ngrams() -> Iterator[Case]:
    data = strings(*(b"%c" % c for c in b"abcdefg"))
    for kind in (np.int32, np.int64):
        for widths in ([2], [1, 3], [4, 2], []):
            for pad in (-1, 0, 1, 5):
                for short in (True, False):
                    attrs = {
                        "separator": "|",
                        "ngram_widths": widths,
                        "left_pad": "<",
                        "right_pad": ">",
                        "pad_width": pad,
                    }
                    attrs["preserve_short_sequences"] = short
                    yield Case("StringNGrams", [data, np.array([0, 4, 4, 6, 7], kind)], attrs)
    attrs = {
        "separator": "",
        "ngram_widths": [2],
        "left_pad": "",
        "right_pad": "",
        "pad_width": 0,
        "preserve_short_sequences": False,
    }
    for splits in ([], [0], [0, 7], [1, 7], [0, 9], [0, 5, 3, 7], [0, 5]):
        yield Case("StringNGrams", [data, np.array(splits, np.int64)], attrs)
    yield Case("StringNGrams", [data[:0], np.array([0, 0])], attrs)


def _join() -> Iterator[Case]:
    data = strings(*(b"%c" % c for c in b"abcdefgh"))
    for ids, count in (
        ([0, 1, 0, 2, 2, 1, 0, 0], 3),
        ([0, 1, 0, 2, -1, 1, 0, 0], 3),
        ([0] * 8, 1),
        ([3] * 8, 5),
        ([3] * 8, 3),
        ([0] * 8, 0),
        ([0] * 8, -1),
    ):
        yield Case(
            "UnsortedSegmentJoin", [data, np.array(ids), np.array(count)], {"separator": ","}
        )
    yield Case(
        "UnsortedSegmentJoin",
        [data.reshape(4, 2), np.array([0, 1, 0, 2], np.int32), np.array(4, np.int32)],
    )
    yield Case(
        "UnsortedSegmentJoin",
        [data.reshape(4, 2), np.array([[0, 1], [1, 0], [2, 2], [0, 0]]), np.array(3)],
    )
    yield Case(
        "UnsortedSegmentJoin", [data.reshape(4, 2), np.array([0, 1]), np.array(3)], own_words=True
    )
    yield Case("UnsortedSegmentJoin", [data, np.zeros((8, 1), int), np.array(3)])
    yield Case("UnsortedSegmentJoin", [data, np.zeros(8, int), np.array([3])])
    yield Case("UnsortedSegmentJoin", [data[:0], np.array([], np.int64), np.array(3)])


def _base64() -> Iterator[Case]:
    for pad in (True, False):
        yield Case(
            "EncodeBase64",
            [strings(b"", b"a", b"ab", b"abc", b"\xff\xfe\xfb").reshape(5, 1)],
            {"pad": pad},
        )
    yield Case(
        "DecodeBase64",
        [strings(b"", b"YQ", b"YQ==", b"YWI", b"YWI=", b"YWJj", b"__77", b"-_-_", b"YR")],
    )
    for text in (
        b"Y",
        b"YQ=",
        b"Y Q",
        b"+/+/",
        b"YWJjZ",
        b"YQ==YQ==",
        b"=",
        b"==",
        b"===",
        b"Y===",
        b"====",
        b"Y=Q=",
    ):
        yield Case("DecodeBase64", [strings(text)])


def _unicode() -> Iterator[Case]:
    good = "h\u00e9\u4e16\U0001f600x\x01\t\n\x1f\x7f\x85".encode()
    bad = strings(
        b"a\xffb\xc3",
        b"\xf0\x9f\x98",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xf5\x80\x80\x80",
        b"\xe4\xb8a",
        b"\xe4a",
        b"\x80",
    )
    for encoding in (
        "UTF-8",
        "UTF-16-BE",
        "UTF-32-BE",
        "latin1",
        "US-ASCII",
        "UTF-16-LE",
        "UTF-16",
        "nonsense",
    ):
        yield Case("UnicodeDecode", [strings(good[:12], b"")], {"input_encoding": encoding})
        yield Case("UnicodeDecodeWithOffsets", [string(good[:12])], {"input_encoding": encoding})
        yield Case(
            "UnicodeTranscode",
            [strings(good[:12])],
            {"input_encoding": encoding, "output_encoding": "UTF-8"},
        )
    for errors in ("strict", "replace", "ignore"):
        for control in (False, True):
            for replacement in (65533, 63):
                attrs = {
                    "input_encoding": "UTF-8",
                    "errors": errors,
                    "replacement_char": replacement,
                }
                attrs["replace_control_characters"] = control
                for text in (strings(good, b""), bad):
                    yield Case("UnicodeDecodeWithOffsets", [text], attrs)
                    for output in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
                        yield Case("UnicodeTranscode", [text], {**attrs, "output_encoding": output})
        for output in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
            for values in ([104, 233, 0x4E16, 0x1F600], [104, -1, 0x110000, 0xD800, 0xFFFE, 0]):
                attrs = {"output_encoding": output, "errors": errors}
                yield Case(
                    "UnicodeEncode",
                    [np.array(values, np.int32), np.array([0, 2, 2, len(values)])],
                    attrs,
                )
    for splits in ([], [0], [0, 9], [1, 4], [0, 3, 2, 4], [0, 2]):
        yield Case(
            "UnicodeEncode",
            [np.arange(65, 69, dtype=np.int32), np.array(splits, np.int32)],
            {"output_encoding": "UTF-8"},
        )
    for op in ("UnicodeDecode", "UnicodeTranscode"):
        more = {"output_encoding": "UTF-8"} if op == "UnicodeTranscode" else {}
        for replacement in (0x110000, 0xD800, -1):
            yield Case(
                op,
                [string(good)],
                {"input_encoding": "UTF-8", "replacement_char": replacement, **more},
            )
        if op == "UnicodeDecode":
            # with offsets TensorFlow crashes
            yield Case(op, [string(good)], {"input_encoding": "UTF-8", "Tsplits": 3})
        yield Case(op, [np.full((2, 1), good, object)], {"input_encoding": "UTF-8", **more})
        yield Case(op, [strings()], {"input_encoding": "UTF-8", **more})


def _serialized() -> Iterator[Case]:
    for value in (
        np.array([1.5, 2]),
        np.array([[1, 2]], np.int32),
        strings(b"ab", b"c"),
        np.array(True),
        np.zeros((0, 3), np.float32),
        np.array([1 + 2j], np.complex64),
        np.array([1, 2], np.float16),
        np.array([1, 2], ml_dtypes.bfloat16),
        np.array([1, 2], np.int8),
        np.array([1, 2], np.uint64),
    ):
        yield Case("SerializeTensor", [value])
        (found,), _ = ours(Case("SerializeTensor", [value]))  # type: ignore[misc]
        yield Case("ParseTensor", [found], {"out_type": as_dtype(value.dtype)})
        yield Case("ParseTensor", [found], {"out_type": as_dtype("uint16")})
    few = TensorProto(dtype=3, int_val=[7])
    few.tensor_shape.dim.add(size=3)
    yield Case("ParseTensor", [string(few.SerializeToString())], {"out_type": 3})
    for text in (b"garbage", b""):
        yield Case("ParseTensor", [string(text)], {"out_type": 3}, own_words=not text)
    yield Case("ParseTensor", [strings(b"", b"")], {"out_type": 3})
    for message in (b"x", b"", b'{"unknown":1}'):
        yield Case("DecodeJSONExample", [strings(message)], own_words=True)


def _compressed() -> Iterator[Case]:
    text = b"hello" * 10
    for kind in ("", "ZLIB", "GZIP", "SNAPPY"):
        for packed in (zlib.compress(text), gzip.compress(text), b""):
            yield Case("DecodeCompressed", [strings(packed, packed)], {"compression_type": kind})
    yield Case(
        "DecodeCompressed", [strings(zlib.compress(text)[:-6])], {"compression_type": "ZLIB"}
    )
    data = strings(b"abcd", b"ab", b"", b"abc")
    for length in (4, 2, 8, 3, 0, -1, -2):
        for kind in (np.uint16, np.int8, np.float32, ml_dtypes.bfloat16):
            for little in (True, False):
                attrs = {"out_type": as_dtype(kind), "little_endian": little}
                yield Case("DecodePaddedRaw", [data, np.array(length, np.int32)], attrs)
    yield Case("DecodePaddedRaw", [data, np.array([4], np.int32)], {"out_type": 17})
    yield Case("DecodePaddedRaw", [data[:0], np.array(4, np.int32)], {"out_type": 17})


@pytest.mark.parametrize(
    "cases",
    [
        _as_string,
        _format,
        _substr,
        _split,
        _ngrams,
        _join,
        _base64,
        _unicode,
        _serialized,
        _compressed,
    ],
)
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))


def test_examples_of_json_equal_tensorflows() -> None:
    texts = (
        b'{"features":{"feature":{"a":{"int64List":{"value":[1,"2"]}},"b":{"floatList":{"value":[1.5]}}}}}',
        b'{"features":{"feature":{"c":{"bytesList":{"value":["YWI="]}}}}}',
        b"{}",
    )
    case = Case("DecodeJSONExample", [strings(*texts).reshape(3, 1)])
    expected, _ = Oracle([case]).run(0, case)
    found, _ = ours(case)
    assert expected is not None and found is not None and found[0].shape == (3, 1)
    # TensorFlow's bytes are those of a converter that packs no lists
    assert [Example.FromString(m) for m in found[0].reshape(-1)] == [
        Example.FromString(m) for m in expected[0].reshape(-1)
    ]
