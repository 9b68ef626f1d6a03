"""Calls that wait, clients that give up, deadlines."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.distributed.server.fakes import WAIT_S, Outcome, Task, asked, echo_request
from tests.waiting import growing, wait_until
from tfjit import protos
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.protocol.interfaces import GraphResult, StepCall
from tfjit.distributed.protocol.methods import MASTER, WORKER
from tfjit.framework import errors


def test_a_tensor_is_sent_once_it_is_there(task: Task) -> None:
    outcome = Outcome()
    RemoteWorker(task.channel).receive_tensor(3, "k", outcome, 8)
    asked(task, 1)
    assert task.worker.calls == [("receive_tensor", 3, "k", 8)] and not outcome.count
    task.worker.waiting["k"](None, np.arange(5.0), False)
    error, value, is_dead = outcome.wait()
    assert error is None and not is_dead
    np.testing.assert_array_equal(value, np.arange(5.0))


def test_a_tensor_that_is_there_is_sent_at_once(task: Task) -> None:
    def receive(step: int, key: str, done: Any, request_id: int = 0) -> Any:
        done(None, None if key == "dead" else np.float32(3), key == "dead")
        done(None, np.float32(4), False)  # a second answer is ignored
        return lambda: None

    task.worker.receive_tensor = receive  # type: ignore[method-assign]
    for key in ("alive", "dead"):
        outcome = Outcome()
        RemoteWorker(task.channel).receive_tensor(3, key, outcome)
        error, value, is_dead = outcome.wait()
        assert error is None and is_dead == (key == "dead") and (is_dead or value == 3)


def test_an_error_of_a_wait(task: Task) -> None:
    outcome = Outcome()
    RemoteWorker(task.channel).receive_tensor(3, "k", outcome)
    asked(task, 1)
    sent = errors.AbortedError(None, None, "the step was aborted")
    sent.experimental_payloads["p"] = b"1"
    task.worker.waiting["k"](sent, None, False)
    error, _, _ = outcome.wait()
    assert isinstance(error, errors.AbortedError) and error.message == sent.message
    assert error.experimental_payloads == {"p": b"1"}


def test_waiting_tensors_hold_no_threads(task: Task) -> None:
    """200 clients wait, and other calls are answered."""
    outcomes = [Outcome() for _ in range(200)]
    worker = RemoteWorker(task.channel)
    for number, outcome in enumerate(outcomes):
        worker.receive_tensor(1, f"k{number}", outcome)
    asked(task, 200)
    wait_until(lambda: task.services.busy_count == 0)
    assert not any(outcome.count for outcome in outcomes)
    task.call(MASTER, "RunStep", echo_request(np.float32(1)))
    for number in range(200):
        task.worker.waiting[f"k{number}"](None, np.int32(number), False)
    assert [outcome.wait()[1] for outcome in outcomes] == list(range(200))


def test_waiting_graphs_hold_no_threads(task: Task) -> None:
    waiting: list[Any] = []

    def run(call: Any, done: Any) -> Any:
        waiting.append(done)
        return lambda: None

    task.worker.graph = run
    outcomes = [Outcome() for _ in range(50)]
    for outcome in outcomes:
        request = protos.RunGraphRequest(store_errors_in_response_body=True)
        task.channel.start(WORKER, "RunGraph", request, outcome)
    wait_until(lambda: len(waiting) == 50 and task.services.busy_count == 0)
    for done in waiting:
        done(None, GraphResult({}))
    assert all(outcome.wait()[0] is None for outcome in outcomes)


def test_steps_that_block_do_not_stop_others(task: Task) -> None:
    go = threading.Event()

    def step(call: StepCall) -> tuple[list[Any], Any]:
        assert go.wait(WAIT_S)
        return [np.float32(1)], None

    task.master.step = step
    outcomes = [Outcome() for _ in range(60)]
    for outcome in outcomes:
        task.channel.start(MASTER, "RunStep", echo_request(np.float32(1)), outcome)
    wait_until(lambda: task.services.busy_count == 60)
    assert task.call(WORKER, "GetStatus", protos.GetStatusRequest()).device_attributes
    go.set()
    assert all(outcome.wait()[0] is None for outcome in outcomes)


def blocked_step(task: Task) -> tuple[threading.Event, threading.Event]:
    """Make steps wait for their cancellation; return the events of its begin and end."""
    begun, cancelled = threading.Event(), threading.Event()

    def step(call: StepCall) -> tuple[list[Any], Any]:
        assert call.cancellation is not None
        call.cancellation.register(cancelled.set)
        begun.set()
        assert cancelled.wait(WAIT_S)
        raise errors.CancelledError(None, None, "cancelled")

    task.master.step = step
    return begun, cancelled


def test_a_client_cancels_a_step(task: Task) -> None:
    begun, cancelled = blocked_step(task)
    outcome = Outcome()
    cancel = task.channel.start(MASTER, "RunStep", echo_request(np.float32(1)), outcome)
    assert begun.wait(WAIT_S)
    cancel()
    assert cancelled.wait(WAIT_S)
    assert isinstance(outcome.wait()[0], errors.CancelledError)


def test_a_client_goes_in_a_step(task: Task) -> None:
    begun, cancelled = blocked_step(task)
    channel = Channel(task.address)
    channel.start(MASTER, "RunStep", echo_request(np.float32(1)), Outcome())
    assert begun.wait(WAIT_S)
    channel.close()
    assert cancelled.wait(WAIT_S)


def test_a_deadline_cancels_a_step(task: Task) -> None:
    begun, cancelled = blocked_step(task)
    for limit_s in growing(0.3):
        with pytest.raises(errors.DeadlineExceededError):
            task.call(MASTER, "RunStep", echo_request(np.float32(1)), limit_s)
        if begun.is_set():
            break
    assert cancelled.wait(WAIT_S)


def test_a_step_that_has_ended_is_not_cancelled(task: Task) -> None:
    managers: list[Any] = []

    def step(call: StepCall) -> tuple[list[Any], Any]:
        managers.append(call.cancellation)
        return [np.float32(1)], None

    task.master.step = step
    for _ in range(20):
        task.call(MASTER, "RunStep", echo_request(np.float32(1)))
    task.call(WORKER, "GetStatus", protos.GetStatusRequest())
    assert not any(manager.cancelled for manager in managers)


@pytest.mark.parametrize("way", ["cancel", "disconnect", "deadline"])
def test_a_client_gives_up_a_wait(task: Task, way: str) -> None:
    channel = Channel(task.address)
    request = protos.RecvTensorRequest(step_id=1, rendezvous_key="k")
    for limit_s in growing(0.3):
        outcome = Outcome()
        timeout_s = limit_s if way == "deadline" else None
        cancel = channel.start(WORKER, "RecvTensor", request, outcome, timeout_s)
        if way == "deadline":
            outcome.wait()
        else:
            asked(task, 1)
        if "k" in task.worker.waiting:
            break
    if way == "cancel":
        cancel()
    elif way == "disconnect":
        channel.close()
    with task.worker.asked:
        assert task.worker.asked.wait_for(lambda: task.worker.cancelled == ["k"], WAIT_S)
    assert isinstance(
        outcome.wait()[0],
        errors.DeadlineExceededError if way == "deadline" else errors.CancelledError,
    )
    task.worker.waiting["k"](None, np.float32(1), False)  # too late, and ignored
    task.call(WORKER, "GetStatus", protos.GetStatusRequest())


def test_the_deadline_of_a_graph(task: Task) -> None:
    task.call(WORKER, "RunGraph", protos.RunGraphRequest(), 7)
    assert 4 < task.worker.calls[-1][1].deadline_s < 7.5
    outcome = Outcome()
    task.channel.start(WORKER, "RunGraph", protos.RunGraphRequest(), outcome)
    outcome.wait()
    assert task.worker.calls[-1][1].deadline_s is None


def test_a_session_whose_client_has_gone_is_closed(task: Task) -> None:
    begun, go = threading.Event(), threading.Event()
    create = task.master.create_session

    def create_session(graph_def: Any, config: Any, target: str = "") -> tuple[str, int]:
        begun.set()
        assert go.wait(WAIT_S)
        return create(graph_def, config, target)

    task.master.create_session = create_session  # type: ignore[method-assign]
    channel = Channel(task.address)
    channel.start(MASTER, "CreateSession", protos.CreateSessionRequest(), Outcome())
    assert begun.wait(WAIT_S)
    channel.close()
    time.sleep(0.2)  # the server hears of it
    go.set()
    wait_until(lambda: ("close_session", "a session") in task.master.calls)
