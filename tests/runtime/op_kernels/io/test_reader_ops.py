"""Readers against TensorFlow: records, keys, counts and errors."""

from __future__ import annotations

import gzip
import re
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.waiting import is_blocked
from tfjit.framework.files.records import pack_record

tf1 = tf.compat.v1

RECORDS = b"".join(pack_record(data) for data in (b"one", b"", b"three" * 9))
FILES = {
    "lines": b"a\r\nb\n\nlast",
    "ended": b"x\ny\n",
    "bytes": bytes(range(23)),
    "empty": b"",
    "records": RECORDS,
    "zlib": zlib.compress(RECORDS),
    "gzip": gzip.compress(RECORDS),
    "cut": RECORDS[:-3],
    "damaged": RECORDS[:-8] + b"????" + RECORDS[-4:],
    "zlib bytes": zlib.compress(bytes(range(12))),
}

SCENARIOS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "lines": (lambda: tf1.TextLineReader(), ["lines", "ended"]),
    "lines after a header": (
        lambda: tf1.TextLineReader(skip_header_lines=1),
        ["lines", "empty", "ended"],
    ),
    "a missing file": (lambda: tf1.TextLineReader(), ["none", "ended"]),
    "whole files": (lambda: tf1.WholeFileReader(), ["lines", "empty", "ended"]),
    "a missing whole file": (lambda: tf1.WholeFileReader(), ["lines", "none", "ended"]),
    "identity": (lambda: tf1.IdentityReader(), ["a", "b", "c", "d", "e", "f", "g"]),
    "pieces": (
        lambda: tf1.FixedLengthRecordReader(5, header_bytes=2, footer_bytes=3),
        ["bytes", "empty"],
    ),
    "overlapping pieces": (
        lambda: tf1.FixedLengthRecordReader(5, header_bytes=2, footer_bytes=3, hop_bytes=4),
        ["bytes"],
    ),
    "compressed pieces": (
        lambda: tf1.FixedLengthRecordReader(5, header_bytes=1, encoding="ZLIB"),
        ["zlib bytes"],
    ),
    "a bad header": (lambda: tf1.FixedLengthRecordReader(5, header_bytes=-1), ["bytes"]),
    "records": (lambda: tf1.TFRecordReader(), ["records", "empty", "records"]),
    "zlib": (
        lambda: tf1.TFRecordReader(
            options=tf1.io.TFRecordOptions(tf1.io.TFRecordCompressionType.ZLIB)
        ),
        ["zlib"],
    ),
    "gzip": (
        lambda: tf1.TFRecordReader(
            options=tf1.io.TFRecordOptions(tf1.io.TFRecordCompressionType.GZIP)
        ),
        ["gzip"],
    ),
    "no records": (lambda: tf1.TFRecordReader(), ["bytes", "records"]),
    "cut": (lambda: tf1.TFRecordReader(), ["cut"]),
    "damaged": (lambda: tf1.TFRecordReader(), ["damaged"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("records")
    for name, data in FILES.items():
        (found / name).write_bytes(data)
    return found


def outcome(session: Any, fetch: Any) -> Any:
    try:
        value = session.run(fetch)
    except tf.errors.OpError as error:
        lines = [line for line in error.message.split("\nOriginal stack")[0].splitlines() if line]
        first = max((i for i, line in enumerate(lines) if line.startswith("Node:")), default=-1) + 1
        kind = next(
            k.__name__ for k in type(error).__mro__ if k.__module__.startswith("tensorflow")
        )
        if kind == "DataLossError":
            return kind, re.match(r"\w+ record at \d+( \(.*?\))?", lines[first]).group()  # type: ignore[union-attr]
        return kind, re.sub(r"'_\d+_", "'_", lines[first])
    return (
        value
        if value is None or isinstance(value, bytes)
        else [np.asarray(v).tolist() for v in value]
    )


@pytest.mark.parametrize("name", SCENARIOS)
def test_records_and_errors_are_tensorflows(name: str, folder: Path) -> None:
    make, works = SCENARIOS[name]
    with tf1.Graph().as_default() as graph:
        queue = tf1.FIFOQueue(10, tf.string)
        fill, close = queue.enqueue_many([[str(folder / work) for work in works]]), queue.close()
        reader = make()
        one, some = reader.read(queue), reader.read_up_to(queue, 3)
        counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        state, reset = reader.serialize_state(), reader.reset()
        restore = reader.restore_state(
            tf1.placeholder_with_default(b"\x08\x02\x10\x02\x18\x07\x22\x01w", [])
        )
        bad = reader.restore_state(tf1.placeholder_with_default(b"zz", []))
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for session in (theirs, ours):
            session.run(fill)
            session.run(close)
        fetches = [one, one, some, one, state, some, one, some, bad, restore, state, reset, one]
        for i, fetch in enumerate(fetches):
            assert (i, outcome(ours, fetch), outcome(ours, counts)) == (
                i,
                outcome(theirs, fetch),
                outcome(theirs, counts),
            )


def test_many_readers_of_one_and_a_cancelled_wait(folder: Path) -> None:
    with tf1.Graph().as_default() as graph:
        queue = tf1.FIFOQueue(300, tf.string)
        names = tf1.placeholder(tf.string, [None])
        fill, close = queue.enqueue_many([names]), queue.close()
        one = tf1.TextLineReader().read(queue)
    with tfjit.Session(graph=graph) as session:
        found: list[bytes] = []

        def work() -> None:
            try:
                while True:
                    found.append(session.run(one)[1])
            except tf.errors.OutOfRangeError:
                pass

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(one, options=tf1.RunOptions(timeout_in_ms=50))
        session.run(
            fill,
            {
                names: [str(folder / "empty")] * 200
                + [str(folder / "ended"), str(folder / "lines")] * 40
            },
        )
        session.run(close)
        for thread in threads:
            thread.join(60)
        assert sorted(found) == sorted([b"x", b"y", b"a", b"b", b"", b"last"] * 40)


def test_close_ends_a_waiting_read(folder: Path) -> None:
    with tf1.Graph().as_default() as graph:
        one = tf1.TextLineReader().read(tf1.FIFOQueue(3, tf.string))
    session = tfjit.Session(graph=graph)
    errors: list[Exception] = []

    def work() -> None:
        try:
            session.run(one)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert all(map(is_blocked, threads))
    session.close()
    for thread in threads:
        thread.join(60)
    assert len(errors) == 2 and all(isinstance(error, tf.errors.CancelledError) for error in errors)
