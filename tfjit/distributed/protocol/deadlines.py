"""End calls at their deadlines."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Final

_IDLE_S: Final = 10.0
_MAX_GONE: Final = 100

Expired = Callable[[], None]


class Deadlines:
    """Functions that are called at a time, on one thread.

    The thread ends when there has been none for a while. Functions must not wait.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._entries: list[tuple[float, int]] = []
        self._numbers = itertools.count()
        self._live: dict[int, Expired] = {}
        self._runs = False

    def add(self, after_s: float, expired: Expired) -> int:
        """Call `expired` after a time; return the number for `remove`."""
        with self._changed:
            number = next(self._numbers)
            self._live[number] = expired
            heapq.heappush(self._entries, (time.monotonic() + after_s, number))
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._work, name="tfjit-deadlines", daemon=True).start()
            elif self._entries[0][1] == number:
                self._changed.notify()
            return number

    def remove(self, number: int) -> None:
        """Forget a function; it may be running already."""
        with self._changed:
            self._live.pop(number, None)
            if not self._live:
                self._entries.clear()
            elif len(self._entries) > 2 * len(self._live) + _MAX_GONE:
                self._entries = [entry for entry in self._entries if entry[1] in self._live]
                heapq.heapify(self._entries)

    def _work(self) -> None:
        while True:
            with self._changed:
                while self._live and self._entries[0][1] not in self._live:
                    heapq.heappop(self._entries)
                if not self._live:
                    self._changed.wait(_IDLE_S)
                    if not self._live:
                        self._runs = False
                        return
                    continue
                at, number = self._entries[0]
                left = at - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                heapq.heappop(self._entries)
                expired = self._live.pop(number)
            expired()
