"""Datasets of CSV files and of parsed examples: TensorFlow's elements, errors and specs."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1
THREE = [[0], [1.5], ["d"]]
TWO = [[0], ["d"]]
ROWS: dict[str, tuple[bytes, Any, dict[str, Any]]] = {
    "plain": (b"1,2.5,a\n3,4,b\n", THREE, {}),
    "no last end": (b"1,2.5,a\r\n3,4,b", THREE, {}),
    "returns": (b"1,2.5,a\r3,4,b\r", THREE, {}),
    "nothing": (b"", THREE, {}),
    "blank": (b"1,2.5,a\n\n3,4,b\n", THREE, {}),
    "missing": (b",,\n1,,\n", THREE, {}),
    "quoted": (b'1,2.5,"a,b"\n3,4,"x""y"\n5,6,"l1\nl2"\n7,"8.5",c\n"","",""', THREE, {}),
    "bad numbers": (b"x,1,a\n2,y,b\n3000000000,1,c\n1,1,d", THREE, {}),
    "another number": (b'1,2\n3,4,b\n1,2,c,d\n1,2,3,"a\nb"\n5,6,e', THREE, {}),
    "required": (b",2,c\n3,4,b\n", [tensorflow.int32, [1.5], ["d"]], {}),
    "quote inside": (b'1,2,a"b\n3,4,b\n1,x,a"b\n1,a"b,"q\nr"\n5,6,c\n', THREE, {}),
    "quote in quotes": (b'1,2,"a"b"\n3,4,c\n1,2,"a"b\n3,4,"c"\n5,6,d\n', THREE, {}),
    "open quote": (b'1,2,"a"b\n3,4,b\n', THREE, {}),
    "header": (b'"a\nb",b,c\n1,2.5,x\n', THREE, {"header": True}),
    "header alone": (b"a,b,c", THREE, {"header": True}),
    "no header": (b"", THREE, {"header": True}),
    "select": (b'1,2,"a\nb",4\n5,x,7,8\n5,6\n5,,7,8', TWO, {"select_cols": [1, 3]}),
    "select others": (b"1,2\n", TWO, {"select_cols": [1, 0]}),
    "marks": (b"NA|NA\n", TWO, {"na_value": "NA", "field_delim": "|"}),
    "long mark": (b"1||2\n", TWO, {"field_delim": "||"}),
    "no quotes": (b'1,"a"b\n2,"b\n', TWO, {"use_quote_delim": False}),
    "types": (b"1,2,3,4\n", ["int64", "float64", "float32", "string"], {}),
    "no buffer": (b"1,a", TWO, {"buffer_size": 0}),
    "another compression": (b"1,a", TWO, {"compression_type": "Q"}),
}


def outcomes(session: Any, tf: Any, dataset: Any) -> list[Any]:
    """The elements and the texts of errors, up to the end."""
    iterator = tf.data.make_initializable_iterator(dataset)
    element, found = iterator.get_next(), []
    try:
        session.run(iterator.initializer)
        for _ in range(20):
            try:
                found.append(session.run(element))
            except tf.errors.InvalidArgumentError as error:
                found.append(reason(error))
    except tf.errors.OutOfRangeError:
        found.append("end")
    except tf.errors.InvalidArgumentError as error:
        found.append(reason(error))
    return found


def reason(error: Any) -> str:
    lines = [x for x in error.message.split("\nOriginal stack")[0].splitlines() if x]
    last = max((k for k, x in enumerate(lines) if x.startswith("Node:")), default=-1)
    return str(lines[last + 1])


def both(make: Callable[[Any], dict[str, Any]]) -> list[dict[str, Any]]:
    """Run datasets to their ends in one session of each library."""
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), tf.Session() as session:
            made = make(tf)
            found.append({name: outcomes(session, tf, one) for name, one in made.items()})
            for name, one in made.items():
                found[-1][f"spec of {name}"] = str(one.element_spec).replace(", name=None", "")
    return found


def assert_equal(found: list[dict[str, Any]]) -> None:
    assert found[0].keys() == found[1].keys()
    for name, theirs in found[0].items():
        np.testing.assert_equal(found[1][name], theirs, err_msg=name)


def test_rows(tmp_path: Path) -> None:
    def make(tf: Any) -> dict[str, Any]:
        made = {}
        for name, (text, defaults, arguments) in ROWS.items():
            path = tmp_path / f"{name}.csv"
            path.write_bytes(text)
            given = [tf.as_dtype(d) if isinstance(d, (str, tensorflow.DType)) else d
                     for d in defaults]  # fmt: skip
            given = [tf.as_dtype(d.name) if isinstance(d, tensorflow.DType) else d for d in given]
            made[name] = tf.data.experimental.CsvDataset(str(path), given, **arguments)
        (tmp_path / "packed.gz").write_bytes(gzip.compress(b"1,a\n2,b\n"))
        files = [str(tmp_path / "packed.gz")] * 2
        made["packed"] = tf.data.experimental.CsvDataset(files, TWO, compression_type="GZIP")
        return made

    assert_equal(both(make))


def test_long_files(tmp_path: Path) -> None:
    """Records are cut where blocks of the file end."""
    path = tmp_path / "long.csv"
    rows = [f'{k},"{"x" * (k % 700)}{chr(10)}"' if k % 3 else f"{k},y" for k in range(600)]
    for end in ("\r\n", "\n"):
        path.write_bytes(end.join(rows).encode())
        with tfjit.Graph().as_default(), tfjit.Session() as session:
            dataset = tfjit.data.experimental.CsvDataset(str(path), [[0], [""]]).batch(600)
            numbers, texts = session.run(tfjit.data.make_one_shot_iterator(dataset).get_next())
        assert numbers.tolist() == list(range(600))
        assert texts[599].decode() == "x" * 599 + "\n" or texts[599] == b"y"
        assert sum(map(len, texts)) == sum((k % 700) + 1 if k % 3 else 1 for k in range(600))


def test_batches_of_columns(tmp_path: Path) -> None:
    for k in range(2):
        text = "".join(f"{n},{n / 4},w{n},{10**10 * n},{k}\n" for n in range(5 * k, 5 * k + 5))
        (tmp_path / f"{k}.csv").write_text("i,f,s,l,k\n" + text)
    pattern = str(tmp_path / "*.csv")

    def make(tf: Any) -> dict[str, Any]:
        csv = tf.data.experimental.make_csv_dataset
        once: dict[str, Any] = {"num_epochs": 1, "shuffle": False}
        return {
            "inferred": csv(pattern, 3, **once),
            "label": csv(pattern, 4, label_name="s", **once),
            "selected": csv(pattern, 4, select_columns=["l", 0], **once),
            "named": csv(
                [pattern], 4, ["a", "b", "c", "d", "e"], [tf.int32, [0.0], "", [0.0], tf.string],
                **once,
            ),
            "shuffled": csv(pattern, 4, num_epochs=2, shuffle_buffer_size=5, shuffle_seed=3),
            "in turns": csv(pattern, 4, num_parallel_reads=2, **once),
        }  # fmt: skip

    assert_equal(both(make))
    for wrong in (
        {"file_pattern": str(tmp_path / "none")},
        {"file_pattern": []},
        {"file_pattern": pattern, "label_name": "q"},
        {"file_pattern": pattern, "select_columns": ["q"]},
        {"file_pattern": pattern, "select_columns": [9]},
        {"file_pattern": pattern, "select_columns": [1, "i"], "column_defaults": [[0]]},
        {"file_pattern": pattern, "header": False},
        {"file_pattern": pattern, "column_names": ["a", "a"]},
        {"file_pattern": pattern, "column_names": ["a", "b"]},
    ):
        texts = []
        for tf in (tf1, tfjit):
            with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
                tf.data.experimental.make_csv_dataset(batch_size=2, **wrong)
            texts.append(str(caught.value))
        assert texts[0] == texts[1]


def features_of(tf: Any) -> dict[str, Any]:
    return {
        "n": tf.FixedLenFeature([], tf.int64, 7),
        "x": tf.FixedLenSequenceFeature([2], tf.float32, True),
        "ids": tf.VarLenFeature(tf.int64),
        "both": tf.SparseFeature("ids", "w", tf.float32, 100),
        "w": tf.VarLenFeature(tf.float32),
        "s": tf.FixedLenFeature([], tf.string),
    }


def test_parsed_examples(tmp_path: Path) -> None:
    path = str(tmp_path / "examples")
    texts = []
    with tf1.python_io.TFRecordWriter(path) as writer:
        for k in range(7):
            example = tf1.train.Example()
            feature = example.features.feature
            feature["s"].bytes_list.value.append(b"t%d" % k)
            feature["ids"].int64_list.value.extend(range(k % 3))
            feature["w"].float_list.value.extend([k / 2] * (k % 3))
            feature["x"].float_list.value.extend([k] * (2 * (k % 2)))
            if k % 2:
                feature["n"].int64_list.value.append(k)
            texts.append(example.SerializeToString())
            writer.write(texts[-1])

    def make(tf: Any) -> dict[str, Any]:
        data, features = tf.data.experimental, features_of(tf)
        batched = data.make_batched_features_dataset
        batches = tf.data.Dataset.from_tensor_slices(texts).batch(3)
        del features["both"]
        wrong = {"n": tf.FixedLenFeature([], tf.int64), "z": tf.VarLenFeature(tf.string)}
        return {
            "parsed": batches.apply(data.parse_example_dataset(features)),
            "in parallel": batches.apply(data.parse_example_dataset(features, 2, True)),
            "merged": batches.apply(data.parse_example_dataset(features_of(tf))),
            "errors": batches.apply(data.parse_example_dataset(wrong)),
            "files": batched(path, 2, features, num_epochs=1, shuffle=False, label_key="n"),
            "shuffled": batched([path], 2, features, num_epochs=2, shuffle_seed=4,
                                shuffle_buffer_size=3, drop_final_batch=True),
        }  # fmt: skip

    assert_equal(both(make))
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            batched = tf.data.experimental.make_batched_features_dataset
            with pytest.raises(TypeError, match="dataset of vectors of strings"):
                tf.data.Dataset.range(3).apply(
                    tf.data.experimental.parse_example_dataset(features_of(tf))
                )
            with pytest.raises(TypeError, match="must return a `Dataset` object"):
                batched(path, 2, features_of(tf), reader=tf.TFRecordReader)
            with pytest.raises(ValueError, match="must be one of the `features` keys"):
                batched(path, 2, features_of(tf), label_key="q")
