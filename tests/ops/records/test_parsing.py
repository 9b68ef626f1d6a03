"""Lines of CSV, raw bytes and Example messages against TensorFlow: values, static shapes and
errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit

tf1 = tf.compat.v1


def csv(records: Any, defaults: Any, **more: Any) -> Callable[[], Any]:
    return lambda: tf1.decode_csv(
        records, [tf1.constant([], d) if isinstance(d, tf.DType) else d for d in defaults], **more
    )


def raw(data: Any, dtype: Any, **more: Any) -> Callable[[], Any]:
    return lambda: tf1.decode_raw(data, dtype, **more)


CSV: dict[str, Callable[[], Any]] = {
    "plain": csv(["1,2.5,a", "3,,b"], [[0], [1.0], ["x"]]),
    "required": csv(["1,2.5,a", ",,b"], [tf.int32, [1.0], ["x"]]),
    "too few": csv(["1,2.5"], [[0], [1.0], ["x"]]),
    "too many": csv(["1,2", "1,2,3"], [[0], [1]]),
    "bad int32": csv(["x,2.5"], [[0], [1.0]]),
    "bad float": csv(["1,2.5x"], [[0], [1.0]]),
    "bad int64": csv(["1_0"], [np.int64([0])]),
    "bad double": csv(["1_0"], [np.float64([0])]),
    "big": csv(["3000000000,-9223372036854775808"], [np.int64([0]), np.int64([0])]),
    "too big": csv(["3000000000"], [[0]]),
    "hexadecimal": csv(["0x10"], [[0]]),
    "quotes": csv(['"a,b",2', '"x""y",3', '"",4', '" ",5,'[:-1]], [["x"], [0]]),
    "open quote": csv(['"a,b'], [["x"]]),
    "quote inside": csv(['a"b'], [["x"]]),
    "quote after": csv(['"a"b'], [["x"]]),
    "no quotes": csv(['"a",b"c'], [["x"], ["y"]], use_quote_delim=False),
    "line ends": csv(["1,b\r\n"], [[5], ["c"]]),
    "line ends kept": csv(["1,b\r\n"], [[5], ["c"]], use_quote_delim=False),
    "missing mark": csv(["NA,1"], [[5], [6]], na_value="NA"),
    "some columns": csv(['1,"a,b",3,4'], [[5], [6]], select_cols=[0, 2]),
    "columns not there": csv(["1,2"], [[5], [6]], select_cols=[0, 2]),
    "another delimiter": csv(["1|2"], [[5], [6]], field_delim="|"),
    "one record": csv("1,2", [[5], [6]]),
    "a matrix": csv([["1,b"], ["2,c"]], [[5], ["c"]]),
    "spaces": csv([" 1 , 2.5 "], [[5], [6.0]]),
    "nothing": csv([""], [["d"]]),
    "ends with a delimiter": csv(["1,", '"q",'], [["d"], ["x"]]),
    "odd floats": csv(["inf,nan,1e400,-1e-50"], [[5.0], [1.0], [1.0], [1.0]]),
    "no records": csv(np.array([], "S1"), [[5.0], ["a"]]),
}
RAW: dict[str, Callable[[], Any]] = {
    "numbers": raw(["abcd", "efgh"], tf.int16),
    "lengths": raw(["abcd", "ef"], tf.int16),
    "rest": raw(["abc"], tf.int16),
    "big endian": raw(["abcd"], tf.uint16, little_endian=False),
    "big endian complex": raw("abcdefgh", tf.complex64, little_endian=False),
    "empty strings": raw(["", ""], tf.int32),
    "no strings": raw(np.array([], "S1"), tf.int32),
    "scalar": raw("abcd", tf.uint8),
    "bools": raw("\x01\x00", tf.bool),
    "halves": raw([["abcd"], ["efgh"]], tf.half),
}


def example(**features: Any) -> bytes:
    made = {}
    for key, given_value in features.items():
        value = given_value if isinstance(given_value, list) else [given_value]
        if value == [None]:
            made[key] = tf1.train.Feature()
        elif value and isinstance(value[0], float):
            made[key] = tf1.train.Feature(float_list=tf1.train.FloatList(value=value))
        elif value and isinstance(value[0], int):
            made[key] = tf1.train.Feature(int64_list=tf1.train.Int64List(value=value))
        else:
            made[key] = tf1.train.Feature(bytes_list=tf1.train.BytesList(value=value))
    return tf1.train.Example(features=tf1.train.Features(feature=made)).SerializeToString()


TWO = [example(x=[1.0, 2.0], y=3, s=[b"q", b"r"]), example(x=[3.0, 4.0], y=5)]
PAIR = [example(x=[1.0, 2.0]), example(x=[1.0]), example()]
Fixed, Varying, Sequence = tf1.FixedLenFeature, tf1.VarLenFeature, tf1.FixedLenSequenceFeature
NUMBERS: dict[str, Callable[[], Any]] = {
    "floats": lambda: tf1.string_to_number(["1.5", " -2e3 ", "nan", "inf", "1e400"]),
    "ints": lambda: tf1.string_to_number([["7"], ["-9223372036854775808"]], tf.int64),
    "too big": lambda: tf1.string_to_number(["7", "3000000000"], tf.int32),
    "no float": lambda: tf1.string_to_number("1_0", tf.float64),
    "no int": lambda: tf1.string_to_number("1.0", tf.int32),
}
EXAMPLES: dict[str, tuple[list[bytes], dict[str, Any]]] = {
    "plain": (
        TWO,
        {"x": Fixed([2], tf.float32), "y": Fixed([], tf.int64), "s": Varying(tf.string)},
    ),
    "missing": (TWO, {"z": Fixed([2], tf.float32)}),
    "another type": (TWO, {"x": Fixed([2], tf.int64)}),
    "another number": (TWO, {"x": Fixed([3], tf.float32)}),
    "defaults": (
        TWO,
        {
            "z": Fixed([2], tf.float32, [7.0, 8.0]),
            "q": Fixed([], tf.string, "d"),
            "n": Fixed([2], tf.int64, [4, 5]),
        },
    ),
    "a matrix": ([example(x=[1.0, 2.0, 3.0, 4.0])], {"x": Fixed([2, 2], tf.float32)}),
    "sparse of another type": (TWO, {"x": Varying(tf.int64)}),
    "sparse": (
        [*PAIR, TWO[0]],
        {"x": Varying(tf.float32), "s": Varying(tf.string), "none": Varying(tf.int64)},
    ),
    "sequence": (PAIR, {"x": Sequence([], tf.float32, allow_missing=True, default_value=-1.0)}),
    "sequence of strings": (TWO, {"s": Sequence([], tf.string, allow_missing=True)}),
    "sequence of pairs": (
        [example(x=[1.0] * 4), example(x=[2.0] * 2)],
        {"x": Sequence([2], tf.float32, allow_missing=True)},
    ),
    "sequence of broken pairs": (PAIR, {"x": Sequence([2], tf.float32, allow_missing=True)}),
    "empty feature": ([example(x=None)], {"x": Fixed([2], tf.float32)}),
    "empty feature with a default": (
        [example(x=None)],
        {"x": Fixed([2], tf.float32, [1.0, 2.0]), "y": Varying(tf.int64)},
    ),
    "ragged": (
        [*PAIR, TWO[0]],
        {
            "x": tf.io.RaggedFeature(tf.float32),
            "s": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64),
        },
    ),
}


def outcome(make: Any, session_class: Any) -> Any:
    with tf1.Graph().as_default() as graph:
        fetches = make()
    with session_class(graph=graph) as session:
        try:
            return fetches, session.run(fetches)
        except tf.errors.OpError as error:
            lines = [
                line for line in error.message.split("\nOriginal stack")[0].splitlines() if line
            ]
            first = (
                max((i for i, line in enumerate(lines) if line.startswith("Node:")), default=-1) + 1
            )
            return fetches, (
                next(
                    k.__name__ for k in type(error).__mro__ if k.__module__.startswith("tensorflow")
                ),
                lines[first],
            )


def _parts(values: Any) -> Any:
    """The values with ragged ones taken apart."""
    ragged = tf1.ragged.RaggedTensorValue
    return tf.nest.map_structure(
        lambda v: [v.values, v.row_splits] if isinstance(v, ragged) else v, values
    )


def assert_same(ours: Any, theirs: Any) -> None:
    flat_ours, flat_theirs = (tf.nest.flatten(_parts(values)) for values in (ours, theirs))
    assert len(flat_ours) == len(flat_theirs)
    for mine, other in zip(flat_ours, flat_theirs, strict=True):
        assert type(mine) is type(other) and getattr(mine, "dtype", None) == getattr(
            other, "dtype", None
        )
        np.testing.assert_array_equal(mine, other)


def check(make: Callable[[], Any]) -> None:
    assert_same(outcome(make, tfjit.Session)[1], outcome(make, tf1.Session)[1])
    with tf1.Graph().as_default() as graph:
        tensors = tf.nest.flatten(make(), expand_composites=True)
    with tfjit.Graph().as_default() as mirror:
        tfjit.import_graph_def(graph.as_graph_def(), name="")
    for tensor in tensors:
        assert str(mirror.get_tensor_by_name(tensor.name).shape) == str(tensor.shape)


@pytest.mark.parametrize("name", CSV)
def test_csv(name: str) -> None:
    check(CSV[name])


@pytest.mark.parametrize("name", RAW)
def test_raw(name: str) -> None:
    check(RAW[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    check(NUMBERS[name])


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("single", [False, True])
def test_examples(name: str, single: bool) -> None:
    serialized, features = EXAMPLES[name]
    if single:
        check(lambda: tf1.parse_single_example(serialized[0], features))
    else:
        check(lambda: tf1.parse_example(serialized, features))


def test_names_and_no_examples() -> None:
    check(
        lambda: tf1.parse_example(
            TWO, {"z": Fixed([2], tf.float32)}, example_names=["first", "second"]
        )
    )
    nothing = np.array([], "S1")
    check(lambda: tf1.parse_example(nothing, {"x": Fixed([2], tf.float32), "y": Varying(tf.int64)}))


def test_the_older_ops() -> None:
    from tensorflow.python.ops import gen_parsing_ops as ops

    shapes = [tf.TensorShape([2])]
    check(
        lambda: ops.parse_example(
            TWO,
            [],
            ["s"],
            ["x"],
            [tf.constant([0.5, 0.5])],
            sparse_types=[tf.string],
            dense_shapes=shapes,
        )
    )
    check(
        lambda: ops.parse_single_example(
            TWO[0],
            [tf.constant([], tf.float32)],
            num_sparse=1,
            sparse_keys=["s"],
            dense_keys=["x"],
            sparse_types=[tf.string],
            dense_shapes=shapes,
        )
    )


def test_what_is_no_example() -> None:
    with tf1.Graph().as_default() as graph:
        x = tf1.parse_example([b"\x0a\xff"], {"x": Varying(tf.float32)})
    with (
        tfjit.Session(graph=graph) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse example input, value"),
    ):
        session.run(x)


FIELD = st.text(alphabet='ab1."', max_size=4)


@settings(deadline=None, max_examples=30)
@given(st.lists(FIELD, min_size=1, max_size=3), st.booleans())
def test_random_fields(fields: list[str], quoted: bool) -> None:
    record = ",".join('"' + field.replace('"', '""') + '"' if quoted else field for field in fields)
    make = csv([record], [["none"]] * len(fields))
    assert_same(outcome(make, tfjit.Session)[1], outcome(make, tf1.Session)[1])
