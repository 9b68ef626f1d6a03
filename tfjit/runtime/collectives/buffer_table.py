"""The buffers that members exchange, given and taken once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from tfjit.framework import errors

Given = Callable[[BaseException | None], None]
"""Takes the error of a buffer that was not taken, else None."""
Taken = Callable[[BaseException | None, np.ndarray | None], None]
"""Takes (error, None) or (None, the buffer)."""


class BufferTable:
    """The buffers of a step by key. Thread-safe; no thread waits.

    The array that is given must not change until it is taken, nor afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: dict[str, tuple[np.ndarray, Given]] = {}
        self._takers: dict[str, Taken] = {}
        self._error: errors.OpError | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether no member waits here."""
        return not (self._given or self._takers)

    def give(self, key: str, value: np.ndarray, done: Given) -> None:
        """Leave a buffer; `done` is called when it has been taken."""
        with self._lock:
            error = self._error
            taker = None
            if error is None and key in self._given:
                error = errors.InternalError(
                    None, None, f"BufRendezvous::ProvideBuf already called for key {key}"
                )
            elif error is None:
                taker = self._takers.pop(key, None)
                if taker is None:
                    self._given[key] = value, done
                    return
        if taker is not None:
            taker(None, value)
        done(error)

    def take(self, key: str, done: Taken) -> None:
        """Take a buffer when it has come."""
        with self._lock:
            error = self._error
            found = None
            if error is None and key in self._takers:
                error = errors.InternalError(None, None, f"Second consumer arrived for key {key}")
            elif error is None:
                found = self._given.pop(key, None)
                if found is None:
                    self._takers[key] = done
                    return
        if found is None:
            done(error, None)
            return
        value, given = found
        done(None, value)
        given(None)

    def withdraw(self, key: str, done: Taken) -> None:
        """Give the wait for a buffer up.

        `done` gets CancelledError if it still waits.
        """
        with self._lock:
            if self._takers.get(key) is not done:
                return
            del self._takers[key]
        text = f"Operation was cancelled for BufRendezvous key {key}"
        done(errors.CancelledError(None, None, text), None)

    def abort(self, error: errors.OpError) -> None:
        """End all waits, and refuse further buffers."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            given, self._given = list(self._given.values()), {}
            takers, self._takers = list(self._takers.values()), {}
        for _, done in given:
            done(error)
        for taker in takers:
            taker(error, None)


__all__ = ["BufferTable", "Given", "Taken"]
