"""Clients through TCP: strangers, lost tasks, ports that are not reached, large arrays."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.distributed.server.fakes import DISABLED, Outcome, Task, asked, echo_request
from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.channels import direct_channel
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.direct_channel import DirectChannel, Invitation
from tfjit.distributed.channels.local_channel import (
    VERSION,
    NotLocal,
    method_numbers,
    read_greeting,
)
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.parcels.frames import HELLO, RELEASE, REQUEST, BrokenConnection, Connection
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.methods import PARCELS, WORKER
from tfjit.distributed.server.local_listener import _MOST_STRANGERS
from tfjit.framework import errors

WAITING = {
    *(method_numbers()[WORKER, name] for name in ("RunGraph", "RecvTensor")),
    method_numbers()[PARCELS, "RecvTensors"],
}


@pytest.fixture(autouse=True)
def _between_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED["direct"])


@pytest.fixture
def served() -> Iterator[Task]:
    made = Task()
    yield made
    made.close()


def invitation(task: Task) -> Invitation:
    """Ask for the port and the token, as clients do."""
    return Invitation.decode(task.channel._invite())


def stranger(task: Task) -> socket.socket:
    return socket.create_connection(("127.0.0.1", invitation(task).port), 10)


def status(task: Task) -> Any:
    return task.channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 20)


def ended(made: socket.socket) -> bool:
    """Wait for the other end to close a connection without a word."""
    with contextlib.suppress(ConnectionResetError):
        assert made.recv(100) == b""
    made.close()
    return True


def greeting(**about: Any) -> bytes:
    message = json.dumps(about).encode()
    return struct.pack("<HBBIQQQ", 0x7F17, HELLO, VERSION, 0, 0, len(message), 0) + message


def test_a_task_is_found_behind_its_first_answer(served: Task) -> None:
    assert served.channel.frames() is None  # nothing is known of the task
    found = served.wait_for_frames()
    assert isinstance(found, DirectChannel)
    assert status(served).device_attributes[0].incarnation == 7


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + bytes(100),
        greeting(),
        greeting(token=""),
        greeting(token=7),
        greeting(token="\udc80"),
        greeting(token="0" * 32),
        greeting(token="0" * 600),
        struct.pack("<HBBIQQQ", 0x7F17, HELLO, VERSION, 0, 0, 1 << 39, 0),
        struct.pack("<HBBIQQQ", 0x7F17, HELLO, VERSION, 60_000, 0, 2, 0) + bytes(4096),
        struct.pack("<HBBIQQQ", 0x7F17, HELLO, VERSION, 0, 0, 512, 0) + b"[" * 512,
        struct.pack("<HBBIQQQ", 0x7F17, REQUEST, 0, 0, 0, 2, 0) + b"{}",
        struct.pack("<HBBIQQQ", 0x7F17, RELEASE, 0, 0, 0, 0, 0),
    ],
    ids=range(12),
)
def test_strangers_are_turned_away(served: Task, sent: bytes) -> None:
    made = stranger(served)
    with contextlib.suppress(ConnectionError):
        made.sendall(sent)
    assert ended(made)
    assert isinstance(served.wait_for_frames(), DirectChannel)


def test_silent_strangers_are_turned_away(served: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than may be silent at once; the others follow."""
    from tfjit.distributed.server import local_listener

    monkeypatch.setattr(local_listener, "HELLO_S", 0.1)
    found = [stranger(served) for _ in range(_MOST_STRANGERS + 5)]
    assert all(map(ended, found))
    assert isinstance(served.wait_for_frames(), DirectChannel)


def greeted(task: Task) -> Connection:
    made = stranger(task)
    connection = Connection(made)
    shown = json.dumps({"token": invitation(task).token}).encode()
    connection.send(HELLO, VERSION, 0, shown)
    read_greeting(connection)
    connection.is_greeted = True
    return connection


@given(st.binary(max_size=100), st.integers(0, 40))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_garbage_is_answered_or_ends_its_connection(served: Task, data: bytes, method: int) -> None:
    connection = greeted(served)
    connection.set_timeout(10.0)
    with contextlib.suppress(BrokenConnection):
        connection.send(REQUEST, method, 5, data, [np.zeros(len(data), np.uint8)])
        if method in method_numbers().values() and method not in WAITING:
            connection.receive()
    connection.close()
    with contextlib.suppress(ConnectionError), stranger(served) as made:
        made.sendall(data)
    status(served)


@pytest.mark.parametrize(
    "described", [(5, 0, 1, 4096), (1 << 41, -1, 0, 0), ((1 << 64) - 1, 3, 0, 1 << 30)]
)
def test_blocks_and_impossible_sizes_end_a_connection(
    served: Task, described: tuple[int, ...]
) -> None:
    """No client of another host names files of this one."""
    connection = greeted(served)
    head = struct.pack("<HBBIQQQ", 0x7F17, REQUEST, 0, 1, 1, 0, 0)
    connection._socket.sendall(head + struct.pack("<QqQQQ?", *described, 0, False))
    assert ended(connection._socket)  # not by a time limit
    status(served)


