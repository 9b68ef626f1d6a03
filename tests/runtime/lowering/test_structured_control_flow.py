"""Loops and branches inside a straight-line step: as jumps of the walker's table, and as `while`
and `if` of the step's function.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit
from tests.waiting import wait_until
from tfjit.framework import errors
from tfjit.protos import config_pb2
from tfjit.runtime.plan import first_run
from tfjit.runtime.plan import variant as plan_variant
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.step import step_osr
from tfjit.runtime.stored_plans import plan_warm_start

tf1 = tf.compat.v1

X = np.random.default_rng(0).standard_normal((3, 3)).astype("f4")


@pytest.fixture(autouse=True)
def _structured() -> Any:
    """Graphs of these tests hold While and If, which no executor of TensorFlow's is to take apart
    first.
    """
    before = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    yield
    if not before:
        tf1.disable_control_flow_v2()


@pytest.fixture(params=["off", "eager", "one by one"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How instructions are served. One by one: in groups of their own no kernel is compiled for."""
    monkeypatch.setenv("TFJIT_JIT", "off" if request.param == "off" else "eager")
    monkeypatch.setenv(
        "TFJIT_DISABLE",
        "compile_loops,functionalize" + (",fuse" if request.param == "one by one" else ""),
    )
    return str(request.param)


def variants(session: tfjit.Session) -> list[Variant]:
    return [
        variant
        for plan in session._runtime_session.plan_cache.plans()
        for variant in plan.variants.values()
    ]


def check(
    build: Callable[..., Sequence[Any]], *feeds: np.ndarray, native: bool | None = None
) -> list[Variant]:
    """Build a graph with TensorFlow, run it in both, compare. native: whether every loop and branch
    is to be jumps.
    """
    with tf.Graph().as_default() as graph:
        placeholders = [tf1.placeholder(a.dtype, a.shape) for a in feeds]
        fetches = [t.name for t in build(*placeholders)]
        has_variables = bool(tf1.global_variables())
        init = tf1.global_variables_initializer().name if has_variables else ""
    named = dict(zip([p.name for p in placeholders], feeds, strict=True))
    kept = [a.copy() for a in feeds]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        if has_variables:
            theirs.run(init)
            ours.run(init)
        for _ in range(3):
            expected, found = theirs.run(fetches, named), ours.run(fetches, named)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, 1e-4, 1e-5)
                assert np.asarray(a).dtype == np.asarray(b).dtype
        for a, b in zip(feeds, kept, strict=True):
            np.testing.assert_array_equal(a, b)
        made = [v for v in variants(ours) if v.plan.fetches]
        for variant in made:  # before the session closes, which lets go of their steps
            assert variant.lowered is not None, variant.dynamic_reason
            assert variant.step is not None
            if native is not None:
                markers = [i for i in variant.lowered.instructions if i.role is not None]
                assert markers
                assert all(variant.step._layout.is_native(i) for i in markers) == native
    return made


def repeat(n: int, body: Callable[..., Any], *values: Any) -> list[Any]:
    """`body` n times over a counter and values."""
    return list(
        tf.while_loop(lambda i, *_: i < n, lambda i, *v: (i + 1, *body(i, *v)), [0, *values])
    )


