"""Delete the tensors of handles that the program has dropped."""

from __future__ import annotations

import threading
from typing import Final

from tfjit.runtime.session_interface import SessionInterface

_BATCH: Final = 10
"""Number of tensors that are deleted together, as in TensorFlow."""


class DeadHandles:
    """Handles whose tensors a runtime session is going to delete."""

    def __init__(self, session: SessionInterface) -> None:
        self._session = session
        self._handles: list[str] = []
        self._lock = threading.Lock()
        self._closed = False

    def add(self, handle: str) -> None:
        """Delete the tensor of an unreferenced handle, together with others.

        Called by finalizers, anywhere and at any time.
        """
        self._handles.append(handle)
        if len(self._handles) < _BATCH or not self._lock.acquire(blocking=False):
            return
        try:
            dead, self._handles = self._handles, []
            if not self._closed:
                self._session.delete_session_tensors(dead)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Delete no more: the session frees all its tensors."""
        self._closed = True
