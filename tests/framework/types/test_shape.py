"""Shapes: the internal form, and TensorShape against TensorFlow's."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfjit.framework.types import shape
from tfjit.framework.types.dimension import dimension_value
from tfjit.framework.types.shape import TensorShape

SHAPES: list[Any] = [
    None,
    [],
    [3],
    [None],
    [0],
    [2, 3],
    [2, None],
    [None, None],
    [1, 2, 3],
    [5, None, 1],
]
PAIRS = list(itertools.product(SHAPES, SHAPES))

partial_shapes = st.none() | st.lists(st.none() | st.integers(0, 4), max_size=4).map(tuple)


def plain(value: Any) -> Any:
    """A result in a form that both libraries share."""
    if isinstance(value, (TensorShape, tf.TensorShape)):
        return ("shape", None if value.rank is None else tuple(value.as_list()))
    return value


def same(ours: Any, theirs: Any) -> None:
    """Both give the same value, or raise the same kind of error with the same text."""
    try:
        expected = plain(theirs())
    except Exception as error:
        with pytest.raises(type(error)) as raised:
            ours()
        assert str(raised.value) == str(error)
    else:
        assert plain(ours()) == expected


METHODS = [
    "merge_with",
    "is_compatible_with",
    "concatenate",
    "most_specific_compatible_shape",
    "assert_is_compatible_with",
    "assert_same_rank",
    "__eq__",
    "__add__",
]


@pytest.mark.parametrize("method", METHODS)
def test_pairs(method: str) -> None:
    for a, b in PAIRS:
        if method == "__eq__" and (a is None or b is None):
            continue
        same(
            partial(getattr(TensorShape(a), method), TensorShape(b)),
            partial(getattr(tf.TensorShape(a), method), tf.TensorShape(b)),
        )


def test_unary() -> None:
    for a in SHAPES:
        ours, theirs = TensorShape(a), tf.TensorShape(a)
        for attribute in ("rank", "ndims"):
            assert getattr(ours, attribute) == getattr(theirs, attribute)
        for method in (
            "as_list",
            "is_fully_defined",
            "num_elements",
            "assert_is_fully_defined",
            "__len__",
            "__bool__",
        ):
            same(getattr(ours, method), getattr(theirs, method))
        same(partial(list, ours), partial(list, theirs))
        assert (str(ours), repr(ours)) == (str(theirs), repr(theirs))
        assert ours.as_proto().SerializeToString() == theirs.as_proto().SerializeToString()
        assert TensorShape(theirs) == ours
        assert TensorShape(theirs.as_proto()) == ours
        for rank in range(4):
            for method in (
                "with_rank",
                "with_rank_at_least",
                "with_rank_at_most",
                "assert_has_rank",
            ):
                same(partial(getattr(ours, method), rank), partial(getattr(theirs, method), rank))


def test_indexing() -> None:
    keys: list[Any] = [
        0,
        -1,
        2,
        slice(1, None),
        slice(0, 2),
        slice(None, 1),
        slice(-1, None),
        slice(1, 3),
        slice(0, 0),
        slice(None, None, 2),
    ]
    for a in SHAPES:
        for key in keys:
            same(
                lambda key=key, a=a: TensorShape(a)[key],
                lambda key=key, a=a: tf.TensorShape(a)[key],
            )


@pytest.mark.parametrize(
    "value",
    [
        3,
        [-1],
        [-2],
        ["a"],
        [2.5],
        [2.0],
        "ab",
        (2, None),
        np.array([2, 3]),
        [np.int64(3)],
        [tf.compat.v1.Dimension(4)],
        True,
        [[1]],
    ],
    ids=repr,
)
def test_what_a_shape_is_made_of(value: Any) -> None:
    try:
        expected = tf.TensorShape(value).as_list()
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            TensorShape(value)
    else:
        assert TensorShape(value).as_list() == expected


def test_dimensions_as_tf1_has_them() -> None:
    dims = TensorShape([2, None]).dims
    assert dims is not None
    assert dims[0].value == 2 and dims[1].value is None
    assert dims[0] == 2 and int(dims[0]) == 2 and dims[0] != 3
    assert (dims[1] == 2) is None
    assert str(dims[1]) == "?" and repr(dims[0]) == "Dimension(2)"
    assert dimension_value(dims[0]) == 2 and dimension_value(None) is None
    assert TensorShape(dims) == TensorShape([2, None])


def test_hashable_and_iterable() -> None:
    assert {TensorShape([1, 2]): "x"}[TensorShape((1, 2))] == "x"
    assert TensorShape([1, None]).dims_tuple == (1, None)
    assert [1] + TensorShape([2]) == TensorShape([1, 2])


@given(partial_shapes, partial_shapes)
def test_merge_knows_what_both_know(a: shape.Shape, b: shape.Shape) -> None:
    if not shape.is_compatible(a, b):
        with pytest.raises(ValueError):
            shape.merge(a, b)
        return
    merged = shape.merge(a, b)
    assert merged == shape.merge(b, a)
    for known in (a, b):
        assert shape.merge(merged, known) == merged
        assert TensorShape(merged).is_subtype_of(TensorShape(known))


@given(st.lists(st.integers(0, 3), max_size=4), st.lists(st.integers(0, 3), max_size=4), st.data())
def test_broadcast_agrees_with_numpy(a: list[int], b: list[int], data: st.DataObject) -> None:
    try:
        expected = np.broadcast_shapes(tuple(a), tuple(b))
    except ValueError:
        with pytest.raises(ValueError, match="Dimensions must be equal, but are"):
            shape.broadcast(tuple(a), tuple(b))
        return
    assert shape.broadcast(tuple(a), tuple(b)) == expected
    # Forgetting sizes never gives a wrong answer, only a vaguer one.
    vague = tuple(None if data.draw(st.booleans()) else d for d in a)
    assert TensorShape(expected).is_subtype_of(TensorShape(shape.broadcast(vague, tuple(b))))


def test_formats_of_the_runtime() -> None:
    assert shape.format_shape((2, None)) == "[2,?]"
    assert shape.format_shape(None) == "?"
    assert shape.format_shape(()) == "[]"
    assert shape.broadcast_all((2, 1), (3,), ()) == (2, 3)
    assert shape.relax((2, 3), (2, 4)) == (2, None)
    assert shape.num_elements((2, 3)) == 6 and shape.num_elements((2, None)) is None