PROGRAMS: dict[str, Callable[[Any], list[Any]]] = {
    "products": lambda x: repeat(10, lambda i, y: (tf.matmul(y, x) * 0.3 + 1.0,), x),
    "no iteration": lambda x: repeat(0, lambda i, y: (y @ x,), x),
    "one iteration": lambda x: repeat(1, lambda i, y: (y @ x,), x * 2.0),
    "swap": lambda x: [*repeat(5, lambda i, a, b: (b, a), x, x * 2.0), x * 2.0],
    "rotate": lambda x: repeat(5, lambda i, a, b, c: (b @ x, c, a), x, x * 2.0, x * 3.0),
    "shift": lambda x: repeat(5, lambda i, a, b, c: (tf.tanh(a @ c), a, b), x, x * 2.0, x * 3.0),
    "the same twice": lambda x: repeat(4, lambda i, a, b: (a + b, a + b), x, x),
    "starts alike": lambda x: (lambda s: repeat(4, lambda i, a, b: (a @ b, b * 0.5), s, s))(x @ x),
    "fibonacci": lambda x: repeat(6, lambda i, a, b: (b, a + b), x, x * 2.0),
    "unchanged": lambda x: repeat(3, lambda i, a, b: (a @ b, b), x, x + 1.0),
    "reshaped": lambda x: repeat(
        3, lambda i, a: (tf.reshape(tf.reshape(a, [9])[::-1], [3, 3]) @ x,), x
    ),
    "transposed in place": lambda x: repeat(3, lambda i, a: (tf.transpose(a),), x),
    "swap of views": lambda x: repeat(
        3, lambda i, a, b: (tf.reshape(b, [3, 3]), tf.reshape(a, [9])), x, tf.reshape(x * 2.0, [9])
    ),
    "a start that goes on": lambda x: (lambda s: [*repeat(3, lambda i, a: (a @ x,), s), s])(x @ x),
    "constants": lambda x: repeat(3, lambda i, a: (tf.constant([[1.0, 2.0, 3.0]]),), x[:1]),
    "invariants": lambda x: repeat(4, lambda i, a: (a @ (x @ x) + tf.reduce_sum(x),), x),
    "cond in loop": lambda x: repeat(
        7, lambda i, y: (tf.cond(tf.equal(i % 2, 0), lambda: y @ x, lambda: y * 2.0),), x
    ),
    "loop in cond": lambda x: [
        tf.cond(tf.reduce_sum(x) > 99.0, lambda: x, lambda: repeat(3, lambda i, y: (y @ x,), x)[1])
    ],
    "loop in loop": lambda x: repeat(
        6,
        lambda i, y: (
            tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z @ x * 0.3), [0, y])[1] + 1.0,
        ),
        x,
    ),
    "case": lambda x: repeat(
        6, lambda i, y: (tf.switch_case(i - 1, [lambda: y @ x, lambda: y * 2.0, lambda: y - x]),), x
    ),
    "one case": lambda x: repeat(3, lambda i, y: (tf.switch_case(i, [lambda: y @ x]),), x),
    "float condition": lambda x: [
        tf.while_loop(lambda y: tf.reduce_max(y) < 50.0, lambda y: [y * 2.0 + 1.0], [x])[0]
    ],
    "sums": lambda x: repeat(
        4, lambda i, s: (s + tf.reduce_sum(tf.gather(x, i % 3)) + tf.cast(i, tf.float32),), 0.0
    ),
    "rows by index": lambda x: repeat(
        4, lambda i, y: (y + x[i % 3] * x[:, i % 3][1] - x[i % 3, 1 - i],), x[0]
    ),
    "slices": lambda x: repeat(4, lambda i, y: (tf.concat([y[1:], tf.gather(x, [i % 3])], 0),), x),
    "after and before": lambda x: (lambda s: [repeat(3, lambda i, y: (y @ s,), tf.tanh(s))[1] @ s])(
        x @ x
    ),
}


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, mode: str) -> None:
    check(PROGRAMS[name], X, native=mode != "off")


def test_random_numbers_go_on_in_a_loop(mode: str) -> None:
    check(lambda x: repeat(3, lambda i, y: (y + tf.random.uniform([3, 3], seed=4),), x), X)


@pytest.mark.usefixtures("mode")
def test_a_loop_with_a_kernel_of_python() -> None:
    """Only that kernel leaves the compiled stretches."""

    def build(x: Any) -> list[Any]:
        def body(i: Any, y: Any) -> Any:
            y = tf.cond(
                tf.reduce_sum(y) > 0.0,
                lambda: tf.linalg.diag(tf.linalg.diag_part(y)) @ x,
                lambda: y @ x + 1.0,
            )
            return (tf.tanh(y),)

        return repeat(4, body, x @ x)

    check(build, X, native=False)


