"""A master and a worker that record their calls and answer by functions of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.waiting import wait_until
from tfjit import protos
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.local_channel import LocalChannel
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.interfaces import (
    Cancel,
    GraphCall,
    GraphDone,
    GraphResult,
    MasterInterface,
    StepCall,
    WorkerInterface,
    WorkerSessionCall,
)
from tfjit.distributed.protocol.methods import WORKER, response_class
from tfjit.distributed.protocol.tensors import fill
from tfjit.distributed.server.services import Services
from tfjit.framework import errors

WAIT_S = 60.0
DEVICE = "/job:worker/replica:0/task:0/device:CPU:0"


def device() -> protos.DeviceAttributes:
    return protos.DeviceAttributes(name=DEVICE, device_type="CPU", incarnation=7)


class FakeMaster(MasterInterface):
    """Answer steps with their feeds; `step` replaces that."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.step: Callable[[StepCall], tuple[list[Any], Any]] = self.echo
        self.error: BaseException | None = None
        self.closed = False

    def echo(self, call: StepCall) -> tuple[list[Any], Any]:
        fed = dict(call.feeds)
        return [fed[name] for name in call.fetches], None

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def create_session(self, graph_def: Any, config: Any, target: str = "") -> tuple[str, int]:
        self._called("create_session", graph_def, config, target)
        return "a session", len(graph_def.node)

    def extend_session(self, session: str, graph_def: Any, version: int) -> int:
        self._called("extend_session", session, graph_def, version)
        return version + 1

    def run_step(self, call: StepCall) -> tuple[list[Any], Any]:
        self._called("run_step", call)
        return self.step(call)

    def partial_run_setup(
        self,
        session: str,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        request_id: int = 0,
    ) -> str:
        self._called("partial_run_setup", session, feeds, fetches, targets, request_id)
        return "a partial run"

    def close_session(self, session: str) -> None:
        self._called("close_session", session)

    def list_devices(self, session: str = "") -> tuple[list[Any], list[Any]]:
        self._called("list_devices", session)
        return [device()], []

    def reset(self, containers: Sequence[str], device_filters: Sequence[str]) -> None:
        self._called("reset", containers, device_filters)

    def make_callable(self, session: str, options: Any, request_id: int = 0) -> int:
        self._called("make_callable", session, options, request_id)
        return 11

    def run_callable(
        self,
        session: str,
        callable_handle: int,
        values: Sequence[Any],
        request_id: int = 0,
        cancellation: Any = None,
    ) -> tuple[list[Any], Any]:
        self._called("run_callable", session, callable_handle, values, request_id)
        return list(values), protos.RunMetadata()

    def release_callable(self, session: str, callable_handle: int) -> None:
        self._called("release_callable", session, callable_handle)

    def close(self) -> None:
        self.closed = True


