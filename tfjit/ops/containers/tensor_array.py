"""Declare tensor arrays."""

from __future__ import annotations

from tfjit.framework.op_defs.op_traits import READS_STATE
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, nothing, vector_of_two


def _handle_check(c: ShapeContext) -> None:
    """Check a handle as string[2].

    Handles were of that form before there were resources.
    """
    (size,) = c.with_rank(0, 1)
    if size is not None:
        c.with_value(size, 2)


def _tensor_array(c: ShapeContext) -> Shapes:
    c.with_rank(0, 0)
    return [(2,), ()]


def _grad(c: ShapeContext) -> Shapes:
    _handle_check(c)
    c.with_rank(1, 0)
    return [(2,), ()]


def _write(c: ShapeContext) -> Shapes:
    _handle_check(c)
    c.with_rank(1, 0)
    c.with_rank(3, 0)
    return [()]


def _read(c: ShapeContext) -> Shapes:
    _handle_check(c)
    c.with_rank(1, 0)
    c.with_rank(2, 0)
    return [None]


def _gather(c: ShapeContext) -> Shapes:
    _handle_check(c)
    (count,) = c.with_rank(1, 1)
    c.with_rank(2, 0)
    element: Shape = c.shape_attr("element_shape")
    return [None if element is None else (count, *element)]


def _scatter(c: ShapeContext) -> Shapes:
    _handle_check(c)
    c.with_rank(1, 1)
    c.with_rank(3, 0)
    return [()]


def _concat(c: ShapeContext) -> Shapes:
    _handle_check(c)
    c.with_rank(1, 0)
    return [None, (None,)]


def _split(c: ShapeContext) -> Shapes:
    _handle_check(c)
    c.with_rank(2, 1)
    c.with_rank(3, 0)
    return [()]


def _size(c: ShapeContext) -> Shapes:
    _handle_check(c)
    return [()]


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
register_op(
    "TensorArrayClose",
    inputs=("handle: Ref(string)",),
    deprecated=(16, "Use TensorArrayCloseV3"),
    shape=nothing,
)
register_op(
    "TensorArrayCloseV2",
    inputs=("handle: string",),
    deprecated=(26, "Use TensorArrayCloseV3"),
    shape=nothing,
)
register_op("TensorArrayCloseV3", inputs=("handle: resource",), stateful=True, shape=nothing)
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
    shape=_concat,
)
register_op(
    "TensorArrayConcatV3",
    inputs=("handle: resource", "flow_in: float"),
    outputs=("value: dtype", "lengths: int64"),
    attrs=("dtype: type", "element_shape_except0: shape = { unknown_rank: true }"),
    stateful=True,
    shape=_concat,
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
    shape=_gather,
)
register_op(
    "TensorArrayGatherV3",
    inputs=("handle: resource", "indices: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type", "element_shape: shape = { unknown_rank: true }"),
    stateful=True,
    shape=_gather,
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
    shape=_grad,
)
register_op(
    "TensorArrayGradWithShape",
    inputs=("handle: resource", "flow_in: float", "shape_to_prepend: int32"),
    outputs=("grad_handle: resource", "flow_out: float"),
    attrs=("source: string",),
    stateful=True,
    shape=_grad,
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
    shape=_read,
)
register_op(
    "TensorArrayReadV3",
    inputs=("handle: resource", "index: int32", "flow_in: float"),
    outputs=("value: dtype",),
    attrs=("dtype: type",),
    stateful=True,
    shape=_read,
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
    shape=_scatter,
)
register_op(
    "TensorArrayScatterV3",
    inputs=("handle: resource", "indices: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    stateful=True,
    shape=_scatter,
)
register_op(
    "TensorArraySize",
    inputs=("handle: Ref(string)", "flow_in: float"),
    outputs=("size: int32",),
    deprecated=(16, "Use TensorArraySizeV3"),
)
register_op(
    "TensorArraySizeV2",
    inputs=("handle: string", "flow_in: float"),
    outputs=("size: int32",),
    deprecated=(26, "Use TensorArraySizeV3"),
    shape=_size,
)
register_op(
    "TensorArraySizeV3",
    inputs=("handle: resource", "flow_in: float"),
    outputs=("size: int32",),
    stateful=True,
    shape=_size,
    traits=READS_STATE,
)
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
    shape=_split,
)
register_op(
    "TensorArraySplitV3",
    inputs=("handle: resource", "value: T", "lengths: int64", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    stateful=True,
    shape=_split,
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
    shape=vector_of_two,
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
    shape=_tensor_array,
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
    shape=_write,
)
register_op(
    "TensorArrayWriteV3",
    inputs=("handle: resource", "index: int32", "value: T", "flow_in: float"),
    outputs=("flow_out: float",),
    attrs=("T: type",),
    stateful=True,
    shape=_write,
)