@pytest.mark.usefixtures("mode")
def test_variables() -> None:
    def build(x: Any) -> list[Any]:
        v = tf1.get_variable("v", initializer=X, use_resource=True)
        w = tf1.get_variable("w", initializer=X * 2.0, use_resource=True)
        before = v.read_value()

        def body(i: Any, y: Any) -> Any:
            # iterations wait for each other by what they carry alone
            with tf.control_dependencies([y]):
                read = v.read_value() @ w
            with tf.control_dependencies([read]):
                assigned = v.assign(read * 0.3 + x)
            with tf.control_dependencies([assigned]):
                return (y + read + v.read_value(),)

        with tf.control_dependencies([before]):
            out = repeat(3, body, before @ x)
        with tf.control_dependencies(out):
            return [*out, before @ x, v.read_value()]

    check(build, X)


@pytest.mark.usefixtures("mode")
def test_a_variable_carried_round() -> None:
    """What was read goes on to the next iteration, in which the variable changes."""

    def build(x: Any) -> list[Any]:
        v = tf1.get_variable("v", initializer=X, use_resource=True)

        def body(i: Any, y: Any, last: Any) -> Any:
            with tf.control_dependencies([y, last]):
                read = v.read_value()
            with tf.control_dependencies([read]):
                assigned = v.assign(y @ x)
            with tf.control_dependencies([assigned]):
                return y * 0.5 + last, tf.identity(read)

        return repeat(4, body, x, x)

    check(build, X)


@pytest.mark.usefixtures("mode")
def test_additions_to_a_variable() -> None:
    def build(x: Any) -> list[Any]:
        v = tf1.get_variable("v", initializer=X, use_resource=True)

        def body(i: Any, y: Any) -> Any:
            with tf.control_dependencies([v.assign_add(y)]):
                return (y @ x,)

        out = repeat(3, body, x)
        with tf.control_dependencies(out):
            return [*out, v.read_value()]

    check(build, X)


def test_a_variable_without_a_value_in_a_branch_not_taken(mode: str) -> None:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [], name="x")
        v = tf1.get_variable("v", [3], initializer=tf1.ones_initializer(), use_resource=True)
        out = tf.cond(x > 0.0, lambda: v.read_value() * x, lambda: tf.zeros([3]) + x).name
        init = tf1.global_variables_initializer().name
    with tfjit.Session(graph=graph) as session:
        if mode == "off":
            np.testing.assert_array_equal(session.run(out, {"x:0": np.float32(-1)}), [-1, -1, -1])
        with pytest.raises(errors.FailedPreconditionError):
            session.run(out, {"x:0": np.float32(2)})
        session.run(init)
        np.testing.assert_array_equal(session.run(out, {"x:0": np.float32(2)}), [2, 2, 2])
        np.testing.assert_array_equal(session.run(out, {"x:0": np.float32(-1)}), [-1, -1, -1])


@pytest.mark.usefixtures("mode")
def test_a_slice_index_out_of_bounds() -> None:
    with tf.Graph().as_default() as graph:
        x, n = (
            tf1.placeholder(tf.float32, [3, 3], name="x"),
            tf1.placeholder(tf.int32, [], name="n"),
        )
        out = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y + x[:, i - 2]), [0, x[0]])[
            1
        ].name
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as session:
        feeds = {"x:0": X, "n:0": np.int32(5)}
        np.testing.assert_allclose(session.run(out, feeds), theirs.run(out, feeds), 1e-5)
        with pytest.raises(
            errors.InvalidArgumentError, match="slice index 3 of dimension 1 out of bounds"
        ):
            session.run(out, {"x:0": X, "n:0": np.int32(6)})
        np.testing.assert_allclose(session.run(out, feeds), theirs.run(out, feeds), 1e-5)


