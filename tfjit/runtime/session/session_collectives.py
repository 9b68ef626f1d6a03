"""Give a session the collectives of its devices."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfjit.framework import errors
from tfjit.runtime.host.device import TASK_PREFIX, DeviceManager
from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.runtime.collectives.collective_manager import CollectiveManager
    from tfjit.runtime.collectives.collective_params import Resolved
    from tfjit.runtime.collectives.step_collectives import NodeKey


class SessionCollectives:
    """The collectives of a session.

    made: their manager, None before the first use. resolved: groups of the nodes that keep theirs.
    """

    def __init__(self, devices: DeviceManager, shared: CollectiveManager | None = None) -> None:
        """Make none yet.

        shared: the manager of several sessions, None for the session's own.
        """
        self.made: CollectiveManager | None = None
        self.resolved: dict[NodeKey, Resolved] = {}
        self._devices = devices
        self._shared = shared
        self._lock = threading.Lock()

    def manager(self) -> CollectiveManager:
        """Return the manager, made at the first use."""
        with self._lock:
            if self.made is None:
                self.made = self._shared or self._new()
            return self.made

    def _new(self) -> CollectiveManager:
        from tfjit.runtime.collectives.collective_manager import CollectiveManager

        return CollectiveManager(self._devices, TASK_PREFIX)

    def close(self) -> None:
        """Cancel the session's own collectives, and forget all."""
        if self.made is not None and self.made is not self._shared:
            self.made.close(errors.CancelledError(None, None, "Session has been closed."))
        self.made = None
        self.resolved.clear()

    def after_fork(self) -> None:
        """Forget the manager in a forked child: its threads are gone."""
        release_lock(self._lock)
        self.made = None
        self.resolved.clear()
