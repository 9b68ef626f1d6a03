"""Servers start, refuse and stop as TensorFlow's, and graceful stops let steps end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distributed.server.fakes import FakeMaster, FakeWorker, echo_request
from tfjit import protos
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.protocol import credentials, local_tasks
from tfjit.distributed.protocol.credentials import Credentials
from tfjit.distributed.protocol.interfaces import StepCall
from tfjit.distributed.protocol.methods import MASTER, WORKER
from tfjit.distributed.server.server import Server, TaskSetup, make_task
from tfjit.framework import errors

LOCAL = {"worker": ["localhost:0"]}
WAIT_S = 60.0


class Fakes:
    """A factory that keeps what it was given and made."""

    def __init__(self) -> None:
        self.setup: TaskSetup | None = None
        self.master, self.worker = FakeMaster(), FakeWorker()

    def __call__(self, setup: TaskSetup) -> tuple[FakeMaster, FakeWorker]:
        self.setup = setup
        return self.master, self.worker


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def server(fakes: Fakes) -> Iterator[Server]:
    made = Server(LOCAL, factory=fakes)
    yield made
    made.stop()


def ask(server: Server) -> Any:
    channel = Channel(server.target.removeprefix("grpc://"))
    try:
        return channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), WAIT_S)
    finally:
        channel.close()


def test_a_server_of_the_cluster(fakes: Fakes) -> None:
    cluster = {"ps": ["ps0:2222", "ps1:2222"], "worker": {3: "localhost:0", 5: "w5:1"}}
    config = protos.ConfigProto(intra_op_parallelism_threads=2)
    server = Server(cluster, "worker", 3, config=config, factory=fakes)
    port = server.target.rpartition(":")[2]
    assert server.target == f"grpc://localhost:{port}" and ask(server).device_attributes
    assert server.server_def.cluster.job[1].tasks[3] == "localhost:0"
    assert fakes.setup is not None and fakes.setup.config == config
    assert fakes.setup.task == server.task == "/job:worker/replica:0/task:3"
    assert fakes.setup.peers == {
        "/job:ps/replica:0/task:0": "ps0:2222",
        "/job:ps/replica:0/task:1": "ps1:2222",
        "/job:worker/replica:0/task:3": f"localhost:{port}",
        "/job:worker/replica:0/task:5": "w5:1",
    }
    server.stop()
    assert fakes.master.closed and fakes.worker.closed


def test_callers_of_the_process_find_the_task(server: Server, fakes: Fakes) -> None:
    address = server.target.removeprefix("grpc://")
    assert local_tasks.find_master(address) is fakes.master
    assert local_tasks.find_worker(address) is fakes.worker
    server.stop()
    assert local_tasks.find_master(address) is None


def test_a_server_that_is_not_started(fakes: Fakes) -> None:
    server = Server(LOCAL, start=False, factory=fakes)
    address = server.target.removeprefix("grpc://")
    assert not address.endswith(":0") and local_tasks.find_master(address) is None
    server.start()
    server.start()
    assert ask(server).device_attributes
    server.stop()
    server.stop()
    with pytest.raises(errors.FailedPreconditionError, match="stopped"):
        server.start()


def test_join_waits_for_stop(server: Server) -> None:
    thread = threading.Thread(target=server.join)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    server.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    with pytest.raises(errors.UnavailableError):
        ask(server)


def test_the_port_is_free_after_stop(server: Server, fakes: Fakes) -> None:
    address = server.target.removeprefix("grpc://")
    with pytest.raises(errors.UnknownError, match="Could not start gRPC server"):
        Server({"worker": [address]}, factory=fakes)
    server.stop()
    again = Server({"worker": [address]}, factory=fakes)
    assert ask(again).device_attributes
    again.stop()


def test_a_failed_start_frees_the_port(fakes: Fakes) -> None:
    ports = []

    def fail(setup: TaskSetup) -> Any:
        ports.append(setup.peers[setup.task])
        raise errors.NotFoundError(None, None, "no such device")

    with pytest.raises(errors.NotFoundError, match="no such device"):
        Server(LOCAL, factory=fail)
    server = Server({"worker": ports}, factory=fakes)
    server.stop()


def step_that_waits(fakes: Fakes) -> tuple[threading.Event, threading.Event, list[Any]]:
    """Make steps wait; return the events of their begin and of their way out."""
    begun, go, cancelled = threading.Event(), threading.Event(), []

    def step(call: StepCall) -> tuple[list[Any], Any]:
        assert call.cancellation is not None
        call.cancellation.register(lambda: (cancelled.append(True), go.set()))
        begun.set()
        assert go.wait(WAIT_S)
        return [value for _, value in call.feeds], None

    fakes.master.step = step
    return begun, go, cancelled


def start_step(server: Server) -> tuple[Channel, threading.Event, list[Any]]:
    channel = Channel(server.target.removeprefix("grpc://"))
    over, outcome = threading.Event(), []

    def done(error: Any, answer: Any) -> None:
        outcome.extend((error, answer))
        over.set()

    channel.start(MASTER, "RunStep", echo_request(np.float32(1)), done)
    return channel, over, outcome


def test_a_graceful_stop_lets_steps_end(server: Server, fakes: Fakes) -> None:
    begun, go, cancelled = step_that_waits(fakes)
    channel, over, outcome = start_step(server)
    assert begun.wait(WAIT_S)
    stopping = threading.Thread(target=server.stop, args=(WAIT_S,))
    stopping.start()
    while not server._services.activity.is_draining:
        time.sleep(0.005)
    # new work is refused, and the tasks of the running step still exchange tensors
    with pytest.raises(errors.UnavailableError, match="stopping"):
        channel.call(MASTER, "RunStep", echo_request(np.float32(1)), WAIT_S)
    with pytest.raises(errors.UnavailableError, match="stopping"):
        channel.call(MASTER, "CreateSession", protos.CreateSessionRequest(), WAIT_S)
    assert channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), WAIT_S)
    assert not over.is_set()
    go.set()
    stopping.join(WAIT_S)
    assert over.wait(WAIT_S) and outcome[0] is None and not cancelled
    channel.close()


def test_a_stop_cancels_steps_after_their_time(server: Server, fakes: Fakes) -> None:
    begun, _, cancelled = step_that_waits(fakes)
    channel, over, outcome = start_step(server)
    assert begun.wait(WAIT_S)
    started = time.monotonic()
    server.stop(0.2)
    assert time.monotonic() - started < WAIT_S / 2
    assert over.wait(WAIT_S) and isinstance(outcome[0], errors.OpError)
    assert fakes.master.closed
    until = time.monotonic() + WAIT_S
    while not cancelled:
        assert time.monotonic() < until
        time.sleep(0.005)
    channel.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_no_server() -> None:
    """In a process without the threads of the tests."""
    code = """
