"""Runs with nodes of unknown output sizes: compiled in stages, with the results of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tfjit
from tfjit.runtime.plan.background import BACKGROUND
from tfjit.runtime.plan.plan import Plan

tf1 = tensorflow.compat.v1
RNG = np.random.default_rng(3)
Build = Callable[[Any], tuple[list[Any], dict[str, Callable[[], np.ndarray]]]]
"""Makes a graph by either library; returns fetches, and functions that draw its feeds."""


def embeddings(tf: Any, optimizer: str = "GradientDescentOptimizer") -> Any:
    """Train two embeddings of the same words."""
    ids = tf.placeholder(tf.int32, [None, 3], name="ids")
    table = tf.get_variable("table", initializer=np.linspace(-1, 1, 80).reshape(20, 4).astype("f4"))
    bias = tf.get_variable("bias", initializer=np.linspace(0, 1, 20).astype("f4"))
    x = tf.nn.embedding_lookup(table, ids)
    y = tf.reduce_sum(x * tf.tanh(x), [1, 2]) + tf.reduce_sum(tf.nn.embedding_lookup(bias, ids), 1)
    loss = tf.reduce_mean(tf.square(y - 0.3))
    options = (0.1, 0.9) if optimizer == "MomentumOptimizer" else (0.1,)
    train = getattr(tf.train, optimizer)(*options).minimize(loss)
    return [loss, train], {"ids": lambda: RNG.integers(0, 20, [8, 3], "i4")}


def masked(tf: Any) -> Any:
    """Keep the large values, twice."""
    x = tf.placeholder(tf.float32, [None, 5], name="x")
    y = tf.tanh(x * 2.0 + 1.0) - tf.sigmoid(x)
    kept = tf.boolean_mask(y, tf.reduce_sum(y, 1) > 0.0)
    scaled = tf.exp(kept) * 2.0 - tf.reduce_mean(kept, 0)
    again = tf.boolean_mask(scaled, scaled[:, 0] > 1.0)
    z = tf.reduce_sum(tf.sqrt(tf.abs(again) + 1.0) * again + tf.square(again), 1)
    return [z, kept, tf.shape(again)], {"x": lambda: RNG.standard_normal([30, 5]).astype("f4")}


def sparse(tf: Any) -> Any:
    """Look up sums of embeddings."""
    ids = tf.placeholder(tf.int64, [None], name="ids")
    table = tf.get_variable("table", initializer=np.linspace(-1, 1, 80).reshape(20, 4).astype("f4"))
    rows = tf.range(tf.size(ids, out_type=tf.int64)) // 2
    shape = tf.stack([tf.size(ids, out_type=tf.int64), tf.constant(2, tf.int64)])
    indices = tf.stack([rows, tf.range(tf.size(ids, out_type=tf.int64)) % 2], 1)
    found = tf.nn.embedding_lookup_sparse(
        table, tf.SparseTensor(indices, ids, shape), None, combiner="mean"
    )
    return [tf.tanh(found * 2.0) + 1.0], {"ids": lambda: RNG.integers(0, 20, 12)}


def words(tf: Any) -> Any:
    """Count words; strings pass from stage to stage."""
    x = tf.placeholder(tf.string, [None], name="x")
    y = tf.placeholder(tf.float32, [None], name="y")
    weights = tf.exp(y * 2.0) / (1.0 + tf.exp(-y)) + tf.tanh(y)
    found, index, count = tf.unique_with_counts(x)
    total = tf.unsorted_segment_sum(weights, index, tf.size(found))
    means = total / tf.cast(count, tf.float32)
    return [found, means * 2.0 + 1.0, tf.reduce_sum(means)], {
        "x": lambda: np.array(list("abcabcddee"), object)[RNG.integers(0, 10, 10)],
        "y": lambda: RNG.standard_normal(10).astype("f4"),
    }


def run(tf: Any, build: Build, feeds: list[dict[str, np.ndarray]], after: Any = None) -> list[Any]:
    library = tf1 if build is sparse else tf  # tfjit's own API has no embedding_lookup_sparse
    with library.Graph().as_default() as graph:
        fetches, _ = build(library)
        init = library.global_variables_initializer()
        with tf.Session(graph=graph) as session:
            session.run(init)
            found = []
            for step, feed in enumerate(feeds):
                found.append(session.run(fetches, {f"{k}:0": v for k, v in feed.items()}))
                if after is not None:
                    after(session, step)
            return found


def drawn(build: Build, steps: int) -> list[dict[str, np.ndarray]]:
    with tf1.Graph().as_default():
        _, feeds = build(tf1)
    return [{name: draw() for name, draw in feeds.items()} for _ in range(steps)]


def plan_of(session: Any) -> Plan:
    """Return the plan with feeds: the others initialise variables."""
    (plan,) = (plan for plan in session._runtime_session.plan_cache.plans() if plan.feeds)
    return plan


def check(build: Build, steps: int = 8, after: Any = None, *, is_split: bool = True) -> None:
    feeds = drawn(build, steps)

    def wait(session: Any, step: int) -> None:
        if step % 3 == 0:
            assert session.wait_until_compiled(300)
        if step == 3:
            stages = plan_of(session).stages
            assert (stages is not None) == is_split
            assert stages is None or any(not stage.by_node for stage in stages.plans)
        if after is not None:
            after(session, step)

    ours, theirs = run(tfjit, build, feeds, wait), run(tf1, build, feeds)
    for mine, other in zip(ours, theirs, strict=True):
        for a, b in zip(mine, other, strict=True):
            if a is None:
                assert b is None
            elif np.asarray(b).dtype == object:
                np.testing.assert_array_equal(a, b)
            else:
                assert np.shape(a) == np.shape(b)
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("build", [masked, sparse, words])
def test_equal_tensorflow(build: Build) -> None:
    check(build)


@pytest.mark.parametrize(
    "optimizer", [f"{name}Optimizer" for name in ("Adam", "Adagrad", "RMSProp", "Momentum")]
)
def test_optimizers_of_embeddings_are_static(optimizer: str) -> None:
    def is_compiled(session: Any, step: int) -> None:
        if step == 3:
            (variant,) = plan_of(session).variants.values()
            assert variant.inline is not None

    check(lambda tf: embeddings(tf, optimizer), after=is_compiled, is_split=False)


def test_a_later_session_is_split_from_the_first_run() -> None:
    feeds = drawn(masked, 4)

    def learn(session: Any, step: int) -> None:
        assert session.wait_until_compiled(300)

    expected = run(tfjit, masked, feeds, learn)

    def is_split(session: Any, step: int) -> None:
        plan = plan_of(session)
        assert plan.stages is not None and not plan.variants

    for mine, other in zip(run(tfjit, masked, feeds, is_split), expected, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_later_session_with_other_feed_shapes_is_split_too() -> None:
    def drawn_for(sizes: Sequence[int]) -> list[dict[str, np.ndarray]]:
        return [{"x": RNG.standard_normal((n, 4)).astype("f4")} for n in sizes]

    run(tfjit, growing, drawn_for([5, 9]), lambda session, step: None)

    def is_split(session: Any, step: int) -> None:
        assert plan_of(session).stages is not None

    run(tfjit, growing, drawn_for([11, 3]), is_split)


def test_sizes_that_repeat_are_compiled() -> None:
    feeds = drawn(masked, 1) * 6

    def wait(session: Any, step: int) -> None:
        assert session.wait_until_compiled(300)
        if step == 5:
            stages = plan_of(session).stages
            assert stages is not None
            last = stages.plans[-1]
            assert last.by_node or any(v.lowered is not None for v in last.variants.values())

    run(tfjit, masked, feeds, wait)


def behind(tf: Any) -> Any:
    """Compute with the unique values only."""
    x = tf.placeholder(tf.int32, [None], name="x")
    y = tf.placeholder(tf.float32, [64, 4], name="y")
    table = tf.tanh(y * 0.5) + tf.sigmoid(y) - tf.exp(-tf.abs(y)) * tf.square(y) + 0.25
    rows = tf.gather(table, tf.unique(x)[0])
    scaled = rows / (1.0 + tf.abs(rows)) - tf.reduce_mean(rows, 0)
    z = tf.reduce_sum(tf.sqrt(tf.abs(scaled)) * tf.exp(scaled), 1)
    return [z], {
        "x": lambda: RNG.integers(0, 60, RNG.integers(20, 90), "i4"),
        "y": lambda: RNG.standard_normal([64, 4]).astype("f4"),
    }


def test_sizes_that_differ_have_a_generic_variant() -> None:
    feeds = drawn(behind, 60)
    served: list[bool] = []

    def wait(session: Any, step: int) -> None:
        if step in (5, 12):
            assert session.wait_until_compiled(300)
        if step > 40:
            stages = plan_of(session).stages
            assert stages is not None
            generic = stages.plans[-1].generic
            served.append(generic is not None and generic.ready)

    ours, theirs = run(tfjit, behind, feeds, wait), run(tf1, behind, feeds)
    assert served[-1]
    for (a,), (b,) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)


def growing(tf: Any) -> Any:
    """Append rows in a loop behind other work; the number of rows is not known before it runs."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    y = tf.tanh(x * 0.5) + tf.sigmoid(x) - tf.reduce_mean(x, 0)
    start = tf.nn.softmax(tf.exp(y) * 2.0 - y)
    _, rows = tf.while_loop(
        lambda i, rows: i < 3,
        lambda i, rows: (i + 1, tf.concat([rows, tf.tanh(rows[-1:] + 0.5)], 0)),
        [tf.constant(0), start],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])],
    )
    return [tf.reduce_sum(rows, 1), start], {"x": lambda: RNG.standard_normal((9, 4)).astype("f4")}


