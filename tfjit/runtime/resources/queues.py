"""Queues: FIFO, random-shuffle, padding and priority.

An operation that must wait does so without holding a thread.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.runtime.host.completion import Done

Element = tuple[Any, ...]


@dataclass(slots=True)
class _Attempt:
    """A waiting operation.

    try_run: completes the operation if it can now; returns whether it is over (it has called `done`
    then).
    """

    try_run: Callable[[], Callable[[], None] | None]
    done: Done
    token: int | None = None
    manager: CancellationManager | None = None
    cancelled: bool = False
    # returns the elements that a part of the operation took; called under the queue's lock
    undo: Callable[[], None] = lambda: None


class Store:
    """Elements in the order they leave. The queue's lock guards it."""

    def __init__(self) -> None:
        self._elements: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    def put(self, element: Element) -> None:
        """Add one."""
        self._elements.append(element)

    def take(self) -> Element:
        """Remove the next."""
        return self._elements.popleft()


class ShuffleStore(Store):
    """Elements leave in random order."""

    def __init__(self, seed: int, seed2: int) -> None:
        super().__init__()
        self._list: list[Element] = []
        self._random = np.random.Generator(
            np.random.Philox(key=[seed & 0xFFFFFFFFFFFFFFFF, seed2 & 0xFFFFFFFFFFFFFFFF])
            if seed or seed2
            else np.random.Philox()
        )

    def __len__(self) -> int:
        return len(self._list)

    def put(self, element: Element) -> None:
        self._list.append(element)

    def take(self) -> Element:
        i = int(self._random.integers(len(self._list)))
        self._list[i], self._list[-1] = self._list[-1], self._list[i]
        return self._list.pop()


class PriorityStore(Store):
    """Elements ordered by their first component, smallest first.

    The component is int64; equal ones leave in order of arrival.
    """

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[int, int, Element]] = []
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def put(self, element: Element) -> None:
        heapq.heappush(self._heap, (int(element[0]), next(self._arrivals), element))

    def take(self) -> Element:
        return heapq.heappop(self._heap)[2]


