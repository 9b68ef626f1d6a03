"""The calls of steps in parts, and how such steps end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.distributed.master.fake_workers import FakeCluster, zeros
from tests.waiting import once_blocked
from tfjit.distributed.protocol.interfaces import GraphCall, GraphResult, StepCall
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

ONE = np.float32(1)
OVER = "Must run PartialRunSetup before performing partial runs"


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    made = FakeCluster()
    yield made
    made.close()


def set_up(cluster: FakeCluster) -> tuple[str, str]:
    """Return the handles of a session and a step in parts."""
    handle = cluster.session()
    names = ["x0:0", "x1:0"], ["t0:0", "t1:0"]
    return handle, cluster.master.partial_run_setup(handle, *names, [])


def part(cluster: FakeCluster, handle: str, step: str, number: int, **call: Any) -> list[Any]:
    feeds = [(f"x{number}:0", ONE)]
    made = StepCall(handle, feeds, [f"t{number}:0"], [], partial_run=step, **call)
    return cluster.master.run_step(made)[0]


def caught(call: Any) -> errors.OpError:
    with pytest.raises(errors.OpError) as info:
        call()
    return info.value


def test_every_part_calls_every_worker(cluster: FakeCluster) -> None:
    handle, step = set_up(cluster)
    assert part(cluster, handle, step, 0) == [0]
    assert part(cluster, handle, step, 1) == [0]
    for worker in cluster.workers:
        assert [call.is_partial for call in worker.calls] == [True, True]
        assert [call.is_last_partial_run for call in worker.calls] == [False, True]
    own = cluster.workers[0].calls
    assert len({call.step_id for call in own}) == 1
    assert [len(call.feeds) for call in own] == [len(call.fetches) for call in own] == [1, 1]
    assert caught(lambda: part(cluster, handle, step, 0)).message == OVER


def test_a_refused_part_leaves_the_step_and_a_failed_one_ends_it(cluster: FakeCluster) -> None:
    handle, step = set_up(cluster)
    part(cluster, handle, step, 0)
    error = caught(lambda: part(cluster, handle, step, 0))
    assert error.message == "The feed x0:0 has already been fed."
    cluster.workers[1].failures["RunGraph"] = errors.DataLossError(None, None, "lost")
    assert isinstance(caught(lambda: part(cluster, handle, step, 1)), errors.DataLossError)
    cluster.workers[1].failures.clear()
    assert caught(lambda: part(cluster, handle, step, 1)).message == OVER
    assert cluster.run(handle, 0, 1) == [0, 0]


@pytest.mark.parametrize("cause", ["client", "close"])
def test_a_part_that_waits_is_stopped(cluster: FakeCluster, cause: str) -> None:
    handle, step = set_up(cluster)
    cluster.workers[1].silent = True
    client = CancellationManager()
    end = client.cancel if cause == "client" else lambda: cluster.master.close_session(handle)
    once_blocked(end)
    error = caught(lambda: part(cluster, handle, step, 0, cancellation=client))
    assert isinstance(error, errors.CancelledError)


def test_threads_feed_and_fetch_parts_at_a_time(cluster: FakeCluster) -> None:
    handle, step = set_up(cluster)
    both = threading.Barrier(2)

    def answer(call: GraphCall) -> GraphResult:
        both.wait(60)
        return zeros(call)

    cluster.workers[0].answer = answer
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(part(cluster, handle, step, n)))
        for n in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[0], [0]]
    last = [call.is_last_partial_run for call in cluster.workers[0].calls]
    assert sorted(last) == [False, True]
    assert caught(lambda: part(cluster, handle, step, 0)).message == OVER


def test_steps_that_nobody_continues_end_with_their_session(cluster: FakeCluster) -> None:
    handle, step = set_up(cluster)
    part(cluster, handle, step, 0)
    cluster.master.close_session(handle)
    assert isinstance(caught(lambda: part(cluster, handle, step, 1)), errors.AbortedError)
    assert not any(worker.sessions for worker in cluster.workers)
