"""Tensor arrays beside TensorFlow's: single programs, random ones, loops, and how they grow."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit
from tests.runtime.array_programs import R, both, f32, hidden, ints, rows, tf1, told
from tfjit.framework.types import dtypes
from tfjit.runtime.resources import element_buffer, tensor_arrays
from tfjit.runtime.resources.tensor_arrays import TensorArray

Step = Callable[["Arrays"], Any]


class Arrays:
    """The arrays of a program, every use of one after the one before it; `at` is the array that
    steps use.
    """

    def __init__(self, size: Any = 3, dtype: Any = tf.float32, **attrs: Any) -> None:
        self.arrays = [tuple(R.TensorArrayV3(size=ints(size), dtype=dtype, **attrs))]
        self.at = 0
        self.outputs: list[Any] = []

    def use(self, op: Callable[..., Any], flow_out: bool = False, **inputs: Any) -> None:
        handle, flow = self.arrays[self.at]
        with tf1.control_dependencies(self.outputs[-1:] or [flow]):
            result = op(handle=handle, flow_in=tf.identity(flow), **inputs)
        outputs = tf.nest.flatten(result)
        if flow_out:
            self.arrays[self.at] = (handle, outputs[0])
        self.outputs += outputs


def write(index: Any, value: Any) -> Step:
    return lambda a: a.use(R.TensorArrayWriteV3, True, index=ints(index), value=hidden(value))


def read(index: Any, dtype: Any = tf.float32) -> Step:
    return lambda a: a.use(R.TensorArrayReadV3, index=ints(index), dtype=dtype)


def gather(indices: Any, dtype: Any = tf.float32, **attrs: Any) -> Step:
    return lambda a: a.use(R.TensorArrayGatherV3, indices=ints(indices), dtype=dtype, **attrs)


def scatter(indices: Any, value: Any) -> Step:
    return lambda a: a.use(R.TensorArrayScatterV3, True, indices=ints(indices), value=hidden(value))


def concat(dtype: Any = tf.float32, **attrs: Any) -> Step:
    return lambda a: a.use(R.TensorArrayConcatV3, dtype=dtype, **attrs)


def split(value: Any, lengths: Any) -> Step:
    return lambda a: a.use(
        R.TensorArraySplitV3, True, value=hidden(value), lengths=hidden(np.array(lengths, np.int64))
    )


def size() -> Step:
    return lambda a: a.use(R.TensorArraySizeV3)


def close() -> Step:
    def step(a: Arrays) -> None:
        handle, flow = a.arrays[a.at]
        with tf1.control_dependencies(a.outputs[-1:] or [flow]):
            closed = R.TensorArrayCloseV3(handle=handle)
        with tf1.control_dependencies([closed]):
            a.outputs.append(tf.constant(0.0))

    return step


def grad(source: str = "g", prepend: Any = None) -> Step:
    """Steps that follow use the gradient array."""

    def step(a: Arrays) -> None:
        handle, flow = a.arrays[a.at]
        with tf1.control_dependencies(a.outputs[-1:] or [flow]):
            if prepend is None:
                made = R.TensorArrayGradV3(handle=handle, flow_in=tf.identity(flow), source=source)
            else:
                made = R.TensorArrayGradWithShape(
                    handle=handle,
                    flow_in=tf.identity(flow),
                    source=source,
                    shape_to_prepend=ints(prepend),
                )
        a.arrays.append(tuple(made))
        a.outputs.append(made[1])
        a.at = len(a.arrays) - 1

    return step


def use(array: int) -> Step:
    def step(a: Arrays) -> None:
        a.at = array

    return step


def full(count: int = 3, *shape: int) -> list[Step]:
    return [write(i, np.full(shape, i + 1, f32)) for i in range(count)]


def program(steps: list[Step], attrs: dict[str, Any]) -> tuple[Any, Any]:
    def build() -> Any:
        arrays = Arrays(**attrs)
        for step in steps:
            step(arrays)
        return arrays.outputs or arrays.arrays[0][1]

    return both(build)


# name -> (attributes of the array, steps)
CASES: dict[str, tuple[dict[str, Any], list[Step]]] = {
    "written and read": ({}, [*full(3, 2), read(1), read(0), read(2)]),
    "size": ({}, [size()]),
    "negative size": ({"size": -1}, [size()]),
    "size that is a vector": ({"size": [1, 2]}, [size()]),
    "write past the end": ({}, [write(3, f32(1))]),
    "write before the start": ({}, [write(-1, f32(1))]),
    "write before the start of a dynamic array": ({"dynamic_size": True}, [write(-1, f32(1))]),
    "a dynamic array grows": (
        {"dynamic_size": True, "size": 0},
        [write(4, f32(5)), size(), write(0, f32(1)), gather([0, 4])],
    ),
    "what a growth leaves out": ({"dynamic_size": True, "size": 0}, [write(4, f32(5)), read(2)]),
    "written twice": ({}, [write(0, f32(1)), write(0, f32(1))]),
    "another dtype written": ({}, [write(0, np.int32(1))]),
    "another shape than declared": ({"element_shape": [2]}, [write(0, f32(1))]),
    "a shape that does not fit a partial one": (
        {"element_shape": [None, 2]},
        [write(1, rows(2, 3))],
    ),
    "shapes that fit a partial one": (
        {"element_shape": [None, 2]},
        [write(1, rows(3, 2)), write(0, rows(1, 2)), read(1), read(0)],
    ),
    "a second shape where all are identical": (
        {"identical_element_shapes": True},
        [write(0, rows(2, 3)), write(1, rows(3))],
    ),
    "zeros of the first shape where all are identical": (
        {"identical_element_shapes": True},
        [write(0, rows(2)), read(1)],
    ),
    "write by a vector": ({}, [write([1, 2], f32(1))]),
    "read by a vector": ({}, [read([1, 2])]),
    "read what is not written": ({}, [read(1)]),
    "read what is not written of a known shape": ({"element_shape": [2]}, [read(1)]),
    "read what is not written of a partial shape": ({"element_shape": [None, 2]}, [read(1)]),
    "read past the end": ({}, [read(3)]),
    "read before the start": ({}, [read(-1)]),
    "another dtype read": ({}, [write(0, f32(1)), read(0, tf.int32)]),
    "read twice": ({}, [write(0, f32(1)), read(0), read(0)]),
    "read twice where kept": ({"clear_after_read": False}, [write(0, f32(1)), read(0), read(0)]),
    "written after it was read": (
        {"clear_after_read": False},
        [write(0, f32(1)), read(0), write(0, f32(1))],
    ),
    "zeros read twice": ({"element_shape": [2]}, [read(1), read(1)]),
    "zeros read twice where kept": (
        {"element_shape": [2], "clear_after_read": False},
        [read(1), read(1)],
    ),
    "written after zeros were read": ({"element_shape": [2]}, [read(1), write(1, rows(2))]),
    "closed, then read": ({}, [close(), read(0)]),
    "closed, then written": ({}, [close(), write(0, f32(1))]),
    "closed, then measured": ({}, [close(), size()]),
    "closed, then gathered": ({}, [close(), gather([0])]),
    "closed, then its gradient": ({}, [close(), grad()]),
    "closed twice": ({}, [close(), close()]),
    "gather": ({}, [*full(), gather([2, 0])]),
    "gather all": ({}, [*full(3, 2), gather([0, 1, 2])]),
    "gather twice the same": ({}, [*full(), gather([2, 2])]),
    "gather twice the same where kept": (
        {"clear_after_read": False},
        [*full(), gather([2, 2]), gather([0, 1, 2]), gather([2])],
    ),
    "gather past the end": ({}, [*full(), gather([0, 5])]),
    "gather before the start": ({}, [*full(), gather([0, -1])]),
    "gather nothing": ({"element_shape": []}, [*full(), gather([])]),
    "gather nothing of a known shape": ({}, [*full(), gather([], element_shape=[4])]),
    "gather nothing of an empty array": ({"size": 0}, [gather([], element_shape=[2, 3])]),
    "gather by a matrix": ({}, [*full(), gather([[0]])]),
    "gather different shapes": ({}, [write(0, rows(2)), write(1, rows(3)), gather([0, 1])]),
    "gather another dtype": ({}, [*full(), gather([0, 1], tf.int32)]),
    "gather another shape than declared": (
        {"element_shape": []},
        [*full(), gather([0, 1], element_shape=[2])],
    ),
    "gather another shape": ({}, [*full(), gather([0, 1], element_shape=[2])]),
    "gather what is not written": ({}, [write(0, f32(1)), gather([0, 1])]),
    "gather what is not written of a known shape": (
        {"element_shape": [2]},
        [write(0, rows(2)), gather([0, 1])],
    ),
    "a gather tells the shape": (
        {"clear_after_read": False},
        [write(0, f32(1)), gather([0], element_shape=[]), write(1, rows(2))],
    ),
    "scatter": ({}, [scatter([2, 0, 1], rows(3)), gather([0, 1, 2])]),
    "scatter in order": ({}, [scatter([0, 1, 2], rows(3, 2)), read(1), gather([0, 2])]),
    "scatter in order to what is written": (
        {},
        [write(1, rows(2)), scatter([0, 1, 2], rows(3, 2))],
    ),
    "scatter another dtype": ({}, [scatter([2, 0, 1], np.arange(3))]),
    "scatter a scalar": ({}, [scatter([2], f32(3))]),
    "scatter too much": ({}, [scatter([2, 0], rows(3))]),
    "scatter by a matrix": ({}, [scatter([[2]], rows(1))]),
    "scatter past the end": ({}, [scatter([2, 7, 1], rows(3))]),
    "scatter before the start": ({}, [scatter([2, -7, 1], rows(3))]),
    "scatter makes it grow": (
        {"dynamic_size": True},
        [scatter([2, 7, 1], rows(3)), size(), gather([1, 7, 2])],
    ),
    "scatter twice to one": ({}, [scatter([2, 2, 1], rows(3))]),
    "scatter another shape": ({"element_shape": [2]}, [scatter([0, 1, 2], rows(3, 3))]),
    "scatter nothing": ({}, [scatter([], rows(0, 2)), size()]),
    "concat": ({"size": 2}, [write(0, rows(2, 3)), write(1, rows(1, 3)), concat()]),
    "concat equal lengths": ({"size": 2}, [write(0, rows(2, 3)), write(1, rows(2, 3)), concat()]),
    "concat scalars": ({}, [*full(), concat()]),
    "concat different shapes": (
        {"size": 2},
        [write(0, rows(2, 3)), write(1, rows(1, 4)), concat()],
    ),
    "concat different ranks": ({"size": 2}, [write(0, rows(2, 3)), write(1, rows(1)), concat()]),
    "concat what is not written": ({"size": 2}, [write(0, rows(2, 3)), concat()]),
    "concat nothing": ({"size": 0}, [concat()]),
    "concat nothing of a known shape": ({"size": 0}, [concat(element_shape_except0=[3])]),
    "concat nothing of a partial shape": ({"size": 0}, [concat(element_shape_except0=[None])]),
    "concat another shape": (
        {"size": 1},
        [write(0, rows(2, 3)), concat(element_shape_except0=[7])],
    ),
    "concat another dtype": ({"size": 1}, [write(0, rows(2, 3)), concat(tf.int32)]),
    "split": ({"size": 2}, [split(rows(3, 2), [1, 2]), read(1), read(0)]),
    "split evenly": ({"size": 2}, [split(rows(4, 2), [2, 2]), read(1), concat()]),
    "split and join": ({"size": 3}, [split(rows(4, 2), [1, 0, 3]), concat()]),
    "split too little": ({"size": 2}, [split(rows(3, 2), [1, 1])]),
    "split to fewer": ({}, [split(rows(3, 2), [1, 2])]),
    "split makes it grow": ({"size": 0, "dynamic_size": True}, [split(rows(3, 2), [1, 2]), size()]),
    "split makes nothing shrink": ({"size": 5, "dynamic_size": True}, [split(rows(3, 2), [1, 2])]),
    "split a scalar": ({"size": 2}, [split(f32(2), [1, 1])]),
    "split by a matrix": ({"size": 2}, [split(rows(3, 2), [[1, 2]])]),
    "split another dtype": ({"size": 2}, [split(np.zeros((3, 2), np.int32), [1, 2])]),
    "split to another shape": ({"size": 2, "element_shape": [1, 2]}, [split(rows(3, 2), [1, 2])]),
    "a gradient nobody wrote": ({}, [*full(3, 2), grad(), read(1)]),
    "a gradient of what is not written": ({}, [write(0, f32(1)), grad(), read(1)]),
    "a gradient of what is not written of a known shape": (
        {"element_shape": [2]},
        [grad(), read(1)],
    ),
    "a gradient past the end": (
        {"element_shape": [2]},
        [grad(), read(5), size(), write(4, rows(2)), read(4)],
    ),
    "a gradient before the start": ({}, [*full(), grad(), read(-4)]),
    "gradients add up": ({}, [*full(3, 2), grad(), *[write(1, rows(2))] * 3, read(1)]),
    "a gradient keeps a negative zero": ({}, [*full(), grad(), write(1, f32(-0.0)), read(1)]),
    "a gradient of another shape": ({}, [*full(3, 2), grad(), write(1, rows(3))]),
    "a second gradient of another shape": (
        {},
        [write(0, rows(2)), grad(), write(1, rows(2)), write(1, rows(3))],
    ),
    "a gradient written past the end": ({}, [*full(3, 2), grad(), write(5, rows(2))]),
    "the size of a gradient": ({}, [*full(3, 2), grad(), size()]),
    "no growth after a gradient": (
        {"dynamic_size": True, "size": 1},
        [write(0, f32(1)), grad(), use(0), write(3, f32(1))],
    ),
    "the gradient of a gradient": ({}, [*full(), grad(), grad()]),
    "a gradient gathered": ({}, [*full(3, 2), grad(), write(1, rows(2)), gather([0, 1, 2])]),
    "a gradient scattered": (
        {},
        [*full(3, 2), grad(), write(1, rows(2)), scatter([0, 1, 2], rows(3, 2)), gather([0, 1, 2])],
    ),
    "a gradient asked for twice": (
        {},
        [*full(3, 2), grad(), write(1, rows(2)), use(0), grad(), read(1)],
    ),
    "gradients of two sources": (
        {},
        [*full(3, 2), grad("a"), write(1, rows(2)), use(0), grad("b"), read(1)],
    ),
    "a gradient after reading": ({}, [*full(3, 2), read(1), grad(), gather([0, 1, 2])]),
    "a gradient of different shapes": (
        {},
        [write(0, rows(2)), write(1, rows(3)), read(0), grad(), read(1), read(0)],
    ),
    "a gradient with more dimensions": ({}, [*full(3, 2), grad("q", [3]), gather([0, 1, 2])]),
    "a gradient with negative ones": ({}, [*full(3, 2), grad("q", [-3])]),
    "a gradient with more dimensions of a known shape": (
        {"element_shape": [2]},
        [grad("q", [3]), read(1)],
    ),
    "a gradient read twice": ({"clear_after_read": False}, [*full(), grad(), read(1), read(1)]),
    "a gradient written after it was read": ({}, [*full(), grad(), read(1), write(1, f32(1))]),
    "an identical shape passed on": (
        {"identical_element_shapes": True},
        [write(0, rows(2)), grad(), read(1)],
    ),
    "bools do not add up": (
        {"dtype": tf.bool},
        [write(0, np.bool_(True)), grad(), write(0, np.bool_(True)), write(0, np.bool_(True))],
    ),
    "strings": (
        {"dtype": tf.string, "size": 2},
        [write(0, b"a"), write(1, b"b"), gather([1, 0], tf.string)],
    ),
    "strings of several": (
        {"dtype": tf.string, "size": 1},
        [write(0, np.array([b"a", b"bc"], object)), gather([0], tf.string)],
    ),
    "strings do not add up": (
        {"dtype": tf.string},
        [write(0, b"a"), grad(), write(0, b"a"), write(0, b"b")],
    ),
    "strings have no zeros": ({"dtype": tf.string}, [write(0, b"a"), grad(), read(0, tf.string)]),
}


@pytest.mark.parametrize("name", CASES, ids=[name.replace(" ", "_") for name in CASES])
def test_a_program(name: str) -> None:
    attrs, steps = CASES[name]
    theirs, ours = program(steps, attrs)
    assert ours == theirs


def concat_forward(a: Arrays) -> None:
    """TensorFlow dies of a concat of a gradient array with elements that nobody wrote."""
    a.at = 0
    concat()(a)


SHAPES = st.sampled_from([(), (2,), (2,), (2,), (1, 2)])
INDEX = st.integers(0, 3)
VALUE = st.builds(lambda shape, x: np.full(shape, x, f32), SHAPES, st.sampled_from([1, 2, 3, -0.0]))
STEPS = st.one_of(
    st.builds(write, INDEX, VALUE),
    st.builds(write, INDEX, VALUE),
    st.builds(read, INDEX),
    st.builds(gather, st.lists(INDEX, max_size=4, unique=True)),
    st.builds(lambda n, shape: scatter(range(n), rows(n, *shape)), INDEX, SHAPES),
    st.builds(grad),
    st.builds(use, st.integers(0, 1)),
    st.just(size()),
    st.just(concat_forward),
)
ATTRS = st.fixed_dictionaries(
    {
        "clear_after_read": st.booleans(),
        "dynamic_size": st.booleans(),
        "identical_element_shapes": st.booleans(),
        "element_shape": st.sampled_from([None, [2], [None]]),
        "size": st.integers(1, 4),
    }
)


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=9), ATTRS)
def test_random_programs(steps: list[Step], attrs: dict[str, Any]) -> None:
    def kept(a: Arrays) -> None:  # only arrays that there are
        a.at = min(a.at, len(a.arrays) - 1)

    once = [s for s in steps for s in (kept, s)]
    theirs, ours = program([*once, kept, size()], attrs)
    assert ours == theirs


@pytest.fixture
def old_control_flow() -> Iterator[None]:
    tf1.disable_control_flow_v2()
    tf1.disable_tensor_equality()
    yield
    tf1.enable_tensor_equality()
    tf1.enable_control_flow_v2()


@pytest.mark.usefixtures("old_control_flow")
def test_loops_and_their_gradients() -> None:
    """Reads, writes and stacks in frames, forward and backward, as TF1's own classes build them."""

    def build() -> Any:
        x = tf1.placeholder_with_default(rows(6, 2), [6, 2])
        source = tf.TensorArray(tf.float32, 6, clear_after_read=False).unstack(x)
        target = tf.TensorArray(
            tf.float32, 0, dynamic_size=True, clear_after_read=False, element_shape=[2]
        )

        def body(i: Any, h: Any, out: Any) -> Any:
            h = tf.tanh(h * 0.5 + source.read(i)) + source.read(5 - i)
            return i + 1, h, out.write(i, h * h)

        _, h, out = tf1.while_loop(lambda i, h, out: i < 6, body, [0, tf.zeros([2]), target])
        y = out.stack()
        return [
            y,
            h,
            *tf1.gradients(tf.reduce_sum(y * y) + tf.reduce_sum(h), [x]),
            tf1.gradients(out.concat(), [x])[0],
        ]

    theirs, ours = both(build)
    assert [r[:2] for r in ours] == [r[:2] for r in theirs], theirs
    for (_, _, mine), (_, _, other) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("old_control_flow")
