"""The ids of recent requests: a request that arrives twice is refused."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from tfjit.framework import errors

_REMEMBERED: Final = 100_000


class RecentRequests:
    """The ids of the last requests, 100,000 of them."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._known: set[int] = set()
        self._order: deque[int] = deque()

    def check(self, request_id: int, method: str, about: str = "") -> None:
        """Record an id; 0 is no id.

        Raises AbortedError for an id that is known. about: tells the request in the error.
        """
        if not request_id:
            return
        with self._lock:
            if request_id in self._known:
                text = f"The same {method} request was received twice. {about}"
                raise errors.AbortedError(None, None, text.rstrip())
            self._known.add(request_id)
            self._order.append(request_id)
            if len(self._order) > self._remembered:
                self._known.discard(self._order.popleft())


__all__ = ["RecentRequests"]
