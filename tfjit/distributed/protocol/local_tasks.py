"""Masters and workers of this process, by their address.

A caller in the same process needs no channel.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tfjit.distributed.protocol.interfaces import MasterInterface, WorkerInterface

_LOCK: Final = threading.Lock()
_TASKS: Final[dict[tuple[int, str], tuple[MasterInterface, WorkerInterface]]] = {}


def add(address: str, master: MasterInterface, worker: WorkerInterface) -> None:
    """Make a task known that serves "host:port"."""
    with _LOCK:
        _TASKS[os.getpid(), address] = master, worker


def remove(address: str) -> None:
    """Forget a task; an unknown one is ignored."""
    with _LOCK:
        _TASKS.pop((os.getpid(), address), None)


def find_master(address: str) -> MasterInterface | None:
    """Return the master that serves an address in this process, or None."""
    found = _TASKS.get((os.getpid(), address))  # a forked child has no servers
    return None if found is None else found[0]


def find_worker(address: str) -> WorkerInterface | None:
    """Return the worker that serves an address in this process, or None."""
    found = _TASKS.get((os.getpid(), address))
    return None if found is None else found[1]


__all__ = ["add", "find_master", "find_worker", "remove"]
