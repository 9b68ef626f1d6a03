"""A cluster of workers in this process, driven as a master does it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.interfaces import (
    GraphCall,
    GraphResult,
    MasterInterface,
    WorkerSessionCall,
)
from tfjit.distributed.server.services import Services
from tfjit.distributed.worker.worker import Worker
from tfjit.framework import errors
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import ClientRendezvous, DeviceInfo, PassOptions
from tfjit.passes.manager.pass_registry import OPTIMIZATIONS
from tfjit.passes.manager.pipeline_spec import Pipeline
from tfjit.passes.partitioning.place import place_graph
from tfjit.passes.pipeline import build
from tfjit.runtime.host.rendezvous import create_key

_NUMBERS = itertools.count(1)
LIMIT_S = 20.0


class Cluster:
    """Workers "/job:worker/replica:0/task:<n>" and one session on all of them.

    whole: no graph runs in stages. connected: the workers call each other through channels.
    """

    def __init__(
        self, count: int, config: Any = None, whole: bool = False, connected: bool = False
    ) -> None:
        number = next(_NUMBERS)
        tasks = [f"/job:worker/replica:0/task:{i}" for i in range(count)]
        self.services = [Services("127.0.0.1", 0) for _ in tasks] if connected else []
        names = [f"127.0.0.1:{made.port}" for made in self.services]
        names = names or [f"test-{number}-{i}:1" for i in range(count)]
        self.addresses = dict(zip(tasks, names))
        self.workers = [Worker(task, config, self.addresses) for task in tasks]
        master = _NoMaster()  # type: ignore[type-abstract,abstract]
        for made, worker in zip(self.services, self.workers):
            made.start(master, worker)
        for worker in () if connected else self.workers:
            local_tasks.add(self.addresses[worker.task], master, worker)
        self.whole = whole
        self.session = f"session-{number}"
        for worker in self.workers:
            worker.create_worker_session(WorkerSessionCall(self.session))
        attributes = [d for worker in self.workers for d in worker.get_status()]
        self.devices = tuple(DeviceInfo(d.name, d.device_type, d.incarnation) for d in attributes)
        self.client = ClientRendezvous(self.devices[0].name, self.devices[0].incarnation)
        self.steps = itertools.count(1)
        self.graphs: dict[Any, dict[int, str]] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *raised: object) -> None:
        for made in self.services:
            made.stop(0)
        for worker in self.workers:
            local_tasks.remove(self.addresses[worker.task])
            worker.close()

    def key(self, tensor: str) -> str:
        """Return the key of a feed or fetch."""
        return create_key(self.client.device, self.client.incarnation, self.client.device, tensor)

    def register(
        self,
        graph_def: Any,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        optimize: bool = True,
    ) -> dict[int, str]:
        """Register the partitions of a run; return the handles by worker."""
        default = Pipeline.default()
        options = PassOptions(
            devices=self.devices,
            location=lambda node: node.assigned_device.partition("/device:")[0],
            client=self.client,
            distributed_names=True,
            over_partitions=False,
            pipeline=default if optimize else default.without(*OPTIMIZATIONS),
        )
        graph = DataflowGraph.from_graph_def(graph_def)
        place_graph(graph, options)
        spec = RunSpec(tuple(feeds), tuple(fetches), tuple(targets))
        partitions, _ = build(graph, spec, options)
        handles = {}
        for part in partitions:
            number = int(part.device.rpartition(":")[2])
            worker = self.workers[number]
            handle = worker.register_graph(self.session, part.to_graph_def())
            handles[number] = handle
            if self.whole:
                worker._sessions[self.session]._graphs[handle].staged = None
        return handles

    def run(
        self,
        handles: Mapping[int, str],
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        limit_s: float = LIMIT_S,
        deadline_s: float | None = None,
    ) -> list[Any]:
        """Run one step of registered partitions; raise the first error.

        limit_s: of the test. deadline_s: of each call.
        """
        step = next(self.steps)
        over = threading.Semaphore(0)
        outcome: dict[int, Any] = {}
        cancels: dict[int, Any] = {}

        def answered(number: int) -> Any:
            def done(error: BaseException | None, result: GraphResult | None) -> None:
                assert number not in outcome, "reported twice"
                outcome[number] = error or result
                if error is not None:
                    failures.append(error)
                over.release()

            return done

        failures: list[BaseException] = []
        sent = {self.key(name): value for name, value in feeds.items()}
        for number, handle in handles.items():
            mine = self.workers[number]._sessions[self.session]._graphs[handle].fetches
            call = GraphCall(
                self.session,
                handle,
                step,
                sent if number == 0 else {},
                [self.key(name) for name in fetches if self.key(name) in mine],
                deadline_s=deadline_s,
            )
            cancels[number] = self.workers[number].start_graph(call, answered(number))
        for _ in handles:
            if not over.acquire(timeout=limit_s):
                failures.append(errors.DeadlineExceededError(None, None, "the step hangs"))
                for cancel in cancels.values():
                    cancel()
            if failures:
                for cancel in cancels.values():
                    cancel()
        for number in handles:
            self.workers[number].cleanup_graph(step)
        if failures:
            raise failures[0]
        values = {key: v for result in outcome.values() for key, v in result.fetches.items()}
        return [values[self.key(name)] for name in fetches]

    def compute(
        self,
        graph_def: Any,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str] = (),
        optimize: bool = True,
    ) -> list[Any]:
        """Register a run's partitions once, and run a step."""
        key = (id(graph_def), tuple(feeds), tuple(fetches), tuple(targets))
        handles = self.graphs.get(key)
        if handles is None:
            handles = self.register(graph_def, list(feeds), fetches, targets, optimize)
            self.graphs[key] = handles
        return self.run(handles, feeds, fetches)


class _NoMaster(MasterInterface):
    """Stands for the masters of tasks that have none."""


_NoMaster.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]