def test_arrays_die_with_their_step(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Any]] = []
    named = TensorArray.named.__func__  # type: ignore[attr-defined]

    class Watched(TensorArray):
        __slots__ = ("__weakref__",)

    def watching(cls: Any, *args: Any, **kw: Any) -> Any:
        array = named(Watched, *args, **kw)
        made.append(weakref.ref(array))
        return array

    monkeypatch.setattr(TensorArray, "named", classmethod(watching))
    with tf1.Graph().as_default() as graph:
        arrays = Arrays()
        for step in (*full(), grad(), write(0, f32(2)), read(0)):
            step(arrays)
        failing = Arrays()
        write(7, f32(1))(failing)
    with tfjit.Session(graph=graph) as session:
        for _ in range(2):
            session.run(arrays.outputs)
            assert told(session, failing.outputs)[0] == "InvalidArgumentError"
        gc.collect()
        assert len(made) == 4
        assert [ref() for ref in made] == [None] * 4


def test_growth_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements one by one: each reallocation doubles, the memory is theirs and a flag's, and
    together they are a view at the end.
    """
    grown: list[int] = []
    grow = element_buffer.Elements._grow

    def counted(self: Any, capacity: int) -> Any:
        grown.append(capacity)
        return grow(self, capacity)

    monkeypatch.setattr(element_buffer.Elements, "_grow", counted)
    count = 200_000
    array = TensorArray("t", dtypes.float32, 0, (), dynamic_size=True)
    value = np.zeros((), np.float32)
    for i in range(count):
        array.write(i, value)
    assert grown == [1 << n for n in range(4, 19)]
    assert array.nbytes() <= 5 << 18
    whole = array.whole()
    assert whole is not None and whole.shape == (count,)
    assert np.shares_memory(whole, array.read_many(np.arange(count))[0])


def test_a_whole_array_is_passed_without_a_copy() -> None:
    value = rows(5, 2)
    array = TensorArray("t", dtypes.float32, 5)
    assert array.fill(value)
    assert np.shares_memory(array.whole(), value)
    with pytest.raises(tensor_arrays.errors.InvalidArgumentError, match="already been written"):
        array.write(2, value[2])
    gradient = array.gradient("g")
    assert not gradient.fill(value)
    gradient.write(1, value[1])
    before = gradient.read(1)
    np.testing.assert_array_equal(before, value[1])
    np.testing.assert_array_equal(gradient.read(0), [0, 0])


def test_what_was_given_out_does_not_change() -> None:
    array = TensorArray("t", dtypes.float32, 3, clear_after_read=False)
    for i in range(3):
        array.write(i, f32(i))
    gradient = array.gradient("g")
    gradient.write(0, f32(1))
    given_out = gradient.whole()
    assert given_out is not None
    gradient.write(0, f32(1))
    gradient.write(2, f32(5))
    assert given_out.tolist() == [1, 0, 0]
    assert [float(gradient.read(i)) for i in range(3)] == [2, 0, 5]
