"""The tasks of a cluster and the workers that serve them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.interfaces import WorkerInterface
from tfjit.framework import errors
from tfjit.framework.types import device_spec
from tfjit.framework.types.device_spec import DeviceSpec

SHORT_TIMEOUT_S: Final = 10.0
"""The limit of calls that take no time on a healthy task."""


def matches(filters: Sequence[str], name: str) -> bool:
    """Return whether filters admit a task or device.

    No filter admits all.
    """
    return not filters or any(
        _intersects(device_spec.parse(text), device_spec.parse(name)) for text in filters
    )


def _intersects(a: DeviceSpec, b: DeviceSpec) -> bool:
    pairs = (
        (a.job, b.job),
        (a.replica, b.replica),
        (a.task, b.task),
        (a.device_type, b.device_type),
        (a.device_index, b.device_index),
    )
    return all(x is None or y is None or x == y for x, y in pairs)


class Cluster:
    """The tasks that one task reaches, itself included.

    task: the own task. addresses: "host:port" by task. local: the worker of the own task, None to
    reach it by its address. credentials: gRPC's, for encrypted connections. channels: returns the
    channel to an address, None to make own ones; whoever gives them closes them.
    """

    def __init__(
        self,
        task: str,
        addresses: Mapping[str, str],
        local: WorkerInterface | None = None,
        credentials: Any = None,
        channels: Callable[[str], Channel] | None = None,
    ) -> None:
        self.task = task
        self._shared = channels
        self.addresses = dict(addresses)
        self.local = local
        self.credentials = credentials
        if local is None and task not in self.addresses:
            raise errors.InvalidArgumentError(
                None, None, f"The cluster has no task {task}: {', '.join(self.addresses)}"
            )
        self._lock = threading.Lock()
        self._channels: dict[str, Channel] = {}

    def tasks(self, filters: Sequence[str] = ()) -> list[str]:
        """Return the tasks that device filters admit.

        The own task is first, and always admitted.
        """
        return [self.task, *self._others(filters)]

    def _others(self, filters: Sequence[str]) -> Iterable[str]:
        return (
            task
            for task in sorted(self.addresses, key=_order)
            if task != self.task and matches(filters, task)
        )

    def is_local(self, task: str) -> bool:
        """Return whether calls to a task's worker need no connection."""
        return (task == self.task and self.local is not None) or (
            local_tasks.find_worker(self.addresses[task]) is not None
        )

    def worker(self, task: str, timeout_s: float | None = None) -> WorkerInterface:
        """Return the worker of a task.

        timeout_s: the limit of calls to another process that run no graphs, None for none.
        """
        if task == self.task and self.local is not None:
            return self.local
        address = self.addresses[task]
        found = local_tasks.find_worker(address)
        return found if found is not None else RemoteWorker(self._channel(address), timeout_s)

    def _channel(self, address: str) -> Channel:
        if self._shared is not None:
            return self._shared(address)
        with self._lock:
            found = self._channels.get(address)
            if found is None:
                found = self._channels[address] = Channel(address, self.credentials)
            return found

    def close(self) -> None:
        """Disconnect from all tasks; calls under way end with an error."""
        with self._lock:
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.close()


def _order(task: str) -> tuple[str, int]:
    spec = device_spec.parse(task)
    return spec.job or "", spec.task or 0


__all__ = ["SHORT_TIMEOUT_S", "Cluster", "matches"]
