"""Define shapes, constants, placeholders and identities.

These ops make tensors or only relabel them.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs import static_value
from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import (
    CANNOT_FAIL,
    IDENTITY,
    NEVER_EVALUATED,
    PLACEHOLDER,
    RESHAPE,
    SHAPE_QUERY,
    VIEW,
)
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.framework.types.shape import TensorShape, as_shape, format_shape
from tfjit.framework.types.shape import broadcast as broadcast_tuples
from tfjit.ops.core.apply import call, create, tensor
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import (
    Shapes,
    all_unchanged,
    fail,
    scalar,
    shape_attr,
    unchanged,
)
from tfjit.ops.core.sparse_values import is_sparse, maps_sparse_values
from tfjit.ops.core.type_lists import FLOAT, INDEX, WIDE_SIGNED

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, ShapeLike, TensorLike


def _shape(c: ShapeContext) -> Shapes:
    return [(None,) if shape is None else (len(shape),) for shape in c.inputs]


def _known_elements(sizes: tuple[int | None, ...]) -> tuple[int, list[int]]:
    """Return (product of the known sizes, places of the unknown ones)."""
    known = 1
    for size in sizes:
        if size is not None:
            known *= size
    # A product of zero is known whatever the others are.
    return known, [i for i, size in enumerate(sizes) if size is None and known]


def _reshape(c: ShapeContext) -> Shapes:
    given, wanted = c.inputs[0], c.constant_as_shape(1)
    if wanted is None or given is None:
        return [wanted]
    n_in, holes_in = _known_elements(given)
    n_out, holes_out = _known_elements(wanted)
    if len(holes_in) > 1 or len(holes_out) > 1:
        return [wanted]
    if not holes_in and not holes_out:
        if n_in != n_out:
            raise fail(
                f"Cannot reshape a tensor with {n_in} elements to shape {format_shape(wanted)} "
                f"({n_out} elements)"
            )
    elif not holes_in and n_out > 0:
        return [c.replace_dim(wanted, holes_out[0], c.divide(n_in, n_out))]
    elif not holes_out and n_in:
        c.divide(n_out, n_in)
    return [wanted]


def _squeeze(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    if shape is None:
        return [None]
    dims = c.attr("squeeze_dims")
    rank = len(shape)
    for d in dims:
        if not -rank <= d < rank:
            raise fail(f"squeeze_dims[{dims.index(d)}] not in [{-rank},{rank}).")
    wanted = {d % rank for d in dims}
    out = []
    for i, size in enumerate(shape):
        if i in wanted:
            if size is not None and size != 1:
                raise fail(f"Can not squeeze dim[{i}], expected a dimension of 1, got {size}")
        elif wanted:
            out.append(size)
        elif size is None:
            return [None]  # only the run shows whether this axis is dropped
        elif size != 1:
            out.append(size)
    return [tuple(out)]


def _expand_dims(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    dim = c.constant(1)
    n = c.num_elements(c.inputs[1])
    if dim is not None and dim.size != 1:
        raise fail(
            "'dim' input must be a tensor with a single value, but got "
            f"{n if n is not None else dim.size} elements"
        )
    if n is not None and n != 1:
        raise fail("'dim' input must be a tensor with a single value")
    if shape is None:
        return [None]
    rank = len(shape)
    if dim is None:
        return [None]
    axis = int(dim.reshape(()))
    if not -rank - 1 <= axis <= rank:
        raise fail(f"dim {axis} not in the interval [{-rank - 1}, {rank}].")
    axis = axis + rank + 1 if axis < 0 else axis
    return [(*shape[:axis], 1, *shape[axis:])]


def _fill(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    c.with_rank(1, 0)
    dims = c.constant(0)
    if dims is not None and (dims < 0).any():
        raise fail(f"Fill dimensions must be >= 0, got {[int(d) for d in dims]}")
    return [c.constant_as_shape(0)]


def _broadcast_to(c: ShapeContext) -> Shapes:
    c.with_rank(1, 1)
    given, wanted = c.inputs[0], c.constant_as_shape(1)
    if wanted is None:
        n = c.dim(c.inputs[1], 0)
        return [None if n is None else (None,) * n]
    if given is None:
        return [wanted]
    if len(given) > len(wanted):
        raise fail(
            f"Rank of input ({len(given)}) must be no greater than rank of output shape "
            f"({len(wanted)})."
        )
    for x, y in zip(reversed(given), reversed(wanted)):
        if x is not None and y is not None and x != y and x != 1:
            raise fail(f"Incompatible shapes: {format_shape(given)} vs. {format_shape(wanted)}")
    return [wanted]


def _broadcast_args(c: ShapeContext) -> Shapes:
    sizes = []
    for i in (0, 1):
        (size,) = c.with_rank(i, 1)
        sizes.append(size)
    if None in sizes:
        return [(None,)]
    return [(max(s for s in sizes if s is not None),)]


def _broadcast_gradient_args(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    c.with_rank(1, 1)
    return [(None,), (None,)]


def _range(c: ShapeContext) -> Shapes:
    for i in builtins.range(3):
        c.with_rank(i, 0)
    values = [c.constant(i) for i in builtins.range(3)]
    start, limit, delta = values
    if start is None or limit is None or delta is None:
        return [(None,)]
    first, last, step = start.item(), limit.item(), delta.item()
    if step == 0:
        raise fail("Requires delta != 0")
    if first > last and step > 0:
        raise fail(f"Requires start <= limit when delta > 0: {first}/{last}")
    if first < last and step < 0:
        raise fail(f"Requires start >= limit when delta < 0: {first}/{last}")
    if start.dtype.kind in "iu":
        return [(-(-abs(last - first) // abs(step)),)]
    return [(math.ceil(abs((float(last) - float(first)) / float(step))),)]


def _linspace(c: ShapeContext) -> Shapes:
    for i in builtins.range(3):
        c.with_rank(i, 0)
    num = c.constant(2)
    if num is None:
        return [(None,)]
    if int(num) <= 0:
        raise fail(f"Requires num > 0: {int(num)}")
    return [(int(num),)]


def _concat_offset(c: ShapeContext) -> Shapes:
    return list(c.inputs[1:])


def _invert_permutation(c: ShapeContext) -> Shapes:
    return [c.with_rank(0, 1)]


def _bitcast(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    size_in, size_out = c.input_dtypes[0].size, c.attr("type").size
    if not size_in or not size_out:
        raise fail("Cannot bitcast between types of unknown size")
    if shape is None or size_in == size_out:
        return [shape]
    if size_in < size_out:
        if not shape:
            raise fail("Shape must be at least rank 1 but is rank 0")
        ratio = size_out // size_in
        if shape[-1] is not None and shape[-1] != ratio:
            raise fail(f"Cannot bitcast due to shape. {shape[-1]} does not match {ratio}")
        return [shape[:-1]]
    return [(*shape, size_in // size_out)]


def _fingerprint(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    c.with_rank(1, 0)
    method = c.constant(1)
    size = None
    if method is not None:
        name = bytes(method.reshape(-1)[0])
        if name != b"farmhash64":
            raise fail(f"unsupported method: {name.decode(errors='replace')}")
        size = 8
    return [(c.dim(shape, 0), size)]


def _ensure_shape(c: ShapeContext) -> Shapes:
    return [c.merge(c.inputs[0], c.shape_attr("shape"))]


def _const(c: ShapeContext) -> Shapes:
    value, dtype = c.attr("value"), c.attr("dtype")
    found = value.dtype  # of NumPy, or a DType where no array holds it
    if found is not dtype and (not dtype.is_numpy_compatible or found != dtype.as_numpy_dtype):
        raise fail(
            f"Type mismatch between value ({short_name(as_dtype(found))}) and dtype "
            f"({short_name(dtype)})"
        )
    return [tuple(value.shape)]


def _placeholder(c: ShapeContext) -> Shapes:
    # Graphs older than unknown_rank write an unknown rank as a scalar's shape; TensorFlow reads
    # both as unknown.
    return [c.shape_attr("shape")]


def _placeholder_with_default(c: ShapeContext) -> Shapes:
    c.merge(c.inputs[0], c.shape_attr("shape"))
    return [c.shape_attr("shape")]


def _diag(c: ShapeContext) -> Shapes:
    shape = c.with_rank_at_least(0, 1)
    return [None if shape is None else shape * 2]


def _diag_part(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    if shape is None:
        return [None]
    rank = len(shape)
    if rank % 2 or rank <= 0:
        raise fail(f"Input must have even and non-zero rank, input rank is {rank}")
    return [tuple(c.merge_dim(shape[i], shape[i + rank // 2]) for i in builtins.range(rank // 2))]


def _empty(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    return [c.constant_as_shape(0)]


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
    shape=_bitcast,
)
register_op(
    "BroadcastArgs",
    inputs=("s0: T", "s1: T"),
    outputs=("r0: T",),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=_broadcast_args,
)
register_op(
    "BroadcastGradientArgs",
    inputs=("s0: T", "s1: T"),
    outputs=("r0: T", "r1: T"),
    attrs=(f"T: {INDEX} = DT_INT32",),
    shape=_broadcast_gradient_args,
)
register_op(
    "BroadcastTo",
    inputs=("input: T", "shape: Tidx"),
    outputs=("output: T",),
    attrs=("T: type", f"Tidx: {INDEX} = DT_INT32"),
    shape=_broadcast_to,
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
    )
register_op(
    "ConcatOffset",
    inputs=("concat_dim: int32", "shape: N * shape_type"),
    outputs=("offset: N * shape_type",),
    attrs=("N: int >= 2", f"shape_type: {INDEX} = DT_INT32"),
    shape=_concat_offset,
)
register_op(
    "Const",
    outputs=("output: dtype",),
    attrs=("value: tensor", "dtype: type"),
    shape=_const,
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
    shape=_diag,
)
register_op(
    "DiagPart",
    inputs=("input: T",),
    outputs=("diagonal: T",),
    attrs=(f"T: {WIDE_SIGNED}",),
    shape=_diag_part,
)
register_op(
    "Empty",
    inputs=("shape: int32",),
    outputs=("output: dtype",),
    attrs=("dtype: type", "init: bool = false"),
    stateful=True,
    shape=_empty,
)
register_op(
    "EnsureShape",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("shape: shape", "T: type"),
    shape=_ensure_shape,
    traits=VIEW,
)
register_op(
    "ExpandDims",
    inputs=("input: T", "dim: Tdim"),
    outputs=("output: T",),
    attrs=("T: type", f"Tdim: {INDEX} = DT_INT32"),
    shape=_expand_dims,
    traits=RESHAPE | CANNOT_FAIL,
)
register_op(
    "Fill",
    inputs=("dims: index_type", "value: T"),
    outputs=("output: T",),
    attrs=("T: type", f"index_type: {INDEX} = DT_INT32"),
    shape=_fill,
    traits=CANNOT_FAIL,
)
register_op(
    "Fingerprint",
    inputs=("data: T", "method: string"),
    outputs=("fingerprint: uint8",),
    attrs=("T: type",),
    shape=_fingerprint,
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
    shape=_invert_permutation,
)
register_op(
    "LinSpace",
    inputs=("start: T", "stop: T", "num: Tidx"),
    outputs=("output: T",),
    attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32"),
    shape=_linspace,
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
    shape=_placeholder,
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
    shape=_placeholder_with_default,
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
    shape=_range,
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
    shape=_reshape,
    traits=RESHAPE | CANNOT_FAIL,
)
register_op(
    "Shape",
    inputs=("input: T",),
    outputs=("output: out_type",),
    attrs=("T: type", f"out_type: {INDEX} = DT_INT32"),
    shape=_shape,
    traits=SHAPE_QUERY | CANNOT_FAIL,
)
register_op(
    "ShapeN",
    inputs=("input: N * T",),
    outputs=("output: N * out_type",),
    attrs=("N: int >= 1", "T: type", f"out_type: {INDEX} = DT_INT32"),
    shape=_shape,
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
    shape=_squeeze,
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


def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """Return `tensor`; InvalidArgumentError when it holds NaN or Inf."""
    return call("CheckNumerics", name, tensor=tensor, message=message)


def bitcast(input: TensorLike, type: Any, name: str | None = None) -> Tensor:
    """Reinterpret the bits as another type.

    A ratio of the types' sizes becomes, or takes, the last axis.
    """
    return tensor("Bitcast", name, input=input, type=as_dtype(type))


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the shape as an integer vector.

    A fully known shape gives a constant.
    """
    if is_sparse(input):
        return tensor("Cast", name, x=input.dense_shape, DstT=as_dtype(out_type))
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


