"""Define shapes, constants, placeholders and identities.

These ops make tensors or only relabel them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import (
    CANNOT_FAIL,
    CHECKS_NUMBERS,
    IDENTITY,
    NEVER_EVALUATED,
    PLACEHOLDER,
    RESHAPE,
    SHAPE_QUERY,
    VIEW,
)
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import TensorShape, as_shape
from tfjit.framework.types.shape import broadcast as broadcast_tuples
from tfjit.ops.arrays.array_shapes import (
    bitcast_shape,
    broadcast_args_shape,
    broadcast_gradient_args_shape,
    broadcast_to_shape,
    concat_offset_shape,
    const_shape,
    diag_part_shape,
    diag_shape,
    empty_shape,
    ensured_shape,
    expand_dims_shape,
    fill_shape,
    fingerprint_shape,
    invert_permutation_shape,
    linspace_shape,
    placeholder_shape,
    placeholder_with_default_shape,
    range_shape,
    shape_vector,
    squeeze_shape,
)
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.dispatch import dispatched, unary_elementwise
from tfjit.ops.core.shape_rules import (
    all_unchanged,
    reshape_shape,
    scalar,
    shape_attr,
    unchanged,
)
from tfjit.ops.core.sparse_values import is_sparse, maps_sparse_values
from tfjit.ops.core.type_lists import FLOAT, INDEX, WIDE_SIGNED

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, ShapeLike, TensorLike


register_op(
    "Bitcast",
    inputs=("input: T",),
    outputs=("output: type",),
    attrs=(
        (
            "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, "
            "int16, complex64, "
            "complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
        (
            "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, "
            "int8, int16, complex64, "
            "complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
    ),
    shape=bitcast_shape,
)
register_op(
    "BroadcastArgs",
    inputs=("s0: T", "s1: T"),
    outputs=("r0: T",),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=broadcast_args_shape,
)
register_op(
    "BroadcastGradientArgs",
    inputs=("s0: T", "s1: T"),
    outputs=("r0: T", "r1: T"),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=broadcast_gradient_args_shape,
)
register_op(
    "BroadcastTo",
    inputs=("input: T", "shape: Tidx"),
    outputs=("output: T",),
    attrs=("T: type", f"Tidx: {INDEX} = DT_INT32"),
    shape=broadcast_to_shape,
    traits=CANNOT_FAIL,
)
for _op_type in (
    "CheckNumerics",
    "CheckNumericsV2",
):
    register_op(
        _op_type,
        inputs=("tensor: T",),
        outputs=("output: T",),
        attrs=(f"T: {FLOAT}", "message: string"),
        stateful=True,
        shape=unchanged,
        traits=CHECKS_NUMBERS,
    )
register_op(
    "ConcatOffset",
    inputs=("concat_dim: int32", "shape: N * shape_type"),
    outputs=("offset: N * shape_type",),
    attrs=("N: int >= 2", f"shape_type: {INDEX} = DT_INT32"),
    shape=concat_offset_shape,
)
register_op(
    "Const",
    outputs=("output: dtype",),
    attrs=("value: tensor", "dtype: type"),
    shape=const_shape,
    traits=CANNOT_FAIL,
)
for _op_type in (
    "Copy",
    "CopyHost",
):
    register_op(
        _op_type,
        inputs=("input: T",),
        outputs=("output: T",),
        attrs=("T: type", "tensor_name: string = ''", "debug_ops_spec: list(string) = []"),
        allows_uninitialized_input=True,
        shape=unchanged,
    )
register_op(
    "DeepCopy",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=("T: type",),
    stateful=True,
    shape=unchanged,
)
register_op(
    "Diag",
    inputs=("diagonal: T",),
    outputs=("output: T",),
    attrs=(f"T: {WIDE_SIGNED}",),
    shape=diag_shape,
)
register_op(
    "DiagPart",
    inputs=("input: T",),
    outputs=("diagonal: T",),
    attrs=(f"T: {WIDE_SIGNED}",),
    shape=diag_part_shape,
)
register_op(
    "Empty",
    inputs=("shape: int32",),
    outputs=("output: dtype",),
    attrs=("dtype: type", "init: bool = false"),
    stateful=True,
    shape=empty_shape,
)
register_op(
    "EnsureShape",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("shape: shape", "T: type"),
    shape=ensured_shape,
    traits=VIEW,
)
register_op(
    "ExpandDims",
    inputs=("input: T", "dim: Tdim"),
    outputs=("output: T",),
    attrs=("T: type", f"Tdim: {INDEX} = DT_INT32"),
    shape=expand_dims_shape,
    traits=RESHAPE | CANNOT_FAIL,
)
register_op(
    "Fill",
    inputs=("dims: index_type", "value: T"),
    outputs=("output: T",),
    attrs=("T: type", f"index_type: {INDEX} = DT_INT32"),
    shape=fill_shape,
    traits=CANNOT_FAIL,
)
register_op(
    "Fingerprint",
    inputs=("data: T", "method: string"),
    outputs=("fingerprint: uint8",),
    attrs=("T: type",),
    shape=fingerprint_shape,
)
register_op(
    "GuaranteeConst",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type",),
    stateful=True,
    shape=unchanged,
    traits=IDENTITY | CANNOT_FAIL,
)
for _op_type in (
    "Identity",
    "Snapshot",
    "StopGradient",
):
    register_op(
        _op_type,
        inputs=("input: T",),
        outputs=("output: T",),
        attrs=("T: type",),
        shape=unchanged,
        traits=IDENTITY | CANNOT_FAIL,
    )
register_op(
    "IdentityN",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: list(type) >= 1",),
    shape=all_unchanged,
    traits=CANNOT_FAIL,
)
register_op(
    "ImmutableConst",
    outputs=("tensor: dtype",),
    attrs=("dtype: type", "shape: shape", "memory_region_name: string"),
    shape=shape_attr(),
)
register_op(
    "InvertPermutation",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=invert_permutation_shape,
)
register_op(
    "LinSpace",
    inputs=("start: T", "stop: T", "num: Tidx"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32"),
    shape=linspace_shape,
)
register_op(
    "OnesLike",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(
        (
            "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
            "uint64, complex64, complex128, bool}"
        ),
    ),
    shape=unchanged,
    traits=CANNOT_FAIL,
)
register_op(
    "Placeholder",
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape = { unknown_rank: true }"),
    shape=placeholder_shape,
    traits=PLACEHOLDER,
)
register_op(
    "PlaceholderV2",
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    deprecated=(23, "Placeholder now behaves the same as PlaceholderV2."),
    shape=shape_attr(),
    traits=PLACEHOLDER,
)
register_op(
    "PlaceholderWithDefault",
    inputs=("input: dtype",),
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    shape=placeholder_with_default_shape,
    traits=IDENTITY | CANNOT_FAIL,
)
register_op(
    "PreventGradient",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "message: string = ''"),
    shape=unchanged,
    traits=IDENTITY | CANNOT_FAIL,
)
register_op(
    "Range",
    inputs=("start: Tidx", "limit: Tidx", "delta: Tidx"),
    outputs=("output: Tidx",),
    attrs=(
        "Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} "
        "= DT_INT32",
    ),
    shape=range_shape,
    traits=CANNOT_FAIL,
)
register_op(
    "Rank",
    inputs=("input: T",),
    outputs=("output: int32",),
    attrs=("T: type",),
    shape=scalar,
    traits=SHAPE_QUERY | CANNOT_FAIL,
)
register_op(
    "Reshape",
    inputs=("tensor: T", "shape: Tshape"),
    outputs=("output: T",),
    attrs=("T: type", f"Tshape: {INDEX} = DT_INT32"),
    shape=reshape_shape,
    traits=RESHAPE | CANNOT_FAIL,
)
register_op(
    "Shape",
    inputs=("input: T",),
    outputs=("output: out_type",),
    attrs=("T: type", f"out_type: {INDEX} = DT_INT32"),
    shape=shape_vector,
    traits=SHAPE_QUERY | CANNOT_FAIL,
)
register_op(
    "ShapeN",
    inputs=("input: N * T",),
    outputs=("output: N * out_type",),
    attrs=("N: int >= 1", "T: type", f"out_type: {INDEX} = DT_INT32"),
    shape=shape_vector,
    traits=SHAPE_QUERY | CANNOT_FAIL,
)
register_op(
    "Size",
    inputs=("input: T",),
    outputs=("output: out_type",),
    attrs=("T: type", f"out_type: {INDEX} = DT_INT32"),
    shape=scalar,
    traits=SHAPE_QUERY | CANNOT_FAIL,
)
register_op(
    "Squeeze",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "squeeze_dims: list(int) >= 0 = []"),
    shape=squeeze_shape,
    traits=RESHAPE | CANNOT_FAIL,
)
register_op(
    "ZerosLike",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=("T: type",),
    shape=unchanged,
    traits=CANNOT_FAIL,
)


def placeholder(
    dtype: DTypeLike, shape: ShapeLike | None = None, name: str | None = None
) -> Tensor:
    """Return a tensor that every run feeds.

    shape: None for any.
    """
    attrs = {"dtype": as_dtype(dtype), "shape": TensorShape(shape)}
    return get_default_graph().create_op("Placeholder", (), attrs=attrs, name=name).outputs[0]


def placeholder_with_default(
    input: TensorLike, shape: ShapeLike, name: str | None = None
) -> Tensor:
    """Return `input`, unless a run feeds another value of the given shape."""
    return tensor("PlaceholderWithDefault", name, input=input, shape=TensorShape(shape))


@dispatched
def identity(input: Any, name: str | None = None) -> Tensor:
    """Return the same value as another tensor, dense or sparse."""
    if is_sparse(input):
        with name_scope(name, "Identity", [input.values]):
            return type(input)(
                *(
                    tensor("Identity", None, input=part)
                    for part in (input.indices, input.values, input.dense_shape)
                )
            )
    return tensor("Identity", name, input=input)


def identity_n(input: TensorLike, name: str | None = None) -> list[Tensor]:
    """Return the same values as other tensors."""
    return list(create("IdentityN", name, input=input).outputs)


@maps_sparse_values
def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """Return `input`, a constant for gradients."""
    return tensor("StopGradient", name, input=input)


def prevent_gradient(input: TensorLike, message: str = "", name: str | None = None) -> Tensor:
    """Return `input`; asking for a gradient through it is an error."""
    return tensor("PreventGradient", name, input=input, message=message)


def guarantee_const(input: TensorLike, name: str | None = None) -> Tensor:
    """Return `input`; the caller promises that its value never changes."""
    return tensor("GuaranteeConst", name, input=input)


def ensure_shape(x: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Return `x`, checked to have `shape` when it runs."""
    return tensor("EnsureShape", name, input=x, shape=TensorShape(shape))


