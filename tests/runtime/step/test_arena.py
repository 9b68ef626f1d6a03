"""What a session holds for its plans: shared arenas, and variants that give way to others."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit
from tfjit.runtime.plan import plan as plan_module
from tfjit.runtime.plan.plan_cache_budget import VariantBudget
from tfjit.runtime.step.arena import SHARED_BYTES, ArenaPool, Placement

tf1 = tf.compat.v1


def network(width: int = 64, python: bool = False) -> tuple[Any, Any, Any]:
    """(graph, a placeholder of any batch size, three layers over it). python: with a Python kernel
    between them.
    """
    rng = np.random.default_rng(0)
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, width])
        y = x
        for _ in range(3):
            y = tf.tanh(y @ tf.constant(0.1 * rng.standard_normal((width, width), "f4"))) * 3.0 + y
            if python:
                y = tf.sort(y, axis=1)
    return graph, x, y


@pytest.mark.parametrize("python", [False, True], ids=["compiled", "with a Python kernel"])
def test_a_hundred_batch_sizes_share_one_arena(
    python: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph, x, y = network(python=python)
    sizes = [int(n) for n in np.random.default_rng(1).permutation(np.arange(300, 700, 4))]
    batch = np.random.default_rng(2).standard_normal((700, 64), "f4")
    with tf1.Session(graph=graph) as oracle:
        expected = oracle.run(y, {x: batch})
    with tfjit.Session(graph=graph) as session:
        for n in [*sizes, *sizes[:9]]:
            np.testing.assert_allclose(
                session.run(y, {x: batch[:n]}), expected[:n], rtol=1e-4, atol=1e-4
            )
        backend = session._runtime_session
        plans = backend.plan_cache.plans()
        steps = [v.step for p in plans for v in p.variants.values()]
        # the memory of a size class is laid out for its largest sizes
        steps += [c.step for p in plans if p.generic is not None for c in p.generic.classes]
        largest = max(step.arena_bytes for step in steps)
        assert largest >= SHARED_BYTES
        assert backend.arenas.count == 1
        assert backend.arenas.nbytes <= 1.2 * largest  # the largest may have given way
        text = session.explain(y, {x: (300, 64)}).details()
        assert "1 shared arenas" in text and "variants of plans hold" in text


def test_threads_with_different_shapes_never_share_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph, x, y = network(python=True)
    batches = [np.random.default_rng(n).standard_normal((250 + 90 * n, 64), "f4") for n in range(4)]
    with tf1.Session(graph=graph) as oracle:
        expected = [oracle.run(y, {x: b}) for b in batches]
    wrong: list[Any] = []
    with tfjit.Session(graph=graph) as session:

        def work(first: int) -> None:
            try:
                for n in range(40):
                    k = (first + n * (first + 1)) % len(batches)
                    np.testing.assert_allclose(
                        session.run(y, {x: batches[k]}), expected[k], rtol=1e-4, atol=1e-4
                    )
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert session._runtime_session.arenas.count <= 4
        assert len(session._runtime_session.arenas._free) == session._runtime_session.arenas.count


def test_an_arena_that_is_outgrown_is_freed_though_views_stood_on_it() -> None:
    pool = ArenaPool()
    scope: dict[str, Any] = {}
    words = np.zeros(3, np.int64)
    placement = Placement(
        words,
        [(0, 0), (2, 128)],
        {"s1": (128, (4, 4), np.dtype("f4")), "s2": (0, (0, 3), np.dtype("f4"))},
        scope,
    )
    small = pool.lend(1000)
    pool.bind(placement, small)
    assert words.tolist() == [small.address, 0, small.address + 128]
    assert scope["s1"].ctypes.data == small.address + 128 and scope["s2"].shape == (0, 3)
    pool.take_back(small)
    assert pool.lend(900) is small
    pool.take_back(small)
    del small
    large = pool.lend(2000)
    assert placement.address == 0 and not scope
    assert (pool.count, pool.nbytes) == (1, 2000)
    pool.bind(placement, large)
    assert scope["s1"].ctypes.data == large.address + 128
    pool.take_back(large)
    pool.clear()
    assert (pool.count, pool.nbytes) == (0, 0) and not scope


class FakePlan:
    def __init__(self) -> None:
        self.dropped: list[Any] = []

    def drop(self, variant: Any) -> None:
        self.dropped.append(variant)


class FakeVariant:
    def __init__(self, plan: FakePlan) -> None:
        self.plan = plan
        self.used = False
        self.idle = 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9), st.integers(0, 3000), st.sets(st.integers(0, 3)), st.booleans()
        ),
        max_size=40,
    )
)
@settings(deadline=None)
def test_the_budget_holds_and_counts_shared_arrays_for_nobody(
    steps: list[tuple[int, int, set[int], bool]],
) -> None:
    arrays = [np.zeros(5000 + k, np.uint8) for k in range(4)]
    plan = FakePlan()
    variants = [FakeVariant(plan) for _ in range(10)]
    budget = VariantBudget(12_000)
    held: dict[Any, tuple[int, set[int]]] = {}
    for which, nbytes, holds, used in steps:
        variant = variants[which]
        variant.used = used
        held[variant] = (nbytes, holds)
        plan.dropped.clear()
        budget.charge(variant, nbytes, [arrays[k] for k in holds])  # type: ignore[arg-type]
        assert variant not in plan.dropped
        for gone in plan.dropped:
            del held[gone]
        alone = [k for k in range(4) if sum(k in own for _, own in held.values()) == 1]
        assert budget.held_bytes == sum(n for n, _ in held.values()) + sum(
            arrays[k].nbytes for k in alone
        )
        assert len(budget) == len(held)
        assert budget.held_bytes <= budget.limit_bytes or len(held) == 1
    for variant in list(held):
        budget.forget(variant)
    assert budget.held_bytes == 0


def test_variants_in_use_outlive_those_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_DISABLE", "generic")  # each size has a variant of its own
    monkeypatch.setenv("TFJIT_PLAN_MEMORY", "1")
    graph, x, y = network()
    batch = np.random.default_rng(2).standard_normal((100, 64), "f4")
    with tf1.Session(graph=graph) as oracle:
        expected = oracle.run(y, {x: batch})
    with tfjit.Session(graph=graph) as session:
        session.run(y, {x: batch[:50]})
        (plan,) = session._runtime_session.plan_cache.plans()
        favourite = plan.variants[(50, 64),]
        for n in range(1, 50):
            np.testing.assert_allclose(
                session.run(y, {x: batch[:n]}), expected[:n], rtol=1e-4, atol=1e-4
            )
            session.run(y, {x: batch[:50]})
        budget = session._runtime_session.budget
        assert plan.variants[(50, 64),] is favourite
        assert budget.evicted > 0 and budget.held_bytes <= 1 << 20
        assert len(plan.variants) == len(budget) < 50
        assert session.explain(y, {x: (50, 64)}).held.evicted == budget.evicted


def test_the_favourite_survives_the_limit_by_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    monkeypatch.setattr(plan_module.Plan, "max_variants", 4)
    graph, x, y = network()
    with tfjit.Session(graph=graph) as session:
        session.run(y, {x: np.zeros((1, 64), "f4")})
        (plan,) = session._runtime_session.plan_cache.plans()
        favourite = plan.variants[(1, 64),]
        for n in range(2, 12):
            session.run(y, {x: np.zeros((n, 64), "f4")})
            session.run(y, {x: np.zeros((1, 64), "f4")})
            assert plan.variants[(1, 64),] is favourite
        assert len(plan.variants) == len(session._runtime_session.budget) == 4


def test_plans_that_give_way_are_counted_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    from tfjit.runtime.session import plan_cache

    monkeypatch.setattr(plan_cache, "MAX_PLANS", 2)
    graph, x, y = network()
    with graph.as_default():
        others = [y + float(n) for n in range(5)]
    with tfjit.Session(graph=graph) as session:
        for other in others:
            session.run(other, {x: np.zeros((3, 64), "f4")})
        gc.collect()
        assert len(session._runtime_session.budget) == 2
