"""Hold the collections of a graph: lists of its parts by name."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any


class GraphCollections:
    """The collections of a graph. Thread-safe.

    lock: the graph's.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._members: dict[object, list[Any]] = {}

    def names(self) -> list[object]:
        """Return the names of all collections."""
        with self._lock:
            return list(self._members)

    def add(self, name: object, value: object) -> None:
        """Append `value` to a collection."""
        with self._lock:
            self._members.setdefault(name, []).append(value)

    def take_copies(self, other: GraphCollections, wanted: Callable[[object], bool]) -> None:
        """Replace all by copies of another graph's collections.

        wanted: says for a name whether that collection is copied.
        """
        self._members = {
            name: list(members) for name, members in other._members.items() if wanted(name)
        }

    def list_of(self, name: object) -> list[Any]:
        """Return the list of a collection itself, made when missing."""
        with self._lock:
            return self._members.setdefault(name, [])

    def members(self, name: object, scope: str | None) -> list[Any]:
        """Return the members of a collection.

        scope: a regular expression; only members whose name matches it from the start are given.
        """
        with self._lock:
            members = self._members.get(name, [])
            if scope is None:
                return list(members)
            pattern = re.compile(scope)
            return [item for item in members if hasattr(item, "name") and pattern.match(item.name)]

    def clear(self, name: object) -> None:
        """Drop a collection."""
        with self._lock:
            self._members.pop(name, None)
