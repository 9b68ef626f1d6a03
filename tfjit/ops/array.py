"""Shapes, constants, placeholders, identities: what makes a tensor or only relabels one."""

from __future__ import annotations

import math

from tfjit.framework.shape import format_shape
from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, all_unchanged, fail, scalar, shape_attr, unchanged
from tfjit.ops.type_lists import FLOAT, INDEX, WIDE_SIGNED


def _shape(c: ShapeContext) -> Shapes:
    return [(None,) if shape is None else (len(shape),) for shape in c.inputs]


def _known_elements(sizes: tuple[int | None, ...]) -> tuple[int, list[int]]:
    """(product of the known sizes, places of the unknown ones)"""
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
            raise fail(f"Cannot reshape a tensor with {n_in} elements to shape {format_shape(wanted)} ({n_out} elements)")
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
            return [None]  # whether it goes is only seen when the graph runs
        elif size != 1:
            out.append(size)
    return [tuple(out)]


def _expand_dims(c: ShapeContext) -> Shapes:
    shape = c.inputs[0]
    dim = c.constant(1)
    n = c.num_elements(c.inputs[1])
    if dim is not None and dim.size != 1:
        raise fail(f"'dim' input must be a tensor with a single value, but got {n if n is not None else dim.size} elements")
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
        raise fail(f"Rank of input ({len(given)}) must be no greater than rank of output shape ({len(wanted)}).")
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
    for i in range(3):
        c.with_rank(i, 0)
    values = [c.constant(i) for i in range(3)]
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
    for i in range(3):
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
    value = c.attr("value")
    return [tuple(value.shape)]


def _placeholder(c: ShapeContext) -> Shapes:
    # Graphs older than unknown_rank write an unknown rank as a scalar's shape; TensorFlow reads both as unknown.
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
    return [tuple(c.merge_dim(shape[i], shape[i + rank // 2]) for i in range(rank // 2))]


def _empty(c: ShapeContext) -> Shapes:
    c.with_rank(0, 1)
    return [c.constant_as_shape(0)]


register_op(
    "Bitcast",
    inputs=("input: T",),
    outputs=("output: type",),
    attrs=(
        (
            "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, "
            "complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
        (
            "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, "
            "complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
    ),
    shape=_bitcast,
)
register_op("BroadcastArgs", inputs=("s0: T", "s1: T"), outputs=("r0: T",), attrs=(f"T: {INDEX} = DT_INT32",), shape=_broadcast_args)
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
)
register_op(
    "CheckNumerics", inputs=("tensor: T",), outputs=("output: T",), attrs=(f"T: {FLOAT}", "message: string"), stateful=True, shape=unchanged
)
register_op(
    "CheckNumericsV2",
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
register_op("Const", outputs=("output: dtype",), attrs=("value: tensor", "dtype: type"), shape=_const)
register_op(
    "Copy",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "tensor_name: string = ''", "debug_ops_spec: list(string) = []"),
    allows_uninitialized_input=True,
    shape=unchanged,
)
register_op(
    "CopyHost",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "tensor_name: string = ''", "debug_ops_spec: list(string) = []"),
    allows_uninitialized_input=True,
    shape=unchanged,
)
register_op("DeepCopy", inputs=("x: T",), outputs=("y: T",), attrs=("T: type",), stateful=True, shape=unchanged)
register_op("Diag", inputs=("diagonal: T",), outputs=("output: T",), attrs=(f"T: {WIDE_SIGNED}",), shape=_diag)
register_op("DiagPart", inputs=("input: T",), outputs=("diagonal: T",), attrs=(f"T: {WIDE_SIGNED}",), shape=_diag_part)
register_op(
    "Empty", inputs=("shape: int32",), outputs=("output: dtype",), attrs=("dtype: type", "init: bool = false"), stateful=True, shape=_empty
)
register_op("EnsureShape", inputs=("input: T",), outputs=("output: T",), attrs=("shape: shape", "T: type"), shape=_ensure_shape)
register_op(
    "ExpandDims",
    inputs=("input: T", "dim: Tdim"),
    outputs=("output: T",),
    attrs=("T: type", f"Tdim: {INDEX} = DT_INT32"),
    shape=_expand_dims,
)
register_op(
    "Fill",
    inputs=("dims: index_type", "value: T"),
    outputs=("output: T",),
    attrs=("T: type", f"index_type: {INDEX} = DT_INT32"),
    shape=_fill,
)
register_op("Fingerprint", inputs=("data: T", "method: string"), outputs=("fingerprint: uint8",), attrs=("T: type",), shape=_fingerprint)
register_op("GuaranteeConst", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",), stateful=True, shape=unchanged)
register_op("Identity", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",), shape=unchanged)
register_op("IdentityN", inputs=("input: T",), outputs=("output: T",), attrs=("T: list(type) >= 1",), shape=all_unchanged)
register_op(
    "ImmutableConst", outputs=("tensor: dtype",), attrs=("dtype: type", "shape: shape", "memory_region_name: string"), shape=shape_attr()
)
register_op("InvertPermutation", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {INDEX} = DT_INT32",), shape=_invert_permutation)
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
    attrs=(("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, complex64, complex128, bool}"),),
    shape=unchanged,
)
register_op("Placeholder", outputs=("output: dtype",), attrs=("dtype: type", "shape: shape = { unknown_rank: true }"), shape=_placeholder)
register_op(
    "PlaceholderV2",
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    deprecated=(23, "Placeholder now behaves the same as PlaceholderV2."),
    shape=shape_attr(),
)
register_op(
    "PlaceholderWithDefault",
    inputs=("input: dtype",),
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    shape=_placeholder_with_default,
)
register_op("PreventGradient", inputs=("input: T",), outputs=("output: T",), attrs=("T: type", "message: string = ''"), shape=unchanged)
register_op(
    "Range",
    inputs=("start: Tidx", "limit: Tidx", "delta: Tidx"),
    outputs=("output: Tidx",),
    attrs=("Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = DT_INT32",),
    shape=_range,
)
register_op("Rank", inputs=("input: T",), outputs=("output: int32",), attrs=("T: type",), shape=scalar)
register_op(
    "Reshape",
    inputs=("tensor: T", "shape: Tshape"),
    outputs=("output: T",),
    attrs=("T: type", f"Tshape: {INDEX} = DT_INT32"),
    shape=_reshape,
)
register_op("Shape", inputs=("input: T",), outputs=("output: out_type",), attrs=("T: type", f"out_type: {INDEX} = DT_INT32"), shape=_shape)
register_op(
    "ShapeN",
    inputs=("input: N * T",),
    outputs=("output: N * out_type",),
    attrs=("N: int >= 1", "T: type", f"out_type: {INDEX} = DT_INT32"),
    shape=_shape,
)
register_op("Size", inputs=("input: T",), outputs=("output: out_type",), attrs=("T: type", f"out_type: {INDEX} = DT_INT32"), shape=scalar)
register_op("Snapshot", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",), shape=unchanged)
register_op("Squeeze", inputs=("input: T",), outputs=("output: T",), attrs=("T: type", "squeeze_dims: list(int) >= 0 = []"), shape=_squeeze)
register_op("StopGradient", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",), shape=unchanged)
register_op("ZerosLike", inputs=("x: T",), outputs=("y: T",), attrs=("T: type",), shape=unchanged)