def rank(input: Any, name: str | None = None) -> Tensor:
    """Return the number of axes; a constant where it is known."""
    if is_sparse(input):
        return size(input.dense_shape, name=name)
    value = convert_to_tensor(input)
    if value.shape_tuple is not None:
        return constant(len(value.shape_tuple), dtypes.int32, name=name or "Rank")
    return tensor("Rank", name, input=value)


def reshape(tensor: TensorLike, shape: ShapeLike, name: str | None = None) -> Tensor:
    """Return the same elements in another shape; one size may be -1."""
    return call("Reshape", name, tensor=tensor, shape=shape)


def squeeze(
    input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None
) -> Tensor:
    """Drop the axes of size 1 in `axis`, or all of size 1."""
    axis = squeeze_dims if axis is None else axis
    axes = [] if axis is None else [axis] if np.isscalar(axis) else list(axis)
    return tensor("Squeeze", name, input=input, squeeze_dims=axes)


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


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
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


def fill(dims: Any, value: TensorLike, name: str | None = None, layout: Any = None) -> Tensor:
    """Return a tensor of one value.

    layout: of a DTensor; there is no kernel that lays a tensor out.
    """
    return _laid_out(tensor("Fill", name, dims=dims, value=value), layout)


def _laid_out(value: Tensor, layout: Any) -> Tensor:
    """Return a tensor, or its Relayout where a DTensor layout is given."""
    return (
        value
        if layout is None
        else tensor("Relayout", None, input=value, layout=layout.to_string())
    )


