"""Tensor lists beside TensorFlow's: single programs, random ones that use old versions, lists in
lists, and what a change costs.
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
from tests.runtime.array_programs import R, both, f32, hidden, ints, rows, tf1, told
from tfjit.framework.types import dtypes
from tfjit.runtime.resources.element_buffer import Elements
from tfjit.runtime.resources.tensor_lists import TensorList


def handle(made: Any) -> Any:
    """A list whose type is not known while the graph is built."""
    return tf1.placeholder_with_default(made, None)


def reserve(shape: Any, count: Any, dtype: Any = tf.float32) -> Any:
    return handle(
        R.TensorListReserve(
            element_shape=ints(shape), num_elements=ints(count), element_dtype=dtype
        )
    )


def empty(shape: Any, limit: Any = -1, dtype: Any = tf.float32) -> Any:
    return handle(
        R.EmptyTensorList(
            element_shape=ints(shape), max_num_elements=ints(limit), element_dtype=dtype
        )
    )


def of(value: Any, shape: Any = -1) -> Any:
    return handle(R.TensorListFromTensor(tensor=hidden(value), element_shape=ints(shape)))


def full(count: int = 3, *shape: int, known: bool = False) -> Any:
    shape = shape or (2,)
    return of(rows(count, *shape), list(shape) if known else -1)


def get(made: Any, index: Any, shape: Any = -1, dtype: Any = tf.float32) -> Any:
    return R.TensorListGetItem(
        input_handle=made, index=ints(index), element_shape=ints(shape), element_dtype=dtype
    )


def put(made: Any, index: Any, value: Any, **attrs: Any) -> Any:
    return handle(
        R.TensorListSetItem(input_handle=made, index=ints(index), item=hidden(value), **attrs)
    )


def push(made: Any, value: Any) -> Any:
    return handle(
        R.TensorListPushBack(
            input_handle=made, tensor=value if isinstance(value, tf.Tensor) else hidden(value)
        )
    )


def pop(made: Any, shape: Any = -1, dtype: Any = tf.float32) -> Any:
    rest, value = R.TensorListPopBack(
        input_handle=made, element_shape=ints(shape), element_dtype=dtype
    )
    return handle(rest), value


def stack(made: Any, shape: Any = -1, dtype: Any = tf.float32, count: int = -1) -> Any:
    return R.TensorListStack(
        input_handle=made, element_shape=ints(shape), element_dtype=dtype, num_elements=count
    )


def length(made: Any) -> Any:
    return R.TensorListLength(input_handle=made)


def shape_of(made: Any, dtype: Any = tf.int32) -> Any:
    return R.TensorListElementShape(input_handle=made, shape_type=dtype)


def gather(made: Any, indices: Any, shape: Any = -1, dtype: Any = tf.float32) -> Any:
    return R.TensorListGather(
        input_handle=made, indices=ints(indices), element_shape=ints(shape), element_dtype=dtype
    )


def scatter(value: Any, indices: Any, shape: Any = -1, count: Any = None) -> Any:
    inputs = {"tensor": hidden(value), "indices": ints(indices), "element_shape": ints(shape)}
    return handle(
        R.TensorListScatter(**inputs)
        if count is None
        else R.TensorListScatterV2(**inputs, num_elements=ints(count))
    )


def into(made: Any, value: Any, indices: Any) -> Any:
    return handle(
        R.TensorListScatterIntoExistingList(
            input_handle=made, tensor=hidden(value), indices=ints(indices)
        )
    )


def concat(made: Any, shape: Any = -1, leading: Any = (), dtype: Any = tf.float32) -> Any:
    leading = hidden(np.array(leading, np.int64))
    return R.TensorListConcatV2(
        input_handle=made, element_shape=ints(shape), leading_dims=leading, element_dtype=dtype
    )


def split(value: Any, lengths: Any, shape: Any = -1) -> Any:
    lengths = hidden(np.array(lengths, np.int64))
    return handle(
        R.TensorListSplit(tensor=hidden(value), element_shape=ints(shape), lengths=lengths)
    )


def resize(made: Any, size: Any) -> Any:
    return handle(R.TensorListResize(input_handle=made, size=ints(size)))


def add(*lists: Any) -> Any:
    return handle(R.AddN(inputs=list(lists)))


def zeros_like(made: Any) -> Any:
    return handle(R.ZerosLike(x=made))


def join(a: Any, b: Any, dtype: Any = tf.float32) -> Any:
    return handle(R.TensorListConcatLists(input_a=a, input_b=b, element_dtype=dtype))


def pushed(handles: Any, value: Any) -> Any:
    return R.TensorListPushBackBatch(input_handles=handles, tensor=hidden(value))


def two() -> Any:
    return tf.stack([empty([2]), full(known=True)])


def nested() -> Any:
    return push(push(empty([], dtype=tf.variant), full()), empty([2]))


INTS = np.zeros((2, 2), np.int32)
NOTHING = np.zeros(0, np.int32)

CASES: dict[str, Callable[[], Any]] = {
    "get what is not set": lambda: get(reserve([2], 3), 1),
    "get what is not set of unknown shape": lambda: get(reserve(-1, 3), 1),
    "get what is not set of a partial shape": lambda: get(reserve([-1, 2], 3), 1),
    "get what is not set of a shape given": lambda: get(reserve(-1, 3), 1, [4]),
    "get what is not set of another shape": lambda: get(reserve([2], 3), 1, [4]),
    "get another shape": lambda: get(put(reserve([2], 3), 1, rows(2)), 1, [4]),
    "get what is not set of another's shape": lambda: get(put(reserve(-1, 3), 0, rows(2)), 1),
    "get what is not set of two shapes": lambda: get(
        put(put(reserve(-1, 3), 0, rows(2)), 2, rows(3)), 1
    ),
    "get past the end": lambda: get(reserve([2], 3), 3),
    "get before the start": lambda: get(reserve([2], 3), -1),
    "get another dtype": lambda: get(full(), 0, dtype=tf.int32),
    "get with a matrix for a shape": lambda: get(reserve([2], 3), 0, [[0, 1]]),
    "get with a scalar for a shape": lambda: get(reserve([2], 3), 0, 3),
    "get with a negative size": lambda: get(reserve([2], 3), 0, [-2]),
    "reserve a negative number": lambda: length(reserve([2], -3)),
    "reserve a vector": lambda: length(reserve([2], [3, 1])),
    "reserve with a matrix for a shape": lambda: length(reserve([[2]], 3)),
    "empty with a vector for a limit": lambda: length(empty([2], [3, 1])),
    "empty with a matrix for a shape": lambda: length(empty([[2]], 3)),
    "set": lambda: stack(put(reserve([2], 3), 1, rows(2))),
    "set past the end": lambda: length(put(reserve([2], 3), 3, rows(2))),
    "set makes it grow": lambda: stack(
        put(reserve([2], 3), 5, rows(2), resize_if_index_out_of_bounds=True)
    ),
    "set before the start": lambda: length(put(reserve([2], 3), -1, rows(2))),
    "set another shape": lambda: length(put(reserve([2], 3), 1, rows(3))),
    "set another dtype": lambda: length(put(full(), 1, np.arange(2, dtype=np.int32))),
    "set by a vector": lambda: length(put(reserve([2], 3), [1], rows(2))),
    "push": lambda: stack(push(push(empty([2]), rows(2)), rows(2) + 1)),
    "push too much": lambda: length(push(push(empty([2], 1), rows(2)), rows(2))),
    "push another shape": lambda: length(push(empty([2], 1), rows(3))),
    "push another dtype": lambda: length(push(full(), np.arange(2, dtype=np.int32))),
    "pop": lambda: [pop(full())[1], length(pop(full())[0]), stack(pop(pop(full())[0])[0])],
    "pop from nothing": lambda: pop(empty([2]))[1],
    "pop another shape": lambda: pop(full(), [5])[1],
    "pop what is not set of a shape given": lambda: pop(reserve(-1, 2), [5])[1],
    "pop what is not set": lambda: pop(reserve([2], 2))[1],
    "pop what is not set of unknown shape": lambda: pop(reserve(-1, 2))[1],
    "pop another dtype": lambda: pop(full(), dtype=tf.int32)[1],
    "push after a pop": lambda: [stack(push(pop(full())[0], rows(2) * 9)), pop(full())[1]],
    "stack": lambda: stack(full(), count=3),
    "stack another number": lambda: stack(full(), count=4),
    "stack what is not set": lambda: stack(reserve([2], 3)),
    "stack what is not set of unknown shape": lambda: stack(reserve(-1, 3)),
    "stack what is not set of a shape given": lambda: stack(reserve(-1, 3), [2]),
    "stack what is partly set": lambda: stack(put(reserve(-1, 3), 1, rows(2))),
    "stack what is partly set of a partial shape": lambda: stack(
        put(reserve(-1, 3), 1, rows(2, 2)), [2, -1]
    ),
    "stack nothing": lambda: stack(empty([2])),
    "stack nothing of unknown shape": lambda: stack(empty(-1)),
    "stack nothing of a partial shape": lambda: stack(empty([-1, 2])),
    "stack nothing of a shape given": lambda: stack(empty(-1), [2]),
    "stack two shapes": lambda: stack(put(put(reserve(-1, 2), 0, rows(2)), 1, rows(3))),
    "stack two shapes that fit a partial one": lambda: stack(
        put(put(reserve([-1], 2), 0, rows(2)), 1, rows(3))
    ),
    "stack two shapes, one given": lambda: stack(
        put(put(reserve([-1], 2), 0, rows(2)), 1, rows(3)), [2]
    ),
    "stack another shape": lambda: stack(full(), [5]),
    "stack another shape than declared": lambda: stack(full(known=True), [5]),
    "stack another rank than declared": lambda: stack(full(known=True), [2, 2]),
    "stack another dtype": lambda: stack(full(), dtype=tf.int32),
    "of a scalar": lambda: length(of(f32(2), [2])),
    "of another shape": lambda: length(of(rows(3, 2), [4])),
    "element shape": lambda: [
        shape_of(of(rows(3, 2, 4), [-1, 4])),
        shape_of(of(rows(3, 2, 4), [2, 4]), tf.int64),
    ],
    "element shapes that say little": lambda: [shape_of(empty(-1)), shape_of(empty(NOTHING))],
    "gather": lambda: [gather(full(), [2, 0, 2]), gather(full(), [1, 2])],
    "gather past the end": lambda: gather(full(), [2, 3]),
    "gather before the start": lambda: gather(full(), [2, -1]),
    "gather nothing": lambda: gather(full(known=True), NOTHING),
    "gather nothing of unknown shape": lambda: gather(full(), NOTHING),
    "gather what is not set": lambda: gather(reserve([2], 3), [0, 1]),
    "gather what is not set of unknown shape": lambda: gather(reserve(-1, 3), [0, 1]),
    "gather what is partly set": lambda: gather(put(reserve(-1, 3), 0, rows(2)), [0, 1]),
    "gather beside what is set": lambda: gather(put(reserve(-1, 3), 2, rows(2)), [0, 1]),
    "gather by a matrix": lambda: gather(full(), [[2, 1], [0, 0]]),
    "gather by a scalar": lambda: gather(full(), 1),
    "gather two shapes": lambda: gather(put(put(reserve(-1, 2), 0, rows(2)), 1, rows(3)), [0, 1]),
    "gather another shape": lambda: gather(full(), [0, 1], [7]),
    "gather another dtype": lambda: gather(full(), [0], dtype=tf.int32),
    "scatter": lambda: stack(scatter(rows(3, 2), [4, 0, 1], [2])),
    "scatter in order": lambda: stack(scatter(rows(3, 2), [0, 1, 2], [2])),
    "scatter before the start": lambda: length(scatter(rows(3, 2), [4, -1, 1], [2])),
    "scatter too much": lambda: length(scatter(rows(3, 2), [4, 1], [2])),
    "scatter too little": lambda: length(scatter(rows(2, 2), [4, 1, 0], [2])),
    "scatter a scalar": lambda: length(scatter(f32(1), [0], [2])),
    "scatter another shape": lambda: length(scatter(rows(3, 2), [4, 1, 0], [5])),
    "scatter nothing": lambda: length(scatter(rows(0, 2), NOTHING, [2])),
    "scatter to a length": lambda: stack(scatter(rows(3, 2), [4, 0, 1], [2], 6)),
    "scatter to as long as need be": lambda: stack(scatter(rows(3, 2), [4, 0, 1], [2], -1)),
    "scatter past the end": lambda: length(scatter(rows(3, 2), [4, 0, 1], [2], 3)),
    "scatter to a negative length": lambda: length(scatter(rows(3, 2), [4, 0, 1], [2], -2)),
    "scatter twice to one": lambda: stack(scatter(rows(3, 2), [1, 1, 0], [2], 3)),
    "scatter into": lambda: stack(into(full(), rows(2, 2) * 10, [2, 0])),
    "scatter another shape into": lambda: get(into(full(known=True), rows(2, 5), [2, 1]), 1),
    "scatter too much into": lambda: length(into(full(), rows(2, 2), [2])),
    "scatter another dtype into": lambda: length(into(full(), INTS, [2, 1])),
    "scatter a scalar into": lambda: length(into(full(), f32(1), [2])),
    "concat": lambda: concat(full(3, 2, 2)),
    "concat vectors": lambda: concat(full(3, 2)),
    "concat by attr": lambda: R.TensorListConcat(
        input_handle=full(3, 2, 2), element_dtype=tf.float32
    ),
    "concat nothing by attr": lambda: R.TensorListConcat(
        input_handle=empty(-1), element_dtype=tf.float32, element_shape=[None, 3]
    ),
    "concat different lengths": lambda: concat(push(push(empty([-1, 2]), rows(1, 2)), rows(3, 2))),
    "concat different shapes": lambda: concat(push(push(empty(-1), rows(1, 2)), rows(3, 3))),
    "concat scalars": lambda: concat(push(push(empty(-1), f32(1)), f32(2))),
    "concat scalars of a known shape": lambda: concat(push(push(empty(NOTHING), f32(1)), f32(2))),
    "concat nothing": lambda: concat(empty([-1, 2])),
    "concat nothing of unknown shape": lambda: concat(empty(-1)),
    "concat nothing of a shape given": lambda: concat(empty(-1), [-1, 3]),
    "concat nothing of a partial shape": lambda: concat(empty([-1, -1])),
    "concat what is not set": lambda: concat(reserve([2, 2], 2)),
    "concat what is not set of any length": lambda: concat(reserve([-1, 2], 2)),
    "concat what is not set of lengths given": lambda: concat(reserve([-1, 2], 2), [-1, 2], [3, 1]),
    "concat what is not set of too few lengths": lambda: concat(reserve([-1, 2], 2), [-1, 2], [3]),
    "concat what is partly set": lambda: concat(
        put(reserve([-1, 2], 2), 0, rows(2, 2)), [-1, 2], [3, 1]
    ),
    "concat what is partly set of unknown shape": lambda: concat(
        put(reserve(-1, 2), 0, rows(2, 2))
    ),
    "concat what is partly set of a shape given": lambda: concat(
        put(reserve(-1, 2), 0, rows(2, 2)), [2, 2]
    ),
    "concat another length": lambda: concat(full(3, 2, 2), [5, 2]),
    "concat another shape": lambda: concat(full(3, 2, 2), [-1, 5]),
    "concat another dtype": lambda: concat(full(3, 2, 2), dtype=tf.int32),
    "split": lambda: [get(split(rows(5, 2), [2, 0, 3]), 2), length(split(rows(5, 2), [2, 0, 3]))],
    "split too little": lambda: length(split(rows(5, 2), [2, 1])),
    "split too much": lambda: length(split(rows(5, 2), [2, 4])),
    "split a scalar": lambda: length(split(f32(1), [2, 4])),
    "split by a matrix": lambda: length(split(rows(5, 2), [[2, 3]])),
    "split another shape": lambda: length(split(rows(5, 2), [2, 3], [-1, 3])),
    "split to another length": lambda: [
        shape_of(split(rows(5, 2), [2, 3], [2, 2])),
        shape_of(split(rows(5, 2), [2, 3], [-1, 2])),
    ],
    "split to scalars": lambda: length(split(rows(5), [2, 3], NOTHING)),
    "resize up": lambda: stack(resize(full(known=True), 5)),
    "resize down": lambda: stack(resize(full(known=True), 1)),
    "resize to a negative length": lambda: length(resize(full(), -1)),
    "resize by a vector": lambda: length(resize(full(), [1, 2])),
    "zeros": lambda: stack(zeros_like(full(known=True))),
    "zeros of what is not set": lambda: stack(zeros_like(reserve(-1, 2)), [2]),
    "add": lambda: stack(add(full(), full(), full())),
    "add what is partly set": lambda: stack(
        add(put(reserve([2], 3), 0, rows(2)), put(put(reserve([2], 3), 1, rows(2)), 0, rows(2)))
    ),
    "the shape of a sum": lambda: shape_of(add(put(reserve(-1, 3), 0, rows(2)), reserve([2], 3))),
    "add different lengths": lambda: length(add(full(2), full(3))),
    "add different dtypes": lambda: length(add(full(2), of(INTS))),
    "add different shapes": lambda: length(add(full(2, 2), full(2, 3))),
    "add different declared shapes": lambda: length(
        add(full(2, 2, known=True), full(2, 3, known=True))
    ),
    "add bools": lambda: length(add(*[of(np.array([True, False]))] * 2)),
    "add one": lambda: stack(add(full())),
    "nested": lambda: [length(get(nested(), i, dtype=tf.variant)) for i in (0, 1)],
    "nested, stacked": lambda: [
        tf.shape(stack(nested(), dtype=tf.variant)),
        stack(stack(nested(), dtype=tf.variant)[0]),
    ],
    "nested, added": lambda: stack(get(add(nested(), nested()), 0, dtype=tf.variant)),
    "nested, zeros": lambda: stack(get(zeros_like(nested()), 0, dtype=tf.variant)),
    "nested, not set": lambda: length(get(reserve(NOTHING, 2, tf.variant), 0, dtype=tf.variant)),
    "nested, not set, stacked": lambda: tf.shape(
        stack(reserve(NOTHING, 2, tf.variant), dtype=tf.variant)
    ),
    "an array of lists": lambda: (
        [length(x) for x in tf.unstack(two(), num=2)]
        + [tf.shape(two()), length(tf.reshape(tf.reshape(full(), [1]), []))]
    ),
    "push a batch": lambda: [stack(x) for x in tf.unstack(pushed(two(), rows(2, 2) * 10), num=2)],
    "push a batch of another size": lambda: tf.shape(pushed(two(), rows(3, 2))),
    "push a batch of another shape": lambda: tf.shape(pushed(two(), rows(2, 3))),
    "push a scalar to a batch": lambda: tf.shape(pushed(two(), f32(1))),
    "push a batch of another dtype": lambda: tf.shape(pushed(handle(two()), INTS)),
    "push a batch to one": lambda: length(handle(pushed(full(), rows(1, 2)))),
    "push to a matrix": lambda: tf.shape(pushed(handle(tf.reshape(two(), [2, 1])), rows(2, 2))),
    "join": lambda: stack(join(full(), full(2))),
    "join batches": lambda: [stack(x) for x in tf.unstack(join(two(), two()), num=2)],
    "join different batches": lambda: length(join(full(), handle(two()))),
    "join different dtypes": lambda: length(join(full(), of(INTS))),
    "join another dtype": lambda: length(join(full(), full(), tf.int32)),
    "join different shapes": lambda: length(join(full(3, 2, known=True), full(3, 3, known=True))),
    "a handle that is a vector": lambda: length(two()),
    "strings": lambda: [
        stack(push(empty(-1, dtype=tf.string), b"a"), dtype=tf.string),
        stack(reserve([2], 2, tf.string), dtype=tf.string),
    ],
    "bools": lambda: stack(reserve([2], 2, tf.bool), dtype=tf.bool),
    "fetched": lambda: full(),
    "fetched, an array": lambda: two(),
    "passed on": lambda: [
        length(tf.identity(full())),
        *[length(x) for x in tf.identity_n([full(), full(2)])],
    ],
}


@pytest.mark.parametrize("name", CASES, ids=[name.replace(" ", "_") for name in CASES])
def test_a_program(name: str) -> None:
    theirs, ours = both(CASES[name])
    if theirs[0] == "InternalError":  # TensorFlow's text has no node to look behind
        theirs, ours = (theirs[0], theirs[1].splitlines()[-1]), (ours[0], ours[1].splitlines()[-1])
    assert ours == theirs


def test_a_variant_cannot_be_fed() -> None:
    with tf1.Graph().as_default() as graph:
        fed = tf1.placeholder(tf.variant, [])
        measured = length(fed)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for value in (3.0, np.zeros(2), b"x"):
            with pytest.raises(KeyError, match="21"):
                theirs.run(measured, {fed: value})
            with pytest.raises(TypeError, match="variant"):  # says what the number means
                ours.run(measured, {fed: value})
        assert told(ours, measured) == told(theirs, measured)


INDEX = st.integers(0, 4)
VALUE = st.builds(
    lambda shape, x: np.full(shape, x, f32),
    st.sampled_from([(2,), (2,), (2,), (1,)]),
    st.integers(1, 9),
)
STEP = st.one_of(
    st.tuples(st.just("set"), st.integers(0, 2), INDEX, VALUE),
    st.tuples(st.just("set"), st.just(0), INDEX, VALUE),
    st.tuples(st.just("grow"), st.integers(0, 1), st.integers(0, 8), VALUE),
    st.tuples(st.just("push"), st.integers(0, 2), VALUE),
    st.tuples(st.just("pop"), st.integers(0, 2)),
    st.tuples(st.just("get"), st.integers(0, 3), INDEX),
    st.tuples(st.just("stack"), st.integers(0, 3)),
    st.tuples(st.just("add"), st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("resize"), st.integers(0, 1), st.integers(0, 7)),
)


def in_order(answer: Any) -> Any:
    """Of several operations that fail either may be the first, in TensorFlow and here: the class
    counts. Texts have tests of their own.
    """
    return answer if isinstance(answer, list) else answer[0]


@settings(max_examples=20, deadline=None)
@given(st.lists(STEP, min_size=3, max_size=12), st.booleans())
def test_random_programs(steps: list[Any], known: bool) -> None:
    """Every step takes one of the newest versions: changes to one list must not show in another."""

    def build() -> Any:
        lists, outputs = [full(3, 2, known=known), reserve([2] if known else -1, 3)], []
        for step, at, *rest in steps:
            made = lists[-1 - min(at, len(lists) - 1)]
            if step == "set":
                lists.append(put(made, *rest))
            elif step == "grow":
                lists.append(put(made, *rest, resize_if_index_out_of_bounds=True))
            elif step == "push":
                lists.append(push(made, *rest))
            elif step == "pop":
                popped, value = pop(made, [2])
                lists.append(popped)
                outputs.append(value)
            elif step == "get":
                outputs.append(get(made, *rest, [2]))
            elif step == "stack":
                outputs.append(stack(made, [-1]))
            elif step == "add":
                lists.append(add(made, lists[-1 - min(rest[0], len(lists) - 1)]))
            else:
                lists.append(resize(made, *rest))
        return [
            [stack(made, [-1]) for made in lists[-3:]],
            outputs,
            [length(made) for made in lists],
        ]

    with tf1.Graph().as_default() as graph:
        fetches = [[fetch] for fetch in tf.nest.flatten(build())]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        answers = [told(theirs, fetch) for fetch in fetches]
        assert [in_order(told(ours, fetch)) for fetch in fetches] == [
            in_order(answer) for answer in answers
        ]
        good = [
            fetch
            for fetch, answer in zip(fetches, answers, strict=True)
            if isinstance(answer, list)
        ]
        assert told(ours, good) == told(theirs, good)


MODEL_STEP = st.tuples(
    st.sampled_from(["set", "set", "push", "pop", "grow", "read", "whole"]),
    st.integers(0, 99),
    st.integers(0, 99),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(MODEL_STEP, max_size=120),
    st.integers(0, 6),
    st.integers(1, 40),
    st.sampled_from(["numbers", "strings"]),
)
def test_versions_are_values(steps: list[Any], size: int, spread: int, kind: str) -> None:
    """Against plain Python lists, with old versions far behind: what a version holds
    never changes.
    """
    dtype = dtypes.float32 if kind == "numbers" else dtypes.string

    def element(x: int) -> Any:
        return np.array(x, np.float32) if kind == "numbers" else np.array(str(x).encode(), object)

    versions: list[tuple[TensorList, list[Any]]] = [
        (TensorList.unset(dtype, (), size), [None] * size)
    ]
    held: list[tuple[Any, list[Any]]] = []
    for i, (step, which, where) in enumerate(steps):
        made, model = versions[-1 - which % min(spread, len(versions))]
        at = where % len(model) if model else 0
        if step == "push":
            versions.append((made.push(element(i)), [*model, i]))
        elif step == "grow":
            versions.append((made.set(len(model) + 2, element(i)), [*model, None, None, i]))
        elif not model:
            continue
        elif step == "set":
            versions.append((made.set(at, element(i)), [*model[:at], i, *model[at + 1 :]]))
        elif step == "pop":
            rest, value = made.pop()
            assert value == (None if model[-1] is None else element(model[-1]))
            versions.append((rest, model[:-1]))
        elif step == "read":
            value = made.get(at)
            assert value == (None if model[at] is None else element(model[at]))
        else:
            whole = made.whole()
            if whole is not None:
                held.append((whole, model))
    for made, model in versions:
        assert made.length == len(model)
        assert made.values() == [None if x is None else element(x) for x in model]
    for whole, model in held:
        assert whole.tolist() == model


def test_a_change_costs_nothing_of_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that carries a list copies it as often as it has doubled, even if the first version is
    kept.
    """
    copied: list[int] = []
    copy = Elements.copy

    def counted(self: Any, length: int | None = None) -> Any:
        copied.append(self.length)
        return copy(self, length)

    monkeypatch.setattr(Elements, "copy", counted)
    value = np.zeros((), np.float32)
    count = 50_000
    made = TensorList.unset(dtypes.float32, (), count)
    for i in range(count):
        made = made.set(i, value)
    assert not copied
    stacked = made.whole()
    assert (
        stacked is not None
        and stacked.shape == (count,)
        and np.shares_memory(stacked, made.whole())
    )
    made = TensorList.unset(dtypes.float32, (), 0)
    for _ in range(count):
        made = made.push(value)
    assert not copied
    while made.length:
        made, _ = made.pop()
    assert sum(copied) < 2 * count
    copied.clear()
    first = made = TensorList.unset(dtypes.float32, (), 10)
    for i in range(count):
        made = made.set(i % 10, value)
    assert len(copied) < count / 60 and sum(copied) < count / 6
    steps, version = 0, first
    while version._newer is not None:
        version, steps = version._newer, steps + 1
    assert steps < 100  # who keeps the first version does not keep all of them
    assert first.values() == [None] * 10


