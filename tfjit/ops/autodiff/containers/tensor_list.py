"""Define gradients of tensor lists: lists of the elements' gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.control_flow.list_tensor_array import shape_input
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def _element_shape(handle: Tensor) -> Tensor:
    made: Tensor = raw.TensorListElementShape(input_handle=handle, shape_type=dtypes.int32)
    return made


def _shape_of(value: Tensor) -> Any:
    shape = value.shape_tuple
    return shape_input(shape) if shape is not None and None not in shape else raw.Shape(input=value)


def _row_shape(value: Tensor) -> Any:
    """Return the shape of the rows of a tensor."""
    shape = value.shape_tuple
    if shape is not None and None not in shape[1:]:
        return shape_input(shape[1:])
    return raw.Shape(input=value)[1:]


@RegisterGradient("TensorListPushBack")
def _push_back(op: Operation, dlist: Tensor) -> Gradients:
    return raw.TensorListPopBack(
        input_handle=dlist,
        element_shape=_shape_of(op.inputs[1]),
        element_dtype=op.attr("element_dtype"),
    )


@RegisterGradient("TensorListPopBack")
def _pop_back(op: Operation, dlist: Tensor, delement: Tensor) -> Gradients:
    return raw.TensorListPushBack(input_handle=dlist, tensor=delement), None


@RegisterGradient("TensorListStack")
def _stack(op: Operation, dtensor: Tensor) -> Any:
    shape = dtensor.shape_tuple
    return raw.TensorListFromTensor(
        tensor=dtensor, element_shape=shape_input(None if shape is None else shape[1:])
    ), None


@RegisterGradient("TensorListFromTensor")
def _from_tensor(op: Operation, dlist: Tensor) -> Gradients:
    value = op.inputs[0]
    rows = value.shape_tuple[0] if value.shape_tuple else None
    made = raw.TensorListStack(
        input_handle=dlist,
        element_shape=_row_shape(value),
        element_dtype=value.dtype.base_dtype,
        num_elements=-1 if rows is None else rows,
    )
    return made, None


@RegisterGradient("TensorListGetItem")
def _get_item(op: Operation, ditem: Tensor) -> Gradients:
    handle, index, _ = op.inputs
    size = raw.TensorListLength(input_handle=handle)
    empty = raw.TensorListReserve(
        element_shape=_element_shape(handle),
        num_elements=size,
        element_dtype=ditem.dtype.base_dtype,
    )
    return raw.TensorListSetItem(input_handle=empty, index=index, item=ditem), None, None


@RegisterGradient("TensorListSetItem")
def _set_item(op: Operation, dlist: Tensor) -> Gradients:
    handle, index, item = op.inputs
    rest = raw.TensorListSetItem(input_handle=dlist, index=index, item=raw.ZerosLike(x=item))
    element = raw.TensorListGetItem(
        input_handle=dlist,
        index=index,
        element_shape=_shape_of(item),
        element_dtype=item.dtype.base_dtype,
    )
    if op.attr("resize_if_index_out_of_bounds"):
        rest = raw.TensorListResize(
            input_handle=rest, size=raw.TensorListLength(input_handle=handle)
        )
    return rest, None, element


@RegisterGradient("TensorListResize")
def _resize(op: Operation, dlist: Tensor) -> Gradients:
    return raw.TensorListResize(
        input_handle=dlist, size=raw.TensorListLength(input_handle=op.inputs[0])
    ), None


@RegisterGradient("TensorListGather")
def _gather(op: Operation, dtensor: Tensor) -> Gradients:
    handle, indices, _ = op.inputs
    size = raw.TensorListLength(input_handle=handle)
    empty = raw.TensorListReserve(
        element_shape=_element_shape(handle),
        num_elements=size,
        element_dtype=dtensor.dtype.base_dtype,
    )
    return (
        raw.TensorListScatterIntoExistingList(input_handle=empty, tensor=dtensor, indices=indices),
        None,
        None,
    )


def _scattered(op: Operation, dlist: Tensor, value: Tensor, indices: Tensor) -> Tensor:
    made: Tensor = raw.TensorListGather(
        input_handle=dlist,
        indices=indices,
        element_shape=_row_shape(value),
        element_dtype=value.dtype.base_dtype,
    )
    return made


@RegisterGradient("TensorListScatter")
def _scatter(op: Operation, dlist: Tensor) -> Gradients:
    return _scattered(op, dlist, op.inputs[0], op.inputs[1]), None, None


@RegisterGradient("TensorListScatterV2")
def _scatter_v2(op: Operation, dlist: Tensor) -> Gradients:
    return _scattered(op, dlist, op.inputs[0], op.inputs[1]), None, None, None


@RegisterGradient("TensorListScatterIntoExistingList")
def _scatter_into(op: Operation, dlist: Tensor) -> Gradients:
    _, value, indices = op.inputs
    rest = raw.TensorListScatterIntoExistingList(
        input_handle=dlist, tensor=raw.ZerosLike(x=value), indices=indices
    )
    return rest, _scattered(op, dlist, value, indices), None


@RegisterGradient("TensorListConcat")
def _concat(op: Operation, dtensor: Tensor, _: object) -> Gradients:
    return raw.TensorListSplit(
        tensor=dtensor, element_shape=_element_shape(op.inputs[0]), lengths=op.outputs[1]
    )


@RegisterGradient("TensorListConcatV2")
def _concat_v2(op: Operation, dtensor: Tensor, _: object) -> Gradients:
    return (
        raw.TensorListSplit(
            tensor=dtensor, element_shape=_element_shape(op.inputs[0]), lengths=op.outputs[1]
        ),
        None,
        None,
    )


@RegisterGradient("TensorListSplit")
def _split(op: Operation, dlist: Tensor) -> Gradients:
    value, _, lengths = op.inputs
    shape = raw.ConcatV2(
        values=[constant([-1], dtype=dtypes.int32), convert_to_tensor(_row_shape(value))], axis=0
    )
    made = raw.TensorListConcatV2(
        input_handle=dlist,
        element_shape=shape,
        leading_dims=lengths,
        element_dtype=value.dtype.base_dtype,
    )
    return made[0], None, None
