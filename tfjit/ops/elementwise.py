"""Scalar functions over tensors; dtypes, shapes and kernels follow from the rows of framework.elementwise."""

from __future__ import annotations

from tfjit.framework.shape import Shape
from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, broadcast, merged, merged_last_first, unchanged
from tfjit.ops.type_lists import ARITHMETIC, FLOAT, FLOAT_OR_COMPLEX, HALF_TO_COMPLEX, HALF_TO_DOUBLE, INTEGER, SIGNED, WIDE_SIGNED


def _select_v2(c: ShapeContext) -> Shapes:
    return [c.broadcast(c.inputs[0], c.broadcast(c.inputs[1], c.inputs[2]))]


def _betainc(c: ShapeContext) -> Shapes:
    shape: Shape = None
    scalars = 0
    for other in c.inputs:
        if other == ():
            scalars += 1
        elif other is not None:
            shape = c.merge(shape, other)
    if scalars == 3:
        return [()]
    return [shape]


def _equal(c: ShapeContext) -> Shapes:
    a, b = c.inputs
    if c.attr("incompatible_shape_error"):
        return [c.broadcast(a, b)]
    if a is None or b is None:
        return [None]
    # Tensors that do not broadcast are unequal: one False. So where that is open, not even the rank is known.
    rank = max(len(a), len(b))
    out: list[int | None] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b):
        if x == 1 or y == 1:
            out.append(y if x == 1 else x)
        elif x is None and y is None:
            out.append(None)
        elif x is None or y is None:
            return [None]
        elif x != y:
            return [()]
        else:
            out.append(x)
    return [tuple(out)]


def _select(c: ShapeContext) -> Shapes:
    condition, yes, no = c.inputs
    data = c.merge(yes, no)
    if condition is None or data is None:
        return [data]
    if len(condition) == 0:
        return [data]
    if len(condition) == 1 and data:
        # One condition a row.
        c.merge_dim(condition[0], data[0])
        return [data]
    return [c.merge(data, condition)]


