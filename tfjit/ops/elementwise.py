"""Scalar functions over tensors; dtypes, shapes and kernels follow from the rows of framework.elementwise."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import ARITHMETIC, FLOAT, FLOAT_OR_COMPLEX, HALF_TO_COMPLEX, HALF_TO_DOUBLE, INTEGER, SIGNED, WIDE_SIGNED

register_op("Abs", inputs=("x: T",), outputs=("y: T",), attrs=("T: {bfloat16, half, float, double, int8, int16, int32, int64}",))
register_op(
    "AccumulateNV2",
    inputs=("inputs: N * T",),
    outputs=("sum: T",),
    attrs=("N: int >= 1", "T: numbertype", "shape: shape"),
    commutative=True,
    aggregate=True,
)
register_op("Acos", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Acosh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op(
    "Add",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128, string}",),
)
register_op(
    "AddN",
    inputs=("inputs: N * T",),
    outputs=("sum: T",),
    attrs=("N: int >= 1", "T: {numbertype, variant}"),
    commutative=True,
    aggregate=True,
)
register_op(
    "AddV2",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(("T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, int64, complex64, complex128}"),),
    commutative=True,
    aggregate=True,
)
register_op(
    "Angle",
    inputs=("input: T",),
    outputs=("output: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
)
register_op(
    "ApproximateEqual", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: numbertype", "tolerance: float = 1e-05"), commutative=True
)
register_op("Asin", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Asinh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Atan", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Atan2", inputs=("y: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",))
register_op("Atanh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("BesselI0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselI0e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselI1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselI1e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselJ0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselJ1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselK0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselK0e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselK1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselK1e", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselY0", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("BesselY1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Betainc", inputs=("a: T", "b: T", "x: T"), outputs=("z: T",), attrs=("T: {float, double}",))
register_op("BitwiseAnd", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), commutative=True)
register_op("BitwiseOr", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), commutative=True)
register_op("BitwiseXor", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",), commutative=True)
register_op("Cast", inputs=("x: SrcT",), outputs=("y: DstT",), attrs=("SrcT: type", "DstT: type", "Truncate: bool = false"))
register_op("Ceil", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("ClipByValue", inputs=("t: T", "clip_value_min: T", "clip_value_max: T"), outputs=("output: T",), attrs=("T: numbertype",))
register_op(
    "Complex",
    inputs=("real: T", "imag: T"),
    outputs=("out: Tout",),
    attrs=("T: {float, double} = DT_FLOAT", "Tout: {complex64, complex128} = DT_COMPLEX64"),
)
register_op(
    "ComplexAbs",
    inputs=("x: T",),
    outputs=("y: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
)
register_op("Conj", inputs=("input: T",), outputs=("output: T",), attrs=("T: {complex64, complex128, variant} = DT_COMPLEX64",))
register_op("Cos", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Cosh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Dawsn", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Digamma", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Div", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",))
register_op("DivNoNan", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=("T: {half, float, bfloat16, double, complex64, complex128}",))
register_op("Elu", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("EluGrad", inputs=("gradients: T", "outputs: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op(
    "Equal", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: type", "incompatible_shape_error: bool = true"), commutative=True
)
register_op("Erf", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Erfc", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Erfinv", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Exp", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Expint", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Expm1", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Floor", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("FloorDiv", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",))
register_op(
    "FloorMod",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, float, double}",),
)
register_op("FresnelCos", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("FresnelSin", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Greater", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",))
register_op("GreaterEqual", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",))
register_op("Igamma", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",))
register_op("Igammac", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",))
register_op("IgammaGradA", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=("T: {float, double}",))
register_op(
    "Imag",
    inputs=("input: T",),
    outputs=("output: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
)
register_op("Inv", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",))
register_op("Invert", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {INTEGER}",))
register_op("InvGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("IsFinite", inputs=("x: T",), outputs=("y: bool",), attrs=(f"T: {FLOAT}",))
register_op("IsInf", inputs=("x: T",), outputs=("y: bool",), attrs=(f"T: {FLOAT}",))
register_op("IsNan", inputs=("x: T",), outputs=("y: bool",), attrs=(f"T: {FLOAT}",))
register_op(
    "LeakyRelu", inputs=("features: T",), outputs=("activations: T",), attrs=("alpha: float = 0.2", f"T: {HALF_TO_DOUBLE} = DT_FLOAT")
)
register_op(
    "LeakyReluGrad",
    inputs=("gradients: T", "features: T"),
    outputs=("backprops: T",),
    attrs=("alpha: float = 0.2", f"T: {HALF_TO_DOUBLE} = DT_FLOAT"),
)
register_op("LeftShift", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",))
register_op("Less", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",))
register_op("LessEqual", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: realnumbertype",))
register_op("Lgamma", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Log", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Log1p", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("LogicalAnd", inputs=("x: bool", "y: bool"), outputs=("z: bool",), commutative=True)
register_op("LogicalNot", inputs=("x: bool",), outputs=("y: bool",))
register_op("LogicalOr", inputs=("x: bool", "y: bool"), outputs=("z: bool",), commutative=True)
register_op(
    "Maximum",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}",),
)
register_op(
    "Minimum",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64}",),
)
register_op("Mod", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=("T: {int32, int64, half, half, bfloat16, float, double}",))
register_op("Mul", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",), commutative=True)
register_op("MulNoNan", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Ndtri", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Neg", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",))
register_op("NextAfter", inputs=("x1: T", "x2: T"), outputs=("output: T",), attrs=("T: {double, float} = DT_FLOAT",))
register_op(
    "NotEqual", inputs=("x: T", "y: T"), outputs=("z: bool",), attrs=("T: type", "incompatible_shape_error: bool = true"), commutative=True
)
register_op("Polygamma", inputs=("a: T", "x: T"), outputs=("z: T",), attrs=("T: {float, double}",))
register_op("PopulationCount", inputs=("x: T",), outputs=("y: uint8",), attrs=(f"T: {INTEGER}",))
register_op(
    "Pow",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",),
)
register_op("RandomGammaGrad", inputs=("alpha: T", "sample: T"), outputs=("output: T",), attrs=("T: {float, double}",))
register_op(
    "Real",
    inputs=("input: T",),
    outputs=("output: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
)
register_op("RealDiv", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",))
register_op("Reciprocal", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",))
register_op("ReciprocalGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Relu", inputs=("features: T",), outputs=("activations: T",), attrs=("T: {realnumbertype, qint8}",))
register_op("Relu6", inputs=("features: T",), outputs=("activations: T",), attrs=("T: realnumbertype",))
register_op("Relu6Grad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=("T: realnumbertype",))
register_op("ReluGrad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=("T: realnumbertype",))
register_op("RightShift", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {INTEGER}",))
register_op("Rint", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Round", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",))
register_op("Rsqrt", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("RsqrtGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Select", inputs=("condition: bool", "t: T", "e: T"), outputs=("output: T",), attrs=("T: type",))
register_op("SelectV2", inputs=("condition: bool", "t: T", "e: T"), outputs=("output: T",), attrs=("T: type",))
register_op("Selu", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("SeluGrad", inputs=("gradients: T", "outputs: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("Sigmoid", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("SigmoidGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Sign", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {SIGNED}",))
register_op("Sin", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Sinh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Softplus", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("SoftplusGrad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("Softsign", inputs=("features: T",), outputs=("activations: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("SoftsignGrad", inputs=("gradients: T", "features: T"), outputs=("backprops: T",), attrs=(f"T: {HALF_TO_DOUBLE}",))
register_op("Spence", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT}",))
register_op("Sqrt", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("SqrtGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op(
    "Square",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(("T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}"),),
)
register_op("SquaredDifference", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {WIDE_SIGNED}",), commutative=True)
register_op(
    "Sub",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(("T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, complex64, complex128, uint32, uint64}"),),
)
register_op("Tan", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("Tanh", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("TanhGrad", inputs=("y: T", "dy: T"), outputs=("z: T",), attrs=(f"T: {FLOAT_OR_COMPLEX}",))
register_op("TruncateDiv", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {ARITHMETIC}",))
register_op("TruncateMod", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=("T: {int32, int64, bfloat16, half, float, double}",))
register_op("_UnaryOpsComposition", inputs=("x: T",), outputs=("y: T",), attrs=("T: {float, half, double}", "op_names: list(string)"))
register_op("Xdivy", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {HALF_TO_COMPLEX}",))
register_op("Xlog1py", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {HALF_TO_COMPLEX}",))
register_op("Xlogy", inputs=("x: T", "y: T"), outputs=("z: T",), attrs=(f"T: {HALF_TO_COMPLEX}",))
register_op("Zeta", inputs=("x: T", "q: T"), outputs=("z: T",), attrs=("T: {float, double}",))
