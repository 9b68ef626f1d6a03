"""Loops whose rows the threads divide: which they are, that they give what the whole gives bit for
bit, how they end early.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tests.waiting import wait_until
from tfjit.framework import errors
from tfjit.protos import config_pb2
from tfjit.runtime.schedule import loop_parallelization
from tfjit.runtime.session.step_environments import StepEnvironments

tf1 = tf.compat.v1
RNG = np.random.default_rng(5)
X = RNG.standard_normal((32, 4)).astype("f4")
W = RNG.standard_normal((4, 4)).astype("f4") * 0.5
SERIES = RNG.standard_normal((33, 5, 4)).astype("f4")


@pytest.fixture(autouse=True)
def _however_little(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loops stay loops; they are divided whatever it gains, on any machine."""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_DISABLE", "compile_loops")
    monkeypatch.setattr(loop_parallelization, "_LEAST_NS", 0.0)
    monkeypatch.setattr(loop_parallelization, "_MAX_TIME_LEFT", 1e9)
    threads = property(lambda self: self.threads if self._splits else 1)
    monkeypatch.setattr(StepEnvironments, "split_threads", threads)
    before = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    yield
    if not before:
        tf1.disable_control_flow_v2()


def repeat(n: int, body: Callable[..., Any], *values: Any) -> list[Any]:
    """`body` n times over a counter and values."""
    return list(
        tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *body(i, *v)), [0, *values])
    )


def session(graph: Any, threads: int) -> tfjit.Session:
    return tfjit.Session(
        graph=graph, config=config_pb2.ConfigProto(intra_op_parallelism_threads=threads)
    )


def divisions(ours: tfjit.Session) -> list[tuple[int, tuple[str, ...]]]:
    steps = [
        v.step for plan in ours._runtime_session.plan_cache.plans() for v in plan.variants.values()
    ]
    return [division for step in steps if step is not None for division in step.divisions]


