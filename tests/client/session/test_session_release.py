"""Closing a session, or dropping the last reference to it, frees all there is at once, by reference
counts alone.
"""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.runtime.session import direct_session

tf1 = tf.compat.v1
WEIGHTS = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")


@pytest.fixture(autouse=True, scope="module")
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.freeze()  # what is there already need not be looked through
    gc.disable()
    yield
    gc.enable()


def held() -> Counter[str]:
    """The objects of the runtime and the passes that are alive, by class."""
    layers = (
        "tfjit.runtime.",
        "tfjit.passes.",
        "tfjit.client.session.base_session",
        "tfjit.client.session.session",
        "tfjit.client.session.callables",
    )
    kept = (
        "Kernel",
        "Setting",
        "Device",
        "DeviceInfo",
        "_Background",
        "ThreadPool",
        "DirectSessionFactory",
        "OpenSessions",
        "SessionOptions",
        "Formula",  # a cache of the process keeps a thousand
    )
    found = (type(o) for o in gc.get_objects())
    return Counter(
        t.__qualname__
        for t in found
        if str(t.__module__).startswith(layers) and not t.__qualname__.endswith(kept)
    )


class Model:
    """A tfjit graph, or the same in TensorFlow's graph."""

    def __init__(self, kind: str) -> None:
        self.graph: Any = tfjit.Graph() if kind == "tfjit" else tf1.Graph()
        lib: Any = tfjit if kind == "tfjit" else tf1
        with self.graph.as_default():
            self.x = lib.placeholder(lib.float32, [None, 64], name="x")
            self.w = lib.get_variable("w", initializer=lib.constant(WEIGHTS))
            hidden = lib.nn.relu(lib.matmul(self.x, self.w))
            self.y = lib.tanh(lib.matmul(hidden, lib.constant(WEIGHTS)) * 2.0)
            self.queue = lib.FIFOQueue(4, [lib.float32], shapes=[[]])
            self.put, self.take = self.queue.enqueue(1.0), self.queue.dequeue()
            self.n = lib.placeholder(lib.int32, [], name="n")
            self.fails = lib.floordiv(lib.constant(7), self.n)
            self.init = lib.global_variables_initializer()
            # loops in functions: one that a step lowers, one that grows, and a choice
            if kind == "tf":
                grows = [tf.TensorShape([None, 64]), tf.TensorShape([])]
                more = lambda a, i: (tf.concat([a, a @ WEIGHTS], 0), i + 1)  # noqa: E731
                self.grown = tf.function(
                    lambda x: tf.while_loop(
                        lambda a, i: i < 3, more, [x, 0], shape_invariants=grows
                    )[0]
                )(self.x)
                step = lambda a, i: (tf.tanh(a @ WEIGHTS), i + 1)  # noqa: E731
                looped = tf.function(lambda x: tf.while_loop(lambda a, i: i < 3, step, [x, 0])[0])(
                    self.x
                )
                self.chosen = tf.function(
                    lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x @ WEIGHTS, lambda: x)
                )(looped)


def _run(session: tfjit.Session, m: Model) -> None:
    for rows in (1, 3, 3, 3):
        session.run(m.y, {m.x: np.ones((rows, 64))})


def _compiled(session: tfjit.Session, m: Model) -> None:
    _run(session, m)
    for plan in session._runtime_session.plan_cache.plans():  # type: ignore[union-attr]
        for variant in list(plan.variants.values()):
            variant.upgrade()
            assert variant.compile_done.wait(300)
    _run(session, m)


def _queues(session: tfjit.Session, m: Model) -> None:
    session.run(m.put)
    session.run([m.take, m.y], {m.x: np.ones((2, 64))})
    session.run(m.put)


def _errors(session: tfjit.Session, m: Model) -> None:
    for _ in range(3):
        with pytest.raises(tfjit.errors.InvalidArgumentError):
            session.run(m.fails, {m.n: 0})
    with pytest.raises(tfjit.errors.DeadlineExceededError):
        session.run(m.take, options=tfjit.RunOptions(timeout_in_ms=30))


def _callables(session: tfjit.Session, m: Model) -> None:
    function = session.make_callable([m.y, m.w], [m.x])
    options = session._make_callable_from_options(
        tfjit.protos.CallableOptions(feed=[m.x.name], fetch=[m.y.name])
    )
    for _ in range(2):
        function(np.ones((2, 64), "f4"))
        options(np.ones((2, 64), "f4"))


