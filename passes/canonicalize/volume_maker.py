"""Add nodes over volumes beside a node that they replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.rewriter import insert_constant, is_static, tensor_dtype, tensor_shape

Tensor = tuple[str, int]
Sizes = tuple[int, ...]
_LAST = (0, 2, 3, 4, 1)
_FIRST = (0, 4, 1, 2, 3)


@dataclass(frozen=True, slots=True)
class Depth:
    """The windows along depth.

    Window o has places o * stride - before + tap * dilation of a volume of `length`.
    """

    length: int
    size: int
    stride: int
    dilation: int
    out: int
    before: int

    @property
    def padded(self) -> int:
        """The length with all padding, and places behind the last window."""
        reach = (self.out - 1) * self.stride + (self.size - 1) * self.dilation + 1
        return max(reach, self.before + self.length)

    @property
    def is_trivial(self) -> bool:
        """True if each window is one place, and each place a window."""
        return self.size == self.stride == 1


def depth_of(length: int, size: int, stride: int, dilation: int, out: int, padding: bytes) -> Depth:
    """Return the windows of a padding, "SAME" or "VALID"."""
    total = max(0, (out - 1) * stride + (size - 1) * dilation + 1 - length)
    return Depth(length, size, stride, dilation, out, total // 2 if padding == b"SAME" else 0)


class VolumeMaker:
    """Adds nodes beside a node of volumes.

    Raises Declined for a node of references, of control inputs, or of unknown or empty shapes.
    """

    def __init__(self, graph: DataflowGraph, node: Node) -> None:
        if any(tensor_dtype(graph, *source).is_ref for source in graph.inputs(node.name)):
            raise Declined("it reads a variable, whose time of reading matters")
        if graph.control_inputs(node.name):
            raise Declined("it waits for other nodes, as would all it became")
        self.graph, self.node = graph, node
        self.dtype: DType = node.attrs["T"]
        self.planes_first = node.attrs.get("data_format", b"NDHWC") == b"NCDHW"

    def shape(self, tensor: Tensor) -> Sizes:
        """Return the known sizes of a tensor."""
        return _known(tensor_shape(self.graph, *tensor), tensor[0])

    def result_shape(self) -> Sizes:
        """Return the node's result with channels last."""
        shape = _known(self.node.output_shapes[0], self.node.name)
        return tuple(shape[axis] for axis in _LAST) if self.planes_first else shape

    def spatial(self, name: str) -> tuple[int, int, int]:
        """Return depth, height and width of an attr of five numbers."""
        values = [int(v) for v in self.node.attrs.get(name) or (1,) * 5]
        at = 2 if self.planes_first else 1
        if any(v != 1 for v in (*values[:at], *values[at + 3 :])):
            raise Declined(f"{name} of batch or channels")
        return values[at], values[at + 1], values[at + 2]

    def flat(self, name: str) -> list[int]:
        """Return such an attr for images."""
        _, down, across = self.spatial(name)
        return [1, down, across, 1]

    def op(self, op: str, inputs: Sequence[Tensor], shape: Sizes, **attrs: object) -> Tensor:
        """Add a node of one result."""
        made = self.graph.add_node_op(
            self.graph.new_name(f"{self.node.name}/{op.lower()}"),
            op,
            list(inputs),
            {"T": self.dtype, **attrs},
            like=self.node,
            output_shapes=(shape,),
        )
        return made.name, 0

    def numbers(self, values: Sequence[object]) -> Tensor:
        """Add a constant of int32."""
        return insert_constant(self.graph, self.node, np.array(values, np.int32), "sizes")

    def axis(self, value: int) -> Tensor:
        """Add a constant scalar of int32."""
        return insert_constant(self.graph, self.node, np.array(value, np.int32), "axis")

    def reshape(self, tensor: Tensor, shape: Sizes) -> Tensor:
        """Add a Reshape; the batch follows from the other sizes."""
        if tensor_shape(self.graph, *tensor) == shape:
            return tensor
        target = self.numbers((-1, *shape[1:]))
        return self.op("Reshape", [tensor, target], shape, Tshape=dtypes.int32)

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """Add a Transpose."""
        shape = self.shape(tensor)
        sizes = tuple(shape[axis] for axis in order)
        return self.op("Transpose", [tensor, self.numbers(order)], sizes, Tperm=dtypes.int32)

    def channels_last(self, tensor: Tensor) -> Tensor:
        """Add the transpose that the node's layout asks for."""
        return self.transpose(tensor, _LAST) if self.planes_first else tensor

    def become(self, tensor: Tensor, shape: Sizes) -> None:
        """Turn the node into volumes of the elements of `tensor`.

        shape: with channels last.
        """
        if self.planes_first:
            last = self.reshape(tensor, shape)
            inputs, attrs = [last, self.numbers(_FIRST)], {"Tperm": dtypes.int32}
            self._change("Transpose", inputs, tuple(shape[axis] for axis in _FIRST), attrs)
        else:
            inputs = [tensor, self.numbers((-1, *shape[1:]))]
            self._change("Reshape", inputs, shape, {"Tshape": dtypes.int32})

    def become_transposed(self, tensor: Tensor, order: Sequence[int]) -> None:
        """Turn the node into a transpose."""
        shape = self.shape(tensor)
        sizes = tuple(shape[axis] for axis in order)
        self._change("Transpose", [tensor, self.numbers(order)], sizes, {"Tperm": dtypes.int32})

    def _change(
        self, op: str, inputs: Sequence[Tensor], shape: Sizes, attrs: Mapping[str, object]
    ) -> None:
        self.graph.change_op(self.node.name, op, inputs, {"T": self.dtype, **attrs})
        self.node.output_shapes = (shape,)

    def filter_shape(self) -> Sizes:
        """Return the node's result, a filter."""
        return _known(self.node.output_shapes[0], self.node.name)

    def widened(self, tensor: Tensor) -> Tensor:
        """Add a Cast to float32, the type of further nodes."""
        made = self._cast(tensor, dtypes.float32)
        self.dtype = dtypes.float32
        return made

    def narrowed(self, tensor: Tensor) -> Tensor:
        """Add a Cast back to the node's type."""
        made = self._cast(tensor, self.node.attrs["T"])
        self.dtype = self.node.attrs["T"]
        return made

    def _cast(self, tensor: Tensor, to: DType) -> Tensor:
        made = self.graph.add_node_op(
            self.graph.new_name(f"{self.node.name}/cast"),
            "Cast",
            [tensor],
            {"SrcT": self.dtype, "DstT": to, "Truncate": False},
            like=self.node,
            output_shapes=(tensor_shape(self.graph, *tensor),),
        )
        return made.name, 0

    def pad(self, tensor: Tensor, axis: int, before: int, after: int) -> Tensor:
        """Add zeros before and behind an axis."""
        if before == after == 0:
            return tensor
        shape = list(self.shape(tensor))
        pads = [[0, 0]] * len(shape)
        pads[axis] = [before, after]
        shape[axis] += before + after
        inputs = [tensor, self.numbers(pads)]
        return self.op("Pad", inputs, tuple(shape), Tpaddings=dtypes.int32)

    def places(self, tensor: Tensor, axis: int, first: int, count: int, step: int = 1) -> Tensor:
        """Add a slice of `count` places of an axis."""
        shape = list(self.shape(tensor))
        if (first, count, step) == (0, shape[axis], 1):
            return tensor
        begin, end, strides = [0] * len(shape), list(shape), [1] * len(shape)
        begin[axis], end[axis], strides[axis] = first, first + (count - 1) * step + 1, step
        shape[axis] = count
        inputs = [tensor, *map(self.numbers, (begin, end, strides))]
        masks = dict.fromkeys(
            ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
        )
        # the other axes are whole, whatever their sizes
        masks["begin_mask"] = masks["end_mask"] = sum(1 << k for k in range(len(shape))) - (
            1 << axis
        )
        return self.op("StridedSlice", inputs, tuple(shape), Index=dtypes.int32, **masks)


def _known(shape: Sequence[int | None] | None, name: str) -> Sizes:
    if shape is None or not is_static(tuple(shape)):
        raise Declined(f"the shape of '{name}' is not known")
    sizes = tuple(int(n or 0) for n in shape)
    if 0 in sizes:
        raise Declined(f"'{name}' is empty")
    return sizes


__all__ = ["Depth", "Sizes", "Tensor", "VolumeMaker", "depth_of"]
