"""Declare tensor lists (variants)."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, scalar
from tfjit.ops.core.type_lists import INDEX


def _element(c: ShapeContext, index: int) -> Shape:
    """Return an element shape given as an input.

    The input is a vector, or a scalar -1 for unknown rank.
    """
    value = c.constant(index)
    if value is not None and value.ndim == 0:
        return None
    shape = c.inputs[index]
    if shape is None or not shape:
        return None
    return c.constant_as_shape(index)


def _get_item(c: ShapeContext) -> Shapes:
    return [_element(c, 2)]


def _pop_back(c: ShapeContext) -> Shapes:
    return [(), _element(c, 1)]


def _stack(c: ShapeContext) -> Shapes:
    element = _element(c, 1)
    count = c.attr("num_elements")
    return [None if element is None else (None if count == -1 else count, *element)]


def _gather(c: ShapeContext) -> Shapes:
    element = _element(c, 2)
    return [None if element is None or c.inputs[1] is None else (*c.inputs[1], *element)]


def _concat(c: ShapeContext) -> Shapes:
    return [None, (None,)]


def _element_shape(c: ShapeContext) -> Shapes:
    return [None]


register_op(
    "CompositeTensorVariantFromComponents",
    inputs=("components: Tcomponents",),
    outputs=("encoded: variant",),
    attrs=("metadata: string", "Tcomponents: list(type) >= 0"),
)
register_op(
    "CompositeTensorVariantToComponents",
    inputs=("encoded: variant",),
    outputs=("components: Tcomponents",),
    attrs=("metadata: string", "Tcomponents: list(type) >= 0"),
)
register_op(
    "EmptyTensorList",
    inputs=("element_shape: shape_type", "max_num_elements: int32"),
    outputs=("handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=scalar,
)
register_op(
    "TensorListConcat",
    inputs=("input_handle: variant",),
    outputs=("tensor: element_dtype", "lengths: int64"),
    attrs=("element_dtype: type", "element_shape: shape = { unknown_rank: true }"),
    shape=_concat,
)
register_op(
    "TensorListConcatLists",
    inputs=("input_a: variant", "input_b: variant"),
    outputs=("output: variant",),
    attrs=("element_dtype: type",),
)
register_op(
    "TensorListConcatV2",
    inputs=("input_handle: variant", "element_shape: shape_type", "leading_dims: int64"),
    outputs=("tensor: element_dtype", "lengths: int64"),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=_concat,
)
register_op(
    "TensorListElementShape",
    inputs=("input_handle: variant",),
    outputs=("element_shape: shape_type",),
    attrs=(f"shape_type: {INDEX}",),
    shape=_element_shape,
)
register_op(
    "TensorListFromTensor",
    inputs=("tensor: element_dtype", "element_shape: shape_type"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=scalar,
)
register_op(
    "TensorListGather",
    inputs=("input_handle: variant", "indices: int32", "element_shape: int32"),
    outputs=("values: element_dtype",),
    attrs=("element_dtype: type",),
    shape=_gather,
)
register_op(
    "TensorListGetItem",
    inputs=("input_handle: variant", "index: int32", "element_shape: Tshape"),
    outputs=("item: element_dtype",),
    attrs=("element_dtype: type", f"Tshape: {INDEX} = DT_INT32"),
    shape=_get_item,
)
register_op(
    "TensorListLength", inputs=("input_handle: variant",), outputs=("length: int32",), shape=scalar
)
register_op(
    "TensorListPopBack",
    inputs=("input_handle: variant", "element_shape: int32"),
    outputs=("output_handle: variant", "tensor: element_dtype"),
    attrs=("element_dtype: type",),
    shape=_pop_back,
)
register_op(
    "TensorListPushBack",
    inputs=("input_handle: variant", "tensor: element_dtype"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type",),
    shape=scalar,
)
register_op(
    "TensorListPushBackBatch",
    inputs=("input_handles: variant", "tensor: element_dtype"),
    outputs=("output_handles: variant",),
    attrs=("element_dtype: type",),
)
register_op(
    "TensorListReserve",
    inputs=("element_shape: shape_type", "num_elements: int32"),
    outputs=("handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=scalar,
)
register_op(
    "TensorListResize",
    inputs=("input_handle: variant", "size: int32"),
    outputs=("output_handle: variant",),
    shape=scalar,
)
register_op(
    "TensorListScatter",
    inputs=("tensor: element_dtype", "indices: int32", "element_shape: shape_type"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=scalar,
)
register_op(
    "TensorListScatterIntoExistingList",
    inputs=("input_handle: variant", "tensor: element_dtype", "indices: int32"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type",),
    shape=scalar,
)
register_op(
    "TensorListScatterV2",
    inputs=(
        "tensor: element_dtype",
        "indices: int32",
        "element_shape: shape_type",
        "num_elements: int32",
    ),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=scalar,
)
register_op(
    "TensorListSetItem",
    inputs=("input_handle: variant", "index: int32", "item: element_dtype"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", "resize_if_index_out_of_bounds: bool = false"),
    shape=scalar,
)
register_op(
    "TensorListSplit",
    inputs=("tensor: element_dtype", "element_shape: shape_type", "lengths: int64"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
    shape=scalar,
)
register_op(
    "TensorListStack",
    inputs=("input_handle: variant", "element_shape: int32"),
    outputs=("tensor: element_dtype",),
    attrs=("element_dtype: type", "num_elements: int = -1"),
    shape=_stack,
)
