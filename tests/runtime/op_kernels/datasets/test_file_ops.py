"""Lines and records of files, against TensorFlow."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import tensorflow as tf

from tests.runtime.pipelines import D, compare


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\r\n\nfour")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"x\ny\n"))
    (tmp_path / "c").write_bytes(b"HHaabbccF")
    (tmp_path / "d.z").write_bytes(zlib.compress(b"aabb"))
    with tf.io.TFRecordWriter(str(tmp_path / "e")) as writer:
        for i in range(3):
            writer.write(b"record %d" % i)
    text, missing, zipped, fixed, compressed, records = (
        str(tmp_path / name) for name in ("a.txt", "none", "b.gz", "c", "d.z", "e")
    )
    data = tf.compat.v1.data
    compare(
        {
            "lines": lambda: data.TextLineDataset([text, text]),
            "no file": lambda: data.TextLineDataset([text, missing]).take(5),
            "gzip": lambda: data.TextLineDataset(zipped, "GZIP"),
            "records": lambda: data.TFRecordDataset([records, records]),
            "no records": lambda: data.TFRecordDataset(text).map(tf.strings.length).take(0),
            "fixed": lambda: data.FixedLengthRecordDataset(fixed, 2, 2, 1),
            "zlib": lambda: data.FixedLengthRecordDataset(compressed, 2, compression_type="ZLIB"),
            "in part": lambda: data.FixedLengthRecordDataset(fixed, 2, 2, 2),
            "names": lambda: D.list_files(str(tmp_path / "*"), shuffle=False),
        },
        passes=1,
    )