class FakeWorker(WorkerInterface):
    """Answer graphs with their feeds; keep requests for tensors until the test answers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.waiting: dict[str, Any] = {}
        self.cancelled: list[Any] = []
        self.asked = threading.Condition()
        self.graph: Callable[[GraphCall, GraphDone], Cancel] = self.echo
        self.error: BaseException | None = None
        self.closed = False

    def echo(self, call: GraphCall, done: GraphDone) -> Cancel:
        done(None, GraphResult({key: call.feeds[key] for key in call.fetches}))
        return lambda: None

    def _called(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def get_status(self) -> list[Any]:
        self._called("get_status")
        return [device()]

    def create_worker_session(self, call: WorkerSessionCall) -> None:
        self._called("create_worker_session", call)

    def delete_worker_session(self, session: str) -> None:
        self._called("delete_worker_session", session)

    def register_graph(
        self,
        session: str,
        graph_def: Any,
        config: Any = None,
        graph_options: Any = None,
        collective_graph_key: int = 0,
    ) -> str:
        called = session, graph_def, config, graph_options, collective_graph_key
        self._called("register_graph", *called)
        return "a graph"

    def deregister_graph(self, session: str, graph: str) -> None:
        self._called("deregister_graph", session, graph)

    def start_graph(self, call: GraphCall, done: GraphDone) -> Cancel:
        self._called("start_graph", call)
        return self.graph(call, done)

    def cleanup_graph(self, step_id: int) -> None:
        self._called("cleanup_graph", step_id)

    def cleanup_all(self, containers: Sequence[str]) -> None:
        self._called("cleanup_all", containers)

    def receive_buffer(self, request: Any, done: Any) -> Cancel:
        self._called("receive_buffer", request)
        done(None, np.arange(min(request.num_bytes, 1 << 20), dtype=np.uint8))
        return lambda: None

    def complete_group(self, request: Any, done: Any) -> Cancel:
        self._called("complete_group", request)
        done(None, protos.CompleteGroupResponse(group_key=request.group_key))
        return lambda: None

    def complete_instance(self, request: Any, done: Any) -> Cancel:
        self._called("complete_instance", request)
        done(None, protos.CompleteInstanceResponse(instance_key=request.instance_key))
        return lambda: None

    def get_step_sequence(self, request: Any) -> Any:
        self._called("get_step_sequence", request)
        return protos.GetStepSequenceResponse()

    def receive_tensor(self, step_id: int, key: str, done: Any, request_id: int = 0) -> Cancel:
        self._called("receive_tensor", step_id, key, request_id)

        def cancel() -> None:
            with self.asked:
                self.cancelled.append(key)
                self.asked.notify_all()
            done(errors.CancelledError(None, None, "cancelled"), None, False)

        with self.asked:
            self.waiting[key] = done
            self.asked.notify_all()
        return cancel

    def receive_tensors(
        self, step_id: int, keys: Sequence[str], done: Any, request_id: int = 0
    ) -> Cancel:
        self._called("receive_tensors", step_id, keys, request_id)
        self.receive_tensor(step_id, ",".join(keys), done)

        def cancel() -> None:
            with self.asked:
                self.cancelled += keys
            done(errors.CancelledError(None, None, "cancelled"), ())

        return cancel

    def close(self) -> None:
        self.closed = True


DISABLED = {
    "gRPC": "local_channel,direct_channel",
    "local": "direct_channel",
    "direct": "local_channel",
}
"""TFJIT_DISABLE for tasks that are called in one way alone."""


class Task:
    """A fake master and worker behind a port, and a channel to them."""

    def __init__(self, port: int = 0) -> None:
        self.master, self.worker = FakeMaster(), FakeWorker()
        self.services = Services("127.0.0.1", port)
        self.services.start(self.master, self.worker)
        self.address = f"127.0.0.1:{self.services.port}"
        self.channel = Channel(self.address)

    def wait_for_frames(self) -> LocalChannel:
        """Return the channel of frames to the task; over TCP an answer has to come first."""
        self.channel.call(WORKER, "GetStatus", protos.GetStatusRequest())
        wait_until(lambda: self.channel.frames() is not None)
        found = self.channel.frames()
        assert found is not None
        return found

    def call(self, service: str, method: str, request: Any, timeout_s: float = 20.0) -> Any:
        local = self.channel.frames()
        if local is not None and method in ("RunStep", "RunCallable", "RecvTensor"):
            return self._call_beside(local, service, method, request, timeout_s)
        answer = self.channel.call(service, method, request, timeout_s)
        return response_class(method).FromString(answer) if isinstance(answer, bytes) else answer

    @staticmethod
    def _call_beside(
        local: LocalChannel, service: str, method: str, request: Any, timeout_s: float
    ) -> Any:
        """Call through a channel of frames, whose answer then has all tensors in its message."""
        parcel = local.call(service, method, Parcel(request), timeout_s)
        message = parcel.message
        found = [item.tensor for item in message.tensor] if method == "RunStep" else []
        found += list(message.fetch) if method == "RunCallable" else []
        found += [message.tensor] if method == "RecvTensor" else []
        for proto in found:
            if proto.version_number:
                value = parcel.value(proto)
                proto.Clear()
                fill(proto, value)
        return message

    def close(self) -> None:
        self.channel.close()
        self.services.stop(0)


def echo_request(value: Any, **fields: Any) -> protos.RunStepRequest:
    """A RunStep that feeds x:0 and fetches it."""
    request = protos.RunStepRequest(session_handle="a session", fetch=["x:0"], **fields)
    fed = request.feed.add()
    fed.name = "x:0"
    fill(fed.tensor, value)
    return request


class Outcome:
    """The arguments that a `done` was called with."""

    def __init__(self) -> None:
        self.values: tuple[Any, ...] = ()
        self._over = threading.Event()
        self.count = 0

    def __call__(self, *values: Any) -> None:
        self.values = values
        self.count += 1
        self._over.set()

    def wait(self) -> tuple[Any, ...]:
        assert self._over.wait(WAIT_S)
        return self.values


def asked(task: Task, count: int) -> None:
    """Wait until the worker was asked for so many tensors."""
    with task.worker.asked:
        assert task.worker.asked.wait_for(lambda: len(task.worker.waiting) >= count, WAIT_S)
