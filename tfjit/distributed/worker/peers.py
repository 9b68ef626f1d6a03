"""The workers of other tasks, by the names of their tasks."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.channels.remote_worker import RemoteWorker
from tfjit.distributed.protocol import local_tasks
from tfjit.distributed.protocol.interfaces import WorkerInterface
from tfjit.framework import errors


class Channels:
    """The channels of a worker, one an address.

    They are made at the first call. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._workers: dict[str, RemoteWorker] = {}

    def worker(self, address: str) -> RemoteWorker:
        """Return the worker at an address."""
        with self._lock:
            found = self._workers.get(address)
            if found is None:
                found = self._workers[address] = RemoteWorker(Channel(address))
            return found

    def close(self) -> None:
        """Disconnect; calls end with CancelledError."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            worker.channel.close()


class Peers:
    """The workers of a cluster, as one session sees it.

    addresses: "host:port" by task.
    """

    def __init__(self, addresses: Mapping[str, str], channels: Channels) -> None:
        self._addresses = dict(addresses)
        self._channels = channels

    def worker(self, task: str) -> WorkerInterface:
        """Return the worker of a task. Raises InternalError for an unknown one."""
        address = self._addresses.get(task)
        if address is None:
            raise errors.InternalError(None, None, f"No worker known as {task}")
        local = local_tasks.find_worker(address)
        return local if local is not None else self._channels.worker(address)
