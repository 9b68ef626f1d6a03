"""Layers that join all axes behind the batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.client.network.input_spec import InputSpec
from tfjit.client.network.layer import Layer
from tfjit.client.network.windows import data_format_of
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.array import expand_dims, reshape
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.movement_functions import transpose
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike


class Flatten(Layer):
    """Inputs [batch, ...] as rows [batch, n]; [batch] becomes [batch, 1].

    data_format: "channels_first" moves the axis behind the batch to the end before.
    """

    def __init__(self, data_format: str | None = None, **kwargs: Structure) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format_of("channels_last" if data_format is None else data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: TensorLike) -> Tensor:
        value = convert_to_tensor(inputs)
        rank = value.shape.rank
        if rank is not None and rank > 1 and self.data_format == "channels_first":
            value = transpose(value, [0, *range(2, rank), 1])
        if rank == 1:
            return expand_dims(value, axis=-1)
        sizes = value.shape.dims_tuple
        rest = None if sizes is None else _product(sizes[1:])
        if sizes is not None and sizes[0] is not None:
            made = reshape(value, [sizes[0], -1 if rest is None else rest])
        elif rest:
            made = reshape(value, [-1, rest])
        else:  # of two unknown sizes, or without elements: a -1 would say nothing
            made = reshape(value, [shape_of(value)[0], -1 if rest is None else rest])
        made.set_shape([None if sizes is None else sizes[0], rest])
        return made

    def compute_output_shape(self, input_shape: Structure) -> TensorShape:
        """Return [batch, n]."""
        sizes = TensorShape(input_shape).as_list()
        return TensorShape([sizes[0], _product(sizes[1:])])


def _product(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def flatten(
    inputs: TensorLike, name: str | None = None, data_format: str = "channels_last"
) -> Tensor:
    """Return `Flatten` of the inputs [batch, ...] -> [batch, n]."""
    made: Tensor = Flatten(data_format, name=name)(inputs)
    return made