def _filled(shape: ShapeLike, dtype: DTypeLike, name: str, value: TensorLike) -> Tensor:
    dtype = as_dtype(dtype).base_dtype
    one = np.array(value, dtype.as_numpy_dtype) if dtype is not dtypes.string else b""
    with name_scope(name, name, [shape]) as scope:
        if not isinstance(shape, Tensor):
            try:
                sizes = as_shape(shape)
                n = TensorShape(sizes).num_elements()
            except (TypeError, ValueError):
                n = None  # a list that holds tensors
            if n is not None and n < 1000:
                return constant(one, dtype, shape=sizes, name=scope)
            shape = convert_to_tensor(shape, dtype=dtypes.int32 if n is not None else None)
        if shape.shape_tuple is not None and len(shape.shape_tuple) == 0:
            shape = reshape(shape, [-1])
        return fill(shape, constant(one, dtype), name=scope)


def zeros(
    shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None, layout: Any = None
) -> Tensor:
    """Return a tensor of zeros (False, or empty strings).

    layout: as of `fill`.
    """
    return _laid_out(_filled(shape, dtype, name or "zeros", 0), layout)


def ones(
    shape: ShapeLike, dtype: DTypeLike = dtypes.float32, name: str | None = None, layout: Any = None
) -> Tensor:
    """Return a tensor of ones.

    layout: as of `fill`.
    """
    return _laid_out(_filled(shape, dtype, name or "ones", 1), layout)