@unary_elementwise
def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return `tensor`; InvalidArgumentError when it holds NaN or Inf."""
    return call("CheckNumerics", name, tensor=tensor, message=message)


@dispatched
def bitcast(input: TensorLike, type: DTypeLike, name: str | None = None) -> Tensor:
    """Reinterpret the bits as another type.

    A ratio of the types' sizes becomes, or takes, the last axis.
    """
    return tensor("Bitcast", name, input=input, type=as_dtype(type))


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the shape as an integer vector.

    A fully known shape gives a constant.
    """
    if is_sparse(input):
        with name_scope(name, "Shape", [input.values]):
            return tensor("Cast", None, x=input.dense_shape, DstT=as_dtype(out_type))
    value = convert_to_tensor(input)
    known = value.shape_tuple
    if known is not None and None not in known:
        return constant(
            np.array(known, as_dtype(out_type).as_numpy_dtype), out_type, name=name or "Shape"
        )
    return tensor("Shape", name, input=value, out_type=as_dtype(out_type))


def shape_n(
    input: TensorLike, out_type: DTypeLike = dtypes.int32, name: str | None = None
) -> list[Tensor]:
    """Return the shapes of several tensors."""
    return list(create("ShapeN", name, input=input, out_type=as_dtype(out_type)).outputs)


