"""Lookup tables against TensorFlow: values and errors, op by op, in one session each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_lookup_ops as ops

import tfjit

tf1 = tf.compat.v1

FILES = {
    "pairs": "a\t1\nb\t2\nc\t3\n",
    "words": "alpha\nbeta\ngamma\n",
    "two values": "alpha\nbeta\nalpha\n",
    "same twice": "a\t1\na\t1\n",
    "empty line": "alpha\r\nbeta\r\n\r\nx",
    "carriage returns": "alpha\r\nbeta",
    "no numbers": "a\tx\n",
    "big numbers": "a\t3000000000\n",
    "floats": "a\t1.5\nb\t-2e3\n",
    "nothing": "",
}


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def late(value: Any) -> Any:
    """A tensor whose shape only the run knows."""
    return tf1.placeholder_with_default(value, None)


def contents(export: Any) -> list[Any]:
    return [export.keys, export.values]


def immutable(folder: Path) -> list[Any]:
    table = ops.hash_table_v2(tf.string, tf.int64, name="table")
    none = tf.constant(-1, tf.int64)
    find = ops.lookup_table_find_v2(table, ["a", "b", "z"], none)
    return [
        *(
            find,
            ops.lookup_table_size_v2(table),
            contents(ops.lookup_table_export_v2(table, tf.string, tf.int64)),
        ),
        *(
            ops.initialize_table_v2(table, ["a", "a"], ints(1, 2)),
            ops.initialize_table_v2(table, late(["a", "b"]), late(ints(1))),
        ),
        *(
            ops.initialize_table_v2(table, late([["a"]]), late(ints([1]))),
            ops.initialize_table_v2(table, [1], ints(1)),
        ),
        *(ops.initialize_table_v2(table, ["a"], floats(1)), ops.lookup_table_size_v2(table)),
        *(
            ops.initialize_table_v2(table, ["a", "b", "a"], ints(1, 2, 1)),
            find,
            ops.lookup_table_size_v2(table),
        ),
        *(
            ops.initialize_table_v2(table, ["a", "c"], ints(1, 2)),
            ops.initialize_table_v2(table, ["a"], ints(1)),
            find,
        ),
        *(
            ops.lookup_table_insert_v2(table, ["q"], ints(1)),
            ops.lookup_table_remove_v2(table, ["q"]),
        ),
        *(
            ops.lookup_table_import_v2(table, ["q"], ints(1)),
            contents(ops.lookup_table_export_v2(table, tf.string, tf.int64)),
        ),
        *(
            ops.lookup_table_find_v2(table, [["a"], ["b"]], none),
            ops.lookup_table_find_v2(table, "b", none),
        ),
        *(
            ops.lookup_table_find_v2(table, late(np.array([], object)), none),
            ops.lookup_table_find_v2(table, ["a"], late(ints(1, 2))),
        ),
        *(
            ops.lookup_table_find_v2(table, ["z", "y"], ints(5, 6)),
            ops.lookup_table_find_v2(table, [1], none),
        ),
        ops.lookup_table_find_v2(table, ["a"], tf.constant(1.0)),
    ]


def old_kinds(folder: Path) -> list[Any]:
    table = ops.hash_table(tf.int64, tf.string, name="table")
    changing = ops.mutable_hash_table(tf.string, tf.float32, name="changing")
    return [
        *(ops.initialize_table(table, ints(3, 4), ["c", "d"]), ops.lookup_table_size(table)),
        *(
            ops.lookup_table_find(table, ints(4, 5), "none"),
            contents(ops.lookup_table_export(table, tf.int64, tf.string)),
        ),
        *(
            ops.lookup_table_find(table, ["a"], "none"),
            ops.lookup_table_insert(changing, ["x", "y"], floats(1, 2)),
        ),
        *(
            ops.lookup_table_find(changing, ["y", "z"], floats(9)[0]),
            ops.lookup_table_import(changing, ["u"], floats(1)),
        ),
        ops.lookup_table_size(changing),
    ]


def mutable(folder: Path) -> list[Any]:
    table = ops.mutable_hash_table_v2(tf.string, tf.int64, name="table")
    none = tf.constant(-1, tf.int64)
    return [
        *(
            ops.lookup_table_find_v2(table, ["a"], none),
            ops.lookup_table_insert_v2(table, ["a", "b"], ints(1, 2)),
        ),
        *(
            ops.lookup_table_find_v2(table, [["a", "z"]], none),
            ops.lookup_table_insert_v2(table, [["a", "c"]], ints([5, 2])),
        ),
        *(ops.lookup_table_size_v2(table), ops.lookup_table_find_v2(table, ["a", "z"], ints(7, 8))),
        *(
            ops.lookup_table_find_v2(table, ["a", "z"], late(ints(7))),
            ops.lookup_table_insert_v2(table, ["a", "b"], late(ints(1))),
        ),
        *(ops.lookup_table_remove_v2(table, ["a", "q"]), ops.lookup_table_size_v2(table)),
        *(
            ops.lookup_table_insert_v2(table, ["n", "a", "n"], ints(1, 2, 3)),
            ops.lookup_table_find_v2(table, ["n", "a", "b", "c"], none),
        ),
        *(
            ops.lookup_table_remove_v2(table, [1]),
            ops.lookup_table_insert_v2(table, "s", ints(3)[0]),
        ),
        *(
            ops.lookup_table_find_v2(table, "s", none),
            ops.lookup_table_import_v2(table, ["x"], ints(1)),
        ),
        *(
            ops.lookup_table_size_v2(table),
            contents(ops.lookup_table_export_v2(table, tf.string, tf.int64)),
        ),
        *(
            ops.lookup_table_import_v2(table, late(["x", "y"]), late(ints(1))),
            ops.lookup_table_remove_v2(table, ["x"]),
        ),
        *(
            ops.lookup_table_size_v2(table),
            contents(ops.lookup_table_export_v2(table, tf.string, tf.int64)),
        ),
        ops.lookup_table_insert_v2(table, ["a"], floats(1)),
    ]


def of_tensors(folder: Path) -> list[Any]:
    table = ops.mutable_hash_table_of_tensors_v2(
        tf.string, tf.float32, value_shape=[2], name="table"
    )
    matrix = ops.mutable_hash_table_of_tensors_v2(
        tf.string, tf.float32, value_shape=[2, 2], name="matrix"
    )
    none = tf.constant([0.0, 9.0])
    return [
        *(
            ops.lookup_table_find_v2(table, ["a"], none),
            ops.lookup_table_insert_v2(table, ["a", "b"], floats([1, 2], [3, 4])),
        ),
        *(
            ops.lookup_table_find_v2(table, [["a", "z"]], none),
            ops.lookup_table_find_v2(table, ["a", "z"], late(floats([1, 1], [2, 2]))),
        ),
        *(
            ops.lookup_table_find_v2(table, ["a"], late(np.float32(1))),
            ops.lookup_table_find_v2(table, ["a"], late(floats(1, 2, 3))),
        ),
        *(
            ops.lookup_table_insert_v2(table, ["a", "b"], late(floats([1], [2]))),
            ops.lookup_table_remove_v2(table, ["a"]),
        ),
        *(
            ops.lookup_table_size_v2(table),
            ops.lookup_table_import_v2(table, ["k"], floats([7, 8])),
        ),
        *(
            contents(ops.lookup_table_export_v2(table, tf.string, tf.float32)),
            ops.lookup_table_size_v2(matrix),
        ),
    ]


def dense(folder: Path) -> list[Any]:
    table = ops.mutable_dense_hash_table_v2(
        ints(0)[0], ints(-1)[0], tf.int64, initial_num_buckets=4, name="table"
    )
    none = tf.constant(-1, tf.int64)
    return [
        *(
            ops.lookup_table_find_v2(table, ints(5), none),
            ops.lookup_table_insert_v2(table, ints(11, 12, 13, 14, 15), ints(1, 2, 3, 4, 5)),
        ),
        *(
            ops.lookup_table_find_v2(table, ints([11, 99]), none),
            ops.lookup_table_insert_v2(table, ints(0), ints(5)),
        ),
        *(
            ops.lookup_table_insert_v2(table, ints(-1), ints(5)),
            ops.lookup_table_find_v2(table, ints(0), none),
        ),
        *(
            ops.lookup_table_remove_v2(table, ints(-1)),
            ops.lookup_table_remove_v2(table, ints(11, 77)),
            ops.lookup_table_size_v2(table),
        ),
        *(
            ops.lookup_table_insert_v2(table, ints(21, 22), late(ints(5))),
            ops.lookup_table_find_v2(table, ints(12, 11), none),
        ),
        *(
            ops.lookup_table_find_v2(table, ints(21, 12, 11), ints(5, 6, 7)),
            ops.lookup_table_find_v2(table, ints(11, 12), late(ints(8))),
        ),
    ]


def dense_of_vectors(folder: Path) -> list[Any]:
    table = ops.mutable_dense_hash_table_v2(
        ints(0, 0), ints(-1, -1), tf.float32, value_shape=[3], initial_num_buckets=8, name="table"
    )
    none = tf.constant([1.0, 2.0, 3.0])
    return [
        *(
            ops.lookup_table_insert_v2(table, ints([1, 2], [3, 4]), floats([1, 2, 3], [4, 5, 6])),
            ops.lookup_table_size_v2(table),
        ),
        *(
            ops.lookup_table_find_v2(table, ints([3, 4], [9, 9]), none),
            ops.lookup_table_find_v2(table, late(ints(1, 2)), none),
        ),
        *(
            ops.lookup_table_find_v2(table, late(ints([1, 2, 3])), none),
            ops.lookup_table_remove_v2(table, ints([1, 2])),
        ),
        *(
            ops.lookup_table_size_v2(table),
            ops.lookup_table_insert_v2(table, ints([1, 2], [3, 4]), late(floats([1, 2], [4, 5]))),
        ),
        *(ops.lookup_table_find_v2(table, ints([0, 0]), none), ops.lookup_table_size_v2(table)),
    ]


def bad_dense(folder: Path) -> list[Any]:
    makers: list[dict[str, Any]] = [
        {"deleted_key": ints(0)[0]},
        {"deleted_key": ints(1)[0], "initial_num_buckets": 3},
        {"deleted_key": ints(1)[0], "initial_num_buckets": 2},
        {"deleted_key": ints(1)[0], "max_load_factor": 1.5},
        {"deleted_key": ints(1)[0], "max_load_factor": 0.0},
        {"deleted_key": late(ints(1, 2))},
    ]
    return [
        ops.lookup_table_size_v2(
            ops.mutable_dense_hash_table_v2(ints(0)[0], value_dtype=tf.int64, **m)
        )
        for m in makers
    ]


def shared(folder: Path) -> list[Any]:
    one, two = (
        ops.hash_table_v2(tf.string, tf.int64, shared_name="s", name=name)
        for name in ("one", "two")
    )
    other = ops.hash_table_v2(tf.string, tf.float32, shared_name="s", name="other")
    kept = ops.hash_table_v2(tf.string, tf.int64, container="box", shared_name="s", name="kept")
    sizes = [ops.lookup_table_size_v2(table) for table in (one, two, kept, other)]
    mutable_table = ops.mutable_hash_table_v2(tf.string, tf.int64, name="mutable")
    return [
        ops.initialize_table_v2(one, ["a"], ints(1)),
        *sizes,
        ops.lookup_table_size_v2(mutable_table),
    ]


def anonymous(folder: Path) -> list[Any]:
    table = ops.anonymous_mutable_hash_table(tf.string, tf.int64)
    with tf1.control_dependencies([ops.lookup_table_insert_v2(table, ["a"], ints(3))]):
        find = ops.lookup_table_find_v2(table, ["a"], ints(-1)[0])
    once = ops.anonymous_hash_table(tf.string, tf.int64)
    with tf1.control_dependencies([ops.initialize_table_v2(once, ["a"], ints(3))]):
        find_once = ops.lookup_table_find_v2(once, ["a"], ints(-1)[0])
    return [find, ops.lookup_table_size_v2(table), find_once]


def of_file(
    name: str,
    key_index: int,
    value_index: int,
    key: str = "string",
    value: str = "int64",
    **more: Any,
) -> Callable[[Path], list[Any]]:
    def make(folder: Path) -> list[Any]:
        table = ops.hash_table_v2(tf.as_dtype(key), tf.as_dtype(value), name="table")
        path = str(folder / name) if name else ""
        fill = ops.initialize_table_from_text_file_v2(
            table, path, key_index=key_index, value_index=value_index, **more
        )
        again = ops.initialize_table_from_text_file_v2(
            table, path, key_index=key_index, value_index=value_index, **more
        )
        return [
            fill,
            ops.lookup_table_size_v2(table),
            contents(ops.lookup_table_export_v2(table, tf.as_dtype(key), tf.as_dtype(value))),
            again,
        ]

    return make


def file_of_vector(folder: Path) -> list[Any]:
    table = ops.hash_table(tf.string, tf.int64, name="table")
    return [
        ops.initialize_table_from_text_file(
            table, late([str(folder / "words")]), key_index=-2, value_index=-1
        )
    ]


SCENARIOS: dict[str, Callable[[Path], list[Any]]] = {
    **{
        f.__name__: f
        for f in (
            immutable,
            old_kinds,
            mutable,
            of_tensors,
            dense,
            dense_of_vectors,
            bad_dense,
            shared,
            anonymous,
            file_of_vector,
        )
    },
    "columns": of_file("pairs", 0, 1),
    "columns of another delimiter": of_file("pairs", 0, 1, delimiter=" "),
    "delimiter of two": of_file("pairs", 0, 1, delimiter="ab"),
    "same column": of_file("pairs", 0, 0, "string", "string"),
    "column too far": of_file("pairs", 0, 3),
    "float column": of_file("floats", 0, 1, "string", "float32"),
    "double column": of_file("floats", 0, 1, "string", "float64"),
    "lines to numbers": of_file("words", -2, -1),
    "numbers to lines": of_file("words", -1, -2, "int64", "string"),
    "offset": of_file("words", -2, -1, offset=10),
    "numbers as int32": of_file("words", -1, -2, "int32", "string"),
    "numbers as float": of_file("words", -2, -1, "string", "float32"),
    "lines as int": of_file("words", -2, -1, "int64", "int64"),
    "no such file": of_file("none", 0, 1),
    "no name": of_file("", 0, 1),
    "first two": of_file("words", -2, -1, vocab_size=2),
    "too few": of_file("words", -2, -1, vocab_size=9),
    "two values": of_file("two values", -2, -1),
    "same twice": of_file("same twice", 0, 1),
    "empty line": of_file("empty line", -2, -1),
    "carriage returns": of_file("carriage returns", -2, -1),
    "no numbers": of_file("no numbers", 0, 1),
    "too big for int32": of_file("big numbers", 0, 1, "string", "int32"),
    "big numbers": of_file("big numbers", 0, 1),
    "nothing": of_file("nothing", -2, -1),
}


def outcome(session: Any, fetch: Any) -> Any:
    try:
        value = session.run(fetch)
    except tf.errors.OpError as error:
        lines = [line for line in error.message.split("\nOriginal stack")[0].splitlines() if line]
        first = max((i for i, line in enumerate(lines) if line.startswith("Node:")), default=-1) + 1
        kind = next(
            k.__name__ for k in type(error).__mro__ if k.__module__.startswith("tensorflow")
        )
        return kind, [line for line in lines[first:] if "[[" not in line]
    if isinstance(value, list):  # what is exported comes in any order
        return sorted(zip(*(part.tolist() for part in value), strict=True)), [
            part.dtype for part in value
        ]
    return value if value is None else (value.dtype, value.shape, value.tolist())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("vocabularies")
    for name, text in FILES.items():
        (found / name).write_bytes(text.encode())
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_values_and_errors_are_tensorflows(name: str, folder: Path) -> None:
    with tf1.Graph().as_default() as graph:
        fetches = SCENARIOS[name](folder)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for i, fetch in enumerate(fetches):
            assert (i, outcome(ours, fetch)) == (i, outcome(theirs, fetch))


def test_what_a_dense_table_exports() -> None:
    with tf1.Graph().as_default() as graph:
        table = ops.mutable_dense_hash_table_v2(
            ints(0)[0], ints(-1)[0], tf.float32, value_shape=[2], initial_num_buckets=4
        )
        insert = ops.lookup_table_insert_v2(
            table, ints(11, 12, 13, 14, 15), floats(*((k, -k) for k in range(5)))
        )
        export = ops.lookup_table_export_v2(table, tf.int64, tf.float32)
        remove = ops.lookup_table_remove_v2(table, ints(12))
    found = []
    for session in (tf1.Session(graph=graph), tfjit.Session(graph=graph)):
        with session:
            session.run(insert)
            session.run(remove)
            keys, values = session.run([export.keys, export.values])
        found.append(
            (
                keys.shape,
                values.shape,
                sorted(
                    (k, *v) for (k,), v in zip(keys.tolist(), values.tolist(), strict=True) if k > 0
                ),
            )
        )
    assert found[0] == found[1]


def test_a_model_with_a_table_is_a_compiled_step() -> None:
    words = np.array(["one", "two", "four", "one"], object)
    with tf1.Graph().as_default() as graph:
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["one", "two"], ints(1, 2)), 0
        )
        x = tf1.placeholder(tf.string, [4], name="x")
        y = tf.tanh(tf.cast(table.lookup(x), tf.float32) * 0.5) + 1.0
        start = tf1.tables_initializer()
    with tfjit.Session(graph=graph) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="Table not initialized"):
            session.run(y, {x: words})
        session.run(start)
        explanation = session.explain(y, {x: (4,)})
        assert explanation.executor.startswith("a straight-line step")
        np.testing.assert_allclose(session.run(y, {x: words}), np.tanh([0.5, 1, 0, 0.5]) + 1, 1e-6)
    with tfjit.Session(graph=graph) as session, pytest.raises(tf.errors.FailedPreconditionError):
        session.run(y, {x: words})  # tables belong to their session


def test_a_dense_table_of_the_old_kind() -> None:
    """Which TensorFlow defines and cannot make: its kernel asks for the deleted key of the new
    kind.
    """
    with tf1.Graph().as_default() as graph:
        table = ops.mutable_dense_hash_table(ints(0)[0], tf.float32, initial_num_buckets=4)
        insert = ops.lookup_table_insert(table, ints(7), floats(1))
        find, bad = (
            ops.lookup_table_find(table, ints(*keys), floats(9)[0]) for keys in ((7, 8), (0,))
        )
    with tfjit.Session(graph=graph) as session:
        session.run(insert)
        assert session.run(find).tolist() == [1, 9]
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="Using the empty_key as a table key is not allowed",
        ):
            session.run(bad)


def test_many_threads_change_one_table() -> None:
    with tf1.Graph().as_default() as graph:
        table = ops.mutable_hash_table_v2(tf.int64, tf.int64)
        keys, values = tf1.placeholder(tf.int64, [None]), tf1.placeholder(tf.int64, [None])
        insert, remove = (
            ops.lookup_table_insert_v2(table, keys, values),
            ops.lookup_table_remove_v2(table, keys),
        )
        find, size = (
            ops.lookup_table_find_v2(table, keys, ints(-1)[0]),
            ops.lookup_table_size_v2(table),
        )
    with tfjit.Session(graph=graph) as session:

        def work(first: int) -> None:
            own = np.arange(first, 4000, 8)
            for _ in range(20):
                session.run(insert, {keys: own, values: 2 * own})
                assert (session.run(find, {keys: own}) == 2 * own).all()
                session.run(remove, {keys: own[::2]})
                assert (session.run(find, {keys: own[::2]}) == -1).all()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(size) == 2000
