"""Calls by frames: in both directions beside messages, cancelled, refused.

Of clients on the same host and, where `served` is in either way, through TCP.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.distributed.server.fakes import DISABLED, Task, echo_request
from tests.waiting import growing, wait_until
from tfjit import protos
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.local_channel import (
    LocalChannel,
    NotLocal,
    is_local,
    method_numbers,
    shake_hands,
    socket_name,
)
from tfjit.distributed.parcels.frames import ANSWER, REQUEST, BrokenConnection, Connection
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.methods import MASTER, PARCELS, WORKER
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

WAITING = {
    *(method_numbers()[WORKER, name] for name in ("RunGraph", "RecvTensor")),
    method_numbers()[PARCELS, "RecvTensors"],
}


@pytest.fixture(params=["local", "direct"])
def served(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED[request.param])
    made = Task()
    made.wait_for_frames()
    yield made
    made.close()


@pytest.fixture
def on_host() -> Iterator[Task]:
    made = Task()
    yield made
    made.close()


def local(task: Task) -> LocalChannel:
    found = task.channel.frames()
    assert found is not None
    return found


def step(value: Any) -> Parcel:
    parcel = Parcel(echo_request(np.float32(0)))
    parcel.message.feed[0].tensor.Clear()
    parcel.fill(parcel.message.feed[0].tensor, value)
    return parcel


@pytest.mark.parametrize("size", [1, 100, 70_000, 1 << 20])
def test_arrays_go_beside_both_messages(served: Task, size: int) -> None:
    value = np.arange(size, dtype=np.float64)
    for _ in range(3):
        answer = local(served).call(MASTER, "RunStep", step(value))
        got = answer.value(answer.message.tensor[0].tensor)
        np.testing.assert_array_equal(got, value)
        assert got.flags.writeable or size == 1  # a client's own


def test_many_calls_at_once(served: Task) -> None:
    arrived: list[Any] = []

    def work(n: int) -> None:
        value = np.full(300 * n + 1, n, np.int32)
        for _ in range(20):
            answer = local(served).call(MASTER, "RunStep", step(value))
            got = answer.value(answer.message.tensor[0].tensor)
            assert got.shape == value.shape and (got == n).all()
        arrived.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(arrived) == 12


def test_waiting_tensors_hold_no_thread(served: Task) -> None:
    arrived: list[Any] = []
    request = protos.RecvTensorRequest(step_id=1, rendezvous_key="key")
    channel = local(served)
    channel.call(WORKER, "GetStatus", Parcel(protos.GetStatusRequest()))
    before = threading.active_count()
    for n in range(200):
        request.rendezvous_key = f"key {n}"
        channel.start(WORKER, "RecvTensor", Parcel(request), lambda *answer: arrived.append(answer))
    wait_until(lambda: len(served.worker.waiting) == 200)
    assert threading.active_count() <= before + 4
    for n, done in enumerate(list(served.worker.waiting.values())):
        done(None, np.full(100, n), False)
    wait_until(lambda: len(arrived) == 200)
    got = sorted(int(a.value(a.message.tensor)[0]) for error, a in arrived if error is None)
    assert got == list(range(200))


def test_an_answered_call_leaves_its_array_at_once(served: Task) -> None:
    request = protos.RecvTensorRequest(step_id=1, rendezvous_key="key")
    arrived: list[Any] = []
    gc.collect()
    gc.disable()
    try:
        local(served).start(WORKER, "RecvTensor", Parcel(request), lambda *a: arrived.append(a))
        wait_until(lambda: "key" in served.worker.waiting)
        value = np.zeros(1000)
        known = weakref.ref(value)
        served.worker.waiting.pop("key")(None, value, False)
        del value
        wait_until(lambda: arrived)
        wait_until(lambda: known() is None)
    finally:
        gc.enable()


@pytest.mark.parametrize("how", ["cancellation", "deadline", "client goes"])
def test_a_step_is_cancelled_with_its_client(served: Task, how: str) -> None:
    seen: list[CancellationManager] = []
    over = threading.Event()

    def wait(call: Any) -> tuple[list[Any], None]:
        seen.append(call.cancellation)
        assert over.wait(60)
        return [np.float32(1)], None

    served.master.step = wait
    cancellation = CancellationManager()
    caught: list[BaseException] = []

    def run(limit_s: float | None) -> None:
        try:
            local(served).call(*(MASTER, "RunStep", step(np.float32(1))), limit_s, cancellation)
        except errors.OpError as error:
            caught.append(error)

    if how == "deadline":
        for limit_s in growing(0.3):
            caught.clear()
            run(limit_s)
            if seen:
                break
    else:
        thread = threading.Thread(target=run, args=(None,))
        thread.start()
        wait_until(lambda: seen)
        cancellation.cancel()
        thread.join(60)
    kind = errors.DeadlineExceededError if how == "deadline" else errors.CancelledError
    assert isinstance(caught[0], kind)
    wait_until(lambda: seen[0].cancelled)
    over.set()
    served.master.step = lambda call: ([np.float32(2)], None)
    assert local(served).call(MASTER, "RunStep", step(np.float32(1))).message.tensor


def test_started_calls_are_cancelled(served: Task) -> None:
    arrived: list[Any] = []
    request = protos.RecvTensorRequest(step_id=1, rendezvous_key="a key")
    cancel = local(served).start(
        WORKER, "RecvTensor", Parcel(request), lambda *answer: arrived.append(answer)
    )
    wait_until(lambda: served.worker.waiting)
    cancel()
    wait_until(lambda: served.worker.cancelled == ["a key"])
    assert isinstance(arrived[0][0], errors.CancelledError) and len(arrived) == 1
    local(served).start(
        *(WORKER, "RecvTensor", Parcel(request)), lambda *answer: arrived.append(answer), 0.1
    )
    wait_until(lambda: len(arrived) == 2)
    assert isinstance(arrived[1][0], errors.DeadlineExceededError)
    wait_until(lambda: served.worker.cancelled == ["a key"] * 2)


def test_a_client_that_goes_cancels_its_calls(on_host: Task) -> None:
    other = LocalChannel(on_host.address)
    request = protos.RecvTensorRequest(step_id=1, rendezvous_key="a key")
    other.start(WORKER, "RecvTensor", Parcel(request), lambda *answer: None)
    wait_until(lambda: on_host.worker.waiting)
    other.close()
    wait_until(lambda: on_host.worker.cancelled == ["a key"])


def test_a_server_that_goes_and_comes_again() -> None:
    task = Task()
    channel, address = task.channel, task.address
    arrived: list[Any] = []
    assert channel.local() is not None
    request = protos.RecvTensorRequest(step_id=1, rendezvous_key="a key")
    local(task).start(WORKER, "RecvTensor", Parcel(request), lambda *answer: arrived.append(answer))
    wait_until(lambda: task.worker.waiting)
    task.services.stop(0)
    wait_until(lambda: arrived)
    assert isinstance(arrived[0][0], (errors.UnavailableError, errors.CancelledError))
    with pytest.raises(errors.UnavailableError):
        channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 5)
    again = Task(int(address.rpartition(":")[2]))
    try:

        def answers() -> bool:
            try:
                channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 5)
            except errors.UnavailableError:
                return False
            return True

        wait_until(answers)
        wait_until(lambda: channel.local() is not None)
    finally:
        again.close()
        channel.close()


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_lost_tasks_leave_no_descriptors() -> None:
    """Neither connections nor blocks of memory, at either end."""
    served = Task()
    channel = Channel(served.channel.address)
    try:
        counts = []
        for _ in range(4):
            assert len(channel.call(WORKER, "GetStatus", protos.GetStatusRequest()).ListFields())
            done = threading.Event()
            channel.start(
                WORKER, "CleanupAll", protos.CleanupAllRequest(), lambda *_, done=done: done.set()
            )
            assert done.wait(60)
            local_one = channel.local()
            assert local_one is not None
            local_one.broken = True  # as after a call that did not reach the task
            time.sleep(0.05)
            counts.append(descriptors())
        wait_until(lambda: descriptors() <= counts[1])
    finally:
        channel.close()
        served.close()


def test_strangers_leave_no_descriptors(on_host: Task) -> None:
    """A client that does not greet leaves no block behind."""
    local(on_host)
    port = int(on_host.channel.address.rpartition(":")[2])
    time.sleep(0.05)
    before = descriptors()
    for _ in range(20):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
            made.connect(socket_name(port))
            made.sendall(bytes(100))
            while made.recv(4096):  # its greeting, then the end
                pass
    wait_until(lambda: descriptors() <= before)


def test_closed_channels_leave_no_descriptors(on_host: Task) -> None:
    """At once: an idle server has no garbage collections."""
    local(on_host)
    time.sleep(0.05)
    before = descriptors()
    gc.disable()
    try:
        for _ in range(5):
            channel = Channel(on_host.channel.address)
            channel.call(WORKER, "GetStatus", protos.GetStatusRequest())
            channel.close()
            del channel
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    finally:
        gc.enable()


def test_nothing_listens() -> None:
    with pytest.raises(NotLocal):
        LocalChannel("localhost:1")
    channel = Channel("localhost:1")
    assert channel.local() is None
    channel.close()


def test_hosts() -> None:
    assert is_local("localhost", "127.0.0.1") and is_local("127.0.0.1", "0.0.0.0")
    assert not is_local("127.0.0.2", "127.0.0.1")
    assert not is_local("192.0.2.1", "0.0.0.0") and not is_local("no.such.host.invalid", "")


def greeted(task: Task) -> Connection:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(socket_name(task.services.port))
    connection = Connection(made)
    shake_hands(connection, {})
    return connection


@given(st.binary(max_size=100), st.integers(0, 40))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_garbage_is_answered_or_ends_its_connection(
    on_host: Task, data: bytes, method: int
) -> None:
    connection = greeted(on_host)
    connection.set_timeout(10.0)  # a method that waits belongs to WAITING
    with contextlib.suppress(BrokenConnection):
        connection.send(REQUEST, method, 5, data, [np.zeros(len(data), np.uint8)])
        if method in method_numbers().values() and method not in WAITING:
            connection.receive()
    connection.close()
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.connect(socket_name(on_host.services.port))
    made.sendall(data)
    made.close()
    on_host.call(WORKER, "GetStatus", protos.GetStatusRequest())


def test_an_answer_to_no_question(on_host: Task) -> None:
    connection = greeted(on_host)
    connection.send(ANSWER, 0, 0)
    with pytest.raises(BrokenConnection):
        connection.receive()
    connection.close()
