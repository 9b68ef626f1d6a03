"""Steps whose workers are lost behind a connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from tests.distributed.master.fake_workers import FakeCluster, FakeWorker
from tests.waiting import PATIENCE_S
from tfjit import protos
from tfjit.distributed.master.master import Master
from tfjit.distributed.protocol import methods
from tfjit.distributed.protocol.methods import WORKER
from tfjit.framework import errors


class HangingServer:
    """A worker that registers graphs and never answers their runs."""

    def __init__(self, port: int = 0) -> None:
        self.running = threading.Event()
        self.release = threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        handlers = {name: self._handler(name) for name in methods.method_names(WORKER)}
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(WORKER, handlers),)
        )
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        self.server.start()

    def _handler(self, name: str) -> Any:
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._answer(name),
            methods.request_class(name).FromString,
            methods.response_class(name).SerializeToString,
        )

    def _answer(self, name: str) -> Any:
        if name == "RunGraph":
            self.running.set()
            self.release.wait(PATIENCE_S)
        answer = methods.response_class(name)()
        if name == "GetStatus":
            device = "/job:w/replica:0/task:1/device:CPU:0"
            answer.device_attributes.add(name=device, device_type="CPU", incarnation=9)
        if name == "RegisterGraph":
            answer.graph_handle = "g"
        return answer

    def stop(self) -> None:
        self.release.set()
        self.server.stop(0).wait(PATIENCE_S)


class RemoteCluster(FakeCluster):
    """A fake worker as task 0, and task 1 behind a port."""

    def __init__(self, port: int) -> None:
        names = [f"/job:w/replica:0/task:{index}" for index in range(2)]
        self.workers = [FakeWorker(name) for name in names]
        self.addresses = {names[0]: "unused:1", names[1]: f"127.0.0.1:{port}"}
        self.master = Master(names[0], self.addresses, self.workers[0])


@pytest.fixture
def server() -> Iterator[HangingServer]:
    made = HangingServer()
    yield made
    made.stop()


@pytest.fixture
def cluster(server: HangingServer) -> Iterator[RemoteCluster]:
    made = RemoteCluster(server.port)
    yield made
    made.close()


def run(cluster: RemoteCluster, **call: Any) -> tuple[errors.OpError, float]:
    """Return the error of a step on both tasks, and its time."""
    handle = cluster.session()
    began = time.monotonic()
    with pytest.raises(errors.OpError) as info:
        cluster.run(handle, 0, 1, **call)
    return info.value, time.monotonic() - began


def test_a_worker_that_dies_in_a_step(server: HangingServer, cluster: RemoteCluster) -> None:
    cluster.workers[0].silent = True

    def die() -> None:
        assert server.running.wait(PATIENCE_S)
        server.server.stop(0)

    threading.Thread(target=die).start()
    error, elapsed_s = run(cluster)
    assert isinstance(error, (errors.UnavailableError, errors.CancelledError))
    assert error.message.startswith("From /job:w/replica:0/task:1:\n")
    assert elapsed_s < PATIENCE_S / 2


def test_a_worker_that_is_gone_and_comes_back(
    server: HangingServer, cluster: RemoteCluster
) -> None:
    handle = cluster.session()
    server.stop()
    with pytest.raises(errors.UnavailableError):
        cluster.run(handle, 0, 1)
    cluster.master.close_session(handle)
    again = HangingServer(server.port)
    again.release.set()
    assert cluster.run(cluster.session(), 0, 1) == [0, 0]
    again.stop()


def test_a_deadline_passes_while_a_worker_hangs(cluster: RemoteCluster) -> None:
    error, elapsed_s = run(cluster, options=protos.RunOptions(timeout_in_ms=100))
    assert isinstance(error, errors.DeadlineExceededError) and elapsed_s < PATIENCE_S / 2
