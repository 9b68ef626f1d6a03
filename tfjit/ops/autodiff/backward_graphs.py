"""Build bodies of gradients of function calls.

A gradient function takes tensors of the forward function through the node that calls it. While the
gradient of a function's body is built, its operations name tensors of the forward body. Those that
are inputs there come from the node's inputs, constants are made anew, and for any other the forward
body gets one more output, which the node hands on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.function_graph import FunctionGraph, unique_function_name
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.op_defs.op_def import OpDef
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import raw_ops as raw
from tfjit.ops.control_flow.bodies import extend, handle_data
from tfjit.ops.control_flow.control_flow_context import is_loop_constant
from tfjit.ops.core.convert import constant, convert_to_tensor

# Small facts of big tensors: computed in the forward body, which hands on the facts and not the
# tensors.
_FACTS: Final = frozenset(
    {"Shape", "ShapeN", "Size", "Rank", "TensorListElementShape", "TensorListLength"}
)
_MAX_CONSTANT: Final = 1 << 10  # largest computed constant, in elements, that is made anew
_TRAINABLE: Final = frozenset(
    {
        dtypes.float16,
        dtypes.bfloat16,
        dtypes.float32,
        dtypes.float64,
        dtypes.complex64,
        dtypes.complex128,
        dtypes.resource,
        dtypes.variant,
    }
)


class BackwardGraph(FunctionGraph):
    """The body of a function that computes gradients of `forward`.

    The node `op` calls `forward` with its inputs from `first` on.
    """

    def __init__(self, forward: FunctionGraph, op: Operation, first: int) -> None:
        outer = get_default_graph()
        automatic = isinstance(outer, FunctionGraph) and outer.automatic_control
        super().__init__(unique_function_name(f"{forward.name}_grad"), outer, automatic)
        self.forward = forward
        self.op = op
        self._first = first
        # id of a tensor of the forward body -> the tensor that represents it here
        self._values: dict[int, Tensor] = {}
        self._moved: dict[tuple[Any, ...], Operation] = {}
        self.changed = False  # True once the forward body got outputs

    def can_capture_from(self, graph: Graph) -> bool:
        """Return whether tensors of `graph` may be used here.

        Tensors of the forward body may.
        """
        return graph is self.forward or super().can_capture_from(graph)

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """Return the inner tensor for one of the forward body or outside."""
        if tensor.op.graph is not self.forward:
            return super().capture(tensor, name)
        value = tensor
        while value.op.type == "Identity":
            value = value.op.inputs[0]
        found = self._values.get(id(value))
        if found is None:
            found = self._values[id(value)] = self._from_forward(value)
        return found

    def _from_forward(self, value: Tensor) -> Tensor:
        given = self._given(value)
        if given is not None:
            return self.capture(given)
        if value.op.type == "Const" or value.dtype.is_numpy_compatible:
            known = constant_value(value)
            if known is not None and (value.op.type == "Const" or known.size <= _MAX_CONSTANT):
                with get_default_graph().control_dependencies(None):
                    return constant(known, dtype=value.dtype.base_dtype)
        if value.dtype is dtypes.resource:
            return self._resource(value)
        return self._save(value)

    def _index(self, value: Tensor) -> int | None:
        return next((i for i, taken in enumerate(self.forward.inputs) if taken is value), None)

    def _given(self, value: Tensor) -> Tensor | None:
        """Return the node's value for a forward body's input, or None."""
        index = self._index(value)
        return None if index is None else self.op.inputs[self._first + index]

    def _resource(self, value: Tensor) -> Tensor:
        """Return the input that a resource of the forward body began as.

        A body passes a resource along, and never makes one.
        """
        while value.op.graph is self.forward:
            index = self._index(value)
            if index is not None:
                return self.capture(self.op.inputs[self._first + index])
            op = value.op
            if op.type in ("While", "StatelessWhile"):
                value = op.inputs[value.value_index]
            elif op.type in (
                "Identity",
                "Switch",
                "Merge",
                "Exit",
                "NextIteration",
            ) or is_loop_constant(op):
                value = op.inputs[0]
            else:
                raise NotImplementedError(
                    f"gradients: the resource {value.name} is made in the function "
                    f"'{self.forward.name}'"
                )
        return self.capture(value)

    def _save(self, value: Tensor) -> Tensor:
        """Hand on a value that the forward body computes."""
        index = self.forward.saved.get(id(value))
        if index is None:
            index = next((i for i, out in enumerate(self.forward.outputs) if out is value), None)
        if index is None:
            index = self._add_output(value)
            self.changed = True
        self.forward.saved[id(value)] = index
        return super().capture(self.op.outputs[index])

    def _add_output(self, value: Tensor) -> int:
        """Add an output to the forward body and node; return its index."""
        self.forward.outputs.append(value)
        extend(self.op, [], [value])
        return len(self.op.outputs) - 1

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor] = (),
        dtypes: Sequence[DType] | None = None,
        input_types: Sequence[DType] | None = None,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        op_def: OpDef | None = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Add an operation, as in any graph.

        Small facts of tensors of the forward body are computed there.
        """
        if (
            op_type in _FACTS
            and inputs
            and all(t.op.graph is self.forward and self._index(t) is None for t in inputs)
        ):
            key = (
                op_type,
                *map(id, inputs),
                *sorted((k, str(v)) for k, v in (attrs or {}).items()),
            )
            found = self._moved.get(key)
            if found is None:
                plain = name.rstrip("/") if name else None
                found = self._moved[key] = self.forward.create_op(
                    op_type, inputs, name=plain, attrs=attrs, op_def=op_def
                )
            return found
        return super().create_op(
            op_type,
            inputs,
            dtypes,
            input_types,
            name,
            attrs,
            op_def,
            compute_shapes,
            compute_device,
        )