def zeros_like(
    tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True
) -> Tensor:
    """Return zeros of a tensor's shape.

    The dtype is the tensor's, too, unless another is given.
    """
    with name_scope(name, "zeros_like", [tensor.values if is_sparse(tensor) else tensor]) as scope:
        if is_sparse(tensor):
            sizes = tensor.shape if tensor.shape.is_fully_defined() else tensor.dense_shape
            return zeros(sizes, dtype or tensor.dtype, name=scope)
        value = convert_to_tensor(tensor, name="tensor")
        wanted = value.dtype.base_dtype if dtype is None else as_dtype(dtype)
        known = value.shape_tuple
        if (
            optimize
            and known is not None
            and None not in known
            and value.dtype is not dtypes.variant
        ):
            return zeros(known, wanted, name=scope)
        if wanted is value.dtype.base_dtype:
            return call("ZerosLike", scope, x=value)
        return zeros(shape(value), wanted, name=scope)


def ones_like(
    tensor: TensorLike,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    optimize: bool = True,
) -> Tensor:
    """Return ones of a tensor's shape.

    The dtype is the tensor's, too, unless another is given.
    """
    with name_scope(name, "ones_like", [tensor]) as scope:
        value = convert_to_tensor(tensor, name="tensor")
        wanted = value.dtype.base_dtype if dtype is None else as_dtype(dtype)
        known = value.shape_tuple
        sizes: Any = known if optimize and known is not None and None not in known else shape(value)
        return ones(sizes, wanted, name=scope)


