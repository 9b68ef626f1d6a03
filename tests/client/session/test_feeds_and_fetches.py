"""Values of every kind into and out of `run`, on TensorFlow's session and on tfjit's: composite
tensors, dtypes, conversions, callables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
X = np.ones((2, 3), "f4")
SPARSE = tf1.SparseTensorValue(
    np.array([[0, 0], [1, 1]]), np.array([1.0, 2.0], "f4"), np.array([2, 3])
)


class Attribute:
    def __init__(self, name: str) -> None:
        self.name = name


class Pair:
    """What an attrs class looks like."""

    __attrs_attrs__ = (Attribute("first"), Attribute("second"))

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


class Graph:
    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, 3], name="x")
            self.y = tf.multiply(self.x, 2.0, name="y")
            self.sparse = tf1.sparse_placeholder(tf.float32, name="sparse")
            self.doubled = self.sparse.values * 2.0
            self.constant_sparse = tf.SparseTensor(
                indices=[[0, 0], [1, 2]], values=[1.0, 2.0], dense_shape=[2, 3]
            )
            self.slices = tf.IndexedSlices(
                values=self.x, indices=tf.constant([0, 1]), dense_shape=tf.constant([5, 3])
            )
            self.ragged = tf.RaggedTensor.from_row_splits(
                tf.constant([1.0, 2.0, 3.0]), [0, 2, 3], validate=False
            )
            self.ref = tf1.get_variable("ref", initializer=1.0, use_resource=False)
            self.res = tf1.get_variable("res", initializer=2.0, use_resource=True)
            self.total = self.ref + self.res
            self.any = tf1.placeholder(tf.float32, name="any")
            self.more = self.any + 1.0
            self.nothing = tf.no_op(name="nothing")
            self.default = tf1.placeholder_with_default(3.0, [], name="default")
            self.scaled = self.default * 2.0
            self.constant = tf.constant(np.arange(5), name="constant")
            self.text = tf1.placeholder(tf.string, [], name="text")
            self.of = {
                d: (p := tf1.placeholder(d, [None]), tf.add(p, tf.cast(1, d)))
                for d in (
                    tf.int8,
                    tf.uint8,
                    tf.int16,
                    tf.int32,
                    tf.int64,
                    tf.float16,
                    tf.bfloat16,
                    tf.float64,
                    tf.complex64,
                    tf.complex128,
                )
            }
            self.flag = tf1.placeholder(tf.bool, [None])
            self.flipped = tf.logical_not(self.flag)
            self.init = tf1.global_variables_initializer()


@pytest.fixture(scope="module")
def world() -> Graph:
    return Graph()


@pytest.fixture(scope="module")
def sessions(world: Graph) -> Any:
    with tf1.Session(graph=world.graph) as theirs, tfjit.Session(graph=world.graph) as ours:
        for session in (theirs, ours):
            session.run(world.init)
        yield theirs, ours


CALLS: dict[str, Callable[[Graph, Any], Any]] = {
    "sparse fetched": lambda w, s: s.run(w.constant_sparse),
    "sparse fed": lambda w, s: s.run(w.doubled, {w.sparse: SPARSE}),
    "sparse fed by tuple": lambda w, s: s.run(w.doubled, {w.sparse: ([[0, 0]], [1.0], [1, 1])}),
    "sparse fed and fetched": lambda w, s: s.run([w.sparse, w.doubled], {w.sparse: SPARSE}),
    "slices": lambda w, s: s.run(w.slices, {w.x: X}),
    "ragged": lambda w, s: s.run(w.ragged).to_list(),
    "composites nested": lambda w, s: s.run({"a": [w.constant_sparse, (w.slices, w.y)]}, {w.x: X}),
    "variables": lambda w, s: s.run([w.ref, w.res, w.total]),
    "reference variable fed": lambda w, s: s.run(w.total, {w.ref: 5.0}),
    "resource variable fed": lambda w, s: s.run(w.total, {w.res: 5.0}),
    "attrs class": lambda w, s: vars(s.run(Pair(w.y, [w.x]), {w.x: X})),
    "operation nested": lambda w, s: s.run([w.nothing, [w.y, w.nothing]], {w.x: X}),
    "empty structures": lambda w, s: s.run([[], (), {}]),
    "default of a placeholder": lambda w, s: s.run(w.scaled),
    "placeholder with default fed": lambda w, s: s.run(w.scaled, {"default:0": 4}),
    "constant fed": lambda w, s: s.run(w.constant, {w.constant: np.zeros(5, "i8")}),
    "constant fed wrongly": lambda w, s: s.run(w.constant, {w.constant: np.zeros(3)}),
    "named twice": lambda w, s: s.run(w.y, {w.x: X, "x:0": X * 3}),
    "bytes": lambda w, s: s.run(w.text, {w.text: b"\0\xff"}),
    "int into text": lambda w, s: s.run(w.text, {w.text: 3}),
    "bool": lambda w, s: s.run(w.flipped, {w.flag: [1, 0, True]}),
    "None": lambda w, s: s.run(w.more, {w.any: None}),
    "object": lambda w, s: s.run(w.more, {w.any: object()}),
    "bool into float": lambda w, s: s.run(w.more, {w.any: True}),
    "big int into float": lambda w, s: s.run(w.more, {w.any: 2**70}),
    "list of arrays": lambda w, s: s.run(w.more, {w.any: [np.ones(2), np.zeros(2)]}),
    "matrix": lambda w, s: s.run(w.more, {w.any: np.matrix([[1, 2]])}),
    "zero-dimensional array": lambda w, s: s.run(w.more, {w.any: np.array(1.5)}),
    "generator fetched": lambda w, s: s.run((t for t in [w.y]), {w.x: X}),
    "array fetched": lambda w, s: s.run(np.array([1])),
    "bytes fetched": lambda w, s: s.run(b"x:0", {w.x: X}),
    "list of pairs fed": lambda w, s: s.run(w.y, [(w.x, X)]),
    "callable of composites": lambda w, s: s.make_callable([w.doubled, w.sparse], [w.sparse])(
        SPARSE
    ),
    "callable of a dict": lambda w, s: s.make_callable({"a": w.y}, [w.x])(X),
    "callable of an operation": lambda w, s: s.make_callable(w.nothing, [w.x])(X),
    "callable of names": lambda w, s: s.make_callable("y:0", ["x:0"])(X),
    "callable of nothing fed": lambda w, s: s.make_callable(w.constant)(),
    "callable fed wrongly": lambda w, s: s.make_callable(w.y, [w.x])(np.ones((2, 4))),
    **{
        f"{d.name} {name}": (lambda w, s, d=d, value=value: s.run(w.of[d][1], {w.of[d][0]: value}))
        for d in (
            tf.int8,
            tf.uint8,
            tf.int16,
            tf.int32,
            tf.int64,
            tf.float16,
            tf.bfloat16,
            tf.float64,
            tf.complex64,
            tf.complex128,
        )
        for name, value in (
            ("ints", [1, 2]),
            ("floats", [1.75, 2.5]),
            ("array", np.array([3, 4], "i2")),
            ("empty", []),
        )
    },
    "int8 wraps": lambda w, s: s.run(w.of[tf.int8][1], {w.of[tf.int8][0]: [300, -200]}),
    "complex": lambda w, s: s.run(w.of[tf.complex64][1], {w.of[tf.complex64][0]: [1 + 2j]}),
}


def same(a: Any, b: Any) -> None:
    assert type(a).__name__ == type(b).__name__
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            same(p, q)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b


@pytest.mark.parametrize("name", CALLS)
def test_values_in_and_out(world: Graph, sessions: Any, name: str) -> None:
    outcomes = []
    for session in sessions:
        try:
            outcomes.append(("value", CALLS[name](world, session)))
        except Exception as error:
            outcomes.append(("error", type(error).__name__))
    assert outcomes[0][0] == outcomes[1][0], outcomes
    same(outcomes[1][1], outcomes[0][1])
    if outcomes[0][0] == "value":
        # now from what the session has remembered
        same(CALLS[name](world, sessions[1]), outcomes[0][1])


def test_a_number_is_no_resource_handle(world: Graph, sessions: Any) -> None:
    with pytest.raises(TypeError, match="res:0 of dtype resource: it takes a fetched handle"):
        sessions[1].run(world.total, {world.res.handle: 5.0})


def test_a_users_own_type(world: Graph) -> None:
    class Doubled:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

    tfjit.register_session_run_conversion_functions(
        Doubled,
        lambda d: ([d.tensor], lambda values: values[0] * 2),
        lambda d, value: [(d.tensor, np.asarray(value) / 2)],
    )
    with tfjit.Session(graph=world.graph) as session:
        np.testing.assert_array_equal(session.run(Doubled(world.y), {world.x: X}), X * 4)
        np.testing.assert_array_equal(session.run(world.y, {Doubled(world.x): X}), X)
        np.testing.assert_array_equal(
            session.run([world.y, Doubled(world.x)], {Doubled(world.x): X})[1], X
        )
    with pytest.raises(ValueError, match="has already been registered"):
        tfjit.register_session_run_conversion_functions(
            Doubled, lambda d: ([d.tensor], lambda values: values[0])
        )


@pytest.mark.parametrize("library", [tf1, tfjit])
def test_a_fed_sparse_tensor_is_resolved_once(
    library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = []
    resolve = tfjit.Session._resolve
    monkeypatch.setattr(
        tfjit.Session, "_resolve", lambda *args: resolved.append(1) or resolve(*args)
    )
    with library.Graph().as_default() as graph:
        x = library.sparse_placeholder(library.float32)
        y = x.values * 2.0
        with tfjit.Session(graph=graph) as session:
            for k in range(3):
                values = np.full(k, k, "f4")
                found = session.run(y, {x: (np.zeros((k, 1)), values, [9])})
                np.testing.assert_array_equal(found, 2 * values)
    assert len(resolved) == 1
