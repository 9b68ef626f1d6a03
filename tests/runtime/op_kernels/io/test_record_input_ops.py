"""Records in random order, constants in files, and the clock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import oracle
from tfjit.framework.files.records import pack_record

raw = tf.raw_ops


def test_each_record_comes_once_an_epoch(tmp_path: Path) -> None:
    wanted = set()
    for k in range(3):
        records = [b"%d:%d" % (k, i) for i in range(4)]
        wanted.update(records)
        (tmp_path / f"r{k}").write_bytes(b"".join(map(pack_record, records)))
    (tmp_path / "bad").write_bytes(b"no record at all")
    with tf.Graph().as_default() as graph:
        pattern = str(tmp_path / "r?")
        batch = raw.RecordInput(file_pattern=pattern, batch_size=5, file_buffer_size=6)
        again = raw.RecordInput(file_pattern=pattern, batch_size=12, file_buffer_size=6)
        faults = [
            raw.RecordInput(file_pattern=str(tmp_path / "none*"), batch_size=2),
            raw.RecordInput(file_pattern=str(tmp_path / "bad"), batch_size=2),
            raw.RecordInput(file_pattern=pattern, batch_size=-1),
        ]
    with tfjit.Session(graph=graph) as session:
        taken = [record for _ in range(12) for record in session.run(batch).tolist()]
        epochs = [taken[at : at + 12] for at in range(0, 60, 12)]
        assert all(set(epoch) == wanted for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) > 1
        assert session.run(again).tolist() == epochs[0]  # the seed's order
        for fault, kind, text in zip(
            faults,
            (
                tfjit.errors.NotFoundError,
                tfjit.errors.DataLossError,
                tfjit.errors.InvalidArgumentError,
            ),
            ("Found no files at", "corrupted record at 0", "batch_size must be non-negative"),
            strict=True,
        ):
            with pytest.raises(kind, match=text):
                session.run(fault)


def test_constants_in_files_and_the_clock(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    path = str(tmp_path / "c")
    with tf.Graph().as_default() as graph:
        ops = [
            raw.ImmutableConst(dtype=dtype, shape=shape, memory_region_name=name)
            for dtype, shape, name in (
                (tf.float32, [2, 4], path),
                (tf.int16, [16], path),
                (tf.float32, [2, 5], path),
                (tf.float32, [2], path + "-absent"),
                (tf.string, [2], path),
            )
        ]
        now = raw.Timestamp()
        variable = tf.compat.v1.get_variable("v", [2], use_resource=True)
        read = raw.DisableCopyOnRead(resource=variable.handle)
    answers: list[Any] = []
    for kind in (tf.compat.v1.Session, tfjit.Session):
        found: list[Any] = []
        with kind(graph=graph) as session:
            for op in ops:
                try:
                    found.append(repr(session.run(op)))
                except Exception as error:
                    text = oracle.cause(error.message).split("\t [[")[0]
                    found.append((type(error).__name__, text))
            assert abs(session.run(now) - time.time()) < 60
            session.run(variable.initializer)
            assert session.run(read) is None
        answers.append(found)
    assert answers[0] == answers[1]
