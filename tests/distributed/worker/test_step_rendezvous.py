"""The rendezvous of steps: local and remote values, aborts, and bounded tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
        self.together: set[str] = set()
        self.asked: list[list[str]] = []

    def receive_tensor(self, step: int, key: str, done: Any, request: int) -> Callable[[], None]:
        self.waiting.append(done)
        self.ids.append(request)

        def cancel() -> None:
            self.cancelled += 1
            done(errors.CancelledError(None, None, "given up"), None, False)

        return cancel

    def sends_batches(self, key: str) -> bool:
        return key in self.together

    def receive_tensors(
        self, step: int, keys: Sequence[str], done: Any, request: int
    ) -> Callable[[], None]:
        self.asked.append(list(keys))
        self.waiting.append(done)

        def cancel() -> None:
            self.cancelled += 1
            done(errors.CancelledError(None, None, "given up"), ())

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


def remote(edge: str) -> str:
    """Return the key of a tensor of the other task."""
    return create_key(f"{THERE}/device:CPU:0", 1, f"{HERE}/device:CPU:0", edge)


def _note(found: list[Any], key: str, *answer: Any) -> None:
    found.append((key, *answer))


def test_tensors_of_one_task_are_asked_for_together(peers: OnePeer) -> None:
    keys = [remote(edge) for edge in "abc"]
    peers.other.together = {*keys[:2]}
    step, found = make(peers), list[Any]()
    step.give(LOCAL, 4.0)
    step.receive_all([(key, partial(_note, found, key)) for key in keys])
    step.receive_all([(LOCAL, lambda *answer: found.append(answer))])
    assert found.pop() == (None, 4.0, False)
    assert peers.other.asked == [keys[:2]]
    together, single = peers.other.waiting
    together(None, [(1, 2.0, False)])
    assert found == [(keys[1], None, 2.0, False)]  # it waits for no other
    single(None, 3.0, False)
    together(None, [(0, None, True)])
    assert found[1:] == [(keys[2], None, 3.0, False), (keys[0], None, None, True)]
    step.abort(errors.AbortedError(None, None, "too late"))
    assert not peers.other.cancelled and len(found) == 3


def test_a_single_tensor_is_asked_for_by_itself(peers: OnePeer) -> None:
    peers.other.together = {REMOTE}
    make(peers).receive_all([(REMOTE, lambda *answer: None)])
    assert not peers.other.asked and len(peers.other.ids) == 1


def test_an_error_ends_the_receives_that_wait(peers: OnePeer) -> None:
    keys = [remote(edge) for edge in "abc"]
    peers.other.together = {*keys}
    for abort in False, True:
        step, found = make(peers), list[Any]()
        step.receive_all([(key, partial(_note, found, key)) for key in keys])
        peers.other.waiting[-1](None, [(1, 2.0, False)])
        error = errors.AbortedError(None, None, "over")
        if abort:
            step.abort(error)
        else:
            peers.other.waiting[-1](error, ())
            peers.other.waiting[-1](None, [(0, 1.0, False)])  # late, and nobody waits
        assert found[0] == (keys[1], None, 2.0, False)
        assert sorted(found[1:]) == [(key, error, None, False) for key in (keys[0], keys[2])]
    assert peers.other.cancelled == 1
    step.receive_all([(key, partial(_note, found, key)) for key in keys])
    assert found[-3:] == [(key, error, None, False) for key in keys] and len(peers.other.asked) == 2
