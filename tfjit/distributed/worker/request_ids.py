"""Remember the ids of recent requests."""

from __future__ import annotations

import threading
from collections import deque

from tfjit.framework import errors


class RequestIds:
    """The last non-zero ids of one method's requests. Thread-safe."""

    def __init__(self, method: str, size: int = 100_000) -> None:
        self._method = method
        self._size = size
        self._lock = threading.Lock()
        self._seen: set[int] = set()
        self._order: deque[int] = deque()

    def check(self, request_id: int, about: str) -> None:
        """Remember an id; 0 is none.

        Raises AbortedError for one that was seen before. about: tells the request in the error.
        """
        if not request_id:
            return
        with self._lock:
            if request_id not in self._seen:
                self._seen.add(request_id)
                self._order.append(request_id)
                if len(self._order) > self._size:
                    self._seen.discard(self._order.popleft())
                return
        raise errors.AbortedError(
            None, None, f"The same {self._method} request was received twice. {about}"
        )
