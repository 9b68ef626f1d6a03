"""Batches of examples through queues, which threads fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.data.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from tfjit.client.data.summary_ops import scalar
from tfjit.client.training.queue_runner import QueueRunner, add_queue_runner
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.framework.types import dtypes
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, Structure, TensorLike

# Makes a queue of the dtypes and shapes of an example.
_QueueMaker = Callable[[list[object], list[object]], QueueBase]


def batch(
    tensors: Structure,
    batch_size: TensorLike,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Return batches of examples through a queue.

    `num_threads` threads fill the queue. Batches are like `tensors`, with a first dimension of
    batch_size; that of a list of one tensor is a tensor.

    enqueue_many: the tensors hold several examples each time. dynamic_pad: fill up examples of
    different sizes with zeros. allow_smaller_final_batch: the last may be smaller; its first
    dimension is unknown then.
    """
    sources = [_flat(tensors)]
    with name_scope(name, "batch") as scope:
        return _batched(
            _in_order(capacity, dynamic_pad, shared_name),
            lambda queue: _watch(queue, capacity),
            sources,
            num_threads,
            enqueue_many,
            shapes,
            True,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def maybe_batch(
    tensors: Structure,
    keep_input: TensorLike,
    batch_size: TensorLike,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Batch the examples for which keep_input, a bool tensor, is true.

    With enqueue_many it may be a vector with an element for each example. Other arguments are as of
    `batch`. Raises ValueError for another rank.
    """
    sources = [_flat(tensors)]
    with name_scope(name, "batch") as scope:
        return _batched(
            _in_order(capacity, dynamic_pad, shared_name),
            lambda queue: _watch(queue, capacity),
            sources,
            num_threads,
            enqueue_many,
            shapes,
            keep_input,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def batch_join(
    tensors_list: Structure,
    batch_size: TensorLike,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Do as `batch` from several sources, each with its own thread."""
    sources = [_flat(source) for source in tensors_list]
    with name_scope(name, "batch_join") as scope:
        return _batched(
            _in_order(capacity, dynamic_pad, shared_name),
            lambda queue: _watch(queue, capacity),
            sources,
            1,
            enqueue_many,
            shapes,
            True,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def maybe_batch_join(
    tensors_list: Structure,
    keep_input: TensorLike,
    batch_size: TensorLike,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Do as `maybe_batch` from several sources, each with its own thread."""
    sources = [_flat(source) for source in tensors_list]
    with name_scope(name, "batch_join") as scope:
        return _batched(
            _in_order(capacity, dynamic_pad, shared_name),
            lambda queue: _watch(queue, capacity),
            sources,
            1,
            enqueue_many,
            shapes,
            keep_input,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def shuffle_batch(
    tensors: Structure,
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Return batches in random order.

    min_after_dequeue: number of examples that stay in the queue to choose from. Raises ValueError
    unless it is less than capacity. Other arguments are as of `batch`.
    """
    sources = [_flat(tensors)]
    with name_scope(name, "shuffle_batch") as scope:
        return _batched(
            _shuffling(capacity, min_after_dequeue, seed, shared_name),
            lambda queue: _watch_shuffling(queue, capacity, min_after_dequeue),
            sources,
            num_threads,
            enqueue_many,
            shapes,
            True,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def maybe_shuffle_batch(
    tensors: Structure,
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Do as `shuffle_batch` with the examples for which keep_input is true."""
    sources = [_flat(tensors)]
    with name_scope(name, "shuffle_batch") as scope:
        return _batched(
            _shuffling(capacity, min_after_dequeue, seed, shared_name),
            lambda queue: _watch_shuffling(queue, capacity, min_after_dequeue),
            sources,
            num_threads,
            enqueue_many,
            shapes,
            keep_input,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def shuffle_batch_join(
    tensors_list: Structure,
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Do as `shuffle_batch` from several sources, each with its own thread."""
    sources = [_flat(source) for source in tensors_list]
    with name_scope(name, "shuffle_batch_join") as scope:
        return _batched(
            _shuffling(capacity, min_after_dequeue, seed, shared_name),
            lambda queue: _watch_shuffling(queue, capacity, min_after_dequeue),
            sources,
            1,
            enqueue_many,
            shapes,
            True,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def maybe_shuffle_batch_join(
    tensors_list: Structure,
    batch_size: TensorLike,
    capacity: int,
    min_after_dequeue: int,
    keep_input: TensorLike,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Sequence[ShapeLike | None] | None = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Structure:
    """Do as `maybe_shuffle_batch` from several sources, each with its own thread."""
    sources = [_flat(source) for source in tensors_list]
    with name_scope(name, "shuffle_batch_join") as scope:
        return _batched(
            _shuffling(capacity, min_after_dequeue, seed, shared_name),
            lambda queue: _watch_shuffling(queue, capacity, min_after_dequeue),
            sources,
            1,
            enqueue_many,
            shapes,
            keep_input,
            batch_size,
            allow_smaller_final_batch,
            scope,
        )


def _in_order(capacity: int, dynamic_pad: bool, shared_name: str | None) -> _QueueMaker:
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    return lambda kinds, shapes: kind(capacity, kinds, shapes, shared_name=shared_name)


def _shuffling(
    capacity: int, min_after_dequeue: int, seed: int | None, shared_name: str | None
) -> _QueueMaker:
    if capacity <= min_after_dequeue:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {min_after_dequeue}."
        )
    return lambda kinds, shapes: RandomShuffleQueue(
        capacity, min_after_dequeue, kinds, shapes, seed=seed, shared_name=shared_name
    )


def _watch(queue: QueueBase, capacity: int) -> None:
    """Add a summary of the part of the queue that is full."""
    scalar(f"fraction_of_{capacity}_full", ops.cast(queue.size(), dtypes.float32) * (1 / capacity))


def _watch_shuffling(queue: QueueBase, capacity: int, min_after_dequeue: int) -> None:
    spare = capacity - min_after_dequeue
    above = ops.cast(ops.maximum(0, queue.size() - min_after_dequeue), dtypes.float32)
    scalar(f"fraction_over_{min_after_dequeue}_of_{spare}_full", above * (1 / spare))


def _batched(
    make_queue: _QueueMaker,
    watch: Callable[[QueueBase], None],
    sources: Sequence[tuple[list[Tensor], Structure]],
    threads: int,
    many: bool,
    shapes: Sequence[ShapeLike | None] | None,
    keep_input: TensorLike,
    batch_size: TensorLike,
    smaller: bool,
    scope: str,
) -> Structure:
    """Enqueue the sources, each in its threads, and dequeue batches.

    sources: tensors with the keys of their dictionary. keep_input: only examples for which it is
    true are enqueued.
    """
    if not sources:
        raise ValueError("Expected at least one set of tensors")
    kinds = [[t.dtype.base_dtype for t in tensors] for tensors, _ in sources]
    if any(other != kinds[0] for other in kinds[1:]):
        raise TypeError(f"the sources have components of different types: {kinds}")
    keep = _checked(keep_input, many)
    (first, keys), *_ = sources
    queue = make_queue(list(kinds[0]), _shapes(first, shapes, many))
    enqueued: list[Structure] = []
    for tensors, _ in sources:
        enqueued += [_enqueue(queue, tensors, many, keep)] * threads
    add_queue_runner(QueueRunner(queue, enqueued))
    watch(queue)
    dequeue = queue.dequeue_up_to if smaller else queue.dequeue_many
    taken = dequeue(batch_size, name=scope)
    if keys is None:
        return list(taken) if isinstance(taken, (list, tuple)) else taken
    return dict(zip(keys, taken if isinstance(taken, (list, tuple)) else [taken], strict=True))


def _enqueue(queue: QueueBase, tensors: list[Tensor], many: bool, keep: Tensor) -> Structure:
    enqueue: Callable[[list[Tensor]], Operation] = queue.enqueue_many if many else queue.enqueue
    if keep.shape.rank == 1:
        chosen = ops.cast(keep, dtypes.int32)
        return enqueue([ops.dynamic_partition(value, chosen, 2)[1] for value in tensors])
    if get_static_value(keep):
        return enqueue(tensors)
    return ops.cond(keep, lambda: enqueue(tensors), ops.no_op)


def _checked(keep_input: TensorLike, many: bool) -> Tensor:
    keep = convert_to_tensor(keep_input)
    rank = keep.shape.rank
    if rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if rank == 1 and not many:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep


def _flat(tensors: Structure) -> tuple[list[Tensor], Structure]:
    """Return the tensors of a list or dictionary, and its keys."""
    if isinstance(tensors, Mapping):
        keys = sorted(tensors)
        return [convert_to_tensor(tensors[key]) for key in keys], keys
    if isinstance(tensors, (list, tuple)):
        return [convert_to_tensor(item) for item in tensors], None
    return [convert_to_tensor(tensors)], None


def _shapes(
    tensors: Sequence[Tensor], given: Sequence[ShapeLike | None] | None, many: bool
) -> list[object]:
    if given is not None:
        return list(given)
    shapes = [t.shape_tuple for t in tensors]
    return [None if shape is None else shape[1:] if many else shape for shape in shapes]
