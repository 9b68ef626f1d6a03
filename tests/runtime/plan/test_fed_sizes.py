"""Runs that are fed sizes: compiled for values that recur, with the results of TensorFlow."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tfjit.runtime.plan.fed_sizes import MAX_PLANS, FedSizes
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.stored_plans import plan_warm_start, stored_plan

tf1 = tensorflow.compat.v1
RNG = np.random.default_rng(4)


def product(tf: Any) -> tuple[Any, dict[str, Any]]:
    """Multiply a sparse matrix of a fed shape."""
    places = tf.placeholder(tf.int64, [None, 2], name="places")
    values = tf.placeholder(tf.float32, [None], name="values")
    shape = tf.placeholder(tf.int64, [2], name="shape")
    dense = tf.placeholder(tf.float32, [None, 3], name="dense")
    y = tf.sparse_tensor_dense_matmul(tf.SparseTensor(places, values, shape), dense)
    return tf.tanh(y) + tf.reduce_sum(y, 0), {
        "places": places,
        "values": values,
        "shape": shape,
        "dense": dense,
    }


def fed(rows: int, columns: int = 4, count: int = 6) -> dict[str, np.ndarray]:
    places = np.stack([RNG.integers(0, rows, count), RNG.integers(0, columns, count)], 1)
    return {
        "places": places,
        "values": RNG.random(count).astype(np.float32),
        "shape": np.array([rows, columns]),
        "dense": RNG.random((columns, 3)).astype(np.float32),
    }


def plan_of(session: tfjit.Session) -> Plan:
    (plan,) = session._runtime_session.plan_cache.plans()
    return plan


def test_values_that_recur_have_a_plan() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        y, feeds = product(tfjit)
        with tf1.Graph().as_default(), tf1.Session() as oracle:
            wanted, names = product(tf1)
            for step in range(8):
                for rows in (5, 7):
                    values = fed(rows)
                    found = session.run(y, {feeds[k]: v for k, v in values.items()})
                    want = oracle.run(wanted, {names[k]: v for k, v in values.items()})
                    np.testing.assert_allclose(found, want, rtol=1e-5)
                    assert found.shape == (rows, 3)
                if step in (0, 2, 4):
                    assert session.wait_until_compiled(300)
        plan = plan_of(session)
        assert plan.fed_sizes is not None
        assert len(plan.fed_sizes.plans) == 2
        for sized in plan.fed_sizes.plans.values():
            (variant,) = sized.variants.values()
            assert variant.inline is not None
        assert "SparseTensorDenseMatMul" in str(
            session.explain(y, {feeds[k]: v.shape for k, v in fed(5).items()})
        )


def test_values_with_a_stored_plan_have_it_at_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_STORED_PLANS", "1")
    monkeypatch.setattr(stored_plan, "path_of", lambda key: tmp_path / f"{key}.stored")
    monkeypatch.setattr(
        plan_warm_start, "_path", lambda key, suffix="plan": tmp_path / f"{key}.{suffix}"
    )
    with tfjit.Graph().as_default() as graph:
        y, feeds = product(tfjit)
    with tfjit.Session(graph=graph) as session:
        for _ in range(4):
            session.run(y, {feeds[k]: v for k, v in fed(5).items()})
            assert session.wait_until_compiled(300)
        (sized,) = plan_of(session).fed_sizes.plans.values()
        (variant,) = sized.variants.values()
        assert variant.store()
    with tfjit.Session(graph=graph) as session:
        for rows, count in ((5, 1), (7, 1)):  # no process has met the second size
            values = fed(rows)
            found = session.run(y, {feeds[k]: v for k, v in values.items()})
            dense = np.zeros((rows, 4))
            np.add.at(dense, tuple(values["places"].T), values["values"])
            want = dense @ values["dense"]
            np.testing.assert_allclose(found, np.tanh(want) + want.sum(0), rtol=1e-5)
            plans = list(plan_of(session).fed_sizes.plans.values())
            assert len(plans) == count
        (variant,) = plans[0].variants.values()
        assert variant.is_restored


def test_a_wrong_size_raises_as_before() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        y, feeds = product(tfjit)
        values = {feeds[k]: v for k, v in fed(5).items()}
        for _ in range(3):
            session.run(y, values)
            assert session.wait_until_compiled(300)
        for _ in range(3):
            with pytest.raises(tfjit.errors.InvalidArgumentError, match="inner dimension"):
                session.run(y, values | {feeds["shape"]: np.array([5, 3])})
            assert session.wait_until_compiled(300)
        for _ in range(2):
            with pytest.raises(tfjit.errors.InvalidArgumentError, match="out of bounds"):
                session.run(y, values | {feeds["places"]: np.full((6, 2), 9)})
        assert session.run(y, values).shape == (5, 3)


def test_a_graph_of_known_shapes_has_no_fed_sizes() -> None:
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x = tfjit.placeholder(tfjit.float32, [None, 4])
        k = tfjit.placeholder(tfjit.int32, [])
        y = x[:, k] * 2.0
        for step in range(4):
            np.testing.assert_array_equal(
                session.run(y, {x: np.ones((3, 4)), k: step % 4}), [2, 2, 2]
            )
            assert session.wait_until_compiled(300)
        assert plan_of(session).fed_sizes is None


class _Plan:
    """A plan whose values are always ready."""

    feeds = ("x:0", "n:0")
    name = "plan"

    def __init__(self, values: Any = None) -> None:
        self.feed_values = values

    def with_feed_values(self, values: Any) -> _Plan:
        return _Plan(values)

    def is_ready(self, shapes: Any) -> bool:
        return bool(self.feed_values) and shapes == ((), ())


def test_values_without_recurrence_have_no_plan() -> None:
    sizes, plan = FedSizes([1]), _Plan()
    x = np.zeros(())

    def found(value: int, shapes: Any = ((), ())) -> Any:
        return sizes.plan(plan, [x, np.array(value)], shapes)  # type: ignore[arg-type]

    for value in range(200):
        assert found(value) is None
    assert not sizes.plans
    for value in range(40):
        found(value)
    assert len(sizes.plans) == MAX_PLANS
    assert found(3).feed_values == {"n:0": 3}
    assert found(3, ((2,), ())) is None
    assert found(30) is None
    assert found(150) is None


def test_all_is_freed_with_the_session() -> None:
    with tfjit.Graph().as_default():
        y, feeds = product(tfjit)
        session = tfjit.Session()
        for _ in range(4):
            session.run(y, {feeds[k]: v for k, v in fed(5).items()})
            assert session.wait_until_compiled(300)
        sizes = plan_of(session).fed_sizes
        assert sizes is not None
        (sized,) = (weakref.ref(plan) for plan in sizes.plans.values())
        del sizes
        gc.collect()
        gc.disable()
        try:
            session.close()
            assert sized() is None
        finally:
            gc.enable()
