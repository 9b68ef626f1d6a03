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
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import enum_name, int32
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.kernel_api.op_kernel import Done, OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.op_kernels.state.signatures import check_signature

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape

Element = tuple[Any, ...]

_MAX_ACCEPTED: Final = 64
"""Attrs of nodes that a queue remembers to be its own."""


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


_LABELS: Final = itertools.count()


def resource_label(ctx: OpContext) -> str:
    """Return a resource's name in messages: its shared name.

    Without one TensorFlow counts resources and writes "_0_queue".
    """
    shared: str = ctx.attrs.get("shared_name", b"").decode()
    return shared or f"_{next(_LABELS)}_{ctx.name}"


def _queue(ctx: OpContext, make_store: Callable[[], Store], **kw: Any) -> Queue:
    a = ctx.attrs
    name = a.get("shared_name", b"").decode() or ctx.name
    container = a.get("container", b"").decode()
    resources = ctx.session.manager(ctx.device.name)
    known = resources.find(container, "Queue", name)
    if known is not None and known.accepted.get(id(a)) is a:
        return known
    kind = ctx.op.removesuffix("V2")
    shapes = tuple(shape.dims_tuple for shape in a.get("shapes", ()))
    if kind == "PriorityQueue":
        from tfjit.framework.types.dtypes import int64

        dtypes = (int64, *a.get("component_types", ()))
        shapes = ((), *shapes)
    else:
        dtypes = tuple(a["component_types"])

    def make() -> Queue:
        return Queue(
            resource_label(ctx),
            dtypes,
            shapes,
            a.get("capacity", -1),
            make_store(),
            type_name=kind,
            **kw,
        )

    queue: Queue = resources.lookup_or_create(container, "Queue", name, make)
    if queue.type_name != kind:
        raise errors.InvalidArgumentError(None, None, f"Expected {queue.type_name}, found {ctx.op}")
    if queue.capacity != a.get("capacity", -1):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Shared queue '{name}' has capacity {queue.capacity} but requested capacity was "
            f"{a.get('capacity', -1)}",
        )
    if queue.shapes != shapes:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Shared queue '{name}' has component shapes {_shape_texts(queue.shapes)} but "
            "requested component shapes were "
            f"{_shape_texts(shapes)}",
        )
    if queue.dtypes != dtypes:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Shared queue '{name}' has component types {_names(queue.dtypes)} but requested "
            f"component types were {_names(dtypes)}",
        )
    if len(queue.accepted) < _MAX_ACCEPTED:
        queue.accepted[id(a)] = a
    return queue


def _shape_texts(shapes: Sequence[Shape]) -> str:
    return f"[{','.join(format_shape(shape) for shape in shapes)}]"


def _names(dtypes: Sequence[DType]) -> str:
    return ", ".join(enum_name(d)[3:].lower() for d in dtypes)


def _queue_of(value: Any) -> Queue:
    """Return the queue that a handle refers to.

    Raises InvalidArgumentError for a handle of something else.
    """
    if not isinstance(value, Queue):
        raise errors.InvalidArgumentError(
            None, None, f"the handle belongs to a {type(value).__name__}, not to a queue"
        )
    return value


