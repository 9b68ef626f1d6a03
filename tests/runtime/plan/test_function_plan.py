"""Loops with growing state: one generic variant of their body, with the results of TensorFlow."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tfjit
from tfjit.runtime.plan.function_plan import BodyPlan
from tfjit.runtime.plan.generic_variant import GenericVariant
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.stored_plans import stored_plan

tf1 = tensorflow.compat.v1
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _v1() -> Any:
    before = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    yield
    if before:
        tf1.enable_control_flow_v2()


def attend(history: Any, x: Any) -> Any:
    """Return a mean of the history [2, time, 4], weighted by its products with x [2, 4]."""
    scores = tf1.matmul(x[:, None, :], history, transpose_b=True)
    seen = tf1.range(tf1.shape(scores)[2]) < tf1.shape(history)[1]
    scores = scores * tf1.cast(seen, tf1.float32) * 0.5
    return tf1.matmul(tf1.nn.softmax(scores), history)[:, 0]


def grow(history: Any, x: Any, trips: Any, kinds: list[int]) -> Any:
    """Return the state of a loop whose history gets a row in each iteration."""

    def body(i: Any, history: Any, x: Any, text: Any) -> Any:
        for kind in kinds:
            if kind == 0:
                x = tf1.tanh(x + attend(tf1.concat([history, x[:, None]], 1), x))
            elif kind == 1:
                keys, values = tf1.unstack(tf1.stack([history, history * 0.5], 1), axis=1)
                x = x * 0.5 + tf1.reduce_mean(tf1.concat([keys + values, x[:, None]], 1), 1)
            elif kind == 2:
                x = x + tf1.cast(tf1.shape(text)[1], tf1.float32) * 0.01
            else:
                x = tf1.sin(x) + text[:, -1:]
        history = tf1.concat([history, x[:, None]], axis=1)
        text = tf1.concat([text, tf1.reduce_sum(x, 1, keepdims=True)], axis=1)
        return i + 1, history, x, text

    shapes = [[], [2, None, 4], [2, 4], [2, None]]
    return tf1.while_loop(
        lambda i, *_: i < trips,
        body,
        [0, history, x, x[:, :1]],
        shape_invariants=[tf1.TensorShape(shape) for shape in shapes],
    )[1:]


def feeds_of(length: int, trips: int) -> dict[str, np.ndarray]:
    return {
        "history:0": RNG.standard_normal([2, length, 4]).astype("f4"),
        "x:0": RNG.standard_normal([2, 4]).astype("f4"),
        "trips:0": np.int32(trips),
    }


def graph_of(kinds: list[int], with_gradient: bool = False) -> tuple[Any, list[str]]:
    with tf1.Graph().as_default() as graph:
        history = tf1.placeholder(tf1.float32, [2, None, 4], name="history")
        x = tf1.placeholder(tf1.float32, [2, 4], name="x")
        found = grow(history, x, tf1.placeholder(tf1.int32, [], name="trips"), kinds)
        if with_gradient:
            found = [*found, tf1.gradients(tf1.reduce_sum(found[0]), x)[0]]
    return graph, [y.name for y in found]


def body_plans(session: Any) -> list[BodyPlan]:
    """Return the plans of the session's shared bodies."""
    leases = session._runtime_session.bodies._leases.values()
    return [found[0].plan for found in leases]