@pytest.mark.usefixtures("mode")
def test_an_error_inside_names_its_node() -> None:
    with tf.Graph().as_default() as graph:
        n = tf1.placeholder(tf.int32, [], name="n")
        x = tf.constant(X)
        body = lambda i, s: (i + 1, s + tf.gather(x, i, name="picked"))  # noqa: E731
        out = tf.while_loop(lambda i, s: i < n, body, [0, tf.zeros([3])])[1].name
    with tfjit.Session(graph=graph) as session, tf1.Session(graph=graph) as theirs:
        for count in (2, 5, 3):
            if count > 3:
                with pytest.raises(
                    errors.InvalidArgumentError,
                    match=r"indices = 3 is not in \[0, 3\)(.|\n)*picked",
                ):
                    session.run(out, {"n:0": np.int32(count)})
            else:
                np.testing.assert_allclose(
                    session.run(out, {"n:0": np.int32(count)}),
                    theirs.run(out, {"n:0": count}),
                    1e-6,
                )


def endless() -> tuple[Any, str]:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3, 3], name="x")
        out = tf.while_loop(lambda y: tf.reduce_sum(y) < 1e30, lambda y: [tf.tanh(y @ x)], [x])[
            0
        ].name
    return graph, out


@pytest.mark.usefixtures("mode")
def test_an_endless_loop_ends_at_its_timeout() -> None:
    graph, out = endless()
    with tfjit.Session(graph=graph) as session:
        for _ in range(2):
            with pytest.raises(errors.DeadlineExceededError):
                session.run(out, {"x:0": X}, options=config_pb2.RunOptions(timeout_in_ms=50))


@pytest.mark.usefixtures("mode")
def test_an_endless_loop_ends_with_its_session() -> None:
    graph, out = endless()
    session = tfjit.Session(graph=graph)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            session.run(out, {"x:0": X})
        except errors.OpError as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: variants(session))
    time.sleep(0.1)
    session.close()
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(failures[0], errors.CancelledError)


def test_many_threads_in_one_plan(mode: str) -> None:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3, 3], name="x")
        out = repeat(50, lambda i, y: (tf.tanh(y @ x + 0.1),), x)[1].name
    inputs = [X + k for k in range(6)]
    with tfjit.Session(graph=graph) as session:
        expected = [session.run(out, {"x:0": a}) for a in inputs]
        wrong: list[int] = []

        def work(k: int) -> None:
            for _ in range(40):
                if not np.array_equal(session.run(out, {"x:0": inputs[k]}), expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_switches_from_references_to_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    monkeypatch.setenv("TFJIT_DISABLE", "compile_loops,functionalize")
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [3, 3], name="x")
        out = repeat(5, lambda i, y: (tf.tanh(y @ x + 0.1),), x)[1].name
    with tfjit.Session(graph=graph) as session:
        first = session.run(out, {"x:0": X})
        variant = variants(session)[0]
        variant.upgrade()
        assert variant.compile_done.wait(300)
        assert variant.step is not None and variant.lowered is not None
        assert all(variant.step._layout.is_native(i) for i in variant.lowered.instructions)
        np.testing.assert_allclose(session.run(out, {"x:0": X}), first, 1e-5)


