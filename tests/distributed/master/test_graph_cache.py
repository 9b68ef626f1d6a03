"""Client graphs are built once, and the longest unused are dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tfjit.distributed.master.client_graph import ClientGraph, Signature
from tfjit.distributed.master.graph_cache import GraphCache
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

A, B, C = (Signature((), (name,), ()) for name in "abc")


def empty() -> ClientGraph:
    return ClientGraph("session", ())


def hold(cache: GraphCache, signature: Signature, build: Callable[[], ClientGraph]) -> ClientGraph:
    found = cache.hold(signature, build, CancellationManager())
    assert found is not None
    return found


def test_the_longest_unused_graph_is_dropped_when_no_step_holds_it() -> None:
    cache = GraphCache(2)
    a, b = hold(cache, A, empty), hold(cache, B, empty)
    a.release()
    assert hold(cache, A, empty) is a
    hold(cache, C, empty)
    assert len(cache) == 2 and cache.evictions == 1
    assert not b.hold()  # retired, though a step still holds it
    assert hold(cache, A, empty) is a
    assert hold(cache, B, empty) is not b


def test_threads_wait_for_one_build() -> None:
    cache, builds, building, go = GraphCache(2), [], threading.Event(), threading.Event()

    def build() -> ClientGraph:
        builds.append(1)
        building.set()
        assert go.wait(60)
        return empty()

    found: list[ClientGraph] = []
    threads = [
        threading.Thread(target=lambda: found.append(hold(cache, A, build))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    assert building.wait(60)
    go.set()
    for thread in threads:
        thread.join(60)
    assert len(builds) == 1 and len(found) == 4 and len({id(graph) for graph in found}) == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_failed_build_and_those_that_wait(is_cancelled: bool) -> None:
    """They get its error; where its own step was cancelled, one of them builds."""
    cache, building, go = GraphCache(2), threading.Event(), threading.Event()
    kind = errors.CancelledError if is_cancelled else errors.InvalidArgumentError

    def fail() -> ClientGraph:
        building.set()
        assert go.wait(60)
        raise kind(None, None, "faulty")

    found: list[object] = []

    def run(build: Callable[[], ClientGraph]) -> None:
        try:
            found.append(hold(cache, A, build))
        except errors.OpError as error:
            found.append(type(error).__name__)

    first = threading.Thread(target=run, args=(fail,))
    first.start()
    assert building.wait(60)
    second = threading.Thread(target=run, args=(empty,))
    second.start()
    go.set()
    first.join(60)
    second.join(60)
    assert len(found) == 2 and kind.__name__ in found
    assert any(isinstance(item, ClientGraph) for item in found) or not is_cancelled
    assert isinstance(hold(cache, A, empty), ClientGraph)


def test_a_wait_for_a_build_is_cancelled() -> None:
    cache, building, go = GraphCache(2), threading.Event(), threading.Event()

    def build() -> ClientGraph:
        building.set()
        assert go.wait(60)
        return empty()

    thread = threading.Thread(target=hold, args=(cache, A, build))
    thread.start()
    assert building.wait(60)
    cancellation = CancellationManager()
    threading.Timer(0.05, cancellation.cancel).start()
    assert cache.hold(A, empty, cancellation) is None
    go.set()
    thread.join(60)
    assert cache.hold(A, empty, cancellation) is None  # cancelled before


def test_a_graph_that_is_built_while_the_session_closes_is_retired() -> None:
    cache = GraphCache(2)

    def build() -> ClientGraph:
        cache.clear()
        return empty()

    made = hold(cache, A, build)
    assert len(cache) == 0 and not made.hold()
