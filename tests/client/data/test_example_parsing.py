"""SequenceExample messages are parsed as in TensorFlow: nodes, values, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow
from tensorflow.python.ops import gen_parsing_ops

import tfjit
from tests.client.variables.same_graphs import same_graph

tf1 = tensorflow.compat.v1
train = tf1.train


def feature(values: Sequence[Any] | None) -> Any:
    if values is None:
        return train.Feature()
    kinds = {float: "float_list", int: "int64_list", bytes: "bytes_list"}
    return train.Feature(**{kinds[type(values[0])]: {"value": values}} if values else {})


def message(context: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]) -> bytes:
    return train.SequenceExample(
        context={"feature": {key: feature(values) for key, values in context.items()}},
        feature_lists={
            "feature_list": {
                key: {"feature": [feature(values) for values in frames]}
                for key, frames in lists.items()
            }
        },
    ).SerializeToString()


FULL = message(
    {"a": [1], "b": [1.5, 2.5], "n": [b"x"], "void": None},
    {
        "f": [[1.0, 2.0], [3.0, 4.0]],
        "g": [[1], [2, 3]],
        "s": [[b"q"]],
        "uneven": [[1.0, 2.0, 3.0], [4.0]],
        "odd": [[1.0, 2.0], [3.0]],
        "hole": [None, [1.0, 2.0]],
    },
)
SHORT = message({"a": [2]}, {"f": [], "g": [[9]]})


def parsed(tf: Any, texts: Any, context: Any, lists: Any, names: Any) -> Any:
    """Parse a batch, or one message; the kinds are (shape, dtype, default or presence)."""
    made_context = {
        key: tf.VarLenFeature(tf.as_dtype(kind[0]))
        if len(kind) == 1
        else tf.FixedLenFeature(kind[0], tf.as_dtype(kind[1]), *kind[2:])
        for key, kind in context.items()
    }
    made_lists = {
        key: tf.VarLenFeature(tf.as_dtype(kind[0]))
        if len(kind) == 1
        else tf.FixedLenSequenceFeature(kind[0], tf.as_dtype(kind[1]), *kind[2:])
        for key, kind in lists.items()
    }
    if isinstance(texts, bytes):
        return tf.io.parse_single_sequence_example(texts, made_context, made_lists, names)
    given = tf.constant(np.array(texts, object), tf.string, [len(texts)])
    return tf.io.parse_sequence_example(given, made_context, made_lists, names)


ALL: tuple[Any, Any] = (
    {"a": ([], "int64"), "b": ("float32",), "n": ([1], "string", ["d"]), "none": ("int64",)},
    {"f": ([2], "float32"), "g": ("int64",), "s": ([], "string", True), "none": ("string",)},
)
CASES: dict[str, tuple[Any, Any]] = {
    "all": ALL,
    "no context": ({"b": ([2], "float32")}, {}),
    "another context type": ({"a": ([], "float32")}, {}),
    "another sparse context type": ({"a": ("float32",)}, {}),
    "another context size": ({"b": ([3], "float32")}, {}),
    "less than the context": ({"b": ([], "float32", 3.0)}, {}),
    "context without a kind": ({"void": ([], "int64", 5)}, {}),
    "no list": ({}, {"none": ([2], "float32")}),
    "no list, allowed": ({}, {"none": ([2], "float32", True)}),
    "another list type": ({}, {"f": ([2], "int64")}),
    "another sparse list type": ({}, {"f": ("int64",)}),
    "uneven frames": ({}, {"uneven": ([2], "float32")}),
    "odd frames": ({}, {"odd": ([2], "float32")}),
    "a frame without a kind": ({}, {"hole": ([2], "float32")}),
    "a sparse frame without a kind": ({}, {"hole": ("float32",)}),
}


def reason(error: Any) -> str:
    lines = [x for x in error.message.split("\nOriginal stack")[0].splitlines() if x]
    last = max((k for k, x in enumerate(lines) if x.startswith("Node:")), default=-1)
    return str(lines[last + 1].split("  Feature is")[0])


def outcome(tf: Any, make: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        try:
            return session.run(make(tf))
        except tf.errors.InvalidArgumentError as error:
            return reason(error)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    context, lists = CASES[name]
    for texts, names in (
        ([FULL, SHORT], None), ([SHORT, FULL], ["p", "q"]), (FULL, None), (SHORT, "p"), ([], None),
    ):  # fmt: skip
        both = [
            outcome(tf, lambda tf, t=texts, n=names: parsed(tf, t, context, lists, n))
            for tf in (tf1, tfjit)
        ]
        np.testing.assert_equal(both[1], both[0])


def test_wrong_messages_and_names() -> None:
    for texts, names in (([b"\xff"], None), (FULL[:-1], None), ([FULL], ["p", "q"])):
        both = [
            outcome(tf, lambda tf, t=texts, n=names: parsed(tf, t, *ALL, n)) for tf in (tf1, tfjit)
        ]
        assert both[0] == both[1] and isinstance(both[0], str)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", [None, "mine"])
def test_nodes(name: str | None, single: bool) -> None:
    def program(tf: Any) -> list[str]:
        text = tf.placeholder(tf.string, [] if single else [None], "in")
        context = {"a": tf.FixedLenFeature([], tf.int64, 3), "b": tf.VarLenFeature(tf.float32)}
        lists = {
            "f": tf.FixedLenSequenceFeature([2], tf.float32),
            "g": tf.VarLenFeature(tf.int64),
            "m": tf.FixedLenSequenceFeature([], tf.string, True),
        }
        parse = tf.io.parse_single_sequence_example if single else tf.io.parse_sequence_example
        made = parse(text, context, lists, name=name)
        parse_examples = tf.io.parse_single_example if single else tf.io.parse_example
        parse_examples(text, context, name=name)
        return [str(sorted(part)) for part in made]

    same_graph(program)


def test_a_message_of_unknown_rank() -> None:
    def program(tf: Any) -> Any:
        text = tf.placeholder(tf.string, None, "in")
        return tf.io.parse_single_example(text, {"a": tf.FixedLenFeature([], tf.int64)})["a"].name

    same_graph(program)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda tf: tf.io.parse_sequence_example([FULL]),
        lambda tf: tf.io.parse_single_sequence_example(FULL),
        lambda tf: tf.io.parse_sequence_example([FULL], {"a": tf.FixedLenSequenceFeature([], 1)}),
        lambda tf: tf.io.parse_sequence_example(
            [FULL], {}, {"a": tf.FixedLenSequenceFeature([], tf.float32, True, 1.0)}
        ),
        lambda tf: tf.io.parse_example([FULL], {"a": tf.FixedLenFeature([None], tf.float32)}),
        lambda tf: tf.io.parse_example([FULL], {"a": tf.FixedLenFeature([2, None], tf.float32)}),
        lambda tf: tf.io.parse_example([FULL], {"a": tf.FixedLenFeature(None, tf.float32)}),
        lambda tf: tf.io.parse_example([FULL], {"a": tf.FixedLenFeature([], None)}),
        lambda tf: tf.io.parse_example([FULL], {"a": tf.VarLenFeature(None)}),
        lambda tf: tf.io.parse_example([FULL], {"a": 3}),
        lambda tf: tf.io.parse_example([FULL], {}),
        lambda tf: tf.io.parse_single_example([FULL], {"a": tf.VarLenFeature(tf.int64)}),
    ],
)
def test_wrong_arguments(wrong: Any) -> None:
    texts = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
            wrong(tf)
        texts.append(str(caught.value).replace("<dtype: 'float32'>", "tf.float32"))
    assert texts[0] == texts[1]


def test_the_older_ops() -> None:
    def single(text: bytes, **more: Any) -> Any:
        arguments: dict[str, Any] = {
            "feature_list_dense_missing_assumed_empty": ["m"],
            "context_sparse_keys": ["b"], "context_sparse_types": [tensorflow.float32],
            "context_dense_keys": ["n"], "context_dense_shapes": [[]],
            "context_dense_defaults": [tensorflow.constant(["d"])],
            "feature_list_sparse_keys": ["g"], "feature_list_sparse_types": [tensorflow.int64],
            "feature_list_dense_keys": ["f", "m"], "feature_list_dense_shapes": [[2], []],
            "feature_list_dense_types": [tensorflow.float32, tensorflow.string],
        }  # fmt: skip
        return gen_parsing_ops.parse_single_sequence_example(
            text, debug_name="nm", **{**arguments, **more}
        )

    def batch() -> Any:
        return gen_parsing_ops.parse_sequence_example(
            [FULL, SHORT], ["p", "q"], [tensorflow.constant([], tensorflow.int64)], ["m"], ["b"],
            ["a"], ["g"], ["f", "m"], 1, 1, 1, 2, [tensorflow.float32],
            [tensorflow.float32, tensorflow.string], [[]], [tensorflow.int64], [[2], []],
        )  # fmt: skip

    shapes = {"context_dense_shapes": [[3]]}
    makers = [
        batch,
        lambda: single(FULL, context_dense_defaults=[tensorflow.constant("")]),
        lambda: single(SHORT),
        lambda: single(FULL, context_sparse_types=[tensorflow.int64]),
        lambda: single(FULL, feature_list_sparse_types=[tensorflow.string]),
        lambda: single(FULL, feature_list_dense_keys=["uneven", "m"]),
        lambda: single(FULL, feature_list_dense_keys=["z", "m"]),
        lambda: single(FULL, **shapes, context_dense_defaults=[tensorflow.constant(["", "", ""])]),
        lambda: single(FULL, context_dense_keys=["z"], context_dense_defaults=[[b""][:0]]),
        lambda: single(FULL, context_dense_keys=["void"]),
    ]
    for make in makers:
        with tf1.Graph().as_default() as graph:
            made = list(tensorflow.nest.flatten(make()))
        found = []
        for session_class in (tf1.Session, tfjit.Session):
            with session_class(graph=graph) as session:
                try:
                    found.append(session.run(made))
                except tensorflow.errors.InvalidArgumentError as error:
                    found.append(reason(error))
        np.testing.assert_equal(found[1], found[0])
        with tfjit.Graph().as_default() as mirror:
            tfjit.import_graph_def(graph.as_graph_def(), name="")
        for tensor in made:
            assert str(mirror.get_tensor_by_name(tensor.name).shape) == str(tensor.shape)
