"""Elements that threads compute ahead, in bounded buffers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.runtime.datasets.dataset import Elements
from tfjit.runtime.datasets.element import Element, Value

if TYPE_CHECKING:
    from tfjit.runtime.datasets.element_context import ElementContext

_TRIALS: Final = 8
"""Elements that the consumer's thread computes before it decides for threads."""
_WORTH_S: Final = 2e-4
"""Seconds of a call that pay for a change of threads."""

_NEVER_S: Final = 1e9

_END: Final = object()


class _Failure:
    """An element's error, to be raised in the order of elements."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class Background(Elements):
    """Base of elements that threads compute.

    The threads have a context of their own: a step that gives up does not end their waits. They
    begin with the first element and end with `close`.
    """

    __slots__ = ("_changed", "_closed", "_inner", "_run", "_threads")

    def __init__(self, run: ElementContext) -> None:
        super().__init__()
        self._run, self._inner = run, run.child()
        self._changed = threading.Condition()
        self._closed = False
        self._threads: list[threading.Thread] = []

    @property
    def has_threads(self) -> bool:
        return bool(self._threads)

    def _begin(self, count: int, work: Callable[[], None]) -> None:
        self._run.add_waker(self._wake)
        for _ in range(count):
            thread = threading.Thread(target=work, name="tfjit-dataset", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _wait(self) -> None:
        """Wait for a change as the consumer, under the lock.

        Raises CancelledError.
        """
        self._run.check()
        self._changed.wait()

    def close(self) -> None:
        """End the threads, and wait for calls of functions that run."""
        self._run.remove_waker(self._wake)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._inner.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._threads.clear()
        super().close()


class Prefetched(Background):
    """Elements that one thread computes ahead, at most `size` of them."""

    __slots__ = ("_attempts", "_buffer", "_is_started", "_size")

    def __init__(
        self, start: Callable[[ElementContext], Elements], run: ElementContext, size: int
    ) -> None:
        super().__init__(run)
        self.sources = (start(self._inner),)
        self._size = size
        self._buffer: deque[Value] = deque()
        self._attempts: deque[Callable[[], None]] = deque()
        self._is_started = False

    def start(self) -> None:
        """Begin to compute, if that has not begun."""
        if not self._is_started:
            self._is_started = True
            self._begin(1, self._work)

    @property
    def is_ready(self) -> bool:
        return bool(self._buffer)

    def call_when_ready(self, attempt: Callable[[], None]) -> bool:
        """Call `attempt` with the next element; return False if one is ready."""
        self.start()
        with self._changed:
            if self._buffer or self._closed:
                return False
            self._attempts.append(attempt)
            return True

    def __next__(self) -> Element:
        buffer = self._buffer
        self.start()
        with self._changed:
            while not buffer:
                if self._closed:
                    raise StopIteration
                self._wait()
            found = buffer[0]
            if found is _END:
                raise StopIteration
            buffer.popleft()
            self._changed.notify_all()
        if type(found) is _Failure:
            raise found.error
        return found

    def _work(self) -> None:
        source, buffer, size = self.sources[0], self._buffer, self._size
        changed = self._changed
        while True:
            found: Value
            try:
                found = next(source)
            except StopIteration:
                found = _END
            except BaseException as error:  # raised by the consumer
                found = _Failure(error)
            with changed:
                buffer.append(found)
                changed.notify_all()
            self._answer_attempts()
            with changed:
                while len(buffer) >= size and not self._closed:
                    changed.wait()
                if found is _END or self._closed:
                    return

    def _answer_attempts(self) -> None:
        """Call attempts while there are elements.

        The attempt of a step that has given up takes none.
        """
        while self._attempts and self._buffer:
            with self._changed:
                attempt = self._attempts.popleft() if self._attempts else None
            if attempt is not None:
                attempt()

    def close(self) -> None:
        """End the thread, and the waits of steps for its elements."""
        super().close()
        while self._attempts:
            self._attempts.popleft()()


class ParallelMapped(Background):
    """Results of several calls of a function at a time.

    call: the function of an element. in_order: an element's result comes when those before it have
    come. The first calls run on the consumer's thread; quick functions stay there, since a change
    of threads would cost more than the call.
    """

    __slots__ = (
        "_call",
        "_count",
        "_ended",
        "_in_order",
        "_input",
        "_seconds",
        "_slots",
        "_trials",
    )

    def __init__(
        self,
        start: Callable[[ElementContext], Elements],
        run: ElementContext,
        call: Callable[[ElementContext, Element], Element],
        count: int,
        in_order: bool,
        waits: bool,
    ) -> None:
        super().__init__(run)
        self.sources = (start(self._inner),)
        self._call, self._count, self._in_order = call, count, in_order
        self._slots: deque[list[Value]] = deque()  # [result] of calls in the order of elements
        self._input = threading.Lock()
        self._ended = False
        self._trials = 0 if waits else _TRIALS
        self._seconds = _NEVER_S  # the shortest call of late

    @property
    def is_ready(self) -> bool:
        if self._threads:
            return bool(self._slots) and bool(self._slots[0])
        return self._trials > 0 and super().is_ready

    def __next__(self) -> Element:
        if not self._threads:
            if self._ended or self._closed:
                raise StopIteration
            if self._trials:
                return self._on_this_thread()
            self._begin(self._count, self._work)
        with self._changed:
            while True:
                slot = self._done_slot()
                if slot is not None:
                    break
                if self._closed or (self._ended and not self._slots):
                    raise StopIteration
                self._wait()
            if slot[0] is _END:
                self._ended = True
                raise StopIteration
            self._slots.remove(slot)
            self._changed.notify_all()
        (found,) = slot
        if type(found) is _Failure:
            raise found.error
        return found

    def _on_this_thread(self) -> Element:
        element = next(self.sources[0])
        begin = time.perf_counter()
        result = self._call(self._inner, element)
        self._seconds = min(self._seconds, time.perf_counter() - begin)
        self._trials -= 1
        if not self._trials and self._seconds < _WORTH_S:
            self._trials, self._seconds = _TRIALS, _NEVER_S  # stays here, and is measured again
        return result

    def _done_slot(self) -> list[Value] | None:
        """Return the slot with the result that is due, under the lock."""
        slots = self._slots
        if self._in_order:
            return slots[0] if slots and slots[0] else None
        return next((slot for slot in slots if slot and slot[0] is not _END), None) or (
            slots[0] if slots and slots[0] else None
        )

    def _work(self) -> None:
        changed, slots, source = self._changed, self._slots, self.sources[0]
        while True:
            with self._input:
                with changed:
                    while len(slots) >= self._count and not self._closed:
                        changed.wait()
                    if self._closed or self._ended:
                        return
                slot: list[Value] = []
                failure = None
                try:
                    element = next(source)
                except StopIteration:
                    with changed:
                        self._ended = True
                        changed.notify_all()
                    return
                except BaseException as error:  # raised by the consumer
                    failure = _Failure(error)
                with changed:
                    slots.append(slot)
            found: Value = failure
            if failure is None:
                try:
                    found = self._call(self._inner, element)
                except StopIteration:
                    found = _END
                except BaseException as error:
                    found = _Failure(error)
            with changed:
                slot.append(found)
                if found is _END:
                    self._ended = True
                changed.notify_all()


def checked_parallelism(count: int, name: str = "num_parallel_calls") -> int:
    """Return a number of calls; -1 means one for each core.

    Raises InvalidArgumentError for any other number below 1.
    """
    from tfjit.runtime.host.thread_counts import cores

    if count == -1:
        return cores()
    if count < 1:
        raise errors.InvalidArgumentError(None, None, f"{name} must be greater than zero.")
    return count


__all__ = ["Background", "ParallelMapped", "Prefetched", "checked_parallelism"]