def test_the_second_feed_shapes_split_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BACKGROUND, "submit", lambda job, share: None)
    feeds = [{"x": RNG.standard_normal((n, 4)).astype("f4")} for n in (5, 9, 7, 16, 5)]

    def is_split(session: Any, step: int) -> None:
        plan = plan_of(session)
        assert (plan.stages is not None) or step == 0
        assert step == 0 or len(plan.variants) <= 1
        if step >= 2:
            assert plan.stages is not None
            first = plan.stages.plans[0]
            assert first.generic is not None or first.pending_generic is not None

    ours, theirs = run(tfjit, growing, feeds, is_split), run(tf1, growing, feeds)
    for mine, other in zip(ours, theirs, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_read_in_front_of_a_write(resource: bool, is_shared: bool) -> None:
    """A read of a reference variable is its memory, one of a resource variable is a value."""

    def build(tf: Any) -> Any:
        x = tf.placeholder(tf.float32, [5], name="x")
        v = tf.get_variable("v", initializer=np.ones(5, "f4"), use_resource=resource)
        y = x
        for _ in range(12):
            y = y + 1.0
        read = v.read_value()
        if is_shared:
            y = y + read * 0.0
        total = tf.reduce_sum(tf.unique(y)[0])
        with tf.control_dependencies([read]):
            written = v.assign_add(tf.ones([5]) * total)
        with tf.control_dependencies([written]):
            z = read * 2.0
            for _ in range(12):
                z = tf.abs(z) + 0.0
        return [z, written], {"x": lambda: np.arange(5, dtype="f4")}

    check(build)


def test_errors_name_their_node_and_leave_the_session_usable() -> None:
    def build(tf: Any) -> Any:
        x = tf.placeholder(tf.int32, [None], name="x")
        table = tf.constant(np.arange(8, dtype="f4"))
        found = tf.gather(table, x, name="look_up")
        y = tf.tanh(found * 2.0) + tf.exp(found) - tf.square(found) + 1.0
        rows = tf.unique(y)[0]
        z = tf.gather(rows, tf.cast(rows, tf.int32) * 0 + x[0], name="late")
        return tf.reduce_sum(tf.exp(z) * 2.0 + tf.abs(z) - tf.square(z) * 3.0)

    with tfjit.Graph().as_default() as graph:
        z = build(tfjit)
    with tfjit.Session(graph=graph) as session:
        good = [np.array([0, 1, 2], "i4")] * 3
        for x in good:
            session.run(z, {"x:0": x})
            assert session.wait_until_compiled(300)
        assert plan_of(session).stages is not None
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="look_up"):
            session.run(z, {"x:0": np.array([1, 9], "i4")})
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="late"):
            session.run(z, {"x:0": np.array([5, 5], "i4")})
        session.run(z, {"x:0": good[0]})


