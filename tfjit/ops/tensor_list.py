"""Tensor lists and maps (variants)."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

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
)
register_op("EmptyTensorMap", outputs=("handle: variant",))
register_op(
    "TensorListConcat",
    inputs=("input_handle: variant",),
    outputs=("tensor: element_dtype", "lengths: int64"),
    attrs=("element_dtype: type", "element_shape: shape = { unknown_rank: true }"),
)
register_op(
    "TensorListConcatLists", inputs=("input_a: variant", "input_b: variant"), outputs=("output: variant",), attrs=("element_dtype: type",)
)
register_op(
    "TensorListConcatV2",
    inputs=("input_handle: variant", "element_shape: shape_type", "leading_dims: int64"),
    outputs=("tensor: element_dtype", "lengths: int64"),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
)
register_op(
    "TensorListElementShape", inputs=("input_handle: variant",), outputs=("element_shape: shape_type",), attrs=(f"shape_type: {INDEX}",)
)
register_op(
    "TensorListFromTensor",
    inputs=("tensor: element_dtype", "element_shape: shape_type"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
)
register_op(
    "TensorListGather",
    inputs=("input_handle: variant", "indices: int32", "element_shape: int32"),
    outputs=("values: element_dtype",),
    attrs=("element_dtype: type",),
)
register_op(
    "TensorListGetItem",
    inputs=("input_handle: variant", "index: int32", "element_shape: Tshape"),
    outputs=("item: element_dtype",),
    attrs=("element_dtype: type", f"Tshape: {INDEX} = DT_INT32"),
)
register_op("TensorListLength", inputs=("input_handle: variant",), outputs=("length: int32",))
register_op(
    "TensorListPopBack",
    inputs=("input_handle: variant", "element_shape: int32"),
    outputs=("output_handle: variant", "tensor: element_dtype"),
    attrs=("element_dtype: type",),
)
register_op(
    "TensorListPushBack",
    inputs=("input_handle: variant", "tensor: element_dtype"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type",),
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
)
register_op("TensorListResize", inputs=("input_handle: variant", "size: int32"), outputs=("output_handle: variant",))
register_op(
    "TensorListScatter",
    inputs=("tensor: element_dtype", "indices: int32", "element_shape: shape_type"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
)
register_op(
    "TensorListScatterIntoExistingList",
    inputs=("input_handle: variant", "tensor: element_dtype", "indices: int32"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type",),
)
register_op(
    "TensorListScatterV2",
    inputs=("tensor: element_dtype", "indices: int32", "element_shape: shape_type", "num_elements: int32"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
)
register_op(
    "TensorListSetItem",
    inputs=("input_handle: variant", "index: int32", "item: element_dtype"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", "resize_if_index_out_of_bounds: bool = false"),
)
register_op(
    "TensorListSplit",
    inputs=("tensor: element_dtype", "element_shape: shape_type", "lengths: int64"),
    outputs=("output_handle: variant",),
    attrs=("element_dtype: type", f"shape_type: {INDEX}"),
)
register_op(
    "TensorListStack",
    inputs=("input_handle: variant", "element_shape: int32"),
    outputs=("tensor: element_dtype",),
    attrs=("element_dtype: type", "num_elements: int = -1"),
)
register_op(
    "TensorMapErase",
    inputs=("input_handle: variant", "key: key_dtype"),
    outputs=("output_handle: variant",),
    attrs=("key_dtype: type", "value_dtype: type"),
)
register_op("TensorMapHasKey", inputs=("input_handle: variant", "key: key_dtype"), outputs=("has_key: bool",), attrs=("key_dtype: type",))
register_op(
    "TensorMapInsert",
    inputs=("input_handle: variant", "key: key_dtype", "value: value_dtype"),
    outputs=("output_handle: variant",),
    attrs=("key_dtype: type", "value_dtype: type"),
)
register_op(
    "TensorMapLookup",
    inputs=("input_handle: variant", "key: key_dtype"),
    outputs=("value: value_dtype",),
    attrs=("key_dtype: type", "value_dtype: type"),
)
register_op("TensorMapSize", inputs=("input_handle: variant",), outputs=("size: int32",))
register_op("TensorMapStackKeys", inputs=("input_handle: variant",), outputs=("keys: key_dtype",), attrs=("key_dtype: type",))