def check(
    build: Callable[..., Sequence[Any]],
    *feeds: np.ndarray,
    threads: int = 2,
    parts: int | None = 2,
    exact: bool = True,
) -> list[tuple[str, ...]]:
    """Run a graph in TensorFlow, in tfjit on one thread and on several. Returns nodes divided.

    parts: of its division, 0 for none, None for any number of divisions. exact: the same bits on
    any number of threads. Products of a few rows are summed up in another order than those of many.
    """
    with tf.Graph().as_default() as graph:
        placeholders = [tf1.placeholder(a.dtype, a.shape) for a in feeds]
        fetches = [t.name for t in build(*placeholders)]
    named = dict(zip([p.name for p in placeholders], feeds, strict=True))
    with (
        tf1.Session(graph=graph) as theirs,
        session(graph, 1) as whole,
        session(graph, threads) as ours,
    ):
        expected, alone = theirs.run(fetches, named), whole.run(fetches, named)
        for _ in range(3):
            found = ours.run(fetches, named)
            for a, b, c in zip(found, alone, expected, strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype
                np.testing.assert_allclose(a, b, 0 if exact else 1e-4, 0 if exact else 1e-5)
                np.testing.assert_allclose(a, c, 1e-4, 1e-5)
        divided = divisions(ours)
        assert not divisions(whole)
    assert parts is None or [count for count, _ in divided] == ([parts] if parts else [])
    return [nodes for _, nodes in divided]


def recurrent(x: Any, time_major: bool = False) -> list[Any]:
    """A recurrent network over x [batch, steps, units], all its states, the last one and the number
    of steps.
    """
    x = tf.transpose(x, [1, 0, 2])
    steps, batch = x.shape[:2]
    rows, states = tf1.TensorArray(tf.float32, steps).unstack(x), tf1.TensorArray(tf.float32, steps)

    def body(t: Any, h: Any, states: Any) -> Any:
        h = tf.tanh(
            tf.nn.bias_add(
                tf.matmul(tf.concat([rows.read(t), h], 1), np.concatenate([W, W])),
                [0.1, 0.2, 0.3, 0.4],
            )
        )
        return t + 1, h, states.write(t, h)

    t, h, states = tf.while_loop(lambda t, *_: t < steps, body, [0, tf.zeros([batch, 4]), states])
    stacked = states.stack()
    return [stacked if time_major else tf.transpose(stacked, [1, 0, 2]), h, t]


DIVIDED: dict[str, Callable[[Any], list[Any]]] = {
    "products": lambda x: repeat(5, lambda i, y: (tf.tanh(y @ W) + x,), x),
    "columns as rows": lambda x: repeat(5, lambda i, y: (tf.matmul(W, y),), tf.transpose(x)),
    "a start of constants": lambda x: repeat(3, lambda i, y: (y @ W + x,), tf.ones([32, 4])),
    "two of them": lambda x: repeat(4, lambda i, a, b: (tf.tanh(b @ W), a + b), x, x * 2.0),
    "swap": lambda x: repeat(5, lambda i, a, b: (b, tf.sin(a)), x, x * 2.0),
    "reduced along the row": lambda x: repeat(
        4, lambda i, y: (y / (1.0 + tf.reduce_sum(y * y, 1, keepdims=True)),), x
    ),
    "softmax": lambda x: repeat(4, lambda i, y: (tf.nn.softmax(y @ W),), x),
    "split and joined": lambda x: repeat(
        4, lambda i, y: (tf.concat(tf.split(y, 2, 1)[::-1], 1) @ W,), x
    ),
    "slices": lambda x: repeat(
        4, lambda i, y: (tf.concat([y[:, 1:], tf.slice(y, [0, 0], [32, 1])], 1) * 0.9,), x
    ),
    "reshaped": lambda x: repeat(
        3, lambda i, y: (tf.reshape(tf.reshape(y, [64, 2]) * 2.0, [32, 4]) @ W,), x
    ),
    "a branch in the loop": lambda x: repeat(
        5, lambda i, y: (tf.cond(tf.equal(i % 2, 0), lambda: y @ W, lambda: y * 0.5),), x
    ),
    "a loop in the loop": lambda x: repeat(
        3,
        lambda i, y: (
            tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z @ W), [0, y])[1] + 1.0,
        ),
        x,
    ),
    "what all rows share": lambda x: repeat(4, lambda i, w, y: (w * 0.5, y @ w), tf.constant(W), x),
    "before and behind": lambda x: (lambda s: [tf.nn.relu(repeat(3, lambda i, y: (y @ W,), s)[1])])(
        tf.exp(x) + 1.0
    ),
    "doubles": lambda x: repeat(3, lambda i, y: (y @ W.astype("f8"),), tf.cast(x, tf.float64)),
    "no iteration": lambda x: repeat(0, lambda i, y: (y @ W,), x),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_rows_are_divided(name: str) -> None:
    check(DIVIDED[name], X, exact=name != "columns as rows")


@pytest.mark.parametrize("rows", [2, 3, 5, 6])
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_sizes(rows: int, threads: int) -> None:
    """Parts of unlike sizes, and fewer rows than threads."""
    check(
        lambda x: repeat(4, lambda i, y: (tf.tanh(y * 0.5 + x),), x),
        X[:rows],
        threads=threads,
        parts=min(rows, threads),
    )


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("batch", [2, 5, 33])
def test_a_recurrent_network(batch: int, time_major: bool) -> None:
    """Time-major arrays hold a part's rows in pieces: they are its own inside, what is fetched is
    put together.
    """
    (nodes,) = check(lambda x: recurrent(x, time_major), SERIES[:batch], exact=batch > 20)
    assert any("transpose" in name for name in nodes)


