"""The sizes of answers, by which the next requests are sent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final

_MOST: Final = 10_000


def bytes_of(values: Iterable[Any]) -> int:
    """Return the bytes of the arrays among values."""
    return sum(getattr(value, "nbytes", 0) for value in values)


class AnswerSizes:
    """The bytes of the last answer by request. Thread-safe.

    Only sizes of a threshold or more are kept, of a limited number of requests.
    """

    def __init__(self, least: int, most: int = _MOST) -> None:
        self._least, self._most = least, most
        self._sizes: dict[Hashable, int] = {}

    def find(self, key: Hashable) -> int:
        """Return the bytes of the last answer, 0 for a short one."""
        return self._sizes.get(key, 0)

    def note(self, key: Hashable, values: Iterable[Any]) -> None:
        """Keep the size of an answer."""
        size = bytes_of(values)
        if size < self._least:
            if self._sizes:
                self._sizes.pop(key, None)
            return
        if len(self._sizes) >= self._most:
            self._sizes.clear()
        self._sizes[key] = size


__all__ = ["AnswerSizes", "bytes_of"]