@dispatched
def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the number of elements; a constant where it is known."""
    if is_sparse(input):
        with name_scope(name, "Size", [input.values]) as scope:
            sizes = tensor("Cast", None, x=input.dense_shape, DstT=as_dtype(out_type))
            return tensor("Prod", scope, input=sizes, reduction_indices=[0])
    value = convert_to_tensor(input)
    known = TensorShape(value.shape_tuple).num_elements()
    if known is not None:
        return constant(known, out_type, name=name or "Size")
    return tensor("Size", name, input=value, out_type=as_dtype(out_type))


@dispatched
def rank(input: Any, name: str | None = None) -> Tensor:
    """Return the number of axes; a constant where it is known."""
    if is_sparse(input):
        return size(input.dense_shape, name=name)
    value = convert_to_tensor(input)
    if value.shape_tuple is not None:
        return constant(len(value.shape_tuple), dtypes.int32, name=name or "Rank")
    return tensor("Rank", name, input=value)


@dispatched
def reshape(tensor: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Return the same elements in another shape; one size may be -1."""
    return call("Reshape", name, tensor=tensor, shape=shape)


@dispatched
def squeeze(
    input: TensorLike,
    axis: Any = None,
    name: str | None = None,
    squeeze_dims: AxisLike | None = None,
) -> Tensor:
    """Drop the axes of size 1 in `axis`, or all of size 1."""
    axis = squeeze_dims if axis is None else axis
    axes = [] if axis is None else [axis] if np.isscalar(axis) else list(axis)
    return tensor("Squeeze", name, input=input, squeeze_dims=axes)


@dispatched
def expand_dims(
    input: TensorLike,
    axis: AxisLike | None = None,
    name: str | None = None,
    dim: AxisLike | None = None,
) -> Tensor:
    """Insert an axis of size 1.

    Raises ValueError when no axis is given.
    """
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return tensor("ExpandDims", name, input=input, dim=axis)


def broadcast_to(input: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Repeat `input` along axes of size 1 until it has `shape`."""
    return tensor("BroadcastTo", name, input=input, shape=shape)


def broadcast_dynamic_shape(shape_x: TensorLike, shape_y: TensorLike) -> Tensor:
    """Return the shape of an elementwise result, as a tensor."""
    return tensor("BroadcastArgs", None, s0=shape_x, s1=shape_y)


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """Return the static shape of an elementwise result.

    Raises ValueError when the shapes don't broadcast.
    """
    return TensorShape(broadcast_tuples(as_shape(shape_x), as_shape(shape_y)))


register_op(
    "Relayout",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("layout: string", "T: type"),
    shape=unchanged,
)


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the permutation that undoes `x`."""
    return tensor("InvertPermutation", name, x=x)


register_op(
    "FakeParam",
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    shape=shape_attr(),
    traits=NEVER_EVALUATED,
)
