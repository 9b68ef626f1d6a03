"""Tensor arrays."""

from __future__ import annotations

from tfjit.ops.declare import register_op

register_op(
    "TensorArray",
    inputs=("size: int32",),
    outputs=("handle: Ref(string)",),
    attrs=(
        "dtype: type",
        "dynamic_size: bool = false",
        "clear_after_read: bool = true",
        "tensor_array_name: string = ''",
        "element_shape: shape = { unknown_rank: true }",
    ),
    stateful=True,
    deprecated=(16, "Use TensorArrayV3"),
)
register_op("TensorArrayClose", inputs=("handle: Ref(string)",), deprecated=(16, "Use TensorArrayCloseV3"))
register_op("TensorArrayCloseV2", inputs=("handle: string",), deprecated=(26, "Use TensorArrayCloseV3"))
register_op("TensorArrayCloseV3", inputs=("handle: resource",), stateful=True)
register_op(
    "TensorArrayConcat",
    inputs=("handle: Ref(string)", "flow_in: float"),
    outputs=("value: dtype", "lengths: int64"),
    attrs=("dtype: type", "element_shape_except0: shape = { unknown_rank: true }"),
    deprecated=(16, "Use TensorArrayGradV3"),
)
register_op(
    "TensorArrayConcatV2",
    inputs=("handle: string", "flow_in: float"),
    outputs=("value: dtype", "lengths: int64"),
    attrs=("dtype: type", "element_shape_except0: shape = { unknown_rank: true }"),
)
register_op(
    "TensorArrayConcatV3",
    inputs=("handle: resource", "flow_in: float"),
    outputs=("value: dtype", "lengths: int64"),
    attrs=("dtype: type", "element_shape_except0: shape = { unknown_rank: true }"),
    stateful=True,
)
register_op(
    "TensorArrayGather",
    inputs=("handle: Ref(string)", "indices: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type", "element_shape: shape = { unknown_rank: true }"),
    deprecated=(16, "Use TensorArrayGatherV3"),
)
register_op(
    "TensorArrayGatherV2",
    inputs=("handle: string", "indices: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type", "element_shape: shape = { unknown_rank: true }"),
    deprecated=(26, "Use TensorArrayGatherV3"),
)
register_op(
    "TensorArrayGatherV3",
    inputs=("handle: resource", "indices: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type", "element_shape: shape = { unknown_rank: true }"),
    stateful=True,
)
register_op(
    "TensorArrayGrad",
    inputs=("handle: string", "flow_in: float"),
    outputs=("grad_handle: Ref(string)",),
    attrs=("source: string",),
    stateful=True,
    deprecated=(16, "Use TensorArrayGradV3"),
)
register_op(
    "TensorArrayGradV2",
    inputs=("handle: string", "flow_in: float"),
    outputs=("grad_handle: string",),
    attrs=("source: string",),
    stateful=True,
    deprecated=(26, "Use TensorArrayGradV3"),
)
register_op(
    "TensorArrayGradV3",
    inputs=("handle: resource", "flow_in: float"),
    outputs=("grad_handle: resource", "flow_out: float"),
    attrs=("source: string",),
    stateful=True,
)
register_op(
    "TensorArrayGradWithShape",
    inputs=("handle: resource", "flow_in: float", "shape_to_prepend: int32"),
    outputs=("grad_handle: resource", "flow_out: float"),
    attrs=("source: string",),
    stateful=True,
)
register_op(
    "TensorArrayPack",
    inputs=("handle: Ref(string)", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type", "element_shape: shape = { unknown_rank: true }"),
    deprecated=(16, "Use TensorArrayGatherV3 with RangeOp"),
)
register_op(
    "TensorArrayRead",
    inputs=("handle: Ref(string)", "index: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type",),
    deprecated=(16, "Use TensorArrayReadV3"),
)
register_op(
    "TensorArrayReadV2",
    inputs=("handle: string", "index: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type",),
    deprecated=(26, "Use TensorArrayReadV3"),
)
register_op(
    "TensorArrayReadV3",
    inputs=("handle: resource", "index: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type",),
    stateful=True,
)
register_op(
    "TensorArrayScatter",
    inputs=("handle: Ref(string)", "indices: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(19, "Use TensorArrayGradV3"),
)
register_op(
    "TensorArrayScatterV2",
    inputs=("handle: string", "indices: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(26, "Use TensorArrayScatterV3"),
)
register_op(
    "TensorArrayScatterV3",
    inputs=("handle: resource", "indices: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    stateful=True,
)
register_op(
    "TensorArraySize", inputs=("handle: Ref(string)", "flow_in: float"), outputs=("size: int32",), deprecated=(16, "Use TensorArraySizeV3")
)
register_op(
    "TensorArraySizeV2", inputs=("handle: string", "flow_in: float"), outputs=("size: int32",), deprecated=(26, "Use TensorArraySizeV3")
)
register_op("TensorArraySizeV3", inputs=("handle: resource", "flow_in: float"), outputs=("size: int32",), stateful=True)
register_op(
    "TensorArraySplit",
    inputs=("handle: Ref(string)", "value: T", "lengths: int64", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(16, "Use TensorArraySplitV3"),
)
register_op(
    "TensorArraySplitV2",
    inputs=("handle: string", "value: T", "lengths: int64", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(26, "Use TensorArraySplitV3"),
)
register_op(
    "TensorArraySplitV3",
    inputs=("handle: resource", "value: T", "lengths: int64", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    stateful=True,
)
register_op(
    "TensorArrayUnpack",
    inputs=("handle: Ref(string)", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(20, "Use TensorArrayScatterV3 with RangeOp"),
)
register_op(
    "TensorArrayV2",
    inputs=("size: int32",),
    outputs=("handle: string",),
    attrs=(
        "dtype: type",
        "element_shape: shape = { unknown_rank: true }",
        "dynamic_size: bool = false",
        "clear_after_read: bool = true",
        "tensor_array_name: string = ''",
    ),
    stateful=True,
    deprecated=(26, "Use TensorArrayV3"),
)
register_op(
    "TensorArrayV3",
    inputs=("size: int32",),
    outputs=("handle: resource", "flow: float"),
    attrs=(
        "dtype: type",
        "element_shape: shape = { unknown_rank: true }",
        "dynamic_size: bool = false",
        "clear_after_read: bool = true",
        "identical_element_shapes: bool = false",
        "tensor_array_name: string = ''",
    ),
    stateful=True,
)
register_op(
    "TensorArrayWrite",
    inputs=("handle: Ref(string)", "index: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(16, "Use TensorArrayWriteV3"),
)
register_op(
    "TensorArrayWriteV2",
    inputs=("handle: string", "index: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    deprecated=(26, "Use TensorArrayWriteV3"),
)
register_op(
    "TensorArrayWriteV3",
    inputs=("handle: resource", "index: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    stateful=True,
)