def test_a_variable_without_a_value() -> None:
    with tfjit.Graph().as_default() as graph:
        (loss, train), _ = embeddings(tfjit)
        init = tfjit.global_variables_initializer()
    feed = {"ids:0": np.zeros([2, 3], "i4")}
    with tfjit.Session(graph=graph) as session:
        for _ in range(2):
            with pytest.raises(tfjit.errors.FailedPreconditionError, match="bias|table"):
                session.run([loss, train], feed)
            session.wait_until_compiled(300)
        session.run(init)
        session.run([loss, train], feed)


def test_a_run_with_options_is_whole() -> None:
    feeds = drawn(masked, 1)[0]
    with tfjit.Graph().as_default() as graph:
        fetches, _ = masked(tfjit)
    with tfjit.Session(graph=graph) as session:
        fed = {f"{k}:0": v for k, v in feeds.items()}
        for _ in range(2):
            expected = session.run(fetches, fed)
            session.wait_until_compiled(300)
        metadata = tfjit.RunMetadata()
        options = tfjit.RunOptions(trace_level=tfjit.RunOptions.FULL_TRACE)
        found = session.run(fetches, fed, options=options, run_metadata=metadata)
        assert sum(len(device.node_stats) for device in metadata.step_stats.dev_stats) > 15
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@settings(
    max_examples=8,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # to shrink a program takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), min_size=10, max_size=30))
def test_random_programs(rows: list[tuple[int, int]]) -> None:
    """Of integers, so that results are equal."""

    def build(tf: Any) -> Any:
        x = tf.placeholder(tf.int32, [6], name="x")
        v = tf.get_variable("v", initializer=np.int32(1))
        made, effects = [x, x * 3], []
        for kind, i in rows:
            a, b = made[i % len(made)], made[-1]
            if kind == 0:
                made.append(x + tf.reduce_sum(tf.unique(a)[0]) % 50)
            elif kind == 1:
                made.append(x * tf.reduce_sum(tf.boolean_mask(a, a > 0)) % 40)
            elif kind == 2:
                with tf.control_dependencies([*effects[-1:], b]):
                    effects.append(v.assign_add(tf.reduce_max(a)))
            elif kind == 3:
                with tf.control_dependencies(effects[-1:]):
                    effects.append(v.read_value() + 0)  # later writes wait for the read
                    made.append(effects[-1] * a % 30)
            else:
                made.append([tf.maximum(a, 7) + b, a * b % 20, tf.abs(a) - b][kind - 4])
        with tf.control_dependencies(effects):
            last = v.read_value()
        return [made[-1], tf.add_n(made), last], {}

    feeds = [{"x": RNG.integers(-20, 20, 6, "i4")} for _ in range(3)]

    def wait(session: Any, step: int) -> None:
        session.wait_until_compiled(300)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_DISABLE", "fuse")  # the kernels of random groups would all be new
        ours = run(tfjit, build, feeds, wait)
    for mine, other in zip(ours, run(tf1, build, feeds), strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_array_equal(a, b)
