"""The cache of a session's plans, with plans that only know whether they were dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tfjit.runtime.session import plan_cache
from tfjit.runtime.session.plan_cache import PlanCache


class FakePlan:
    def __init__(self, name: str) -> None:
        self.name = name
        self.dropped = 0
        self.forks = 0

    def drop_all(self) -> list[Any]:
        self.dropped += 1
        return []

    def after_fork(self) -> None:
        self.forks += 1


def maker(name: str) -> Callable[[], Any]:
    return lambda: FakePlan(name)


def test_plans_are_found_again() -> None:
    cache = PlanCache()
    first = cache.find(("a",), maker("a"))
    assert cache.find(("a",), maker("again")) is first
    assert (cache.hits, cache.misses, cache.evictions) == (1, 1, 0)


def test_the_longest_unused_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MAX_PLANS", 2)
    cache = PlanCache()
    a, b = (cache.find((name,), maker(name)) for name in "ab")
    cache.keep_runner(("a",), lambda values: [])
    cache.find(("a",), maker("a"))
    cache.find(("c",), maker("c"))
    assert [plan.name for plan in cache.plans()] == ["a", "c"]  # type: ignore[attr-defined]
    assert (a.dropped, b.dropped, cache.evictions) == (0, 1, 1)  # type: ignore[attr-defined]
    assert cache.runner(("a",)) is None  # it may hold the plan


def test_an_error_leaves_no_plan() -> None:
    cache = PlanCache()

    def fail() -> Any:
        raise ValueError("no such fetch")

    with pytest.raises(ValueError, match="no such fetch"):
        cache.find(("a",), fail)
    assert cache.plans() == [] and cache.find(("a",), maker("a"))


def test_of_two_threads_one_plan_stays() -> None:
    cache, both = PlanCache(), threading.Barrier(2)
    found: list[Any] = []

    def make() -> Any:
        both.wait(60)
        return FakePlan("a")

    def find() -> None:
        found.append(cache.find(("a",), make))

    threads = [threading.Thread(target=find) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found[0] is found[1] and cache.misses == 2 and len(cache.plans()) == 1


def test_runners_of_few_orders_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "MAX_PLANS", 1)
    cache = PlanCache()
    for k in range(4):
        cache.keep_runner((k,), lambda values: [])
    assert cache.runner((0,)) is not None
    cache.keep_runner((4,), lambda values: [])
    assert cache.runner((0,)) is None and cache.runner((4,)) is not None


def test_taking_all_and_forking() -> None:
    cache = PlanCache()
    plan: Any = cache.find(("a",), maker("a"))
    cache._lock.acquire()  # as another thread of the parent
    cache.after_fork()
    assert plan.forks == 1
    assert cache.take_all() == [plan] and cache.plans() == []
