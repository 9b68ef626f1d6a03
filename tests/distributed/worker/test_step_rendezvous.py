"""The rendezvous of steps: local and remote values, aborts, and bounded tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tfjit.distributed.worker.peers import Peers
from tfjit.distributed.worker.step_rendezvous import StepRendezvous, Steps
from tfjit.framework import errors
from tfjit.runtime.host.rendezvous import create_key

HERE, THERE = "/job:w/replica:0/task:0", "/job:w/replica:0/task:1"
LOCAL = create_key(f"{HERE}/device:CPU:0", 1, f"{THERE}/device:CPU:0", "e")
REMOTE = create_key(f"{THERE}/device:CPU:0", 1, f"{HERE}/device:CPU:0", "e")


class OtherWorker:
    """Records receives; `answer` ends one."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.ids: list[int] = []
        self.cancelled = 0

    def receive_tensor(self, step: int, key: str, done: Any, request: int) -> Callable[[], None]:
        self.waiting.append(done)
        self.ids.append(request)

        def cancel() -> None:
            self.cancelled += 1
            done(errors.CancelledError(None, None, "given up"), None, False)

        return cancel


class OnePeer(Peers):
    """Has one other worker."""

    def __init__(self) -> None:
        self.other = OtherWorker()

    def worker(self, task: str) -> Any:
        assert task == THERE
        return self.other


@pytest.fixture
def peers() -> OnePeer:
    return OnePeer()


def make(peers: Peers) -> StepRendezvous:
    made = StepRendezvous(7, HERE)
    made.peers = peers
    return made


def test_sent_arrays_are_copies_and_given_ones_are_not(peers: OnePeer) -> None:
    step, got = make(peers), []
    value = np.zeros(2)
    step.send(LOCAL, value)
    value[:] = 1
    step.give(LOCAL, value)
    for _ in range(2):
        step.receive_here(LOCAL, lambda error, value, dead: got.append(value))
    np.testing.assert_array_equal(got[0], [0, 0])
    assert got[1] is value


def test_remote_values_are_asked_for_at_their_worker(peers: OnePeer) -> None:
    step, got = make(peers), []
    step.receive(REMOTE, lambda *answer: got.append(answer))
    step.receive(REMOTE, lambda *answer: got.append(answer))
    first, second = peers.other.waiting
    second(None, 5, False)
    first(errors.NotFoundError(None, None, "no"), None, False)
    assert got[0] == (None, 5, False) and isinstance(got[1][0], errors.NotFoundError)
    assert len(set(peers.other.ids)) == 2 and all(peers.other.ids)


def test_an_abort_gives_remote_calls_up(peers: OnePeer) -> None:
    step, got = make(peers), []
    step.receive(REMOTE, lambda *answer: got.append(answer))
    step.receive_here(LOCAL, lambda *answer: got.append(answer))
    failure = errors.DataLossError(None, None, "lost")
    step.abort(failure)
    step.receive(REMOTE, lambda *answer: got.append(answer))
    assert [answer[0] for answer in got] == [failure] * 3
    assert peers.other.cancelled == 1 and len(peers.other.waiting) == 1


def test_an_unknown_task_is_an_error() -> None:
    step, got = make(Peers({}, None)), []  # type: ignore[arg-type]
    step.receive(REMOTE, lambda *answer: got.append(answer))
    assert got[0][0].message == f"No worker known as {THERE}"


def test_a_withdrawn_receive_is_not_called(peers: OnePeer) -> None:
    step, got = make(peers), []

    def done(*answer: Any) -> None:
        got.append(answer)

    step.receive_here(LOCAL, done)
    assert not step.is_idle
    assert step.withdraw(LOCAL, done) and not step.withdraw(LOCAL, done)
    assert step.is_idle and not got


def test_the_table_of_steps_is_bounded(peers: OnePeer) -> None:
    steps = Steps(HERE, limit=2)
    over = steps.begin(1, "s", peers)
    steps.end(over)
    running = steps.begin(2, "s", peers)
    steps.begin(3, "t", peers)  # the oldest one that is over makes way
    assert len(steps) == 2 and steps.find(2) is running
    with pytest.raises(errors.ResourceExhaustedError, match="2 steps at one time"):
        steps.find(4)
    steps.drop_session("s", errors.CancelledError(None, None, "closed"))
    assert len(steps) == 1
    steps.clean_up(3)
    steps.clean_up(3)
    assert not len(steps)
