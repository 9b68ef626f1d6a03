"""Input pipelines of queues.

They hold names of files, examples one by one, or batches of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit import ops
from tfjit.client.data.queues import FIFOQueue, QueueBase
from tfjit.client.training.queue_runner import QueueRunner, add_queue_runner
from tfjit.client.variables.assignments import count_up_to
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, TensorLike


def match_filenames_once(pattern: object, name: str | None = None) -> Variable:
    """Return a local variable with the names of the matching files.

    The patterns are matched when it is initialised.
    """
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        found = tensor("MatchingFiles", pattern=pattern)
        return Variable(
            found,
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            name=scope,
        )


def limit_epochs(
    tensor: TensorLike, num_epochs: int | None = None, name: str | None = None
) -> Tensor:
    """Return the tensor as it is, `num_epochs` times; then runs raise OutOfRangeError.

    The count is a local variable.
    """
    value = convert_to_tensor(tensor)
    if num_epochs is None:
        return value
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name, "limit_epochs"):
        epochs = Variable(
            np.int64(0), name="epochs", trainable=False, collections=[GraphKeys.LOCAL_VARIABLES]
        )
        with get_default_graph().control_dependencies([count_up_to(epochs, num_epochs)]):
            return ops.identity(value)


def input_producer(
    input_tensor: TensorLike,
    element_shape: ShapeLike | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """Return a queue of the rows of a tensor.

    The rows come again and again or `num_epochs` times; the queue's runner is among QUEUE_RUNNERS.
    Raises ValueError for a tensor whose rows have an unknown shape, unless element_shape is given.
    """
    with name_scope(name, "input_producer"):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        shape = rows.shape_tuple
        own = (
            TensorShape(element_shape).dims_tuple
            if element_shape is not None
            else None
            if shape is None
            else shape[1:]
        )
        if own is None or None in own:
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be "
                "specified"
            )
        if shuffle:
            rows = ops.random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(
            capacity,
            [rows.dtype.base_dtype],
            [own],
            shared_name=shared_name,
            name=name or "input_producer",
        )
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        return queue


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """Return a queue of strings, file names mostly.

    Raises ValueError for an empty list; a run does for an empty tensor (InvalidArgumentError).
    """
    if (
        not isinstance(string_tensor, Tensor)
        and not isinstance(string_tensor, Variable)
        and not len(string_tensor)
    ):
        raise ValueError("string_input_producer requires a non-null input tensor")
    with name_scope(name, "input_producer") as scope:
        strings = convert_to_tensor(string_tensor, dtype=dtypes.string)
        some = ops.Assert(
            ops.greater(ops.size(strings), 0),
            ["string_input_producer requires a non-null input tensor"],
        )
        with get_default_graph().control_dependencies([some]):
            strings = ops.identity(strings)
        return input_producer(
            strings,
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            name=scope,
            cancel_op=cancel_op,
        )


def range_input_producer(
    limit: TensorLike,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """Return a queue of the numbers from 0 to `limit`."""
    with name_scope(name, "input_producer") as scope:
        return input_producer(
            ops.range(limit), [], num_epochs, shuffle, seed, capacity, shared_name, name=scope
        )


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """Return one row of each tensor, each time.

    All tensors have the same number of rows.
    """
    with name_scope(name, "input_producer"):
        tensors = [convert_to_tensor(value) for value in tensor_list]
        if not tensors:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        queue = range_input_producer(
            ops.shape(tensors[0])[0], num_epochs, shuffle, seed, capacity, shared_name
        )
        index = queue.dequeue()
        return [ops.gather(value, index) for value in tensors]