def check(graph: Any, fetches: list[str], feeds: list[dict[str, np.ndarray]]) -> tuple[bool, bool]:
    """Compare runs of both libraries.

    Return whether a body has a generic variant, and whether one can have none.
    """
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for feed in feeds:
            expected, found = theirs.run(fetches, feed), ours.run(fetches, feed)
            for a, b in zip(found, expected, strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            assert ours.wait_until_compiled(300)
        plans = body_plans(ours)
        return any(p.generic is not None for p in plans), any(p.generic_refused for p in plans)


def test_one_generic_variant_serves_all_sizes_and_prompts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served: list[tuple[int, ...]] = []
    run = GenericVariant.run

    def counted(self: GenericVariant, shapes: Any, arrays: Any) -> Any:
        found = run(self, shapes, arrays)
        if found is not None:
            served.append(shapes[1])
        return found

    monkeypatch.setattr(GenericVariant, "run", counted)
    graph, fetches = graph_of([0, 1, 2, 3])
    assert check(graph, fetches, [feeds_of(5, 16)] * 2) == (True, False)
    assert len(served) > 10
    count = len(served)
    # now the text and the history differ by another length
    feeds = [feeds_of(*sizes) for sizes in ((5, 16), (9, 16), (9, 16), (9, 16))]
    assert check(graph, fetches, feeds) == (True, False)
    assert len(served) > count + 20


def test_a_stored_generic_variant_serves_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_STORED_PLANS", "1")
    monkeypatch.setattr(stored_plan, "path_of", lambda key: tmp_path / f"{key}.stored")
    monkeypatch.setattr(Plan, "may_be_stored", False)  # the body's alone
    graph, fetches = graph_of([0, 1, 2, 3])
    first, second = feeds_of(5, 16), feeds_of(8, 12)
    with tfjit.Session(graph=graph) as session:
        for _ in range(2):
            expected = session.run(fetches, first), session.run(fetches, second)
            assert session.wait_until_compiled(300)
        (plan,) = body_plans(session)
        assert plan.generic is not None and plan.generic.storage.store()
    build = GenericVariant.build

    def of_no_body(self: GenericVariant) -> None:
        assert not isinstance(self.plan, BodyPlan)
        build(self)

    monkeypatch.setattr(GenericVariant, "build", of_no_body)
    served: list[object] = []
    run = GenericVariant.run

    def counted(self: GenericVariant, shapes: Any, arrays: Any) -> Any:
        results = run(self, shapes, arrays)
        served.extend(results or ())
        return results

    monkeypatch.setattr(GenericVariant, "run", counted)
    with tfjit.Session(graph=graph) as session:
        found = [session.run(fetches, first)]
        (plan,) = body_plans(session)
        assert plan.generic is not None and served
        found.append(session.run(fetches, second))
    for mine, other in zip(found, expected, strict=True):
        for a, b in zip(mine, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("length", "trips"), [(0, 6), (1, 5), (5, 0), (0, 0), (6, 1)])
def test_empty_histories_and_few_iterations(length: int, trips: int) -> None:
    graph, fetches = graph_of([0, 3])
    check(graph, fetches, [feeds_of(5, 9), feeds_of(length, trips), feeds_of(length, trips)])


def test_gradients() -> None:
    graph, fetches = graph_of([0, 3], with_gradient=True)
    check(graph, fetches, [feeds_of(5, 6), feeds_of(4, 7)])


@settings(
    max_examples=4,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # to shrink a program takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=4),
)
def test_random_loops(kinds: list[int], sizes: list[tuple[int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_DISABLE", "fuse")  # the kernels of random groups would all be new
        graph, fetches = graph_of(kinds)
        check(graph, fetches, [feeds_of(5, 6), *(feeds_of(*one) for one in sizes)])


def test_a_body_of_another_rank_has_no_generic_variant() -> None:
    """A state whose rank grows keeps the dataflow executor."""
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [3], name="x")
        fetches = [
            tf1.while_loop(
                lambda i, _: i < 5,
                lambda i, y: [i + 1, tf1.expand_dims(y, 0) * 2.0],
                [0, x],
                shape_invariants=[tf1.TensorShape([]), tf1.TensorShape(None)],
            )[1].name
        ]
    assert check(graph, fetches, [{"x:0": np.ones(3, "f4")}] * 3) == (False, False)


def test_shared_plans_are_released_with_the_session() -> None:
    graph, fetches = graph_of([3])
    session = tfjit.Session(graph=graph)
    for length in (3, 4):
        session.run(fetches, feeds_of(length, 4))
    runtime = session._runtime_session
    ((leases,)) = runtime.bodies._leases.values()
    assert len(leases) == 2 and leases[0].plan is leases[1].plan
    session.close()
    gc.collect()
    assert not runtime.bodies._leases