import os
from tests.distributed.server.fakes import FakeMaster, FakeWorker
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.server.server import Server
from tfjit.framework import errors
from tfjit import protos
server = Server({"w": ["localhost:0"]}, factory=lambda setup: (FakeMaster(), FakeWorker()))
address = server.target[7:]
read, write = os.pipe()
until, over = os.pipe()
child = os.fork()
if not child:
    try:
        server.join()
    except errors.FailedPreconditionError:
        server.stop()
        os.write(write, b"none" if local_tasks.find_master(address) is None else b"one")
    os.read(until, 1)  # lives on until the parent has seen that its port is free
    os._exit(0)
channel = Channel(address)
assert channel.call("tensorflow.WorkerService", "GetStatus", protos.GetStatusRequest(), 20)
assert os.read(read, 4) == b"none"
server.stop()
Server({"w": [address]}, factory=lambda setup: (FakeMaster(), FakeWorker())).stop()
os.write(over, b"x")
os.waitpid(child, 0)
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "fine\n", done.stderr


def test_the_end_of_the_process_stops_servers() -> None:
    """Also without a reference to the server, and with a step that never ends."""
    code = """
import threading
from tests.distributed.server.fakes import FakeMaster, FakeWorker, echo_request
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.server.server import Server
begun = threading.Event()
def make(setup):
    master = FakeMaster()
    master.step = lambda call: (begun.set(), threading.Event().wait())
    return master, FakeWorker()
target = Server({"w": ["localhost:0"]}, factory=make).target
Channel(target[7:]).start("tensorflow.MasterService", "RunStep", echo_request(1.0), print)
assert begun.wait(60)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_an_address_that_is_not_loopback(
    fakes: Fakes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other hosts are admitted only where the caller says so."""
    cluster = {"worker": ["a-host.invalid:0"]}
    server = Server(cluster, factory=fakes)
    port = int(server.target.rpartition(":")[2])
    assert server.target == f"grpc://localhost:{port}" and "no other host" in caplog.text
    assert ask(server).device_attributes
    with socket.socket() as other:  # another loopback address is another interface
        assert other.connect_ex(("127.0.0.2", port))
    server.stop()
    caplog.clear()
    monkeypatch.setenv("TFJIT_BIND", "127.0.0.2")
    server = Server(cluster, factory=fakes)
    port = int(server.target.rpartition(":")[2])
    assert server.target == f"grpc://a-host.invalid:{port}" and not caplog.text
    with socket.socket() as other:
        assert not other.connect_ex(("127.0.0.2", port))
    server.stop()
    server = Server(cluster, factory=fakes, bind="0.0.0.0")
    with socket.socket() as other:
        assert not other.connect_ex(("127.0.0.3", int(server.target.rpartition(":")[2])))
    server.stop()


def certificates(folder: Path) -> Credentials:
    """Make a key and a certificate for localhost that is its own authority."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return Credentials.from_files(key, certificate, certificate)


@pytest.mark.skipif(
    subprocess.run(["which", "openssl"], capture_output=True).returncode != 0, reason="no openssl"
)
def test_tls(fakes: Fakes, tmp_path: Path) -> None:
    made = certificates(tmp_path)
    assert b"PRIVATE KEY" not in repr(made).encode()
    server = Server(LOCAL, factory=fakes, credentials=made)
    assert ask(server).device_attributes  # the process knows the credentials for the address
    address = server.target.removeprefix("grpc://")
    for other in (Credentials(authority=made.authority), None):  # no certificate; no TLS
        credentials._BY_ADDRESS.pop(address, None)
        channel = Channel(address, None if other is None else other.of_channel())
        with pytest.raises(errors.UnavailableError):
            channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), WAIT_S)
        channel.close()
    server.stop()
    with pytest.raises(errors.InvalidArgumentError, match="needs a key"):
        Server(LOCAL, factory=fakes, credentials=Credentials())


def test_the_collection_of_idle_sessions_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    def collectors() -> int:
        return sum(one.name == "tfjit-session-gc" for one in threading.enumerate())

    before = collectors()
    for seconds, expected in (("", before), ("60", before + 1)):
        monkeypatch.setenv("TFJIT_SESSION_GC_S", seconds)
        task = "/job:local/replica:0/task:0"
        master, worker = make_task(TaskSetup(task, {task: "localhost:1"}, None))
        assert collectors() == expected
        master.close()
        worker.close()