register_op(
    "Abs", inputs=("x: T",), outputs=("y: T",), attrs=("T: {bfloat16, half, float, double, int8, int16, int32, int64}",), shape=unchanged
)
register_op(
    "AccumulateNV2",
    inputs=("inputs: N * T",),
    outputs=("sum: T",),
    attrs=("N: int >= 1", "T: numbertype", "shape: shape"),
    commutative=True,
    aggregate=True,
    shape=merged_last_first,
)
register_op("Acos", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Acosh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op(
    "Add",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",),
    shape=broadcast,
)
register_op(
    "AddN",
    inputs=("inputs: N * T",),
    outputs=("sum: T",),
    attrs=("N: int >= 1", "T: {numbertype, variant}"),
    commutative=True,
    aggregate=True,
    shape=merged_last_first,
)
register_op(
    "AddV2",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(("T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, complex64, complex128}"),),
    commutative=True,
    aggregate=True,
    shape=broadcast,
)
register_op(
    "Angle",
    inputs=("input: T",),
    outputs=("output: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
    shape=unchanged,
)
register_op(
    "ApproximateEqual",
    inputs=("x: T", "y: T"),
    outputs=("z: bool",),
    attrs=("T: numbertype", "tolerance: float = 1e-05"),
    commutative=True,
    shape=merged,
)
register_op("Asin", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Asinh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Atan", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Atan2", inputs=("y: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",), shape=broadcast)
register_op("Atanh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("BesselI0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselI0e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselI1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselI1e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselJ0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselJ1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselK0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselK0e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselK1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselK1e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselY0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("BesselY1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Betainc", inputs=("a: T", "b: T", "x: T"), outputs=("z: T",), attrs=("T: {float, double}",), shape=_betainc)
register_op("BitwiseAnd", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), commutative=True, shape=broadcast)
register_op("BitwiseOr", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), commutative=True, shape=broadcast)
register_op("BitwiseXor", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), commutative=True, shape=broadcast)
register_op(
    "Cast", inputs=("x: SrcT",), outputs=("y: DstT",), attrs=("SrcT: type", "DstT: type", "Truncate: bool = false"), shape=unchanged
)
register_op("Ceil", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op(
    "ClipByValue",
    inputs=("t: T", "clip_value_min: T", "clip_value_max: T"),
    outputs=("output: T",),
    attrs=("T: numbertype",),
    shape=unchanged,
)
register_op(
    "Complex",
    inputs=("real: T", "imag: T"),
    outputs=("out: Tout",),
    attrs=("T: {float, double} = DT_FLOAT", "Tout: {complex64, complex128} = DT_COMPLEX64"),
    shape=broadcast,
)
register_op(
    "ComplexAbs",
    inputs=("x: T",),
    outputs=("y: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
    shape=unchanged,
)
register_op(
    "Conj", inputs=("input: T",), outputs=("output: T",), attrs=("T: {complex64, complex128, variant} = DT_COMPLEX64",), shape=unchanged
)
register_op("Cos", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Cosh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Dawsn", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Digamma", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Div", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",), shape=broadcast)
register_op(
    "DivNoNan",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {half, float, bfloat16, double, complex64, complex128}",),
    shape=broadcast,
)
register_op("Elu", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=unchanged)
register_op("EluGrad", inputs=("gradients: T", "outputs: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=merged)
register_op(
    "Equal",
    inputs=("x: T", "y: T"),
    outputs=("z: bool",),
    attrs=("T: type", "incompatible_shape_error: bool = true"),
    commutative=True,
    shape=_equal,
)
register_op("Erf", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Erfc", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Erfinv", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Exp", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Expint", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Expm1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Floor", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("FloorDiv", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",), shape=broadcast)
register_op(
    "FloorMod",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, float, double}",),
    shape=broadcast,
)
register_op("FresnelCos", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("FresnelSin", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Greater", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",), shape=broadcast)
register_op("GreaterEqual", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",), shape=broadcast)
register_op("Igamma", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",), shape=broadcast)
register_op("Igammac", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",), shape=broadcast)
register_op("IgammaGradA", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=("T: {float, double}",), shape=broadcast)
register_op(
    "Imag",
    inputs=("input: T",),
    outputs=("output: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
    shape=unchanged,
)
register_op("Inv", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",), shape=unchanged)
register_op("Invert", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {INTEGER}",), shape=unchanged)
register_op("InvGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("IsFinite", inputs=("x: T",), outputs=("y: bool",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("IsInf", inputs=("x: T",), outputs=("y: bool",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("IsNan", inputs=("x: T",), outputs=("y: bool",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op(
    "LeakyRelu",
    inputs=("features: T",),
    outputs=("activations: T",),
    attrs=("alpha: float = 0.2", f"T: {HALF_TO_DOUBLE} = DT_FLOAT"),
    shape=unchanged,
)
register_op(
    "LeakyReluGrad",
    inputs=("gradients: T", "features: T"),
    outputs=("backprops: T",),
    attrs=("alpha: float = 0.2", f"T: {HALF_TO_DOUBLE} = DT_FLOAT"),
    shape=merged,
)
register_op("LeftShift", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), shape=broadcast)
register_op("Less", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",), shape=broadcast)
register_op("LessEqual", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",), shape=broadcast)
register_op("Lgamma", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Log", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Log1p", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("LogicalAnd", inputs=("x: bool", "y: bool"), outputs=("z: bool",), commutative=True, shape=broadcast)
register_op("LogicalNot", inputs=("x: bool",), outputs=("y: bool",), shape=unchanged)
register_op("LogicalOr", inputs=("x: bool", "y: bool"), outputs=("z: bool",), commutative=True, shape=broadcast)
register_op(
    "Maximum",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}",),
    shape=broadcast,
)
register_op(
    "Minimum",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}",),
    shape=broadcast,
)
register_op(
    "Mod", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=("T: {int32, int64, half, half, bfloat16, float, double}",), shape=broadcast
)
register_op("Mul", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",), commutative=True, shape=broadcast)
register_op("MulNoNan", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=broadcast)
register_op("Ndtri", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Neg", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",), shape=unchanged)
register_op("NextAfter", inputs=("x1: T", "x2: T"), outputs=("output: T",), attrs=("T: {double, float} = DT_FLOAT",), shape=broadcast)
register_op(
    "NotEqual",
    inputs=("x: T", "y: T"),
    outputs=("z: bool",),
    attrs=("T: type", "incompatible_shape_error: bool = true"),
    commutative=True,
    shape=_equal,
)
register_op("Polygamma", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=("T: {float, double}",), shape=broadcast)
register_op("PopulationCount", inputs=("x: T",), outputs=("y: uint8",), attrs=(f"T: {INTEGER}",), shape=unchanged)
register_op(
    "Pow",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",),
    shape=broadcast,
)
register_op("RandomGammaGrad", inputs=("alpha: T", "sample: T"), outputs=("output: T",), attrs=("T: {float, double}",), shape=broadcast)
register_op(
    "Real",
    inputs=("input: T",),
    outputs=("output: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
    shape=unchanged,
)
register_op("RealDiv", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",), shape=broadcast)
register_op("Reciprocal", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",), shape=unchanged)
register_op("ReciprocalGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Relu", inputs=("features: T",), outputs=("activations: T",), attrs=("T: {realnumbertype, qint8}",), shape=unchanged)
register_op("Relu6", inputs=("features: T",), outputs=("activations: T",), attrs=("T: realnumbertype",), shape=unchanged)
register_op("Relu6Grad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=("T: realnumbertype",), shape=merged)
register_op("ReluGrad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=("T: realnumbertype",), shape=merged)
register_op("RightShift", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), shape=broadcast)
register_op("Rint", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Round", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",), shape=unchanged)
register_op("Rsqrt", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("RsqrtGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Select", inputs=("condition: bool", "t: T", "e: T"), outputs=("output: T",), attrs=("T: type",), shape=_select)
register_op("SelectV2", inputs=("condition: bool", "t: T", "e: T"), outputs=("output: T",), attrs=("T: type",), shape=_select_v2)
register_op("Selu", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=unchanged)
register_op("SeluGrad", inputs=("gradients: T", "outputs: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=merged)
register_op("Sigmoid", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("SigmoidGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Sign", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",), shape=unchanged)
register_op("Sin", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Sinh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Softplus", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=unchanged)
register_op(
    "SoftplusGrad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=merged
)
register_op("Softsign", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=unchanged)
register_op(
    "SoftsignGrad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",), shape=merged
)
register_op("Spence", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",), shape=unchanged)
register_op("Sqrt", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("SqrtGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op(
    "Square",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(("T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}"),),
    shape=unchanged,
)
register_op(
    "SquaredDifference", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {WIDE_SIGNED}",), commutative=True, shape=broadcast
)
register_op(
    "Sub",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(("T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, uint32, uint64}"),),
    shape=broadcast,
)
register_op("Tan", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("Tanh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("TanhGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",), shape=unchanged)
register_op("TruncateDiv", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",), shape=broadcast)
register_op(
    "TruncateMod", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=("T: {int32, int64, bfloat16, half, float, double}",), shape=broadcast
)
register_op(
    "_UnaryOpsComposition",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=("T: {float, half, double}", "op_names: list(string)"),
    shape=unchanged,
)
register_op("Xdivy", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {HALF_TO_COMPLEX}",), shape=broadcast)
register_op("Xlog1py", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {HALF_TO_COMPLEX}",), shape=broadcast)
register_op("Xlogy", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {HALF_TO_COMPLEX}",), shape=broadcast)
register_op("Zeta", inputs=("x: T", "q: T"), outputs=("z: T",), attrs=("T: {float, double}",), shape=broadcast)
