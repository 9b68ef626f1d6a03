"""Give kernels to compiler processes, several at a time when many wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit.kernels.jit.target import available_cpus

if TYPE_CHECKING:
    from tfjit.kernels.jit.worker import Worker

_LONG_QUEUE = 6  # kernels, per worker
# Requests given to one worker: it never waits for the next, and few are lost when it dies.
_IN_FLIGHT = 2


class CompileQueue:
    """Queue of requested kernels before the compiler processes.

    A kernel that ends its process twice is lost, and every one if no process starts.
    """

    def __init__(
        self,
        lock: threading.Lock,
        request: Callable[[str], dict[str, object] | None],
        answered: Callable[[dict[str, object]], None],
        lost: Callable[[Sequence[str], str], None],
    ) -> None:
        """Make an empty queue without processes.

        lock: the owner's, which guards the queue as well. request: returns the message for a key,
        or None once the kernel is settled; the lock is held. answered, lost: called on threads of
        the processes without the lock; lost gets keys and the reason.
        """
        self.workers: list[Worker] = []
        self._lock = lock
        self._request, self._answered, self._lost = request, answered, lost
        self._keys: deque[str] = deque()
        self._for_others: deque[str] = deque()  # behind all of `_keys`
        self._max_workers = max(1, min(4, available_cpus() // 4))
        self._wanted_workers = 1
        self._deaths: dict[str, int] = {}
        self._closed = False

    def busy_workers(self) -> int:
        """Return the number of compiler processes at work.

        Takes no lock: a number of a moment ago will do.
        """
        return sum(1 for worker in self.workers if worker.in_flight)

    # the callers of the next five hold the lock

    def want_workers(self, count: int) -> None:
        """Allow `count` processes for a short queue, too."""
        self._wanted_workers = max(self._wanted_workers, count)

    def put(self, key: str, for_others: bool = False) -> None:
        """Add a kernel.

        for_others: this process may have no use for the kernel, so all others go before.
        """
        (self._for_others if for_others else self._keys).append(key)
        self._dispatch()

    def need(self, key: str) -> None:
        """Move a kernel for other processes to the end of the queue."""
        if key in self._for_others:
            self._for_others.remove(key)
            self._keys.append(key)

    def close(self) -> list[Worker]:
        """Drop the waiting kernels and return the processes.

        The caller closes them without the lock.
        """
        self._closed = True
        self._keys.clear()
        self._for_others.clear()
        workers, self.workers = self.workers, []
        return workers

    def _dispatch(self) -> None:
        """Hand over as many kernels as the processes take."""
        while (keys := self._keys or self._for_others) and not self._closed:
            worker = min(self.workers, key=lambda w: len(w.in_flight), default=None)
            # Another worker costs half a second of Numba's import and 150 MB: only a long queue or
            # a waiting caller is worth it.
            worker_limit = (
                self._max_workers
                if len(self._keys) > _LONG_QUEUE * len(self.workers)
                else self._wanted_workers
            )
            if worker is None or (worker.in_flight and len(self.workers) < worker_limit):
                from tfjit.kernels.jit.worker import Worker

                worker = Worker(self._on_answer, self._on_end)
                self.workers.append(worker)
            if len(worker.in_flight) >= _IN_FLIGHT:
                return
            key = keys.popleft()
            request = self._request(key)
            if request is not None:
                worker.in_flight.append(key)
                worker.send(request)

    def _on_answer(self, worker: Worker, answer: dict[str, object]) -> None:
        key = str(answer["key"])
        with self._lock:
            if key in worker.in_flight:
                worker.in_flight.remove(key)
            self._dispatch()
        self._answered(answer)

    def _on_end(self, worker: Worker, returncode: int) -> None:
        reason, lost = "", []
        with self._lock:
            if worker in self.workers:
                self.workers.remove(worker)
            keys = [key for key in worker.in_flight if self._request(key) is not None]
            worker.in_flight.clear()
            if self._closed:
                return
            if not worker.ready and returncode != 0:  # the next worker would fail in the same way
                reason = (
                    worker.fatal
                    or f"the compiler process does not start (exit status {returncode})"
                )
                lost = [*keys, *self._keys, *self._for_others]
                self._keys.clear()
                self._for_others.clear()
            elif keys:
                first = keys[0]  # The current kernel is to blame; the others are requested again.
                # 0: the worker had been idle for long and left as the request came
                if returncode != 0:
                    self._deaths[first] = self._deaths.get(first, 0) + 1
                if self._deaths.get(first, 0) > 1:
                    reason = f"the compiler process ended twice over it (exit status {returncode})"
                    lost, keys = [first], keys[1:]
                self._keys.extendleft(reversed(keys))
                self._dispatch()
        if lost:
            self._lost(lost, reason)
