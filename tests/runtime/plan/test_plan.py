"""Plans: one for each signature whatever the order of its names, evicted without loss, shared by
threads; and who owns the arrays.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.protos import GraphDef
from tfjit.runtime.factory import SessionOptions, new_session
from tfjit.runtime.plan import plan
from tfjit.runtime.session import plan_cache

tf1 = tf.compat.v1

MODES = {
    "eager": {"TFJIT_JIT": "eager"},
    "lazy": {"TFJIT_JIT": "lazy"},
    "off": {"TFJIT_JIT": "off"},
    "dataflow": {"TFJIT_JIT": "lazy", "TFJIT_DISABLE": "straight_line"},
    "plain": {
        "TFJIT_JIT": "eager",
        "TFJIT_DISABLE": "fuse,fold_constants,simplify,eliminate_common_subexpressions",
    },
    "plain off": {
        "TFJIT_JIT": "off",
        "TFJIT_DISABLE": "fuse,fold_constants,simplify,eliminate_common_subexpressions",
    },
}


@pytest.fixture(params=MODES, ids=[name.replace(" ", "_") for name in MODES])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in MODES[request.param].items():
        monkeypatch.setenv(name, value)
    return str(request.param)


class Graph:
    """A chain with something at every point to feed and to fetch."""

    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, None, name="x")
            self.w = tf1.placeholder(tf.float32, None, name="w")
            self.a = tf.tanh(self.x, name="a")
            self.b = tf.multiply(self.a, self.w, name="b")
            self.c = tf.add(self.b, 1.0, name="c")
            self.total = tf.reduce_sum(self.c, name="total")
            self.parts = tf1.placeholder(tf.float32, [4, 6], name="p")
            self.split = tf.split(self.parts, 2, axis=1, name="split")
            self.top = tf.nn.top_k(self.parts, 2, name="top")
            self.nothing = tf.no_op(name="nothing")

    def expected(self, x: np.ndarray, w: Any) -> np.ndarray:
        return np.tanh(x) * np.float32(w) + 1


@pytest.fixture(scope="module")
def world() -> Graph:
    return Graph()


X = np.linspace(-2, 2, 12, dtype="f4").reshape(3, 4)


def test_the_order_of_names_does_not_matter(world: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    # else the first run's tanh is NumPy's, and later ones may not be
    monkeypatch.setenv("TFJIT_JIT", "eager")
    with tfjit.Session(graph=world.graph) as session:
        backend = session._runtime_session
        first = session.run([world.a, world.c, world.total], {world.x: X, world.w: 2.0})
        assert (backend.plan_cache.misses, backend.plan_cache.hits) == (1, 0)
        for fetches, order in (
            ([world.c, world.a, world.total], (1, 0, 2)),
            ([world.total, world.c, world.a], (2, 1, 0)),
        ):
            for feeds in ({world.x: X, world.w: 2.0}, {world.w: 2.0, world.x: X}):
                got = session.run(fetches, feeds)
                for value, i in zip(got, order, strict=True):
                    np.testing.assert_array_equal(value, first[i])
        assert backend.plan_cache.misses == 1
        assert backend.plan_cache.hits >= 3
        session.run([world.a, world.c], {world.x: X, world.w: 2.0})
        assert backend.plan_cache.misses == 2
        session.run([world.a, world.c, world.nothing], {world.x: X, world.w: 2.0})
        assert backend.plan_cache.misses == 3
        hits = backend.plan_cache.hits
        for _ in range(5):
            session.run(world.c, {world.x: X, world.w: 2.0}, tfjit.RunOptions())
        assert backend.plan_cache.misses == 4
        assert backend.plan_cache.hits == hits + 4


def test_eviction_loses_neither_variables_nor_streams_nor_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_cache, "MAX_PLANS", 3)
    monkeypatch.setattr(plan.Plan, "max_variants", 2)
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=np.zeros(2, "f4"), use_resource=True)
        w = tf1.get_variable("w", initializer=np.zeros(2, "f4"), use_resource=False)
        noise = tf1.random_uniform([2], seed=7, name="noise")
        queue = tf1.FIFOQueue(10, [tf.float32], shapes=[[]])
        put, size = queue.enqueue(1.0), queue.size()
        bump = [v.assign_add([1.0, 1.0]).op, tf1.assign_add(w, [2.0, 2.0]).op]
        init = tf1.global_variables_initializer()
        x = tf1.placeholder(tf.float32, [None])
        others = [tf.add(x, float(i)) for i in range(6)]
        reads = [v.read_value(), w.read_value()]

    def course(session: Any) -> list[Any]:
        session.run(init)
        seen = []
        for i in range(4):
            session.run(bump)
            session.run(put)
            seen.append(session.run(noise))
            for j, other in enumerate(others):
                seen.append(session.run(other, {x: np.arange(i + j + 1)}))
            seen += session.run(reads)
            seen.append(session.run(size))
        return seen

    with tf1.Session(graph=graph) as session:
        expected = course(session)
    with tfjit.Session(graph=graph) as session:
        for a, b in zip(course(session), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        assert len(session._runtime_session.plan_cache.plans()) == 3
        assert session._runtime_session.plan_cache.misses >= 12
        assert all(len(p.variants) <= 2 for p in session._runtime_session.plan_cache.plans())


def test_the_middle_of_the_graph_can_be_fed(mode: str, world: Graph) -> None:
    with tfjit.Session(graph=world.graph) as session, tf1.Session(graph=world.graph) as theirs:
        parts = np.arange(24, dtype="f4").reshape(4, 6)
        for fetches, feeds in (
            (world.c, {world.a: X, world.w: 3.0}),
            (world.c, {world.b: X}),
            (world.total, {world.c: X}),
            ([world.a, world.c], {world.x: X, world.b: X + 1}),
            (world.split, {world.split[1]: X.T, world.parts: parts}),
            (list(world.split), {world.split[0]: X.T, world.split[1]: X.T}),
            (list(world.top), {world.top[0]: X.T[:, :2], world.parts: parts}),
            # x is fed and not needed
            ([world.c, world.total], {world.x: X, world.w: 1.0, world.a: X}),
            (world.c, {world.b: X, world.x: X, world.w: X, world.parts: parts}),
            ([world.b, world.c], {world.b: X}),
            ([world.nothing], {world.x: X}),
            ([], {world.x: X}),
        ):
            for _ in range(2):
                ours, expected = session.run(fetches, feeds), theirs.run(fetches, feeds)
                for p, q in zip(tf.nest.flatten(ours), tf.nest.flatten(expected), strict=True):
                    if q is not None:
                        np.testing.assert_allclose(p, q, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 0, 2), (2, 3, 4)])
def test_one_plan_serves_every_shape(mode: str, world: Graph, shape: tuple[int, ...]) -> None:
    with tfjit.Session(graph=world.graph) as session:
        x = np.random.default_rng(1).standard_normal(shape).astype("f4")
        for _ in range(2):
            c, total = session.run([world.c, world.total], {world.x: x, world.w: 2.0})
            np.testing.assert_allclose(c, world.expected(x, 2), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(total, world.expected(x, 2).sum(), rtol=1e-5, atol=1e-6)
            assert np.shape(c) == shape
            assert isinstance(total, np.float32)


# threads


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work(i)` in `count` threads at once; the first error is raised."""
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(i: int) -> None:
        try:
            barrier.wait()
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_share_a_plan(
    mode: str, world: Graph, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Different feeds and shapes at once, from before the first compiled kernel to
    after the last.
    """
    monkeypatch.setenv("TFJIT_THREADS", threads)
    with tfjit.Session(graph=world.graph) as session:
        function = session.make_callable(world.c, [world.x, world.w])

        def work(i: int) -> None:
            rng = np.random.default_rng(i)
            for step in range(30):
                x = rng.standard_normal((1 + (step + i) % 5, 3 + i % 2)).astype("f4")
                got = (
                    session.run(world.c, {world.x: x, world.w: i})
                    if step % 3
                    else function(x, i)
                    if step % 2
                    else session.run([world.c, world.total], {world.w: i, world.x: x})[0]
                )
                np.testing.assert_allclose(got, world.expected(x, i), rtol=1e-5, atol=1e-6)

        in_threads(8, work)


def test_threads_share_a_session_while_compiled_code_swaps_in(
    world: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    for round in range(3):
        graph = tf1.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None, 8])
            h = x
            for i in range(12):
                h = tf.nn.relu(
                    tf.matmul(h, tf.constant(np.eye(8, dtype="f4") * (1 + 0.01 * i)))
                    + 0.125 * round
                )
        with tfjit.Session(graph=graph) as session, tf1.Session(graph=graph) as theirs:
            inputs = [
                np.random.default_rng(i).standard_normal((1 + i, 8)).astype("f4") for i in range(8)
            ]
            expected = [theirs.run(h, {x: value}) for value in inputs]

            def work(
                i: int,
                session: Any = session,
                h: Any = h,
                x: Any = x,
                inputs: Any = inputs,
                expected: Any = expected,
            ) -> None:
                for step in range(40):
                    j = (i + step) % 8
                    np.testing.assert_allclose(
                        session.run(h, {x: inputs[j]}), expected[j], rtol=1e-4, atol=1e-5
                    )

            in_threads(8, work)


def test_the_graph_grows_while_threads_run(world: Graph) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], name="x")
        first = tf.add(x, 1.0)
    lock = threading.Lock()
    with tfjit.Session(graph=graph) as session:

        def work(i: int) -> None:
            for step in range(10):
                with lock, graph.as_default():
                    y = tf.add(x, float(100 * i + step))
                value = session.run([y, first], {x: [1, 2]})
                np.testing.assert_array_equal(value[0], [1 + 100 * i + step, 2 + 100 * i + step])
                np.testing.assert_array_equal(value[1], [2, 3])

        in_threads(6, work)


def test_a_scope_may_be_sent_before_the_operation_of_its_name() -> None:
    """TensorFlow names the constant of `add` "Add/y" and makes it first: another thread may send it
    alone.
    """
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], name="x")
        tf.add(x, 1.0, name="Add")
    whole = graph.as_graph_def()
    session = new_session(SessionOptions())
    for names in (("x", "Add/y"), ("Add",)):
        part = type(whole)(
            versions=whole.versions, node=[node for node in whole.node if node.name in names]
        )
        session.extend(GraphDef.FromString(part.SerializeToString()))
    np.testing.assert_array_equal(
        session.run([("x:0", np.ones(2, "f4"))], ["Add:0"], [])[0], [2, 2]
    )
    session.close()
    session.destroy()


def test_threads_update_one_variable(mode: str) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.get_variable("v", initializer=np.zeros(100, "f4"), use_resource=True)
        w = tf1.get_variable("w", initializer=np.zeros(100, "f4"), use_resource=False)
        one = tf1.placeholder(tf.float32, [100])
        bump = [v.assign_add(one).op, tf1.assign_add(w, one, use_locking=True).op]
        init = tf1.global_variables_initializer()
        reads = [v.read_value(), w.read_value()]
    with tfjit.Session(graph=graph) as session:
        session.run(init)
        in_threads(
            8, lambda i: [session.run(bump, {one: np.ones(100)}) for _ in range(25)] and None
        )
        for value in session.run(reads):
            np.testing.assert_array_equal(value, np.full(100, 200))


# who owns an array

# name -> what to fetch of a fed x [4, 6], a constant k and variables r (resource) and f (reference)
SHARING: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "identity": lambda x, k, r, f: [tf.identity(x), tf.identity(k), tf.identity(r), tf.identity(f)],
    "reshape": lambda x, k, r, f: [tf.reshape(t, [6, 4]) for t in (x, k, r, f)],
    "flat": lambda x, k, r, f: [tf.reshape(t, [-1]) for t in (x, k, r, f)],
    "expand": lambda x, k, r, f: [tf.squeeze(tf.expand_dims(t, 0), 0) for t in (x, k, r, f)],
    "transpose": lambda x, k, r, f: [tf.transpose(t) for t in (x, k, r, f)],
    "transpose of nothing": lambda x, k, r, f: [tf.transpose(t, [0, 1]) for t in (x, k, r, f)],
    "slice": lambda x, k, r, f: [t[1:3, :] for t in (x, k, r, f)],
    "whole slice": lambda x, k, r, f: [t[:, :] for t in (x, k, r, f)],
    "split": lambda x, k, r, f: [p for t in (x, k, r, f) for p in tf.split(t, 2, axis=0)],
    "unstack": lambda x, k, r, f: [p for t in (x, k, r, f) for p in tf.unstack(t)[:2]],
    "concat of one": lambda x, k, r, f: [tf1.concat([t, t[:0]], 0) for t in (x, k, r, f)],
    "cast to itself": lambda x, k, r, f: [
        tf.raw_ops.Cast(x=t, DstT=tf.float32) for t in (x, k, r.read_value(), f.value())
    ],
    "pad nothing": lambda x, k, r, f: [tf.pad(t, [[0, 0], [0, 0]]) for t in (x, k, r, f)],
    "tile once": lambda x, k, r, f: [tf.tile(t, [1, 1]) for t in (x, k, r, f)],
    "broadcast to itself": lambda x, k, r, f: [tf.broadcast_to(t, [4, 6]) for t in (x, k, r, f)],
    "stop gradient": lambda x, k, r, f: [tf.stop_gradient(t) for t in (x, k, r, f)],
    "check numerics": lambda x, k, r, f: [
        tf.debugging.check_numerics(t, "m") for t in (x, k, r, f)
    ],
    "sum of one": lambda x, k, r, f: [tf.add_n([t]) for t in (x, k, r, f)],
    "sum over nothing": lambda x, k, r, f: [tf.reduce_sum(t, axis=[]) for t in (x, k, r, f)],
    "reverse nothing": lambda x, k, r, f: [tf.reverse(t, []) for t in (x, k, r, f)],
    "select": lambda x, k, r, f: [tf.where(tf.constant(True), t, t) for t in (x, k, r, f)],
    "plus nothing": lambda x, k, r, f: [tf.identity(t) + 0.0 for t in (x, k, r, f)],
    "both": lambda x, k, r, f: [
        tf.identity(x),
        tf.reshape(x, [6, 4]),
        tf.identity(r),
        tf.reshape(r, [6, 4]),
    ],
    "gather all": lambda x, k, r, f: [tf.gather(t, [0, 1, 2, 3]) for t in (x, k, r, f)],
    "variables": lambda x, k, r, f: [f, r.read_value(), f.value()],
    "print": lambda x, k, r, f: [tf1.Print(t, [], summarize=0) for t in (x, k, r, f)],
    "scalar": lambda x, k, r, f: [tf.reshape(t[1, 1], []) for t in (x, k, r, f)],
}


@pytest.mark.parametrize("name", SHARING)
def test_fetched_arrays_are_the_callers_own(mode: str, name: str) -> None:
    """Writing into a result changes neither feed, constant nor variable, nor another result; later
    runs do not change it.
    """
    graph = tf1.Graph()
    base = np.arange(24, dtype="f4").reshape(4, 6)
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [4, 6])
        k = tf.constant(base + 100)
        r = tf1.get_variable("r", initializer=base + 200, use_resource=True)
        f = tf1.get_variable("f", initializer=base + 300, use_resource=False)
        fetches = SHARING[name](x, k, r, f)
        init = tf1.global_variables_initializer()
        bump = [r.assign_add(tf.ones([4, 6])).op, tf1.assign_add(f, tf.ones([4, 6])).op]
    with tfjit.Session(graph=graph) as session:
        session.run(init)
        fed = base.copy()
        for _ in range(3):
            expected = [np.array(value) for value in session.run(fetches, {x: base.copy()})]
            results = session.run(fetches, {x: fed})
            for got, want in zip(results, expected, strict=True):
                np.testing.assert_array_equal(got, want)
            for i, got in enumerate(results):
                if isinstance(got, np.ndarray):
                    assert got.flags.writeable
                    got[...] = -1 - i
            for i, got in enumerate(results):
                if isinstance(got, np.ndarray):
                    np.testing.assert_array_equal(got, np.full(got.shape, -1 - i))
            np.testing.assert_array_equal(fed, base)
            for got, want in zip(session.run(fetches, {x: base}), expected, strict=True):
                np.testing.assert_array_equal(got, want)
            kept = session.run(fetches, {x: fed})
            session.run(bump)
            session.run(fetches, {x: base + 1000})
            fed += 0  # the caller's own writes do not show through either
            fed[...] = base + 5
            for got, want in zip(kept, expected, strict=True):
                np.testing.assert_array_equal(got, want)
            fed[...] = base


def test_read_only_and_unusual_feeds(mode: str, world: Graph) -> None:
    frozen = X.copy()
    frozen.setflags(write=False)
    big = np.zeros((5, 9), "f4")
    for fed in (
        frozen,
        np.asfortranarray(X),
        np.repeat(X, 2, 1)[:, ::2],
        X[::-1][::-1],
        X.astype("f8"),
        X.astype(">f4"),
        X.tolist(),
    ):
        with tfjit.Session(graph=world.graph) as session:
            np.testing.assert_allclose(
                session.run(world.c, {world.x: fed, world.w: 2}),
                world.expected(X, 2),
                rtol=1e-5,
                atol=1e-6,
            )
    unaligned = np.frombuffer(b"\0" + X.tobytes(), "u1")[1:].view("f4").reshape(X.shape)
    assert not unaligned.flags.aligned
    with tfjit.Session(graph=world.graph) as session:
        np.testing.assert_allclose(
            session.run(world.c, {world.x: unaligned, world.w: 2}),
            world.expected(X, 2),
            rtol=1e-5,
            atol=1e-6,
        )
        big[1:4, 2:6] = X
        np.testing.assert_allclose(
            session.run(world.c, {world.x: big[1:4, 2:6], world.w: 2}),
            world.expected(X, 2),
            rtol=1e-5,
            atol=1e-6,
        )


def test_big_results_are_recycled_only_when_every_view_has_died(mode: str, world: Graph) -> None:
    big = np.linspace(-1, 1, 1 << 18, dtype="f4")
    with tfjit.Session(graph=world.graph) as session:
        session.run(world.c, {world.x: big, world.w: 1})
        if mode != "dataflow":
            session.explain(world.c, {world.x: big.shape, world.w: ()})
        kept = session.run(world.c, {world.x: big, world.w: 1})
        view = session.run(world.c, {world.x: big, world.w: 2})[5:10]
        bytes_of = memoryview(session.run(world.c, {world.x: big, world.w: 3}))
        reshaped = session.run(world.c, {world.x: big, world.w: 4}).reshape(512, 512)
        gc.collect()
        for w in range(5, 15):
            session.run(world.c, {world.x: big, world.w: w})
        np.testing.assert_allclose(kept, world.expected(big, 1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(view, world.expected(big, 2)[5:10], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            np.frombuffer(bytes_of, "f4"), world.expected(big, 3), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(reshaped.ravel(), world.expected(big, 4), rtol=1e-5, atol=1e-6)
    # results outlive their session
    np.testing.assert_allclose(kept, world.expected(big, 1), rtol=1e-5, atol=1e-6)


def test_a_result_may_be_fed_back(mode: str, world: Graph) -> None:
    big = np.linspace(-1, 1, 1 << 17, dtype="f4")
    with tfjit.Session(graph=world.graph) as session:
        expected, state = big, big
        for _ in range(6):
            expected = world.expected(expected, 0.5)
            state = session.run(world.c, {world.x: state, world.w: 0.5})
            np.testing.assert_allclose(state, expected, rtol=1e-5, atol=1e-6)
