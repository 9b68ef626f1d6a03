"""The devices of a session on a cluster, and its passes' options."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tfjit.distributed.master.cluster import SHORT_TIMEOUT_S, Cluster, matches
from tfjit.distributed.master.concurrent_calls import Outcome, call_all, first_error
from tfjit.distributed.protocol.task_names import task_of
from tfjit.framework import errors
from tfjit.framework.types import device_spec
from tfjit.kernels.ir.backend import HOST, backend_for, device_types
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.kernel_api.kernel_query import has_kernel
from tfjit.runtime.session import session_config

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.manager.pass_context import PassOptions

log: Final = logging.getLogger("tfjit.distributed")

LOG_PERIOD_S: Final = 10.0
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_OTHER_PRIORITY: Final = 50  # of device types that this process has no backend for


def signed(incarnation: int) -> int:
    """Return an incarnation in the form of an int64 attr."""
    return incarnation - (1 << 64) if incarnation >= 1 << 63 else incarnation


@dataclass(frozen=True, slots=True)
class ClusterDevices:
    """The devices of a session as their tasks report them.

    own: DeviceAttributes of the master's task; the first CPU of these is the client device.
    others: those of all other tasks.
    """

    own: tuple[Any, ...]
    others: tuple[Any, ...]

    @property
    def all(self) -> tuple[Any, ...]:
        """Return the devices of all tasks, the client device first."""
        return (*self.own, *self.others)

    @property
    def client(self) -> Any:
        """Return the client device: feeds arrive there and fetches leave from there."""
        return self.own[0]


def find_devices(
    cluster: Cluster,
    filters: Sequence[str] = (),
    cancellation: CancellationManager | None = None,
    log_period_s: float = LOG_PERIOD_S,
) -> ClusterDevices:
    """Ask every task for its devices, and wait until all have answered.

    Tasks that are not up yet are asked again, and logged now and then. Raises the error of a task
    that answers with one, CancelledError when `cancellation` ends the wait.
    """
    stopped = threading.Event()
    waiting = set(cluster.tasks(filters))

    def asker(task: str) -> Callable[[], list[Any]]:
        def ask() -> list[Any]:
            pause = _FIRST_PAUSE_S
            while True:
                try:
                    found = cluster.worker(task, SHORT_TIMEOUT_S).get_status()
                except (errors.UnavailableError, errors.DeadlineExceededError):
                    if stopped.wait(pause):
                        raise
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
                    continue
                waiting.discard(task)
                return found

        return ask

    def report() -> None:
        while not stopped.wait(log_period_s):
            for task in sorted(waiting):
                log.info("CreateSession still waiting for response from worker: %s", task)

    tasks = cluster.tasks(filters)
    if len(tasks) > 1:
        threading.Thread(target=report, name="tfjit-create-session", daemon=True).start()
    here = cluster.task if cluster.is_local(cluster.task) else ""
    try:
        outcomes = call_all({task: asker(task) for task in tasks}, here, cancellation)
    finally:
        stopped.set()
    return _devices(cluster, filters, outcomes)


def _devices(
    cluster: Cluster, filters: Sequence[str], outcomes: dict[str, Outcome[list[Any]]]
) -> ClusterDevices:
    error = first_error(outcomes)
    if error is not None:
        raise error
    own: list[Any] = []
    others: list[Any] = []
    for task, outcome in outcomes.items():
        for attributes in outcome.value or ():
            renamed = _of_task(attributes, task)
            if task == cluster.task:
                own.append(renamed)
            elif matches(filters, renamed.name):
                others.append(renamed)
    own.sort(key=lambda device: (device.device_type != HOST, _order(device.name)))
    if not own or own[0].device_type != HOST:
        raise errors.InternalError(None, None, f"Task {cluster.task} reports no CPU device.")
    return ClusterDevices(tuple(own), tuple(sorted(others, key=lambda device: _order(device.name))))


def _of_task(attributes: Any, task: str) -> Any:
    """Return attributes with the name in the session's cluster.

    A session may have a cluster of its own, in which a task is named otherwise than at its start.
    """
    if task_of(attributes.name) == task:
        return attributes
    renamed = type(attributes)()
    renamed.CopyFrom(attributes)
    renamed.name = task + attributes.name[attributes.name.index("/device:") :]
    return renamed


def _order(name: str) -> tuple[str, int, str, int]:
    spec = device_spec.parse(name)
    return spec.job or "", spec.task or 0, spec.device_type or "", spec.device_index or 0


def pass_options(config: Any, devices: ClusterDevices) -> PassOptions:
    """Return the options of the passes over a whole graph.

    Partitions are tasks, whose workers run the passes over them. Feeds and fetches meet the client
    at the client device.
    """
    from tfjit.passes.manager.pass_context import ClientRendezvous, DeviceInfo

    backends = {kind: backend_for(kind) for kind in device_types()}

    def priority(attributes: Any, is_own: bool) -> int:
        backend = backends.get(attributes.device_type)
        # among devices of one type, those of the master's task come first
        return 2 * (backend.priority if backend is not None else _OTHER_PRIORITY) + is_own

    infos = [
        DeviceInfo(d.name, d.device_type, signed(d.incarnation), priority(d, d in devices.own))
        for d in devices.all
    ]
    known = has_kernel(backends, _passes_on)

    def query(op: str, device_type: str, dtypes: Sequence[DType]) -> bool:
        return device_type in backends and known(op, device_type, dtypes)

    client = infos[0]
    return replace(
        session_config.pass_options_of(config),
        devices=tuple(infos),
        has_kernel=query,
        location=_location,
        client=ClientRendezvous(client.name, client.incarnation),
        distributed_names=True,
        section="cluster",
        over_partitions=False,
    )


def _location(node: Node) -> str:
    return task_of(node.assigned_device)


def _passes_on(op: str) -> bool:
    """Return whether the executor itself serves an op, on any device."""
    from tfjit.runtime.executor.node_runner import has_own_runner

    return has_own_runner(op)


__all__ = ["ClusterDevices", "find_devices", "pass_options", "signed"]