class _Writer:
    """Random programs over three matrices and a counter."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def expression(self, values: Sequence[Any], i: Any, x: Any) -> Any:
        a, b = self.rng.choice(values), self.rng.choice([*values, x])
        kind = self.rng.randrange(8)
        if kind == 0:
            return tf.tanh(a @ b)
        if kind == 1:
            return a
        if kind == 2:
            return tf.transpose(a) + tf.cast(i, tf.float32)
        if kind == 3:
            return tf.nn.softmax(a - b)
        if kind == 4:
            return tf.tanh(x @ x) * 0.5
        if kind == 5:
            return tf.reshape(tf.reshape(a, [-1])[::-1], [3, 3])
        return a * 0.5 + b * 0.25

    def block(self, values: Sequence[Any], i: Any, x: Any, depth: int) -> list[Any]:
        """New values, of the same shapes."""
        kind = self.rng.randrange(5) if depth else 4
        state = self.rng.getrandbits(30)
        if kind == 0:
            trips = self.rng.randrange(4)
            return list(
                repeat(
                    trips,
                    lambda j, *v: tuple(_Writer(state).block(v, i + j, x, depth - 1)),
                    *values,
                )[1:]
            )
        if kind == 1:
            limit = self.rng.uniform(-1, 1)
            branches = [
                lambda s=state + k: _Writer(s).block(values, i, x, depth - 1) for k in range(2)
            ]
            return list(tf.cond(tf.reduce_mean(values[0]) > limit, *branches))
        if kind == 2:
            branches = [
                lambda s=state + k: _Writer(s).block(values, i, x, depth - 1) for k in range(3)
            ]
            return list(tf.switch_case(i - 1, branches))
        if kind == 3:
            return self.block(self.block(values, i, x, depth - 1), i, x, depth - 1)
        made = list(values)
        for k in range(3):
            made[k] = self.expression(made if self.rng.random() < 0.5 else values, i, x)
        self.rng.shuffle(made)
        return made


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**30), st.sampled_from(["1", "2", "8"]), st.sampled_from(["off", "eager"]))
def test_random_programs(seed: int, threads: str, jit: str) -> None:
    def build(x: Any) -> list[Any]:
        writer = _Writer(seed)
        values = [x, x * 0.5, x @ x * 0.1]
        return [
            *writer.block(writer.block(values, tf.constant(1), x, 3), tf.constant(0), x, 2),
            values[2],
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_THREADS", threads)
        patch.setenv("TFJIT_JIT", jit)
        # the kernels of random groups would all be new
        patch.setenv("TFJIT_DISABLE", "compile_loops,functionalize,fuse")
        check(build, X)


def overtaken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Runs that gave way to the compiled step, from now on; they ask for it at once."""
    found: list[bool] = []

    class Noting(step_osr.TierUpWatch):
        def __call__(self) -> None:
            try:
                super().__call__()
            except step_osr.TierUp:
                found.append(True)
                raise

    monkeypatch.setattr(step_osr, "PATIENCE_S", 0.0)
    monkeypatch.setattr(plan_variant, "TierUpWatch", Noting)
    return found


def test_a_first_run_that_lasts_goes_on_in_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    gave_way = overtaken(monkeypatch)
    # else the first run is compiled where this has run before, or where its kernels are at hand
    monkeypatch.setattr(plan_warm_start, "read", lambda key: None)
    for decision in ("passes_pay", "builders_pay"):
        monkeypatch.setattr(first_run, decision, lambda *args: False)
    n = 2_000_000  # minutes by NumPy
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.int32, [5], name="x")
        y = tf.while_loop(
            lambda i, c: i < n,
            lambda i, c: (i + 1, tf.tensor_scatter_nd_add(c, [[x[i % 5]]], [1])),
            [0, tf.zeros([8], tf.int32)],
        )[1].name
    with tfjit.Session(graph=graph) as session:
        np.testing.assert_array_equal(
            session.run(y, {"x:0": [1, 1, 0, 7, 3]}),
            np.bincount([1, 1, 0, 7, 3], minlength=8) * (n // 5),
        )
    assert gave_way == [True]


def test_a_first_run_with_effects_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gave_way = overtaken(monkeypatch)
    with tf.Graph().as_default() as graph:
        v = tf1.get_variable("v", initializer=np.float32(0), use_resource=True)

        def body(i: Any, s: Any) -> Any:
            with tf1.control_dependencies([v.assign_add(1.0)]):
                return i + 1, s + tf.cast(i, tf.float32) * 0.0

        y = tf.while_loop(lambda i, s: i < 3000, body, [0, 0.0], parallel_iterations=1)[1].name
        init, read = tf1.global_variables_initializer(), v.read_value()
    with tfjit.Session(graph=graph) as session:
        session.run(init)
        session.run(y)
        assert session.run(read) == 3000
    assert gave_way == []
