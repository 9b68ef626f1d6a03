"""Readers, parsing and TFRecord files of the front end; files travel to TensorFlow and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


@pytest.mark.parametrize("kind", ["NONE", "ZLIB", "GZIP"])
def test_record_files(tmp_path: Path, kind: str) -> None:
    data = [b"one", b"", b"\x00\xff" * 500]
    paths, options = [], []
    for lib, name in ((tfjit, "ours"), (tf1, "theirs")):
        options.append(
            lib.python_io.TFRecordOptions(getattr(lib.python_io.TFRecordCompressionType, kind))
        )
        paths.append(str(tmp_path / name))
        with lib.python_io.TFRecordWriter(paths[-1], options[-1]) as writer:
            for record in data:
                writer.write(record)
            writer.flush()
    for path in paths:
        assert list(tfjit.python_io.tf_record_iterator(path, options[0])) == data
        assert list(tf1.python_io.tf_record_iterator(path, options[1])) == data
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        queue = tfjit.FIFOQueue(3, tfjit.string)
        session.run([queue.enqueue_many([paths])])
        session.run(queue.close())
        reader = tfjit.TFRecordReader(options=options[0])
        key, value = reader.read(queue)
        assert [session.run(value) for _ in range(6)] == [*data, *data]
        with pytest.raises(tfjit.errors.OutOfRangeError):
            session.run(key)
        assert session.run([reader.num_records_produced(), reader.num_work_units_completed()]) == [
            6,
            2,
        ]
    with pytest.raises(tfjit.errors.FailedPreconditionError, match="Writer is closed"):
        writer_of_ours = tfjit.python_io.TFRecordWriter(paths[0])
        writer_of_ours.close()
        writer_of_ours.write(b"")
    with pytest.raises(tfjit.errors.NotFoundError):
        list(tfjit.python_io.tf_record_iterator(tmp_path / "none"))
    with pytest.raises(tfjit.errors.NotFoundError):
        tfjit.python_io.TFRecordWriter(tmp_path / "none" / "file")
    with pytest.raises(ValueError, match="Not a valid compression_type"):
        tfjit.python_io.TFRecordOptions("LZ")


def read_all(make: Any, works: list[str], runs: int) -> list[Any]:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        queue = tfjit.FIFOQueue(10, tfjit.string)
        session.run(queue.enqueue_many([works]))
        session.run(queue.close())
        reader = make()
        record, some = reader.read(queue), reader.read_up_to(queue, 2)
        assert record.key.shape == () and some.values.shape.as_list() == [None]
        return [session.run(record.value) for _ in range(runs)] + [
            session.run(some.values).tolist()
        ]


def test_other_readers(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"head\na\nb\nc\n")
    assert read_all(lambda: tfjit.TextLineReader(skip_header_lines=1), [str(path)], 1) == [
        b"a",
        [b"b", b"c"],
    ]
    assert read_all(tfjit.IdentityReader, ["x", "y"], 1) == [b"x", [b"y"]]
    assert read_all(tfjit.WholeFileReader, [str(path)] * 2, 1) == [
        path.read_bytes(),
        [path.read_bytes()],
    ]
    pieces = read_all(
        lambda: tfjit.FixedLengthRecordReader(2, header_bytes=5, footer_bytes=1), [str(path)], 1
    )
    assert pieces == [b"a\n", [b"b\n"]]
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        reader = tfjit.IdentityReader()
        assert reader.supports_serialize
        session.run(reader.restore_state(b"\x08\x02\x10\x02\x18\x07"))
        assert session.run(reader.num_records_produced()) == 7
        session.run(reader.reset())
        assert session.run(reader.serialize_state()) == b""


def test_parsing() -> None:
    message = tfjit.train.Example()
    message.features.feature["x"].float_list.value.extend([1, 2])
    message.features.feature["n"].int64_list.value.append(7)
    message.features.feature["s"].bytes_list.value.extend([b"a", b"b"])
    data = message.SerializeToString()
    assert tf1.train.Example.FromString(data).features.feature["n"].int64_list.value == [7]
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        wanted = {
            "x": tfjit.FixedLenFeature([2], tfjit.float32),
            "n": tfjit.FixedLenFeature([], tfjit.int64),
            "z": tfjit.FixedLenFeature([2], tfjit.string, default_value=["p", "q"]),
            "s": tfjit.FixedLenSequenceFeature([], tfjit.string, allow_missing=True),
        }
        many = tfjit.parse_example([data, data], wanted)
        assert {key: t.shape.as_list() for key, t in many.items()} == {
            "x": [2, 2],
            "n": [2],
            "z": [2, 2],
            "s": [2, None],
        }
        found = session.run(many)
        assert (
            found["n"].tolist() == [7, 7]
            and found["z"].tolist() == [[b"p", b"q"]] * 2
            and found["s"].tolist() == [[b"a", b"b"]] * 2
        )
        one = session.run(tfjit.io.parse_single_example(data, wanted))
        assert one["x"].tolist() == [1, 2] and one["n"] == 7
        columns = tfjit.decode_csv(["1,2.5,a", ",,b"], [tfjit.constant([3]), 0.5, tfjit.string])
        assert [c.tolist() for c in session.run(columns)] == [[1, 3], [2.5, 0.5], [b"a", b"b"]]
        assert session.run(tfjit.decode_raw(["ab"], tfjit.uint8)).tolist() == [[97, 98]]
        assert session.run(tfjit.string_to_number(["1.5"])).tolist() == [1.5]
        buckets = [
            tfjit.string_to_hash_bucket_fast(["a"], 9),
            tfjit.string_to_hash_bucket_strong(["a"], 9, [1, 2]),
        ]
        assert all(
            0 <= bucket[0] < 9
            for bucket in session.run([*buckets, tfjit.string_to_hash_bucket(["a"], 9)])
        )
        for bad, text in (
            (
                {"x": tfjit.FixedLenFeature([None], tfjit.float32)},
                "First dimension of shape for feature x unknown",
            ),
            (
                {"x": tfjit.FixedLenSequenceFeature([], tfjit.float32)},
                "requires allow_missing to be True",
            ),
            ({"x": 3}, "Unsupported int 3 for key 'x'"),
            ({}, "`features` cannot be None or falsy"),
        ):
            with pytest.raises(ValueError, match=text):
                tfjit.parse_example([data], bad)
        with pytest.raises(
            ValueError, match="Length of select_cols and record_defaults do not match"
        ):
            tfjit.decode_csv(["1"], [1], select_cols=[0, 1])


def test_a_pipeline_from_files_to_batches(tmp_path: Path) -> None:
    for k in range(2):
        (tmp_path / f"part{k}.csv").write_text("".join(f"{10 * k + i},{i}.5\n" for i in range(5)))
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        files = tfjit.train.match_filenames_once(str(tmp_path / "part*.csv"))
        queue = tfjit.train.string_input_producer(files, num_epochs=1, shuffle=False)
        number, half = tfjit.decode_csv(tfjit.TextLineReader().read(queue).value, [[0], [0.0]])
        batch = tfjit.train.batch([number, half], 4, allow_smaller_final_batch=True)
        session.run(tfjit.local_variables_initializer())
        coordinator = tfjit.train.Coordinator()
        threads = tfjit.train.start_queue_runners(session, coordinator)
        found = []
        with pytest.raises(tfjit.errors.OutOfRangeError):
            while True:
                found.append(session.run(batch))
        coordinator.request_stop()
        coordinator.join(threads)
    assert np.concatenate([numbers for numbers, _ in found]).tolist() == [*range(5), *range(10, 15)]
    assert (
        np.concatenate([halves for _, halves in found]).tolist() == [i + 0.5 for i in range(5)] * 2
    )
