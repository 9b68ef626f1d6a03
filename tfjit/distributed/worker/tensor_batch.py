"""Several tensors of a step for one task, in few messages.

Those that a stage makes go together, and none waits for a later one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from tfjit.distributed.protocol.interfaces import Cancel, ReceivedSome
from tfjit.distributed.worker.step_rendezvous import StepRendezvous
from tfjit.framework import errors

_LARGE: Final = 1 << 16
"""A tensor of as many bytes goes alone, behind the short ones."""
_SENDING: Final = threading.local()


@contextmanager
def one_batch() -> Iterator[None]:
    """Keep the tensors that this thread gives until the block ends."""
    before = getattr(_SENDING, "batches", None)
    _SENDING.batches = []
    try:
        yield
    finally:
        send_waiting()
        _SENDING.batches = before


def send_waiting() -> None:
    """Send the kept tensors, before this thread does something else."""
    waiting = getattr(_SENDING, "batches", None)
    while waiting:
        waiting.pop().send()


class TensorBatch:
    """The tensors that one call of another task waits for.

    done: gets them in parts, one part at a time. Thread-safe.
    """

    def __init__(self, step: StepRendezvous, keys: Sequence[str], done: ReceivedSome) -> None:
        self._step, self._keys = step, keys
        self._done: ReceivedSome | None = done
        self._left = len(keys)
        self._lock = threading.Lock()
        self._ready: list[tuple[int, Any, bool]] = []
        self._error: BaseException | None = None
        self._sends = True  # a thread does, at first that which asks
        self._waiters = [partial(self._has, index) for index in range(len(keys))]

    def start(self) -> Cancel:
        """Wait for the tensors; return a function that gives them up."""
        for key, waiter in zip(self._keys, self._waiters, strict=True):
            self._step.receive_here(key, waiter)
        self._send_ready()
        return self.cancel

    def cancel(self) -> None:
        """Give up the tensors that have not come."""
        given_up = 0
        for key, waiter in zip(self._keys, self._waiters, strict=False):  # none behind the end
            given_up += self._step.withdraw(key, waiter)
        if given_up:
            self._fail(errors.CancelledError(None, None, "RecvTensors was cancelled."))

    def _has(self, index: int, error: BaseException | None, value: Any, is_dead: bool) -> None:
        if error is not None:
            self._fail(error)
            return
        with self._lock:
            self._ready.append((index, value, is_dead))
        kept = getattr(_SENDING, "batches", None)
        if kept is None:
            self.send()
        elif self not in kept:
            kept.append(self)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._error = self._error or error
        self.send()

    def send(self) -> None:
        """Send what is ready, unless another thread does."""
        with self._lock:
            if self._sends:
                return
            self._sends = True
        self._send_ready()

    def _send_ready(self) -> None:
        while True:
            with self._lock:
                ready, self._ready = self._ready, []
                error, done = self._error, self._done
                if done is None or not (ready or error):
                    self._sends = False
                    return
                self._left -= len(ready)
                if error is not None or not self._left:
                    self._done, self._waiters = None, []  # they know this object
            if error is not None:
                done(error, ())
                return
            for part in _parts(ready):
                done(None, part)


def _parts(ready: list[tuple[int, Any, bool]]) -> Iterator[list[tuple[int, Any, bool]]]:
    """Yield the short tensors together, then each large one."""
    large = [item for item in ready if getattr(item[1], "nbytes", 0) >= _LARGE]
    if len(large) < len(ready):
        yield [item for item in ready if getattr(item[1], "nbytes", 0) < _LARGE]
    for item in large:
        yield [item]


__all__ = ["TensorBatch", "send_waiting", "one_batch"]
