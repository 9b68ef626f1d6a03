"""Compiled functions of strings give TensorFlow's values, and leave the rest to Python."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.kernels.cpu.strings import csv, examples, hashes, made_strings, numbers
from tfjit.kernels.cpu.strings.string_function import StringFunction
from tfjit.kernels.jit.store import store

tf1 = tf.compat.v1
RANDOM = random.Random(5)


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    modules = (numbers, csv, examples, hashes, made_strings)
    store.compile(
        [f.source for f in chain.from_iterable(module.FUNCTIONS for module in modules)], workers=2
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int] | None]]:
    """The results of compiled functions, None for those that were not called."""
    found: list[tuple[int, int] | None] = []
    call = StringFunction.__call__

    def recorded(self: StringFunction, items: np.ndarray, *words: int) -> tuple[int, int] | None:
        found.append(call(self, items, *words))
        return found[-1]

    monkeypatch.setattr(StringFunction, "__call__", recorded)
    yield found


def decimal() -> str:
    kind = RANDOM.randrange(7)
    if kind == 0:
        return repr(struct.unpack("d", struct.pack("Q", RANDOM.getrandbits(64)))[0])
    if kind == 1:
        return repr(struct.unpack("f", struct.pack("I", RANDOM.getrandbits(32)))[0])
    if kind == 2:
        digits = [RANDOM.getrandbits(RANDOM.randrange(1, 30)) for _ in range(2)]
        return f"{digits[0]}.{digits[1]}e{RANDOM.randrange(-340, 309)}"
    if kind == 3:  # halfway between two float32
        return f"{2 * RANDOM.getrandbits(23) + (1 << 24) + 1}"
    if kind == 4:  # halfway between two float64
        return f"{2 * RANDOM.getrandbits(52) + (1 << 53) + 1}.0"
    if kind == 5:
        return f" {RANDOM.getrandbits(200)}e-{RANDOM.randrange(60)}\n"
    return RANDOM.choice(
        ["0", "-0.0", "+1.5", ".5", "5.", "1e+05", "inf", "-Infinity", "nan", "1E2"]
    )


def integer() -> bytes:
    text = str(RANDOM.getrandbits(RANDOM.randrange(1, 31)))
    return RANDOM.choice(["", "", "-", " ", "-0"]).encode() + text.encode()


def field() -> str:
    return RANDOM.choice(["x", "a b", '"q,r"', '"s""t"', "", "NA", '""', "longer than eight"])


def record() -> bytes:
    numbers = f"{RANDOM.choice([decimal().strip(), '', 'NA'])},{RANDOM.randrange(-99, 99)}"
    return f"{numbers},{field()},{RANDOM.choice(['', '7', ' 8 ', '9999999999'])}".encode()


def strings(make: Callable[[], Any], count: int = 300) -> np.ndarray:
    found = np.empty(count, object)
    found[:] = [make() for _ in range(count)]
    return found


DECIMALS = strings(lambda: decimal().encode())
BYTES = strings(lambda: RANDOM.randbytes(RANDOM.randrange(150)))
FLOATS = np.array(
    [RANDOM.choice([RANDOM.uniform(-1, 1), RANDOM.uniform(-1e17, 1e17), RANDOM.randrange(2000) / 16,
                    0.0, -0.0, 5e-324, 0.9999999, float("inf"), float("nan")]) for _ in range(300)]
)  # fmt: skip
CASES: dict[str, Callable[[], Any]] = {
    "float32": lambda: tf1.string_to_number(DECIMALS),
    "float64": lambda: tf1.string_to_number(DECIMALS, tf.float64),
    "int32": lambda: tf1.string_to_number(strings(integer), tf.int32),
    "int64": lambda: tf1.string_to_number([str(-(2**63)), str(2**63 - 1), "12"], tf.int64),
    "text of float64": lambda: tf.strings.as_string(FLOATS),
    "text of float32": lambda: tf.strings.as_string(FLOATS.astype(np.float32), precision=3),
    "text of int64": lambda: tf.strings.as_string(np.int64([0, 7, -(2**63), 2**63 - 1, -120])),
    "text of int8": lambda: tf.strings.as_string(np.int8([[0, 7], [-128, 127]])),
    "base64": lambda: tf.io.encode_base64(BYTES),
    "padded base64": lambda: tf.io.encode_base64(BYTES, pad=True),
    "of base64": lambda: tf.io.decode_base64(tf.io.encode_base64(BYTES)),
    "of padded base64": lambda: tf.io.decode_base64(tf.io.encode_base64(BYTES, pad=True)),
    "scalar": lambda: tf.io.encode_base64("abc"),
    "fast": lambda: tf.strings.to_hash_bucket_fast(BYTES, 2**62 + 1),
    "strong": lambda: tf.strings.to_hash_bucket_strong(BYTES, 2**62 + 1, [3, -4]),
    "csv": lambda: tf1.decode_csv(
        strings(record), [[1.5], [0], ["none"], np.int64([5])], na_value="NA"
    ),
    "columns of csv": lambda: tf1.decode_csv(
        strings(record), [np.float64([0.25]), ["none"]], select_cols=[0, 2], na_value="NA"
    ),
}


def test_values() -> None:
    with tf1.Graph().as_default() as graph:
        made = {name: make() for name, make in CASES.items()}
    with tf1.Session(graph=graph) as session:
        expected = session.run(made)
    with tfjit.Session(graph=graph) as ours:
        for name, theirs in expected.items():
            found = ours.run(made[name])
            for mine, other in zip(
                found if isinstance(found, list) else [found],
                theirs if isinstance(theirs, list) else [theirs],
                strict=True,
            ):
                np.testing.assert_array_equal(mine, other, err_msg=name)
                assert getattr(mine, "dtype", None) == getattr(other, "dtype", None), name


def part(number: int, content: bytes) -> bytes:
    size = len(content)
    head = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + head + content


def message(**features: bytes) -> bytes:
    return part(1, b"".join(part(1, part(1, key.encode()) + part(2, value))
                            for key, value in features.items()))  # fmt: skip


def message_of(index: int) -> bytes:
    feature = tf1.train.Feature
    made = {
        "label": feature(int64_list={"value": [index, -index * 2**40]}),
        "x": feature(float_list={"value": [index, 0.5, -1.0]}),
        "other": feature(bytes_list={"value": [b"not wanted"]}),
        "ids": feature(int64_list={"value": range(index % 5)}),
        "names": feature(bytes_list={"value": [b"", b"n%d" % index][: index % 3]}),
        "row": feature(float_list={"value": [index] * (2 * (index % 3))}),
    }
    if index % 7 == 0:
        del made["x"]
    return tf1.train.Example(features={"feature": made}).SerializeToString()


MESSAGES = [message_of(index) for index in range(40)]
LISTS = {
    "label": tf1.FixedLenFeature([2], tf.int64),
    "x": tf1.FixedLenFeature([3, 1], tf.float32, [[7.0], [8.0], [9.0]]),
    "absent": tf1.FixedLenFeature([], tf.string, "d"),
    "ids": tf1.VarLenFeature(tf.int64),
    "names": tf1.VarLenFeature(tf.string),
    "none": tf1.VarLenFeature(tf.float32),
    "row": tf1.FixedLenSequenceFeature([2], tf.float32, True, -1.0),
}
NUMBERS = tf1.VarLenFeature(tf.int64)
INT = part(3, part(1, b"\x05\x06"))
FORMS: dict[str, tuple[list[bytes], dict[str, Any]]] = {
    "examples": (MESSAGES, LISTS),
    "one": (MESSAGES[:1], LISTS),
    "none": ([], LISTS),
    "empty message": ([b""], {"a": NUMBERS}),
    "numbers without a pack": (
        [message(a=part(3, b"\x08\x05\x08\x86\x01\x08\x01"))],
        {"a": NUMBERS},
    ),
    "floats without a pack": (
        [message(a=part(2, b"\x0d" + struct.pack("<f", 2.5)))],
        {"a": tf1.VarLenFeature(tf.float32)},
    ),
    "a key twice": ([part(1, message(a=INT)[2:] + message(a=part(3, b""))[2:])], {"a": NUMBERS}),
    "another type": ([message(a=part(1, part(1, b"x")))], {"a": NUMBERS}),
    "the value first": (
        [part(1, part(1, part(2, INT) + part(1, b"a")))],
        {"a": NUMBERS},
    ),
    "no value": ([message(a=b"")], {"a": NUMBERS}),
    "cut off": ([message(a=INT)[:-1]], {"a": NUMBERS}),
    "a negative number": ([message(a=part(3, part(1, b"\xff" * 9 + b"\x01")))], {"a": NUMBERS}),
    "required": (MESSAGES, {"x": tf1.FixedLenFeature([3], tf.float32)}),
    "another size": (MESSAGES, {"label": tf1.FixedLenFeature([3], tf.int64)}),
}
LEFT_TO_PYTHON = ("another type", "cut off")


def outcome(session_class: Any, graph: Any, fetches: Any) -> Any:
    with session_class(graph=graph) as session:
        try:
            found = session.run(fetches)
        except tf.errors.InvalidArgumentError as error:
            text = error.message.split("\nOriginal stack")[0]
            lines = [line for line in text.splitlines() if line]
            nodes = [k for k, line in enumerate(lines) if line.startswith("Node:")]
            return lines[nodes[-1] + 1 if nodes else 0]
        return [getattr(found[key], "tolist", lambda k=key: found[k])() for key in sorted(found)]


@pytest.mark.parametrize("name", FORMS)
def test_examples(name: str, calls: list[tuple[int, int] | None]) -> None:
    messages, features = FORMS[name]
    with tf1.Graph().as_default() as graph:
        serialized = tf.constant(np.array(messages, object), tf.string, [len(messages)])
        parsed = tf1.parse_example(serialized, features)
    found = outcome(tfjit.Session, graph, parsed)
    np.testing.assert_equal(found, outcome(tf1.Session, graph, parsed))
    assert calls
    assert (calls[0] == (0, 0)) == (name not in LEFT_TO_PYTHON)


def test_strings_that_are_no_bytes_are_left_to_python() -> None:
    items = np.empty(300, object)
    items[:] = [b"1"] * 299 + [np.bytes_(b"2")]
    assert numbers.read_numbers(items, np.dtype(np.float32)) is None
    assert numbers.read_numbers(np.empty(300, object), np.dtype(np.float32)) is None
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.string, [None])
        y = tfjit.string_to_number(x)
        assert session.run(y, {x: items}).tolist() == [1.0] * 299 + [2.0]