def test_a_large_array_keeps_no_short_one_waiting(
    served: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a connection of its own, which the client does not read yet."""
    found = served.wait_for_frames()
    assert isinstance(found, DirectChannel)
    other = found.of_size(direct_channel.LARGE)
    assert other is not found and found.of_size(direct_channel.LARGE) is other
    assert found.of_size(direct_channel.LARGE - 1) is found
    worker, large, short = RemoteWorker(served.channel), Outcome(), Outcome()
    value = np.arange(direct_channel.LARGE, dtype=np.uint8)
    worker.receive_tensor(3, "large", large)
    asked(served, 1)
    served.worker.waiting.pop("large")(None, value, False)  # its size is known from now on
    assert np.array_equal(large.wait()[1], value)

    opened, reads = threading.Event(), threading.Event()
    read = Connection._array

    def late(connection: Connection, size: int) -> np.ndarray:
        if size == value.nbytes:
            reads.set()
            assert opened.wait(60)
        return read(connection, size)

    monkeypatch.setattr(Connection, "_array", late)
    large = Outcome()
    worker.receive_tensor(4, "large", large)
    asked(served, 1)
    served.worker.waiting.pop("large")(None, value, False)
    assert reads.wait(60)
    worker.receive_tensor(4, "short", short)
    asked(served, 1)
    served.worker.waiting.pop("short")(None, np.float32(2), False)
    assert short.wait()[1] == 2 and not large.values
    opened.set()
    assert np.array_equal(large.wait()[1], value)


def test_a_task_that_was_started_again() -> None:
    """Calls do not fail, since a connection without calls tells of the end."""
    task = Task()
    channel, address = task.channel, task.address
    first = task.wait_for_frames()
    done = Outcome()
    channel.start(WORKER, "CleanupGraph", protos.CleanupGraphRequest(step_id=1), done)
    assert done.wait()[0] is None
    task.services.stop(0)
    again = Task(int(address.rpartition(":")[2]))
    try:
        wait_until(lambda: first.is_lost)
        wait_for_ready = (WORKER, "GetStatus", protos.GetStatusRequest(), 20, None, True)
        assert channel.call(*wait_for_ready).device_attributes
        wait_until(lambda: channel.frames() is not None)
        assert channel.frames() is not first
        assert channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 20).device_attributes
    finally:
        again.close()
        channel.close()


def test_a_task_that_goes_fails_its_calls() -> None:
    task = Task()
    task.wait_for_frames()
    outcome = Outcome()
    RemoteWorker(task.channel).receive_tensor(3, "k", outcome)
    asked(task, 1)
    task.services.stop(0)
    assert isinstance(outcome.wait()[0], (errors.UnavailableError, errors.CancelledError))
    task.channel.close()


def test_a_port_that_cannot_be_reached_leaves_grpc(
    served: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = served.channel._direct
    assert direct is not None
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(direct, "_invite", lambda: Invitation(port, "").encode())
        with pytest.raises(NotLocal):
            DirectChannel(served.address, Invitation(port, ""))
        for _ in range(5):
            status(served)
            assert served.channel.frames() is None
        wait_until(lambda: not direct._looks and direct._again_s > time.monotonic())
        assert served.channel.frames() is None and not direct._looks


def test_a_wrong_token_and_other_invitations(served: Task) -> None:
    port = invitation(served).port
    with pytest.raises(NotLocal):
        DirectChannel(served.address, Invitation(port, "0" * 32))
    for data in (
        b"",
        b"[]",
        b"{}",
        b'{"port": 0, "token": ""}',
        b'{"port": 5}',
        b"\xff",
        b"7",
        b"[" * 10_000,
    ):
        with pytest.raises(ValueError):
            Invitation.decode(data)


@pytest.mark.parametrize("at_server", [True, False])
def test_the_setting_turns_it_off(monkeypatch: pytest.MonkeyPatch, at_server: bool) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED["gRPC" if at_server else "direct"])
    task = Task()
    monkeypatch.setenv("TFJIT_DISABLE", DISABLED["direct" if at_server else "gRPC"])
    channel = Channel(task.address)
    for _ in range(3):
        channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 20)
        assert channel.frames() is None
    if at_server:
        with pytest.raises(errors.UnavailableError, match="Method not found"):
            channel._invite()
    else:
        assert channel._direct is None
    channel.close()
    task.close()


def test_closed_channels_leave_no_descriptors_and_threads(served: Task) -> None:
    served.wait_for_frames()

    def footprint() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    time.sleep(0.05)
    gc.collect()
    descriptors, threads = footprint()
    for after_s in (0.0, 0.001, 0.003, 0.1):  # some while the task is looked for
        channel = Channel(served.address)
        for _ in range(2):
            channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 20)
        channel.frames()
        time.sleep(after_s)
        channel.close()
        del channel
    gc.collect()
    wait_until(lambda: footprint()[0] <= descriptors and footprint()[1] <= threads)


def test_steps_and_callers_of_both_kinds(served: Task) -> None:
    served.wait_for_frames()
    value = np.arange(1000.0)
    found = served.channel.beside(0)
    assert isinstance(found, DirectChannel)
    request = Parcel(echo_request(np.float32(0)))
    request.message.feed[0].tensor.Clear()
    request.fill(request.message.feed[0].tensor, value)
    answer = found.call("tensorflow.MasterService", "RunStep", request)
    np.testing.assert_array_equal(answer.value(answer.message.tensor[0].tensor), value)
