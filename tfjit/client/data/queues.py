"""Queues: tuples of tensors that runs put in and take out.

Runs wait where they must.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.random_seed import get_seed
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape, TensorShape, as_shape, is_fully_defined, merge
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypesLike, ShapeLike, Structure

_ANY_CPU: Final = "/device:CPU:*"


def _dtype_list(dtypes: DTypesLike) -> list[DType]:
    return [as_dtype(d) for d in (dtypes if isinstance(dtypes, (list, tuple)) else [dtypes])]


def _shape_list(shapes: Sequence[ShapeLike | None], unknown_sizes: bool = False) -> list[Shape]:
    """Return one shape for each component; a single one may be bare.

    None of them when `shapes` is None.

    Raises ValueError for unknown ranks, and for unknown sizes where those are not allowed.
    """
    if shapes is None:
        return []
    if isinstance(shapes, TensorShape):
        shapes = [shapes]
    if not isinstance(shapes, (list, tuple)):
        raise TypeError(
            f"shapes must be a TensorShape or a list or tuple of TensorShapes, got {type(shapes)}."
        )
    if all(size is None or isinstance(size, int) for size in shapes):
        shapes = [shapes]
    found = [as_shape(shape) for shape in shapes]
    if not unknown_sizes and not all(is_fully_defined(shape) for shape in found):
        raise ValueError(f"All shapes must be fully defined: {[TensorShape(s) for s in found]}")
    if any(shape is None for shape in found):
        raise ValueError(f"All shapes must have a defined rank: {[TensorShape(s) for s in found]}")
    return found


class QueueBase:
    """A queue, as a node of the default graph.

    dtypes: of the components of an element. shapes: theirs, if all elements have the same. names:
    to enqueue and dequeue dictionaries.
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Tensor) -> None:
        self._dtypes = list(dtypes)
        if shapes is not None and len(shapes) != len(self._dtypes):
            raise ValueError(
                "Queue shapes must have the same length as dtypes, received "
                f"len(shapes)={len(shapes)}, len(dtypes)={len(self._dtypes)}"
            )
        self._shapes = (
            [TensorShape(s) for s in shapes]
            if shapes
            else [TensorShape(None) for _ in self._dtypes]
        )
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError(
                "List of queue names and list of dtypes must have the same length, received "
                f"len(names)={len(names)},"
                f"len(dtypes)={len(self._dtypes)}"
            )
        self._names = list(names) if names is not None else None
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rpartition("/")[2]

    @staticmethod
    def from_list(index: Any, queues: Any) -> QueueBase:
        """Return the queue of `queues` that a scalar tensor chooses.

        index: the tensor, read when the graph runs.
        """
        if (
            not queues
            or not isinstance(queues, list)
            or not all(isinstance(q, QueueBase) for q in queues)
        ):
            raise TypeError("A list of queues expected")
        dtypes = queues[0].dtypes
        if any(q.dtypes != dtypes for q in queues[1:]):
            raise TypeError("Queues do not have matching component dtypes.")
        names = queues[0].names
        if any(q.names != names for q in queues[1:]):
            raise TypeError("Queues do not have matching component names.")
        shapes = [[s.dims_tuple for s in q.shapes] for q in queues]
        common = [
            column[0] if all(s == column[0] for s in column) else None
            for column in zip(*shapes, strict=True)
        ]
        stacked = tensor("Pack", "stack", values=[q.queue_ref for q in queues])
        chosen = tensor("GatherV2", None, params=stacked, indices=index, axis=0)
        return QueueBase(dtypes, common, names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """Name of its operation, without scopes."""
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        """Dtypes of an element's components."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """Shapes of an element's components."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """Names of an element's components."""
        return self._names

    def _components(self, vals: object, many: bool) -> list[Tensor]:
        if isinstance(vals, Mapping):
            if self._names is None:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals.keys(), key=str):
                raise ValueError(
                    "Keys in dictionary to enqueue do not match names of Queue.  Dictionary: "
                    f"{sorted(vals)},Queue: {sorted(self._names)}"
                )
            vals = [vals[name] for name in self._names]
        else:
            if self._names is not None:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            vals = list(vals) if isinstance(vals, (list, tuple)) else [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(
                f"Input list {vals} has {len(vals)} components, but queue elements have "
                f"{len(self._dtypes)}"
            )
        parts = [
            convert_to_tensor(value, dtype=dtype, name=f"component_{i}")
            for i, (value, dtype) in enumerate(zip(vals, self._dtypes, strict=True))
        ]
        for part, shape in zip(parts, self._shapes, strict=True):
            given = part.shape_tuple
            merge(given[1:] if many and given is not None else given, shape.dims_tuple)
        return parts

    def enqueue(self, vals: object, name: str | None = None) -> Operation:
        """Put one element in, waiting while the queue is full.

        vals: a tensor, or a list or dictionary of one a component. Its run raises CancelledError
        when the queue is closed, or is while it waits.
        """
        with name_scope(name, f"{self._name}_enqueue") as scope:
            return create(
                "QueueEnqueueV2",
                scope,
                handle=self._queue_ref,
                components=self._components(vals, many=False),
            )

    def enqueue_many(self, vals: object, name: str | None = None) -> Operation:
        """Put in as many elements as the components have rows.

        Raises ValueError for different numbers of rows.
        """
        with name_scope(name, f"{self._name}_EnqueueMany") as scope:
            parts = self._components(vals, many=True)
            rows: int | None = None
            for part in parts:
                shape = part.shape_tuple
                if shape is not None:
                    if not shape:
                        raise ValueError(f"Shape () of {part.name} must have rank at least 1")
                    rows = merge((rows,), shape[:1])[0]  # type: ignore[index]
            return create("QueueEnqueueManyV2", scope, handle=self._queue_ref, components=parts)

    def _taken(self, tensors: list[Tensor], rows: tuple[int | None, ...]) -> Any:
        for out, shape in zip(tensors, self._shapes, strict=True):
            if shape.dims_tuple is not None:
                out.set_shape((*rows, *shape.dims_tuple))
        if self._names is not None:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def dequeue(self, name: str | None = None) -> Structure:
        """Take one element out, waiting while the queue is empty.

        An element is a tensor, or a list or dictionary of them. Its run raises OutOfRangeError when
        the queue is closed and empty.
        """
        op = create(
            "QueueDequeueV2",
            name or f"{self._name}_Dequeue",
            handle=self._queue_ref,
            component_types=self._dtypes,
        )
        return self._taken(list(op.outputs), ())

    def _many(self, op_type: str, n: Any, name: str, known: int | None) -> Any:
        op = create(op_type, name, handle=self._queue_ref, n=n, component_types=self._dtypes)
        return self._taken(list(op.outputs), (known,))

    def dequeue_many(self, n: Any, name: str | None = None) -> Structure:
        """Take n elements out as rows, waiting for all of them.

        Its run raises OutOfRangeError when fewer will ever come.
        """
        known = n if isinstance(n, int) else None
        return self._many("QueueDequeueManyV2", n, name or f"{self._name}_DequeueMany", known)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Structure:
        """Dequeue as `dequeue_many`, or the rest of a closed queue."""
        return self._many("QueueDequeueUpToV2", n, name or f"{self._name}_DequeueUpTo", None)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Let nothing more in. Elements in it can still be taken out."""
        return create(
            "QueueCloseV2",
            name or f"{self._name}_Close",
            handle=self._queue_ref,
            cancel_pending_enqueues=cancel_pending_enqueues,
        )

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether the queue is closed, as a bool tensor."""
        return tensor("QueueIsClosedV2", name or f"{self._name}_Is_Closed", handle=self._queue_ref)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements, int32."""
        return tensor("QueueSizeV2", name or f"{self._name}_Size", handle=self._queue_ref)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements come out in random order.

    min_after_dequeue: number of elements that must stay behind while the queue is open.
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        types = _dtype_list(dtypes)
        sizes = _shape_list(shapes)
        seed1, seed2 = get_seed(seed)
        ref = tensor(
            "RandomShuffleQueueV2",
            name,
            component_types=types,
            shapes=[TensorShape(s) for s in sizes],
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1 or 0,
            seed2=seed2 or 0,
            shared_name=shared_name,
        )
        super().__init__(types, sizes or None, names, ref)


class FIFOQueue(QueueBase):
    """Elements come out in the order they went in."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        types = _dtype_list(dtypes)
        sizes = _shape_list(shapes)
        graph = get_default_graph()
        with graph.control_dependencies(None), graph.device(_ANY_CPU):
            ref = tensor(
                "FIFOQueueV2",
                name,
                component_types=types,
                shapes=[TensorShape(s) for s in sizes],
                capacity=capacity,
                shared_name=shared_name,
            )
        super().__init__(types, sizes or None, names, ref)


class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose elements may differ in sizes.

    `dequeue_many` fills them up with zeros. shapes: None for such sizes.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        types = _dtype_list(dtypes)
        sizes = _shape_list(shapes, unknown_sizes=True)
        if len(types) != len(sizes):
            raise ValueError(
                f"Shapes must be provided for all components, but received {len(types)} dtypes and "
                f"{len(sizes)} shapes."
            )
        ref = tensor(
            "PaddingFIFOQueueV2",
            name,
            component_types=types,
            shapes=[TensorShape(s) for s in sizes],
            capacity=capacity,
            shared_name=shared_name,
        )
        super().__init__(types, sizes, names, ref)


class PriorityQueue(QueueBase):
    """A queue whose elements come out by their first component.

    It is an int64 scalar before the components of `types`: lowest first.
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        kinds = _dtype_list(types)
        sizes = _shape_list(shapes)
        ref = tensor(
            "PriorityQueueV2",
            name,
            component_types=kinds,
            shapes=[TensorShape(s) for s in sizes],
            capacity=capacity,
            shared_name=shared_name,
        )
        whole: list[Shape] | None = [(), *sizes] if sizes else None
        super().__init__([dt.int64, *kinds], whole, names, ref)
