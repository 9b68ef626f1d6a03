"""Propagate small static integers through a graph, fully or by element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import RESHAPE
from tfjit.framework.types import shape as shape_rules
from tfjit.passes.analysis.constant_evaluation import NotEvaluated, can_evaluate, evaluate
from tfjit.passes.ir.constant_value import constant_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

    Tensor = tuple[str, int]

# values that set shapes are small; larger constants are for folding
MAX_VALUE_ELEMENTS: Final = 1024


class StaticValues:
    """Holds the static values of one graph's tensors.

    shapes: of each node's outputs, as far as they are inferred; the owner fills them in. report:
    takes a node's name and the reason why its value stays unknown. values: arrays of tensors that
    are known whole. partial: elements of integer vectors and scalars, None where unknown.
    """

    def __init__(
        self,
        graph: DataflowGraph,
        shapes: dict[str, tuple[Shape, ...]],
        report: Callable[[str, str], None],
    ) -> None:
        self.graph, self.shapes, self.report = graph, shapes, report
        self.values: dict[Tensor, np.ndarray] = {}
        self.partial: dict[Tensor, tuple[int | None, ...]] = {}

    def value(self, tensor: Tensor) -> np.ndarray | None:
        """Return the array of a Const or of a static value."""
        known = self.values.get(tensor)
        return known if known is not None else constant_value(self.graph, *tensor)

    def small(self, name: str, output: int) -> np.ndarray | None:
        """Return the value of a tensor that may set shapes."""
        value = self.value((name, output))
        return (
            value
            if value is not None and value.dtype.kind in "biu" and value.size <= MAX_VALUE_ELEMENTS
            else None
        )

    def propagate(self, node: Node, inputs: list[Tensor]) -> None:
        """Compute the small integer outputs of a node."""
        if node.op in ("Shape", "ShapeN"):
            for output, tensor in enumerate(inputs):
                shape = self.shapes[tensor[0]][tensor[1]]
                if shape is not None:
                    self.record(node, output, shape, (len(shape),))
            return
        if node.op in ("Size", "Rank"):
            shape = self.shapes[inputs[0][0]][inputs[0][1]]
            number = (
                shape_rules.num_elements(shape)
                if node.op == "Size"
                else None
                if shape is None
                else len(shape)
            )
            if number is not None:
                self.record(node, 0, (number,), ())
            return
        if (
            len(node.output_dtypes) != 1
            or not (node.output_dtypes[0].is_integer or node.output_dtypes[0].is_bool)
            or not inputs
        ):
            return
        operands = [self.value(tensor) for tensor in inputs]
        values = [value for value in operands if value is not None]
        if len(values) == len(operands):
            total = shape_rules.num_elements(self.shapes[node.name][0])
            small = (
                total is not None
                and total <= MAX_VALUE_ELEMENTS
                and sum(value.size for value in values) <= 4 * MAX_VALUE_ELEMENTS
            )
            if small and can_evaluate(node):
                try:
                    self.values[node.name, 0] = evaluate(node, values)[0]
                except NotEvaluated as reason:
                    self.report(node.name, f"value unknown: {reason}")
            return
        elements = self._partial_elements(node, inputs, operands)
        if elements is not None:
            self.partial[node.name, 0] = elements

    def record(
        self, node: Node, output: int, elements: tuple[int | None, ...], shape: tuple[int, ...]
    ) -> None:
        """Record an integer output by its elements.

        Elements that are all known make a value, unless the value does not fit the dtype: the run
        reports that.
        """
        self.partial[node.name, output] = elements
        if None in elements:
            return
        numpy_type = node.output_dtypes[output].as_numpy_dtype
        limits = np.iinfo(numpy_type)
        if all(limits.min <= element <= limits.max for element in elements if element is not None):
            value = np.array(elements, dtype=numpy_type).reshape(shape)
            value.setflags(write=False)
            self.values[node.name, output] = value

    def elements(self, tensor: Tensor) -> tuple[int | None, ...] | None:
        """Return the elements of an integer scalar or vector, None where unknown.

        Return None when nothing is known about the tensor.
        """
        found = self.partial.get(tensor)
        if found is not None:
            return found
        value = self.value(tensor)
        if (
            value is not None
            and value.ndim <= 1
            and value.dtype.kind in "iu"
            and value.size <= MAX_VALUE_ELEMENTS
        ):
            return tuple(value.reshape(-1).tolist())
        shape = self.shapes[tensor[0]][tensor[1]]
        if shape is not None and len(shape) <= 1 and None not in shape:
            count = shape_rules.num_elements(shape)
            if count is not None and count <= MAX_VALUE_ELEMENTS:
                return (None,) * count
        return None

    def as_shape(self, tensor: Tensor) -> Shape:
        """Return an integer vector as a shape: negative and unknown are None."""
        found = self.elements(tensor)
        return (
            None
            if found is None
            else tuple(None if size is None or size < 0 else size for size in found)
        )

    def _partial_elements(
        self, node: Node, inputs: list[Tensor], operands: list[np.ndarray | None]
    ) -> tuple[int | None, ...] | None:
        """Return the partly known elements of a vector or scalar output.

        The op only moves or combines integers.
        """
        op = node.op
        if node.has_trait(RESHAPE):
            rank = self.shapes[node.name][0]
            found = self.elements(inputs[0])
            return found if found is not None and rank is not None and len(rank) <= 1 else None
        if node.is_view or op == "Cast":
            return self.elements(inputs[0]) if node.input_dtypes[0].is_integer else None
        if op == "Pack" and node.attrs["axis"] in (0, -1):
            parts = [self.elements(tensor) for tensor in inputs]
            if any(part is None or len(part) != 1 for part in parts) or any(
                self.shapes[src][output] != () for src, output in inputs
            ):
                return None
            return tuple(part[0] for part in parts if part)
        if op in ("ConcatV2", "Concat"):
            axis, rest = (inputs[-1], inputs[:-1]) if op == "ConcatV2" else (inputs[0], inputs[1:])
            parts = [self.elements(tensor) for tensor in rest]
            if self.value(axis) is None or any(part is None for part in parts):
                return None
            if any(len(self.shapes[src][output] or ()) != 1 for src, output in rest):
                return None
            return tuple(size for part in parts if part is not None for size in part)
        if op == "StridedSlice":
            return self._sliced(node, inputs, operands)
        if op == "Slice":
            found = self.elements(inputs[0])
            begin, size = operands[1], operands[2]
            if (
                found is None
                or begin is None
                or size is None
                or begin.size != 1
                or len(self.shapes[inputs[0][0]][inputs[0][1]] or ()) != 1
            ):
                return None
            first, count = int(begin.reshape(-1)[0]), int(size.reshape(-1)[0])
            return found[first:] if count == -1 else found[first : first + count]
        if op in ("Gather", "GatherV2"):
            found, index = self.elements(inputs[0]), operands[1]
            if (
                found is None
                or index is None
                or index.ndim > 1
                or len(self.shapes[inputs[0][0]][inputs[0][1]] or ()) != 1
            ):
                return None
            picked = [int(i) for i in index.reshape(-1)]
            return (
                tuple(found[i] for i in picked)
                if all(0 <= i < len(found) for i in picked)
                else None
            )
        if op in _INTEGER_MATH:
            return self._combined(node, inputs)
        return None

    def _sliced(
        self, node: Node, inputs: list[Tensor], operands: list[np.ndarray | None]
    ) -> tuple[int | None, ...] | None:
        """Return the elements of vector[begin:end:stride] or vector[i]."""
        found = self.elements(inputs[0])
        begin, end, strides = operands[1:4]
        if found is None or begin is None or end is None or strides is None or begin.size != 1:
            return None
        if (
            len(self.shapes[inputs[0][0]][inputs[0][1]] or ()) != 1
            or node.attrs["ellipsis_mask"]
            or node.attrs["new_axis_mask"]
        ):
            return None
        first, last, step = (int(bound.reshape(-1)[0]) for bound in (begin, end, strides))
        if node.attrs["shrink_axis_mask"]:
            return (found[first],) if -len(found) <= first < len(found) else None
        if step == 0:
            return None
        return found[
            None if node.attrs["begin_mask"] else first : None
            if node.attrs["end_mask"]
            else last : step
        ]

    def _combined(self, node: Node, inputs: list[Tensor]) -> tuple[int | None, ...] | None:
        """Return elementwise integer arithmetic of scalars and vectors."""
        left, right = self.elements(inputs[0]), self.elements(inputs[1])
        if (
            left is None
            or right is None
            or (len(left) != len(right) and 1 not in (len(left), len(right)))
        ):
            return None
        shape = self.shapes[node.name][0]
        if shape is None or len(shape) > 1:
            return None
        count = max(len(left), len(right)) if left and right else 0
        left = left * count if len(left) == 1 else left
        right = right * count if len(right) == 1 else right
        rule = _INTEGER_MATH[node.op]
        return tuple(rule(x, y) for x, y in zip(left, right))


def _multiply(x: int | None, y: int | None) -> int | None:
    if x == 0 or y == 0:
        return 0
    return None if x is None or y is None else x * y


_INTEGER_MATH: Final = {
    "Add": lambda x, y: None if x is None or y is None else x + y,
    "AddV2": lambda x, y: None if x is None or y is None else x + y,
    "Sub": lambda x, y: None if x is None or y is None else x - y,
    "Mul": _multiply,
    "FloorDiv": lambda x, y: None if x is None or not y else x // y,
    "Maximum": lambda x, y: None if x is None or y is None else max(x, y),
    "Minimum": lambda x, y: None if x is None or y is None else min(x, y),
}
