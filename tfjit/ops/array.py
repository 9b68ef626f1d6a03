"""Shapes, constants, placeholders, identities: what makes a tensor or only relabels one."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import FLOAT, INDEX, WIDE_SIGNED

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
)
register_op("BroadcastArgs", inputs=("s0: T", "s1: T"), outputs=("r0: T",), attrs=(f"T: {INDEX} = DT_INT32",))
register_op("BroadcastGradientArgs", inputs=("s0: T", "s1: T"), outputs=("r0: T", "r1: T"), attrs=(f"T: {INDEX} = DT_INT32",))
register_op("BroadcastTo", inputs=("input: T", "shape: Tidx"), outputs=("output: T",), attrs=("T: type", f"Tidx: {INDEX} = DT_INT32"))
register_op("CheckNumerics", inputs=("tensor: T",), outputs=("output: T",), attrs=(f"T: {FLOAT}", "message: string"), stateful=True)
register_op("CheckNumericsV2", inputs=("tensor: T",), outputs=("output: T",), attrs=(f"T: {FLOAT}", "message: string"), stateful=True)
register_op(
    "ConcatOffset",
    inputs=("concat_dim: int32", "shape: N * shape_type"),
    outputs=("offset: N * shape_type",),
    attrs=("N: int >= 2", f"shape_type: {INDEX} = DT_INT32"),
)
register_op("Const", outputs=("output: dtype",), attrs=("value: tensor", "dtype: type"))
register_op(
    "Copy",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "tensor_name: string = ''", "debug_ops_spec: list(string) = []"),
    allows_uninitialized_input=True,
)
register_op(
    "CopyHost",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: type", "tensor_name: string = ''", "debug_ops_spec: list(string) = []"),
    allows_uninitialized_input=True,
)
register_op("DeepCopy", inputs=("x: T",), outputs=("y: T",), attrs=("T: type",), stateful=True)
register_op("Diag", inputs=("diagonal: T",), outputs=("output: T",), attrs=(f"T: {WIDE_SIGNED}",))
register_op("DiagPart", inputs=("input: T",), outputs=("diagonal: T",), attrs=(f"T: {WIDE_SIGNED}",))
register_op("Empty", inputs=("shape: int32",), outputs=("output: dtype",), attrs=("dtype: type", "init: bool = false"), stateful=True)
register_op("EnsureShape", inputs=("input: T",), outputs=("output: T",), attrs=("shape: shape", "T: type"))
register_op("ExpandDims", inputs=("input: T", "dim: Tdim"), outputs=("output: T",), attrs=("T: type", f"Tdim: {INDEX} = DT_INT32"))
register_op("Fill", inputs=("dims: index_type", "value: T"), outputs=("output: T",), attrs=("T: type", f"index_type: {INDEX} = DT_INT32"))
register_op("Fingerprint", inputs=("data: T", "method: string"), outputs=("fingerprint: uint8",), attrs=("T: type",))
register_op("GuaranteeConst", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",), stateful=True)
register_op("Identity", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",))
register_op("IdentityN", inputs=("input: T",), outputs=("output: T",), attrs=("T: list(type) >= 1",))
register_op("ImmutableConst", outputs=("tensor: dtype",), attrs=("dtype: type", "shape: shape", "memory_region_name: string"))
register_op("InvertPermutation", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {INDEX} = DT_INT32",))
register_op(
    "LinSpace", inputs=("start: T", "stop: T", "num: Tidx"), outputs=("output: T",), attrs=(f"T: {FLOAT}", f"Tidx: {INDEX} = DT_INT32")
)
register_op(
    "OnesLike",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, complex64, complex128, bool}"),),
)
register_op("Placeholder", outputs=("output: dtype",), attrs=("dtype: type", "shape: shape = { unknown_rank: true }"))
register_op(
    "PlaceholderV2",
    outputs=("output: dtype",),
    attrs=("dtype: type", "shape: shape"),
    deprecated=(23, "Placeholder now behaves the same as PlaceholderV2."),
)
register_op("PlaceholderWithDefault", inputs=("input: dtype",), outputs=("output: dtype",), attrs=("dtype: type", "shape: shape"))
register_op("PreventGradient", inputs=("input: T",), outputs=("output: T",), attrs=("T: type", "message: string = ''"))
register_op(
    "Range",
    inputs=("start: Tidx", "limit: Tidx", "delta: Tidx"),
    outputs=("output: Tidx",),
    attrs=("Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64} = DT_INT32",),
)
register_op("Rank", inputs=("input: T",), outputs=("output: int32",), attrs=("T: type",))
register_op("Reshape", inputs=("tensor: T", "shape: Tshape"), outputs=("output: T",), attrs=("T: type", f"Tshape: {INDEX} = DT_INT32"))
register_op("Shape", inputs=("input: T",), outputs=("output: out_type",), attrs=("T: type", f"out_type: {INDEX} = DT_INT32"))
register_op(
    "ShapeN", inputs=("input: N * T",), outputs=("output: N * out_type",), attrs=("N: int >= 1", "T: type", f"out_type: {INDEX} = DT_INT32")
)
register_op("Size", inputs=("input: T",), outputs=("output: out_type",), attrs=("T: type", f"out_type: {INDEX} = DT_INT32"))
register_op("Snapshot", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",))
register_op("Squeeze", inputs=("input: T",), outputs=("output: T",), attrs=("T: type", "squeeze_dims: list(int) >= 0 = []"))
register_op("StopGradient", inputs=("input: T",), outputs=("output: T",), attrs=("T: type",))
register_op("ZerosLike", inputs=("x: T",), outputs=("y: T",), attrs=("T: type",))
