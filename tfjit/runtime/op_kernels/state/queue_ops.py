"""Kernels of queue operations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import enum_name, int32
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.host.completion import Done
from tfjit.runtime.kernel_api.op_kernel import OpContext, blocking_kernel, runtime_kernel
from tfjit.runtime.op_kernels.state.signatures import check_signature
from tfjit.runtime.resources.queues import Element, PriorityStore, Queue, ShuffleStore, Store

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape

_MAX_ACCEPTED: Final = 64
"""Attrs of nodes that a queue remembers to be its own."""


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