@runtime_kernel("FIFOQueue", "FIFOQueueV2")
def fifo_queue(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a queue in order of arrival."""
    return (_queue(ctx, Store),)


@runtime_kernel("PaddingFIFOQueue", "PaddingFIFOQueueV2")
def padding_fifo_queue(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a FIFO queue whose DequeueMany pads with zeros.

    Elements of a batch get the largest shape.
    """
    return (_queue(ctx, Store, pads=True),)


@runtime_kernel("RandomShuffleQueue", "RandomShuffleQueueV2")
def random_shuffle_queue(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a queue that hands elements out in random order.

    It is not TensorFlow's order for a seed.
    """
    a = ctx.attrs
    return (
        _queue(
            ctx,
            lambda: ShuffleStore(a.get("seed", 0), a.get("seed2", 0)),
            min_after_dequeue=a.get("min_after_dequeue", 0),
        ),
    )


@runtime_kernel("PriorityQueue", "PriorityQueueV2")
def priority_queue(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a queue ordered by its first component."""
    return (_queue(ctx, PriorityStore),)


@blocking_kernel("QueueEnqueue", "QueueEnqueueV2")
def enqueue(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Enqueue one element."""
    queue = _queue_of(inputs[0])
    check_signature(ctx, ctx.attrs["Tcomponents"], (), queue.dtypes, ())
    queue.check_element(inputs[1:], many=False)
    queue.enqueue([tuple([np.array(v) for v in inputs[1:]])], ctx.step.cancellation, done)


@blocking_kernel("QueueEnqueueMany", "QueueEnqueueManyV2")
def enqueue_many(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Enqueue elements: the rows of the components."""
    queue = _queue_of(inputs[0])
    check_signature(ctx, ctx.attrs["Tcomponents"], (), queue.dtypes, ())
    components = [np.asarray(v) for v in inputs[1:]]
    if any(c.ndim == 0 for c in components):
        raise errors.InvalidArgumentError(
            None, None, "All input tensors must have the same size in the 0th dimension."
        )
    queue.check_element(components, many=True)
    elements = [tuple([_row(c, i) for c in components]) for i in range(components[0].shape[0])]
    queue.enqueue(elements, ctx.step.cancellation, done)


@blocking_kernel("QueueDequeue", "QueueDequeueV2")
def dequeue(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Dequeue one element."""

    def taken(result: Any) -> None:
        done(result if isinstance(result, BaseException) else result[0])

    queue = _queue_of(inputs[0])
    check_signature(ctx, (), ctx.attrs["component_types"], (), queue.dtypes)
    queue.dequeue(1, False, ctx.step.cancellation, taken)


def _row(batch: np.ndarray, index: int) -> np.ndarray:
    """Return a copy of one element of a batch."""
    row = batch[index]
    if isinstance(row, np.ndarray):
        return row.copy()
    # NumPy would make a fixed-width string of bytes, without zeros at their end
    if batch.dtype == object:
        scalar = np.empty((), object)
        scalar[()] = row
        return scalar
    return np.asarray(row)


def _dequeue_batch(ctx: OpContext, inputs: Sequence[Any], done: Done, up_to: bool) -> None:
    queue = _queue_of(inputs[0])
    check_signature(ctx, (int32,), ctx.attrs["component_types"], (int32,), queue.dtypes)
    count = int(np.asarray(inputs[1]))
    if count < 0:
        raise errors.InvalidArgumentError(
            None, None, f"Dequeue{'UpTo' if up_to else 'Many'}Op requested {count} < 0 elements"
        )
    if len(queue.shapes) != len(queue.dtypes):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"{queue.type_name}'s DequeueMany and DequeueUpTo require the components to have "
            "specified shapes.",
        )

    def taken(result: Any) -> None:
        if isinstance(result, BaseException):
            done(result)
            return
        try:
            columns = stack_components(queue, result)
        except ValueError as error:
            done(errors.InvalidArgumentError(None, None, str(error)))
            return
        done(columns)

    if count == 0:
        taken([])
    else:
        queue.dequeue(count, up_to, ctx.step.cancellation, taken)


def stack_components(queue: Queue, elements: list[Element]) -> list[np.ndarray]:
    """Stack each component of the elements along a new first dimension.

    Raises ValueError when their shapes differ.
    """
    return [
        _stack([e[i] for e in elements], dtype, shape, queue.pads)
        for i, (dtype, shape) in enumerate(zip(queue.dtypes, queue.shapes, strict=True))
    ]


def _stack(values: list[Any], dtype: DType, shape: Shape, pads: bool) -> np.ndarray:
    np_dtype = np.dtype(dtype.as_numpy_dtype)
    if not values:
        return np.empty((0, *(d or 0 for d in shape or ())), np_dtype)
    if not pads:
        return np.stack(values).astype(np_dtype, copy=False)
    size = tuple(
        max(v.shape[i] for v in values) if d is None else d for i, d in enumerate(shape or ())
    )
    result = (
        np.full((len(values), *size), b"", object)
        if np_dtype.hasobject
        else np.zeros((len(values), *size), np_dtype)
    )
    for i, value in enumerate(values):
        where: tuple[int | slice, ...] = (i, *(slice(0, s) for s in value.shape))
        result[where] = value
    return result


@blocking_kernel("QueueDequeueMany", "QueueDequeueManyV2")
def dequeue_many(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Dequeue n elements, stacked along a new first dimension."""
    _dequeue_batch(ctx, inputs, done, up_to=False)


@blocking_kernel("QueueDequeueUpTo", "QueueDequeueUpToV2")
def dequeue_up_to(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Take n elements, or the remaining ones of a closed queue."""
    _dequeue_batch(ctx, inputs, done, up_to=True)


@blocking_kernel("QueueClose", "QueueCloseV2")
def close_queue(ctx: OpContext, inputs: Sequence[Any], done: Done) -> None:
    """Refuse later enqueues.

    At once, cancelling those that wait, or when these are over, which is a CancelledError when
    closed already.
    """
    queue = _queue_of(inputs[0])
    if not ctx.attrs.get("cancel_pending_enqueues", False):
        queue.close_after_enqueues(ctx.step.cancellation, done)
    else:
        queue.close()
        done(())


@runtime_kernel("QueueIsClosed", "QueueIsClosedV2")
def is_closed(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a bool scalar."""
    return (np.array(_queue_of(inputs[0]).closed),)


@runtime_kernel("QueueSize", "QueueSizeV2")
def queue_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return an int32 scalar."""
    return (np.array(_queue_of(inputs[0]).size(), np.int32),)
