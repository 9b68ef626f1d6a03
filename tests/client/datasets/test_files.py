"""Lines and records of files."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfjit
from tests.client.datasets.pipelines import check_pipelines


def test_elements_are_tensorflows(tmp_path: Path) -> None:
    lines, records = str(tmp_path / "lines.txt"), str(tmp_path / "records")
    Path(lines).write_bytes(b"a\nbb\r\n\nccc")
    with tfjit.python_io.TFRecordWriter(records) as writer:
        for record in (b"one", b"", b"three"):
            writer.write(record)
    check_pipelines(
        {
            "lines": lambda tf: tf.data.TextLineDataset([lines, lines]),
            "lines of a dataset of files": lambda tf: tf.data.TextLineDataset(
                tf.data.Dataset.from_tensors(lines)
            ),
            "lines in turns": lambda tf: tf.data.TextLineDataset(
                [lines, lines], num_parallel_reads=2
            ),
            "records": lambda tf: tf.data.TFRecordDataset(records),
            "fixed": lambda tf: tf.data.FixedLengthRecordDataset(lines, 3, 1, 0),
        }
    )


def test_their_classes() -> None:
    with tfjit.Graph().as_default():
        lines = tfjit.data.TextLineDataset("file")
        assert isinstance(lines, tfjit.data.TextLineDataset)
        assert isinstance(lines, tfjit.data.Dataset)
        with pytest.raises(TypeError, match="filenames"):
            tfjit.data.TFRecordDataset(tfjit.data.Dataset.range(3))