def range(
    start: TensorLike,
    limit: TensorLike | None = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str = "range",
) -> Tensor:
    """Return start, start + delta .. up to, not including, limit.

    With one argument the range is 0 .. start.
    """
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range", [start, limit, delta]) as scope:
        if dtype is None:
            values = [
                v if isinstance(v, Tensor) else convert_to_tensor(v, name=n)
                for v, n in zip((start, limit, delta), ("start", "limit", "delta"))
            ]
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            dtype = max(
                (v.dtype.base_dtype for v in values),
                key=lambda d: order.index(d) if d in order else -1,
            )
            start, limit, delta = (_cast(v, dtype) for v in values)
        return tensor("Range", scope, start=start, limit=limit, delta=delta, Tidx=as_dtype(dtype))


def _cast(value: Tensor, dtype: Any) -> Tensor:
    if value.dtype.base_dtype is dtype:
        return value
    known = static_value.constant_value(value)
    if known is not None:
        return constant(known.astype(dtype.as_numpy_dtype), dtype)
    return tensor("Cast", None, x=value, DstT=dtype)


def linspace(
    start: TensorLike, stop: Any, num: Any, name: str | None = None, axis: int = 0
) -> Tensor:
    """Return `num` evenly spaced values from start to stop.

    Both ends are included. The values lie along a new axis of the shape that start and stop
    broadcast to. Integers become floats.
    """
    with name_scope(name, "linspace", [start, stop]):
        first = convert_to_tensor(start, name="start")
        last = convert_to_tensor(stop, name="stop", dtype=first.dtype.base_dtype)
        count = convert_to_tensor(num, name="num")
        kind = first.dtype.base_dtype
        if not (kind.is_floating or kind.is_complex):
            kind = dtypes.float64 if kind.size >= 4 else dtypes.float32
            first, last = _cast(first, kind), _cast(last, kind)
        common = tensor("BroadcastArgs", None, s0=shape(first), s1=shape(last))
        first, last = (expand_dims(broadcast_to(end, common), axis) for end in (first, last))
        return _spaced(first, last, count, axis, kind)


def _spaced(first: Tensor, last: Tensor, count: Tensor, axis: int, kind: Any) -> Tensor:
    """Return evenly spaced values between two tensors.

    The tensors have size 1 along `axis`; the last value is exact.
    """
    one = constant(1, count.dtype)
    steps = tensor("Maximum", None, x=tensor("Sub", None, x=count, y=one), y=one)
    delta = tensor("RealDiv", None, x=tensor("Sub", None, x=last, y=first), y=_cast(steps, kind))
    zero = constant(0, count.dtype)
    places = tensor("Range", None, start=zero, limit=count, delta=one)
    known = first.shape.rank
    if known is not None:
        sizes: Any = [-1 if i == axis % known else 1 for i in builtins.range(known)]
    else:
        rank = tensor("Rank", None, input=first)
        place = constant(axis, dtypes.int32) if axis >= 0 else tensor("AddV2", None, x=rank, y=axis)
        is_axis = tensor(
            "Equal", None, x=place, y=tensor("Range", None, start=0, limit=rank, delta=1)
        )
        sizes = tensor("SelectV2", None, condition=is_axis, t=-1, e=1)
    row = tensor("Reshape", None, tensor=places, shape=sizes)
    between = tensor("AddV2", None, x=first, y=tensor("Mul", None, x=delta, y=_cast(row, kind)))
    at_end = tensor(
        "LogicalAnd",
        None,
        x=tensor("Equal", None, x=row, y=steps),
        y=tensor("Greater", None, x=count, y=one),
    )
    return tensor("SelectV2", None, condition=at_end, t=last, e=between)