def is_trainable(value: Tensor) -> bool:
    """Return whether gradients flow through a tensor.

    Its dtype decides; of a tensor list, the dtype of its elements.
    """
    if value.dtype.base_dtype not in _TRAINABLE:
        return False
    if value.dtype is dtypes.variant:
        element = value.op.attrs.get("element_dtype")
        return element is None or element in _TRAINABLE
    return True


def dense(gradient: object) -> Any:
    """Return a gradient as a tensor; None stays."""
    return convert_to_tensor(gradient) if isinstance(gradient, IndexedSlices) else gradient


def gradient_dtype(value: Tensor) -> DType | None:
    """Return the dtype of a tensor's gradient.

    Of a resource, the dtype of its variable; None where the variable is not known.
    """
    if value.dtype is not dtypes.resource:
        return value.dtype.base_dtype
    data = handle_data(value)
    dtype: DType | None = data[0][1] if data else None
    return dtype if dtype in _TRAINABLE else None


def zeros_of(value: Tensor) -> Tensor:
    """Return zeros as a tensor's gradient.

    Of a resource, zeros like the variable that it refers to.
    """
    made: Tensor
    if value.dtype is dtypes.resource:
        dtype = gradient_dtype(value)
        if dtype is None:
            raise ValueError(
                f"gradients: nothing is known of the variable that {value.name} refers to"
            )
        made = raw.Fill(dims=raw.VariableShape(input=value), value=constant(0, dtype=dtype))
        made.set_shape(TensorShape(handle_data(value)[0][0]))
    elif value.dtype is dtypes.variant:
        made = raw.ZerosLike(x=value)
    else:  # of the size only, so that no node keeps the value
        made = raw.Fill(dims=_sizes(value), value=constant(0, dtype=value.dtype.base_dtype))
    return made


def _sizes(value: Tensor) -> Tensor:
    shape = value.shape_tuple
    known = shape is not None and None not in shape
    sizes: Tensor = constant(shape, dtype=dtypes.int32) if known else raw.Shape(input=value)
    return sizes
