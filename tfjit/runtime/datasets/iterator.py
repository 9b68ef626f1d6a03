"""Iterators: resources that pull the elements of a dataset."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import format_shape, is_compatible
from tfjit.runtime.datasets.background import Prefetched
from tfjit.runtime.datasets.element import Element, Value
from tfjit.runtime.datasets.element_context import ElementContext
from tfjit.runtime.datasets.owned_values import given_out
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.runtime.datasets.dataset import Dataset, Elements
    from tfjit.runtime.kernel_api.op_kernel import StepContext

_QUICK_S: Final = 2e-3
"""CPU seconds of the elements that a step's own thread computes."""
_POLL_S: Final = 0.02


class NotReady:
    """The result of `poll` for an element that is not there yet."""


NOT_READY: Final = NotReady()


class IteratorResource:
    """An iterator, with or without a dataset.

    container, name: of the resource; "" for an anonymous one. types, shapes: those of its elements;
    none for an iterator of any elements.
    """

    def __init__(self, container: str, name: str, types: Sequence[DType], shapes: Sequence[Shape]):
        self.container, self.name = container, name
        self.types, self.shapes = tuple(types), tuple(shapes)
        self._lock = threading.Lock()
        self._elements: Elements | None = None
        self._context: ElementContext | None = None
        self._may_wait = False
        self._ended = False
        self._seconds = 0.0  # of an element, lately
        self._signatures: list[tuple[Value, Value]] = []
        self.making = threading.Lock()  # held by the first user of a one-shot iterator

    @property
    def is_initialized(self) -> bool:
        """Return whether the iterator has a dataset."""
        return self._elements is not None

    def restart(self, dataset: Dataset, step: StepContext) -> None:
        """Begin a pass over a dataset. Raises InvalidArgumentError where its elements differ."""
        if self.types:
            check_signature((self.types, self.shapes), dataset.types, dataset.shapes)
        context = ElementContext(step.host, step.host.cancellation, step.step_id)
        try:
            elements = dataset.start(context)
        except BaseException:
            context.close()
            raise
        with self._lock:
            old = self._elements, self._context
            self._elements, self._context = elements, context
            self._may_wait, self._ended, self._seconds = dataset.may_wait, False, 0.0
            self._signatures.clear()
            self._dataset = dataset.types, dataset.shapes
        _end(*old)

    def accepts(self, types: Value, shapes: Value) -> None:
        """Check the types and shapes that a node has declared.

        Raises InvalidArgumentError if not.
        """
        for known in self._signatures:
            if known[0] is types and known[1] is shapes:
                return
        if self.types:
            wanted = types, tuple(shape.dims_tuple for shape in shapes)
            check_signature(wanted, self.types, self.shapes)
        self._signatures.append((types, shapes))

    def poll(self, cancellation: CancellationManager) -> Element | NotReady | None:
        """Return the next element as `next` does, if that is quick.

        NOT_READY: another step has the iterator, or an element is slow or waits for a thread.
        """
        if not self._lock.acquire(blocking=False):
            return NOT_READY
        try:
            elements = self._elements
            is_quick = (
                self._ended
                or elements is None
                or (self._seconds < _QUICK_S and not self._may_wait and elements.is_ready)
            )
            return self._next(cancellation) if is_quick else NOT_READY
        finally:
            self._lock.release()

    def call_when_ready(self, attempt: Callable[[], None]) -> bool:
        """Call `attempt` when a thread has computed the next element.

        Returns whether it is called at all: no thread may be at work, or the element be there.
        """
        elements = self._elements
        return isinstance(elements, Prefetched) and elements.call_when_ready(attempt)

    def next(self, cancellation: CancellationManager) -> Element | None:
        """Return the next element; None at the end.

        Raises FailedPreconditionError without a dataset, the element's own error, and
        CancelledError for a step that has been cancelled.
        """
        while not self._lock.acquire(timeout=_POLL_S):
            if cancellation.cancelled:
                raise errors.CancelledError(None, None, "IteratorGetNext was cancelled")
        try:
            return self._next(cancellation)
        finally:
            self._lock.release()

    def _next(self, cancellation: CancellationManager) -> Element | None:
        """Return the next element, under the lock."""
        elements, context = self._elements, self._context
        if elements is None or context is None:
            raise errors.FailedPreconditionError(
                None,
                None,
                "GetNext() failed because the iterator has not been initialized. Ensure that "
                "you have run the initializer operation for this iterator before getting the "
                "next element.",
            )
        if self._ended:
            return None
        begin = time.thread_time()
        token = cancellation.register(context.interrupt)
        try:
            if token is None:
                raise errors.CancelledError(None, None, "IteratorGetNext was cancelled")
            element = next(elements)
        except StopIteration:
            self._ended = True
            elements.close()
            return None
        finally:
            cancellation.deregister(token)
            context.interrupted = False
        self._seconds += 0.25 * (time.thread_time() - begin - self._seconds)
        return [given_out(value) for value in element]

    def close(self) -> None:
        """Free the elements, with their threads and files."""
        context = self._context
        if context is not None:
            context.close()
        with self._lock:
            old = self._elements, self._context
            self._elements = self._context = None
        _end(*old)

    def after_fork(self) -> None:
        """Reset the iterator in a forked child, which has one thread."""
        release_lock(self._lock)
        release_lock(self.making)
        if self._elements is not None and self._elements.has_threads:
            self._elements = self._context = None  # uninitialized: its threads are the parent's

    def __del__(self) -> None:
        # an anonymous iterator ends with its last handle
        if self._elements is not None:
            self.close()


def _end(elements: Elements | None, context: ElementContext | None) -> None:
    if context is not None:
        context.close()
    if elements is not None:
        elements.close()


def check_signature(
    wanted: tuple[Sequence[DType], Sequence[Shape]], types: Sequence[DType], shapes: Sequence[Shape]
) -> None:
    """Raise InvalidArgumentError for elements of other types or shapes than wanted."""
    if len(wanted[0]) != len(types):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Number of components does not match: expected {len(wanted[0])} types but got "
            f"{len(types)}.",
        )
    for i, (expected, found) in enumerate(zip(wanted[0], types, strict=True)):
        if expected != found:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Data type mismatch at component {i}: expected {short_name(expected)} but got "
                f"{short_name(found)}.",
            )
    check_shapes(wanted[1], shapes)


def check_shapes(wanted: Sequence[Shape], shapes: Sequence[Shape]) -> None:
    """Raise InvalidArgumentError for elements of other shapes than wanted."""
    for i, (expected, shape) in enumerate(zip(wanted, shapes, strict=True)):
        if not is_compatible(expected, shape):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Incompatible shapes at component {i}: expected {format_shape(expected)} but got "
                f"{format_shape(shape)}.",
            )


__all__ = ["NOT_READY", "IteratorResource", "NotReady", "check_shapes", "check_signature"]