def _partial_runs(session: tfjit.Session, m: Model) -> None:
    handle = session.partial_run_setup([m.y], [m.x])
    session.partial_run(handle, m.y, {m.x: np.ones((2, 64))})
    session.partial_run_setup([m.y], [m.x])


def _traced(session: tfjit.Session, m: Model) -> None:
    options = tfjit.RunOptions(trace_level=3, output_partition_graphs=True)
    session.run(m.y, {m.x: np.ones((2, 64))}, options, tfjit.RunMetadata())


def _explained(session: tfjit.Session, m: Model) -> None:
    session.explain(m.y, {m.x: (3, 64)})


def _functions(session: tfjit.Session, m: Model) -> None:
    for rows in (1, 3, 3):
        session.run([m.grown, m.chosen], {m.x: np.ones((rows, 64))})


USES: dict[str, Callable[[tfjit.Session, Model], None]] = {
    "nothing": lambda session, m: None,
    "first runs": _run,
    "compiled": _compiled,
    "queues": _queues,
    "errors": _errors,
    "callables": _callables,
    "partial runs": _partial_runs,
    "traced": _traced,
    "explained": _explained,
    "functions": _functions,
}


CASES = [
    *((use, "tfjit", "closed") for use in USES if use != "functions"),
    *((use, "tfjit", "dropped") for use in ("compiled", "queues", "errors", "partial runs")),
    *(
        (use, "tf", end)
        for use, end in (("compiled", "closed"), ("queues", "dropped"), ("functions", "closed"))
    ),
]


@pytest.mark.parametrize(("use", "kind", "end"), CASES)
def test_all_is_freed_at_once(use: str, kind: str, end: str) -> None:
    model = Model(kind)
    warm = tfjit.Session(graph=model.graph)
    warm.run(model.init)
    USES[use](warm, model)
    warm.close()
    del warm
    settle()
    before = held()
    session = tfjit.Session(graph=model.graph)
    session.run(model.init)
    USES[use](session, model)
    backend = weakref.ref(session._runtime_session)
    assert session._runtime_session is not None
    arrays = [
        weakref.ref(r.value)
        for manager in session._runtime_session.state.managers()
        for r in manager
        if hasattr(r, "value")
    ]
    assert arrays
    assert (held() - before)["DirectSession"] == 1
    settle()  # a plan's job in the background holds the plan until it ends
    if end == "closed":
        session.close()
        assert [a() for a in arrays] == [None] * len(arrays)
        left = held() - before
        # what is left is the shell, which says that it is closed
        assert not {
            "Step",
            "Layout",
            "Arena",
            "Queue",
            "Variable",
            "DataflowGraph",
            "Node",
            "Lowered",
        } & set(left), left
    del session
    assert [a() for a in arrays] == [None] * len(arrays)
    settle()
    assert backend() is None
    assert not held() - before, held() - before


def settle() -> None:
    """Wait for the jobs of the background thread, and for those that these submit."""
    from tfjit.runtime.plan.background import BACKGROUND

    for _ in range(4):
        done = threading.Event()
        BACKGROUND.submit(done.set, lambda: 1.0)
        assert done.wait(60)
        time.sleep(0.01)


def test_own_threads_end_with_the_session() -> None:
    model = Model("tfjit")
    config = tfjit.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=3)
    before = set(threading.enumerate())
    session = tfjit.Session(graph=model.graph, config=config)
    session.run(model.init)
    assert isinstance(session._runtime_session, direct_session.DirectSession)
    waits = threading.Barrier(4)
    for _ in range(3):
        session._runtime_session.pool().schedule(lambda: (waits.wait(), None)[1])
    waits.wait()
    session.partial_run_setup([model.y], [model.x])
    own = {
        t
        for t in set(threading.enumerate()) - before
        if t.name.startswith(("tfjit-inter-op", "tfjit-partial-run"))
    }
    assert len(own) == 4
    session.close()
    assert not own & set(threading.enumerate())


def test_a_python_function_may_close_its_session() -> None:
    graph = tf1.Graph()
    sessions = []

    def close(x: Any) -> Any:
        sessions[0].close()
        return x

    with graph.as_default():
        y = tf.numpy_function(close, [tf.constant(2.0)], tf.float32)
    sessions.append(tfjit.Session(graph=graph))
    with contextlib.suppress(tfjit.errors.CancelledError):
        assert sessions[0].run(y) == 2
    with pytest.raises(RuntimeError, match=r"Attempted to use a closed Session\."):
        sessions[0].run(y)