MIXED: dict[str, Callable[[Any], list[Any]]] = {
    "a sum over rows": lambda x: repeat(4, lambda i, y: (y @ W + tf.reduce_sum(y, 0),), x),
    "a mean of all": lambda x: repeat(4, lambda i, y: (y - tf.reduce_mean(y),), x),
    "rows decide how long": lambda x: [
        tf.while_loop(lambda y: tf.reduce_max(y) < 50.0, lambda y: [tf.abs(y) * 2.0 + 1.0], [x])[0]
    ],
    "rows decide for a branch": lambda x: repeat(
        4, lambda i, y: (tf.cond(tf.reduce_sum(y) > 0.0, lambda: y @ W, lambda: y * 0.5),), x
    ),
    "other rows": lambda x: repeat(4, lambda i, y: (y[::-1] @ W + y[:1],), x),
    "rows in another order": lambda x: repeat(
        4, lambda i, y: (tf.gather(y, np.arange(32)[::-1]) @ W + tf.transpose(y)[0, 0],), x
    ),
    "products of rows": lambda x: repeat(
        4, lambda i, y: (tf.matmul(y, y, transpose_b=True) @ y * 0.01 + tf.reduce_sum(y),), x
    ),
    "softmax over rows": lambda x: repeat(4, lambda i, y: (tf.nn.softmax(y, 0) @ W,), x),
}


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_need_each_other_stay_together(name: str) -> None:
    check(MIXED[name], X, parts=0)


def test_one_row_and_none() -> None:
    def build(x: Any) -> list[Any]:
        return repeat(4, lambda i, y: (y[:, :1] * 2.0,), x)

    check(
        lambda x: repeat(4, lambda i, y: (tf.reshape(tf.reduce_sum(y), [1, 1]) + x,), x),
        X[:1, :1],
        parts=0,
    )
    check(lambda x: repeat(4, lambda i, y: (y @ W[:1, :1],), x), X[:0, :1], parts=0)
    check(build, X[:3, :1], parts=2)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", "compile_loops,split_rows")
    check(DIVIDED["products"], X, parts=0)


def test_what_gains_nothing_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_DISABLE", "compile_loops")
    check(DIVIDED["products"], X, parts=0)


def test_what_may_fail_for_one_row_stays_whole() -> None:
    """An integer division names the node and fails once, whichever row has the zero."""

    def build(x: Any) -> list[Any]:
        return repeat(3, lambda i, y: (tf.math.floordiv(y, x) + 1,), x)

    check(build, np.arange(1, 13, dtype="i4").reshape(6, 2), parts=0)


def test_an_error_in_all_parts_is_one_error() -> None:
    """The index of a row that all parts read is out of bounds: as in one piece, and the session
    goes on.
    """
    with tf.Graph().as_default() as graph:
        x, n = tf1.placeholder(tf.float32, SERIES.shape), tf1.placeholder(tf.int32, [])
        rows = tf1.TensorArray(tf.float32, 5, clear_after_read=False).unstack(
            tf.transpose(x, [1, 0, 2])
        )
        y = tf.while_loop(
            lambda i, _: i < n, lambda i, y: (i + 1, rows.read(i) @ W + y), [0, tf.zeros([33, 4])]
        )[1]
    texts = []
    with session(graph, 1) as whole, session(graph, 2) as ours:
        for each in (whole, ours):
            good = each.run(y, {x: SERIES, n: 5})
            with pytest.raises(errors.InvalidArgumentError) as caught:
                each.run(y, {x: SERIES, n: 9})
            texts.append(str(caught.value))
            np.testing.assert_array_equal(each.run(y, {x: SERIES, n: 5}), good)
        assert divisions(ours)
    assert texts[0] == texts[1]
    assert "5" in texts[0]


def endless() -> tuple[Any, Any, Any]:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, X.shape)
        y = tf.while_loop(lambda i, y: i < 1, lambda i, y: (i * 1, tf.tanh(y @ W)), [0, x])[1]
    return graph, x, y


def test_a_timeout_ends_all_parts() -> None:
    graph, x, y = endless()
    with session(graph, 2) as ours:
        for _ in range(2):
            with pytest.raises(errors.DeadlineExceededError):
                ours.run(y, {x: X}, options=config_pb2.RunOptions(timeout_in_ms=50))
        assert divisions(ours)


def test_closing_ends_all_parts() -> None:
    graph, x, y = endless()
    ours = session(graph, 2)
    found: list[BaseException] = []

    def run() -> None:
        try:
            ours.run(y, {x: X})
        except errors.OpError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: ours._runtime_session.steps.running)
    time.sleep(0.1)
    ours.close()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(found[0], errors.CancelledError)


