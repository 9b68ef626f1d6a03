"""Workers that record their calls and answer as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tfjit
from tfjit import protos
from tfjit.distributed.master.master import Master
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.interfaces import (
    Cancel,
    GraphCall,
    GraphDone,
    GraphResult,
    StepCall,
    WorkerInterface,
    WorkerSessionCall,
)
from tfjit.distributed.protocol.task_names import task_of
from tfjit.framework import errors
from tfjit.runtime.host.rendezvous import Received

Answer = Callable[[GraphCall], GraphResult]


def zeros(call: GraphCall) -> GraphResult:
    """Answer each fetch with a zero."""
    return GraphResult({key: np.float32(0) for key in call.fetches})


class FakeWorker(WorkerInterface):
    """A worker of one task.

    log: the calls, in order. graphs: registered GraphDefs by handle. answer: of a run; it may
    raise. silent: runs are never answered but by their cancellation.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.log: list[str] = []
        self.graphs: dict[str, Any] = {}
        self.calls: list[GraphCall] = []
        self.sessions: dict[str, WorkerSessionCall] = {}
        self.answer: Answer = zeros
        self.silent = False
        self.failures: dict[str, Exception] = {}
        self.started = threading.Event()

    def _note(self, method: str) -> None:
        self.log.append(method)
        if method in self.failures:
            raise self.failures[method]

    def get_status(self) -> list[Any]:
        """Return one CPU."""
        self._note("GetStatus")
        name = f"{self.task}/device:CPU:0"
        return [protos.DeviceAttributes(name=name, device_type="CPU", incarnation=1 << 63 | 5)]

    def create_worker_session(self, call: WorkerSessionCall) -> None:
        """Record a session."""
        self._note("CreateWorkerSession")
        self.sessions[call.session] = call

    def delete_worker_session(self, session: str) -> None:
        """Forget a session."""
        self._note("DeleteWorkerSession")
        self.sessions.pop(session, None)

    def register_graph(
        self,
        session: str,
        graph_def: Any,
        config: Any = None,
        graph_options: Any = None,
        collective_graph_key: int = 0,
    ) -> str:
        """Record a graph."""
        self._note("RegisterGraph")
        handle = f"g{self.log.count('RegisterGraph')}"
        self.graphs[handle] = graph_def
        return handle

    def deregister_graph(self, session: str, graph: str) -> None:
        """Forget a graph."""
        self._note("DeregisterGraph")
        del self.graphs[graph]

    def start_graph(self, call: GraphCall, done: GraphDone) -> Cancel:
        """Answer at once, or at the cancellation where the worker is silent."""
        self.calls.append(call)
        self.started.set()
        ended = threading.Lock()

        def cancel() -> None:
            if ended.acquire(blocking=False):
                done(errors.CancelledError(None, None, f"{self.task} was cancelled"), None)

        try:
            self._note("RunGraph")
            result = None if self.silent else self.answer(call)
        except Exception as error:
            ended.acquire()
            done(error, None)
            return cancel
        if result is not None:
            ended.acquire()
            done(None, result)
        return cancel

    def cleanup_graph(self, step_id: int) -> None:
        """Record the end of a step."""
        self._note("CleanupGraph")

    def cleanup_all(self, containers: Sequence[str]) -> None:
        """Record the containers."""
        self._note(f"CleanupAll {list(containers)}")

    def receive_tensor(self, step_id: int, key: str, done: Received, request_id: int = 0) -> Cancel:
        """Refuse: fake workers exchange nothing."""
        raise NotImplementedError


class FakeCluster:
    """A master whose workers are fakes in this process."""

    def __init__(self, tasks: int = 2, **arguments: Any) -> None:
        names = [f"/job:w/replica:0/task:{index}" for index in range(tasks)]
        self.workers = [FakeWorker(name) for name in names]
        self.addresses = {name: f"{name}:1" for name in names}
        self.master = Master(names[0], self.addresses, self.workers[0], **arguments)
        for worker in self.workers[1:]:
            local_tasks.add(self.addresses[worker.task], self.master, worker)

    def close(self) -> None:
        """Close the master, and make the tasks unknown."""
        self.master.close()
        for address in self.addresses.values():
            local_tasks.remove(address)

    def session(self, config: Any = None) -> str:
        """Return a session with nodes t0, t1, ... on the tasks."""
        with tfjit.Graph().as_default() as graph:
            for index in range(len(self.workers)):
                with tfjit.device(f"/job:w/task:{index}"):
                    fed = tfjit.placeholder(tfjit.float32, [], name=f"x{index}")
                    tfjit.negative(fed, name=f"t{index}")
        return self.master.create_session(graph.as_graph_def(), config)[0]

    def run(self, session: str, *tasks: int, **call: Any) -> list[Any]:
        """Feed and fetch the nodes of tasks."""
        feeds = [(f"x{index}:0", np.float32(1)) for index in tasks]
        fetches = [f"t{index}:0" for index in tasks]
        return self.master.run_step(StepCall(session, feeds, fetches, [], **call))[0]


def devices_of(graph_def: Any) -> set[str]:
    """Return the tasks of a partition's nodes."""
    return {task_of(node.device) for node in graph_def.node}