@dataclass(slots=True)
class Queue:
    """A queue resource.

    name: as messages say it (`resource_label`). dtypes, shapes: of the components; shapes is empty
    when elements of any shape are taken (then *Many and UpTo are refused). capacity: elements;
    negative = no limit. min_after_dequeue: of a shuffle queue, elements that stay while it is open.
    """

    name: str
    dtypes: tuple[DType, ...]
    shapes: tuple[Shape, ...]
    capacity: int
    store: Store
    min_after_dequeue: int = 0
    pads: bool = False
    type_name: str = "FIFOQueue"
    closed: bool = False
    accepted: dict[int, object] = field(default_factory=dict)  # attrs that fit the queue, by id
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _enqueues: deque[_Attempt] = field(default_factory=deque)
    _dequeues: deque[_Attempt] = field(default_factory=deque)

    def size(self) -> int:
        """Return the number of elements in the queue."""
        return len(self.store)

    def check_element(self, components: Sequence[Any], many: bool) -> None:
        """Raise InvalidArgumentError when the components do not fit the queue."""
        if len(components) != len(self.dtypes):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Wrong number of components in tuple. Expected {len(self.dtypes)}, got "
                f"{len(components)}",
            )
        if not many and self.shapes == tuple([getattr(v, "shape", None) for v in components]):
            return
        for i, (value, shape) in enumerate(zip(components, self.shapes, strict=False)):
            if shape is None:
                continue
            got = np.shape(value)
            expected = (*np.shape(components[0])[:1], *shape) if many else shape
            if len(expected) != len(got) or any(
                d is not None and d != s for d, s in zip(expected, got, strict=True)
            ):
                want = "[" + ",".join("?" if d is None else str(d) for d in expected) + "]"
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Shape mismatch in tuple component {i}. Expected {want}, got "
                    f"[{','.join(map(str, np.shape(value)))}]",
                )

    def enqueue(
        self, elements: list[Element], cancellation: CancellationManager, done: Done
    ) -> None:
        """Put the elements, as room allows; `done(())` once all are in."""
        with self._lock:
            fits = self.capacity < 0 or len(self.store) + len(elements) <= self.capacity
            at_once = fits and not (self.closed or self._enqueues or cancellation.cancelled)
            if at_once:
                for element in elements:
                    self.store.put(element)
        if at_once:
            if self._dequeues:
                self._advance()
            done(())
            return
        left = deque(elements)

        def attempt() -> Callable[[], None] | None:
            if self.closed:
                return lambda: done(
                    errors.CancelledError(None, None, f"{self._base_type} '{self.name}' is closed.")
                )
            while left and (self.capacity < 0 or len(self.store) < self.capacity):
                self.store.put(left.popleft())
            return (lambda: done(())) if not left else None

        self._begin(
            _Attempt(attempt, done), self._enqueues, cancellation, "Enqueue operation was cancelled"
        )

    def dequeue(
        self,
        count: int,
        up_to: bool,
        cancellation: CancellationManager,
        done: Callable[[Any], None],
    ) -> None:
        """Take `count` elements and call `done(list of elements)`.

        Fewer may come when the queue is closed and `up_to`.
        """
        with self._lock:
            kept = 0 if self.closed else self.min_after_dequeue
            has_all = len(self.store) >= kept + count
            at_once = has_all and not (self._dequeues or cancellation.cancelled)
            found = [self.store.take() for _ in range(count)] if at_once else []
        if at_once:
            if self._enqueues:
                self._advance()
            done(found)
            return
        taken: list[Element] = []

        def undo() -> None:
            for element in taken:  # a failed dequeue takes nothing
                self.store.put(element)
            taken.clear()

        def attempt() -> Callable[[], None] | None:
            ends = self.closed and not self._enqueues  # no element will come any more
            if ends and not up_to and len(self.store) < count - len(taken):
                # as TensorFlow counts them
                text = f"requested {count - len(taken)}, current size {len(self.store)}"
                undo()
                return lambda: done(self._insufficient(text, count))
            while len(taken) < count and len(self.store) > (
                0 if self.closed else self.min_after_dequeue
            ):
                taken.append(self.store.take())
            if len(taken) == count or (ends and taken):
                return lambda: done(taken)
            return (
                (lambda: done(self._insufficient(f"requested {count}, current size 0", count)))
                if ends
                else None
            )

        self._begin(
            _Attempt(attempt, done, undo=undo),
            self._dequeues,
            cancellation,
            "Dequeue operation was cancelled",
        )

    @property
    def _base_type(self) -> str:
        """Return the type name where single elements go in and out.

        A padding queue names itself a plain queue there.
        """
        return "FIFOQueue" if self.pads else self.type_name

    def _insufficient(self, counts: str, count: int) -> errors.OpError:
        kind = self._base_type if count == 1 else self.type_name
        return errors.OutOfRangeError(
            None, None, f"{kind} '{self.name}' is closed and has insufficient elements ({counts})"
        )

    def _begin(
        self,
        attempt: _Attempt,
        waiting: deque[_Attempt],
        cancellation: CancellationManager,
        cancelled: str,
    ) -> None:
        def cancel() -> None:
            with self._lock:
                attempt.cancelled = True
                try:
                    waiting.remove(attempt)
                except ValueError:
                    return  # the operation is over
                attempt.undo()
            self._advance()
            attempt.done(errors.CancelledError(None, None, cancelled))

        attempt.manager = cancellation
        attempt.token = cancellation.register(cancel)
        if attempt.token is None:
            attempt.done(errors.CancelledError(None, None, cancelled))
            return
        with self._lock:
            waiting.append(attempt)
        self._advance()

    def _advance(self) -> None:
        """Run waiting operations, in order of arrival, until none can run."""
        finished: list[tuple[_Attempt, Callable[[], None]]] = []
        with self._lock:
            moved = True
            while moved:
                moved = False
                for waiting in (self._enqueues, self._dequeues):
                    while waiting:
                        before = len(self.store)
                        over = waiting[0].try_run()
                        moved = moved or over is not None or len(self.store) != before
                        if over is None:
                            break
                        finished.append((waiting.popleft(), over))
        for attempt, over in finished:
            if attempt.manager is not None:
                attempt.manager.deregister(attempt.token)
            over()

    def after_fork(self) -> None:
        """Reset the queue in a forked child.

        The steps that wait here are the parent's.
        """
        release_lock(self._lock)
        waiting = [*self._enqueues, *self._dequeues]
        self._enqueues.clear()
        self._dequeues.clear()
        for attempt in waiting:
            attempt.undo()

    def close(self) -> None:
        """Refuse later enqueues and cancel waiting ones.

        Dequeues get the remaining elements.
        """
        with self._lock:
            cancelled = list(self._enqueues)
            self._enqueues.clear()
            self.closed = True
        for attempt in cancelled:
            if attempt.manager is not None:
                attempt.manager.deregister(attempt.token)
            attempt.done(errors.CancelledError(None, None, "Enqueue operation was cancelled"))
        self._advance()

    def close_after_enqueues(self, cancellation: CancellationManager, done: Done) -> None:
        """Close once the enqueues that wait now are over; `done(())` then.

        Raises CancelledError when closed already.
        """

        def attempt() -> Callable[[], None]:
            if self.closed:
                return lambda: done(
                    errors.CancelledError(None, None, f"Queue '{self.name}' is already closed.")
                )
            self.closed = True
            return lambda: done(())

        self._begin(
            _Attempt(attempt, done), self._enqueues, cancellation, "Close operation was cancelled"
        )