def test_many_runs_at_once() -> None:
    """Each has argument blocks and tables of its own."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, SERIES.shape)
        y = recurrent(x)[0]
    with session(graph, 2) as ours, session(graph, 1) as whole:
        feeds = [SERIES * k for k in range(8)]
        expected = [whole.run(y, {x: feed}) for feed in feeds]
        ours.run(y, {x: SERIES})
        wrong: list[int] = []

        def run(k: int) -> None:
            for _ in range(30):
                if not np.array_equal(ours.run(y, {x: feeds[k]}), expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong
        assert divisions(ours)


def test_it_is_explained_and_measured() -> None:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, SERIES.shape, name="x")
        y = recurrent(x)[0]
    with session(graph, 2) as ours:
        found = ours.explain([y.name], {"x:0": SERIES.shape}, measure=True)
        assert "rows divided into 2 parts" in found.details()
        assert found.as_json()["divisions"][0]["parts"] == 2
        assert all(node.chunks == 2 for node in found.nodes if node.op in ("MatMul", "_Fused"))


class _Writer:
    """Random programs over three arrays [rows, 4], most of whose steps keep rows apart."""

    def __init__(self, seed: int, mixing: float) -> None:
        self.rng, self.mixing = random.Random(seed), mixing

    def expression(self, values: Sequence[Any], i: Any, x: Any) -> Any:
        a, b = self.rng.choice(values), self.rng.choice([*values, x])
        if self.rng.random() < self.mixing:
            return [a[::-1] * 0.5, a - tf.reduce_mean(b, 0), tf.roll(a, 1, 0), tf.nn.softmax(a, 0)][
                self.rng.randrange(4)
            ]
        kind = self.rng.randrange(10)
        if kind == 0:
            return tf.tanh(a @ W)
        if kind == 1:
            return tf.concat([a[:, 2:], b[:, :2]], 1)
        if kind == 2:
            return tf.transpose(
                tf.matmul(W, a, transpose_a=True, transpose_b=True)
            ) * 0.5 + tf.cast(i, tf.float32)
        if kind == 3:
            return tf.nn.softmax(a - b)
        if kind == 4:
            return tf.reshape(tf.reshape(a, [-1, 2, 2])[:, ::-1], a.shape)
        if kind == 5:
            return a / (1.0 + tf.reduce_sum(a * a, 1, keepdims=True))
        if kind == 6:
            return tf.stack(tf.unstack(a, axis=1)[::-1], 1)
        if kind == 7:
            return tf.where(tf.reduce_max(a, 1, keepdims=True) > b, a, b)
        return a * 0.5 + b * 0.25

    def block(self, values: Sequence[Any], i: Any, x: Any, depth: int) -> list[Any]:
        """New values, of the same shapes."""
        kind, state = self.rng.randrange(4) if depth else 3, self.rng.getrandbits(30)

        def inner(number: int) -> _Writer:
            return _Writer(state + number, self.mixing)

        if kind == 0:
            return repeat(
                self.rng.randrange(4),
                lambda j, *v: tuple(inner(0).block(v, i + j, x, depth - 1)),
                *values,
            )[1:]
        if kind == 1:
            return list(
                tf.cond(
                    i > 1,
                    lambda: inner(0).block(values, i, x, depth - 1),
                    lambda: inner(1).block(values, i, x, depth - 1),
                )
            )
        if kind == 2:
            return self.block(self.block(values, i, x, depth - 1), i, x, depth - 1)
        made = [self.expression(values, i, x) for _ in range(3)]
        self.rng.shuffle(made)
        return made


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.integers(0, 2**30), st.integers(2, 5), st.sampled_from([2, 3]), st.sampled_from([0.0, 0.05])
)
def test_random_programs(seed: int, rows: int, threads: int, mixing: float) -> None:
    def build(x: Any) -> list[Any]:
        writer = _Writer(seed, mixing)
        values = [x, x * 0.5, tf.ones([rows, 4])]
        values = repeat(3, lambda i, *v: tuple(writer.block(v, i, x, 2)), *values)[1:]
        return [*writer.block(values, tf.constant(0), x, 1), values[2]]

    with pytest.MonkeyPatch.context() as patch:
        # the kernels of random groups would all be new
        patch.setenv("TFJIT_DISABLE", "compile_loops,fuse")
        check(build, X[:rows], threads=threads, parts=None, exact=False)