lin_space = linspace


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the permutation that undoes `x`."""
    return tensor("InvertPermutation", name, x=x)


def diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """Return a tensor of twice the rank with `diagonal` on its diagonal."""
    return tensor("Diag", name, diagonal=diagonal)


def diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the diagonal of a tensor of even rank."""
    return tensor("DiagPart", name, input=input)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Return coordinate arrays of vectors.

    Indexing "xy" swaps the first two axes. Raises ValueError for another indexing.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'"
        )
    with name_scope(name, "meshgrid", args):
        vectors = [convert_to_tensor(a) for a in args]
        n = len(vectors)
        order = (
            [1, 0, *builtins.range(2, n)] if indexing == "xy" and n > 1 else list(builtins.range(n))
        )
        parts = [
            reshape(v, [-1 if i == order[k] else 1 for i in builtins.range(n)])
            for k, v in enumerate(vectors)
        ]
        sizes = [size(v) for v in vectors]
        full = call(
            "Pack",
            None,
            values=[sizes[k] for k in order] if indexing == "xy" and n > 1 else sizes,
            axis=0,
        )
        return [broadcast_to(p, full) for p in parts]


def sequence_mask(
    lengths: TensorLike,
    maxlen: TensorLike | None = None,
    dtype: DTypeLike = dtypes.bool,
    name: str | None = None,
) -> Tensor:
    """Return a mask [..., maxlen], true at the first `length` places.

    lengths [...].
    """
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            maxlen = tensor(
                "Max", None, input=reshape(lengths, [-1]), reduction_indices=[0], keep_dims=False
            )
        row = range(
            convert_to_tensor(0, lengths.dtype.base_dtype),
            _cast(convert_to_tensor(maxlen), lengths.dtype.base_dtype),
            convert_to_tensor(1, lengths.dtype.base_dtype),
            dtype=lengths.dtype.base_dtype,
        )
        mask = tensor("Less", None, x=row, y=expand_dims(lengths, -1))
        return (
            mask
            if as_dtype(dtype) is dtypes.bool
            else tensor("Cast", None, x=mask, DstT=as_dtype(dtype))
        )


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Return the identity matrix [*batch_shape, num_rows, num_columns].

    Square by default.
    """
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        square = num_columns is None
        columns = num_rows if square else num_columns
        fixed = all(
            isinstance(n, (int, np.integer)) for n in (num_rows, columns)
        ) and not isinstance(batch_shape, Tensor)
        if fixed:
            front: Any = [int(n) for n in batch_shape or ()]
            diagonal: Any = [*front, min(num_rows, columns)]
            full: Any = [*front, num_rows, columns]
        else:
            short = tensor("Minimum", None, x=num_rows, y=columns)
            front = convert_to_tensor(
                [] if batch_shape is None else batch_shape, dtype=dtypes.int32, name="shape"
            )
            diagonal = tensor("ConcatV2", "concat", values=[front, [short]], axis=0)
            full = (
                None
                if square
                else tensor("ConcatV2", "concat", values=[front, [num_rows, columns]], axis=0)
            )
        ones_there = ones(diagonal, dtype=dtype)
        if square:
            padding = convert_to_tensor(0, dtype=dtype, name="diag/padding_value")
            return tensor(
                "MatrixDiagV3",
                "diag",
                diagonal=ones_there,
                k=0,
                num_rows=-1,
                num_cols=-1,
                padding_value=padding,
            )
        return tensor(
            "MatrixSetDiagV3", "set_diag", input=zeros(full, dtype=dtype), diagonal=ones_there, k=0
        )


register_op(
    "FakeParam",
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    shape=shape_attr(),
    traits=NEVER_EVALUATED,
)
