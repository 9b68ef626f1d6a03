"""The ids of recent requests: a request that arrives twice is refused."""

from __future__ import annotations

import threading
from typing import Final

from tfjit.framework import errors

_REMEMBERED: Final = 10_000
"""A request comes again within seconds; an id takes a hundred bytes."""


class RecentRequests:
    """The ids of the last 10,000 requests, or twice as many."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._lock = threading.Lock()
        self._latest: set[int] = set()
        self._earlier: set[int] = set()

    def check(self, request_id: int, method: str, about: str = "") -> None:
        """Record an id; 0 is no id.

        Raises AbortedError for an id that is known. about: tells the request in the error.
        """
        if not request_id:
            return
        with self._lock:
            if request_id in self._latest or request_id in self._earlier:
                text = f"The same {method} request was received twice. {about}"
                raise errors.AbortedError(None, None, text.rstrip())
            if len(self._latest) >= self._remembered:
                self._earlier, self._latest = self._latest, set()
            self._latest.add(request_id)


__all__ = ["RecentRequests"]