def test_a_list_of_a_tensor_is_the_tensor() -> None:
    value = rows(5, 2)
    made = TensorList.of_rows(dtypes.float32, (2,), value)
    assert np.shares_memory(made.whole(), value)
    changed = made.set(1, np.zeros(2, np.float32))
    assert value[1].tolist() == [2, 3] and made.values()[1].tolist() == [2, 3]
    assert changed.values()[1].tolist() == [0, 0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_loops_carry_lists_round(dynamic: bool) -> None:
    def build() -> Any:
        made = R.TensorListFromTensor(
            tensor=tf1.placeholder_with_default(rows(6, 2), [6, 2]), element_shape=[2]
        )
        if dynamic:
            out = R.EmptyTensorList(
                element_shape=[2], max_num_elements=-1, element_dtype=tf.float32
            )
        else:
            out = R.TensorListReserve(element_shape=[2], num_elements=6, element_dtype=tf.float32)

        def body(i: Any, h: Any, out: Any) -> Any:
            h = tf.tanh(
                h * 0.5
                + R.TensorListGetItem(
                    input_handle=made, index=i, element_shape=[2], element_dtype=tf.float32
                )
            )
            if dynamic:
                return i + 1, h, R.TensorListPushBack(input_handle=out, tensor=h * h)
            return i + 1, h, R.TensorListSetItem(input_handle=out, index=i, item=h * h)

        _, h, out = tf1.while_loop(lambda i, h, out: i < 6, body, [0, tf.zeros([2]), out])
        chosen = tf1.cond(h[0] > 0, lambda: out, lambda: made)
        return [
            h,
            *[
                R.TensorListStack(input_handle=x, element_shape=[2], element_dtype=tf.float32)
                for x in (out, chosen)
            ],
        ]

    tf1.disable_control_flow_v2()
    try:
        theirs, ours = both(build)
    finally:
        tf1.enable_control_flow_v2()
    assert isinstance(theirs, list), theirs
    for (_, shape, mine), (_, other_shape, other) in zip(ours, theirs, strict=True):
        assert shape == other_shape
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
