"""The same calls on TensorFlow's Session and on tfjit's, over the same TensorFlow graph: same
results, same exception classes and texts.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
Point = collections.namedtuple("Point", ["a", "b"])


class Graph:
    """A TensorFlow graph with a bit of everything."""

    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None, 3], name="x")
            self.n = tf1.placeholder(tf.int32, [], name="n")
            self.u = tf1.placeholder(tf.uint8, [], name="u")
            self.flag = tf1.placeholder(tf.bool, [], name="flag")
            self.text = tf1.placeholder(tf.string, [None], name="text")
            self.y = tf.add(self.x, 1.0, name="y")
            self.total = tf.reduce_sum(self.x, name="total")
            self.double = tf.multiply(self.n, 2, name="double")
            self.same_text = tf.identity(self.text, name="same_text")
            self.ref = tf1.get_variable(
                "ref", initializer=np.arange(3, dtype="f4"), use_resource=False
            )
            self.res = tf1.get_variable(
                "res", initializer=np.arange(3, dtype="f4"), use_resource=True
            )
            self.init = tf1.global_variables_initializer()
            self.bump = tf1.assign_add(self.ref, [1.0, 1.0, 1.0], name="bump")
            self.bump_res = self.res.assign_add([1.0, 1.0, 1.0])
            self.both = tf.add(self.ref, self.res, name="both")
            self.divided = tf1.floordiv(
                self.n, tf1.placeholder_with_default(0, [], name="zero"), name="divided"
            )
            self.split = tf.split(self.x, 3, axis=1, name="split")
            self.group = tf.group(self.y, name="group")


@pytest.fixture(scope="module")
def world() -> Graph:
    return Graph()


def outcome(session: Any, call: Callable[[Any], Any]) -> tuple[str, Any]:
    try:
        return "value", call(session)
    except Exception as error:
        return "error", error


def simplified(text: str) -> str:
    """What must agree of a message: not object addresses, source lines or the runtime's frame
    around a step's error.
    """
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"<tensorflow[^>]*>|tensorflow\.python\.[\w.]+", "<tf>", text)
    text = re.sub(r" defined at [^\n]*(\n +File[^\n]*)*", "", text)
    return text.partition("\n\nOriginal stack trace")[0].strip()


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for p, q in zip(a, b, strict=True):
            same(p, q)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b


X = np.arange(6, dtype="f4").reshape(2, 3)

RUNS: dict[str, Callable[[Graph], Callable[[Any], Any]]] = {
    "tensor": lambda w: lambda s: s.run(w.y, {w.x: X}),
    "name": lambda w: lambda s: s.run("y:0", {"x:0": X}),
    "scalar": lambda w: lambda s: s.run(w.total, {w.x: X}),
    "operation": lambda w: lambda s: s.run(w.group, {w.x: X}),
    "operation by name": lambda w: lambda s: s.run("group", {w.x: X}),
    "tensor's operation by name": lambda w: lambda s: s.run("y", {w.x: X}),
    "list": lambda w: lambda s: s.run([w.y, w.total], {w.x: X}),
    "tuple": lambda w: lambda s: s.run((w.y, w.total), {w.x: X}),
    "dict": lambda w: lambda s: s.run({"b": w.y, "a": [w.total, w.group]}, {w.x: X}),
    "ordered dict": lambda w: (
        lambda s: s.run(collections.OrderedDict([("z", w.y), ("a", w.total)]), {w.x: X})
    ),
    "namedtuple": lambda w: lambda s: s.run(Point(w.y, (w.total, w.x)), {w.x: X}),
    "nested": lambda w: lambda s: s.run([[w.y], ({"k": w.total},), []], {w.x: X}),
    "empty list": lambda w: lambda s: s.run([]),
    "duplicates": lambda w: lambda s: s.run([w.y, w.y, "y:0"], {w.x: X}),
    "several outputs": lambda w: lambda s: s.run(list(w.split), {w.x: X}),
    "fed and fetched": lambda w: lambda s: s.run([w.x, w.y], {w.x: X}),
    "only fed": lambda w: lambda s: s.run(w.x, {w.x: X}),
    "middle fed": lambda w: (
        lambda s: s.run(w.both, {w.ref: np.ones(3, "f4"), w.both.op.inputs[1]: np.ones(3, "f4")})
    ),
    "list value": lambda w: lambda s: s.run(w.y, {w.x: [[1, 2, 3]]}),
    "float64 value": lambda w: lambda s: s.run(w.y, {w.x: np.ones((1, 3))}),
    "int value": lambda w: lambda s: s.run(w.y, {w.x: np.ones((1, 3), "i4")}),
    "fortran order": lambda w: lambda s: s.run(w.y, {w.x: np.asfortranarray(X)}),
    "strided": lambda w: (
        lambda s: s.run(w.y, {w.x: np.arange(24, dtype="f4").reshape(4, 6)[::2, ::2]})
    ),
    "empty rows": lambda w: lambda s: s.run([w.y, w.total], {w.x: np.empty((0, 3), "f4")}),
    "float into int": lambda w: lambda s: s.run(w.double, {w.n: 1.5}),
    "numpy scalar": lambda w: lambda s: s.run(w.double, {w.n: np.int64(5)}),
    "strings": lambda w: lambda s: s.run(w.same_text, {w.text: ["a", b"b"]}),
    "string array": lambda w: lambda s: s.run(w.same_text, {w.text: np.array(["a", "bc"])}),
    "too big int": lambda w: lambda s: s.run(w.double, {w.n: 2**40}),
    "negative into unsigned": lambda w: lambda s: s.run(w.u, {w.u: -1}),
    "two into bool": lambda w: lambda s: s.run(w.flag, {w.flag: 2}),
    "None fetch": lambda w: lambda s: s.run(None),
    "float fetch": lambda w: lambda s: s.run(3.7),
    "set fetch": lambda w: lambda s: s.run({w.y.name}),
    "unknown name": lambda w: lambda s: s.run("nope:0"),
    "unknown op name": lambda w: lambda s: s.run("nope"),
    "unknown slot": lambda w: lambda s: s.run("y:7"),
    "malformed name": lambda w: lambda s: s.run("y:0:0"),
    "foreign tensor": lambda w: lambda s: s.run(_foreign()),
    "feed an op": lambda w: lambda s: s.run(w.y, {w.x.op: X}),
    "feed an op name": lambda w: lambda s: s.run(w.y, {"x": X}),
    "feed unknown": lambda w: lambda s: s.run(w.y, {"nope:0": X}),
    "feed a tensor": lambda w: lambda s: s.run(w.y, {w.x: w.y}),
    "wrong shape": lambda w: lambda s: s.run(w.y, {w.x: np.ones((2, 4), "f4")}),
    "wrong rank": lambda w: lambda s: s.run(w.y, {w.x: np.ones(3, "f4")}),
    "string into float": lambda w: lambda s: s.run(w.y, {w.x: [["a", "b", "c"]]}),
    "ragged": lambda w: lambda s: s.run(w.y, {w.x: [[1, 2, 3], [1]]}),
    "missing feed": lambda w: lambda s: s.run(w.y),
    "placeholder op run": lambda w: lambda s: s.run(w.x.op, {w.x: X}),
    "division by zero": lambda w: lambda s: s.run(w.divided, {w.n: 5}),
    "make_callable": lambda w: lambda s: s.make_callable(w.y, [w.x])(X),
    "make_callable converts": lambda w: (
        lambda s: s.make_callable([w.y, w.total], [w.x])(X.astype("f8").tolist())
    ),
    "make_callable misses": lambda w: lambda s: s.make_callable(w.y, [w.x])(),
    "make_callable extra": lambda w: lambda s: s.make_callable(w.y, [w.x])(X, 1, 2),
    "make_callable wrong list": lambda w: lambda s: s.make_callable(w.y, w.x),
    "partial unknown handle": lambda w: lambda s: s.partial_run("nope", w.y, {w.x: X}),
    "uninitialised ref": lambda w: lambda s: s.run(w.ref),
    "uninitialised resource": lambda w: lambda s: s.run(w.res.read_value()),
}


def _foreign() -> Any:
    with tf1.Graph().as_default():
        return tf.constant(1.0)


@pytest.mark.parametrize("name", RUNS)
def test_run_answers_as_tensorflow(world: Graph, name: str) -> None:
    call = RUNS[name](world)
    with tf1.Session(graph=world.graph) as theirs, tfjit.Session(graph=world.graph) as ours:
        kind, expected = outcome(theirs, call)
        ours_kind, got = outcome(ours, call)
        assert ours_kind == kind, got
        if kind == "value":
            same(got, expected)
            again_kind, again = outcome(ours, call)  # the second run takes the cached path
            assert again_kind == "value"
            same(again, expected)
        else:
            assert type(got).__name__ == type(expected).__name__, got
            ours_text, theirs_text = simplified(str(got)), simplified(str(expected))
            if isinstance(expected, tf.errors.OpError):
                last = theirs_text.rsplit("\n\t [[", 1)[0].splitlines()[-1]
                assert last[:60] in ours_text
            else:
                assert ours_text[:35] == theirs_text[:35]
        # whatever happened, the session works on
        same(ours.run(world.y, {world.x: X}), theirs.run(world.y, {world.x: X}))


def test_variables_are_shared_by_all_signatures_and_kept_by_the_session(world: Graph) -> None:
    results = []
    for make in (tf1.Session, tfjit.Session):
        with make(graph=world.graph) as session:
            session.run(world.init)
            row = [session.run(world.both)]
            session.run(
                [world.bump, world.bump_res.op if hasattr(world.bump_res, "op") else world.bump_res]
            )
            row.append(session.run(world.both))
            row.append(session.run([world.bump, world.both.op.inputs[0]])[0])
            results.append(row)
        with (
            make(graph=world.graph) as other,
            pytest.raises(Exception, match="uninitialized|Could not find variable"),
        ):
            other.run(world.both)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fetched_array_is_the_callers_own(world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session:
        session.run(world.init)
        value = session.run(world.ref)
        value[:] = 99
        np.testing.assert_array_equal(session.run(world.ref), [0, 1, 2])
        fed = X.copy()
        out = session.run([world.x, world.y], {world.x: fed})
        out[0][:] = 99
        np.testing.assert_array_equal(fed, X)
        first = session.run(world.y, {world.x: X})
        kept = first.copy()
        session.run(world.y, {world.x: X + 5})
        np.testing.assert_array_equal(first, kept)


def test_life_of_a_session(world: Graph) -> None:
    session = tfjit.Session(graph=world.graph)
    function = session.make_callable(world.y, [world.x])
    session.run(world.y, {world.x: X})
    session.close()
    session.close()
    for call in (
        lambda: session.run(world.y, {world.x: X}),
        lambda: function(X),
        lambda: session.partial_run_setup(world.y, [world.x]),
    ):
        with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session\."):
            call()
    with pytest.raises(tfjit.errors.CancelledError, match=r"Session has been closed\."):
        session.list_devices()


def test_with_makes_session_and_graph_the_defaults() -> None:
    graph = tfjit.Graph()
    with tfjit.Session(graph=graph) as session:
        assert tfjit.get_default_session() is session
        assert tfjit.get_default_graph() is graph
        with pytest.raises(RuntimeError, match="not re-entrant"):
            session.__enter__()
        with pytest.raises(RuntimeError, match=r"The Session graph is empty\. Add operations"):
            session.run([])
    assert tfjit.get_default_session() is None
    assert tfjit.get_default_graph() is not graph


def test_growth_of_the_graph_is_followed() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        a = tf.constant(2.0, name="a")
    with tfjit.Session(graph=graph) as session:
        assert session.run(a) == 2
        with graph.as_default():
            b = tf.multiply(a, 3.0, name="b")
        assert session.run(b) == 6
        assert session.run([a, b]) == [2, 6]


def test_partial_run() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        a = tf1.placeholder(tf.float32, [], name="a")
        b = tf1.placeholder(tf.float32, [], name="b")
        c = tf.add(a, 1.0, name="c")
        d = tf.multiply(c, b, name="d")
    for make in (tf1.Session, tfjit.Session):
        with make(graph=graph) as session:
            handle = session.partial_run_setup([c, d], [a, b])
            assert session.partial_run(handle, c, {a: 1}) == 2
            assert session.partial_run(handle, d, {b: 10}) == 20
            handle = session.partial_run_setup([c, d], [a, b])
            with pytest.raises(
                Exception, match="can't be computed from the feeds that have been fed so far"
            ):
                session.partial_run(handle, d, {a: 1})
            handle = session.partial_run_setup([c], [a])
            with pytest.raises(Exception, match="was not specified in partial_run_setup"):
                session.partial_run(handle, c, {b: 1})


def test_run_metadata_and_timeouts(world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session:
        metadata = tf1.RunMetadata()
        session.run(
            world.y,
            {world.x: X},
            tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True),
            metadata,
        )
        names = [node.node_name for node in metadata.step_stats.dev_stats[0].node_stats]
        assert any(name.startswith("_arg_x_0_0") for name in names)
        assert len(metadata.partition_graphs) == 1
        plain = tf1.RunMetadata()
        session.run(world.y, {world.x: X}, run_metadata=plain)
        assert not plain.step_stats.dev_stats
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(1, [tf.float32], shapes=[[]])
        dequeue, enqueue = queue.dequeue(), queue.enqueue(4.0)
    with tfjit.Session(graph=graph) as session:
        with pytest.raises(
            tfjit.errors.DeadlineExceededError, match="Timed out waiting for notification"
        ):
            session.run(dequeue, options=tf1.RunOptions(timeout_in_ms=100))
        assert session.run([enqueue, dequeue]) == [None, 4.0]


def test_partial_runs_that_nobody_continues_hold_nobody_up() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        a = tf1.placeholder(tf.float32, [], name="a")
        b = tf.add(a, 1.0, name="b")
    config = tf1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    with tfjit.Session(graph=graph, config=config) as session:
        for _ in range(5):
            session.partial_run_setup([b], [a])
        assert session.partial_run(session.partial_run_setup([b], [a]), b, {a: 2}) == 3
