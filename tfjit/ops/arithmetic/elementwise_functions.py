"""Define the public functions of the family `elementwise`: `add`, `exp`, `cast`, `equal`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_n_to_tensor, convert_to_tensor
from tfjit.ops.core.sparse_values import is_sparse, maps_sparse_values

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, Structure, TensorLike

from tfjit.ops.arithmetic.elementwise import elementwise_function
from tfjit.ops.core.dispatch import binary_elementwise, dispatched, unary_elementwise

acos = elementwise_function("acos", "Acos", "Arc cosine.")
acosh = elementwise_function("acosh", "Acosh", "Inverse hyperbolic cosine.")
asin = elementwise_function("asin", "Asin", "Arc sine.")
asinh = elementwise_function("asinh", "Asinh", "Inverse hyperbolic sine.")
atan = elementwise_function("atan", "Atan", "Arc tangent.")
atan2 = elementwise_function("atan2", "Atan2", "Angle of the point (x, y), given y and x.")
atanh = elementwise_function("atanh", "Atanh", "Inverse hyperbolic tangent.")
cos = elementwise_function("cos", "Cos", "Cosine.")
cosh = elementwise_function("cosh", "Cosh", "Hyperbolic cosine.")
sin = maps_sparse_values(elementwise_function("sin", "Sin", "Sine."))
sinh = elementwise_function("sinh", "Sinh", "Hyperbolic sine.")
tan = elementwise_function("tan", "Tan", "Tangent.")
exp = elementwise_function("exp", "Exp", "e**x.")
expm1 = elementwise_function("expm1", "Expm1", "e**x - 1, exact near 0.")
log = elementwise_function("log", "Log", "Natural logarithm.")
log1p = elementwise_function("log1p", "Log1p", "log(1 + x), exact near 0.")
sqrt = maps_sparse_values(elementwise_function("sqrt", "Sqrt", "Square root."))
rsqrt = elementwise_function("rsqrt", "Rsqrt", "1 / sqrt(x).")
square = maps_sparse_values(elementwise_function("square", "Square", "x * x."))
reciprocal = elementwise_function("reciprocal", "Reciprocal", "1 / x.")
negative = maps_sparse_values(elementwise_function("negative", "Neg", "-x."))
sign = maps_sparse_values(
    elementwise_function("sign", "Sign", "-1, 0 or 1; x / |x| for complex numbers.")
)
floor = elementwise_function("floor", "Floor", "The next integer below.")
ceil = elementwise_function("ceil", "Ceil", "The next integer above.")
rint = elementwise_function("rint", "Rint", "The nearest integer, halves to even.")
erf = maps_sparse_values(elementwise_function("erf", "Erf", "Error function."))
erfc = elementwise_function("erfc", "Erfc", "1 - erf(x).")
erfinv = elementwise_function("erfinv", "Erfinv", "Inverse of the error function.")
ndtri = elementwise_function("ndtri", "Ndtri", "Inverse of the normal distribution function.")
lgamma = elementwise_function("lgamma", "Lgamma", "Logarithm of |gamma(x)|.")
digamma = elementwise_function("digamma", "Digamma", "Derivative of lgamma.")
polygamma = elementwise_function("polygamma", "Polygamma", "Derivative of digamma of an order.")
zeta = elementwise_function("zeta", "Zeta", "Hurwitz zeta function.")
betainc = elementwise_function("betainc", "Betainc", "Regularised incomplete beta function.")
igamma = elementwise_function("igamma", "Igamma", "Regularised lower incomplete gamma function.")
igammac = elementwise_function("igammac", "Igammac", "Regularised upper incomplete gamma function.")
bessel_i0 = elementwise_function("bessel_i0", "BesselI0", "Modified Bessel function of order 0.")
bessel_i0e = maps_sparse_values(
    elementwise_function(
        "bessel_i0e", "BesselI0e", "Exponentially scaled modified Bessel function of order 0."
    )
)
bessel_i1 = elementwise_function("bessel_i1", "BesselI1", "Modified Bessel function of order 1.")
bessel_i1e = maps_sparse_values(
    elementwise_function(
        "bessel_i1e", "BesselI1e", "Exponentially scaled modified Bessel function of order 1."
    )
)
bessel_j0 = elementwise_function(
    "bessel_j0", "BesselJ0", "Bessel function of the first kind, order 0."
)
bessel_j1 = elementwise_function(
    "bessel_j1", "BesselJ1", "Bessel function of the first kind, order 1."
)
bessel_k0 = elementwise_function(
    "bessel_k0", "BesselK0", "Modified Bessel function of the second kind, order 0."
)
bessel_k0e = elementwise_function(
    "bessel_k0e",
    "BesselK0e",
    "Exponentially scaled modified Bessel function of the second kind, order 0.",
)
bessel_k1 = elementwise_function(
    "bessel_k1", "BesselK1", "Modified Bessel function of the second kind, order 1."
)
bessel_k1e = elementwise_function(
    "bessel_k1e",
    "BesselK1e",
    "Exponentially scaled modified Bessel function of the second kind, order 1.",
)
bessel_y0 = elementwise_function(
    "bessel_y0", "BesselY0", "Bessel function of the second kind, order 0."
)
bessel_y1 = elementwise_function(
    "bessel_y1", "BesselY1", "Bessel function of the second kind, order 1."
)
dawsn = elementwise_function("dawsn", "Dawsn", "Dawson's integral.")
expint = elementwise_function("expint", "Expint", "Exponential integral.")
fresnel_cos = elementwise_function("fresnel_cos", "FresnelCos", "Fresnel's cosine integral.")
fresnel_sin = elementwise_function("fresnel_sin", "FresnelSin", "Fresnel's sine integral.")
spence = elementwise_function("spence", "Spence", "Spence's integral (dilogarithm).")
is_finite = elementwise_function("is_finite", "IsFinite", "Whether neither NaN nor infinite.")
is_inf = elementwise_function("is_inf", "IsInf", "Whether infinite.")
is_nan = elementwise_function("is_nan", "IsNan", "Whether NaN.")
logical_and = elementwise_function("logical_and", "LogicalAnd", "x and y.")
logical_or = elementwise_function("logical_or", "LogicalOr", "x or y.")
logical_not = elementwise_function("logical_not", "LogicalNot", "not x.")
subtract = elementwise_function("subtract", "Sub", "x - y.")
multiply = elementwise_function("multiply", "Mul", "x * y.")
mod = elementwise_function("mod", "FloorMod", "Remainder with the divisor's sign.")
floormod = elementwise_function("floormod", "FloorMod", "Remainder with the divisor's sign.")
truncatemod = elementwise_function(
    "truncatemod", "TruncateMod", "Remainder with the dividend's sign."
)
truncatediv = elementwise_function("truncatediv", "TruncateDiv", "x / y, cut towards zero.")
floor_div = elementwise_function("floor_div", "FloorDiv", "x / y, rounded down.")
realdiv = elementwise_function("realdiv", "RealDiv", "x / y of floats.")
multiply_no_nan = elementwise_function("multiply_no_nan", "MulNoNan", "x * y, 0 where y is 0.")
squared_difference = elementwise_function(
    "squared_difference", "SquaredDifference", "(x - y) squared."
)
maximum = elementwise_function("maximum", "Maximum", "The larger; NaN if either is.")
minimum = elementwise_function("minimum", "Minimum", "The smaller; NaN if either is.")
greater = elementwise_function("greater", "Greater", "x > y.")
greater_equal = elementwise_function("greater_equal", "GreaterEqual", "x >= y.")
less = elementwise_function("less", "Less", "x < y.")
less_equal = elementwise_function("less_equal", "LessEqual", "x <= y.")
xdivy = elementwise_function("xdivy", "Xdivy", "x / y, 0 where x is 0.")
xlogy = elementwise_function("xlogy", "Xlogy", "x * log(y), 0 where x is 0.")
xlog1py = elementwise_function("xlog1py", "Xlog1py", "x * log1p(y), 0 where x is 0.")
nextafter = elementwise_function("nextafter", "NextAfter", "The next number from x1 towards x2.")
bitwise_and = elementwise_function("bitwise_and", "BitwiseAnd", "Bits of both.")
bitwise_or = elementwise_function("bitwise_or", "BitwiseOr", "Bits of either.")
bitwise_xor = elementwise_function("bitwise_xor", "BitwiseXor", "Bits of exactly one.")
left_shift = elementwise_function("left_shift", "LeftShift", "Bits moved up.")
right_shift = elementwise_function("right_shift", "RightShift", "Bits moved down, the sign kept.")
invert = elementwise_function("invert", "Invert", "All bits flipped.")
population_count = elementwise_function(
    "population_count", "PopulationCount", "How many bits are set."
)


@binary_elementwise
def add(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x + y; joins strings."""
    with name_scope(name, "Add", [x]) as scope:
        x = convert_to_tensor(
            x, name="x", preferred_dtype=y.dtype.base_dtype if isinstance(y, Tensor) else None
        )
        y = convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype)
        return tensor("Add" if x.dtype.base_dtype is dtypes.string else "AddV2", scope, x=x, y=y)


@dispatched
def add_n(inputs: TensorLike, name: str | None = None) -> Tensor:
    """Return the sum of tensors of one shape.

    Raises ValueError for no tensors.
    """
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(
            "Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype "
            f"and shape. Found {inputs!r}"
        )
    values = convert_n_to_tensor(inputs)
    if len(values) == 1:
        return tensor("Identity", name, input=values[0]) if name else values[0]
    return tensor("AddN", name, inputs=values)


def accumulate_n(
    inputs: TensorLike,
    shape: ShapeLike | None = None,
    tensor_dtype: object = None,
    name: str | None = None,
) -> Tensor:
    """Return the sum of tensors, as `add_n`."""
    return add_n(inputs, name=name or "AccumulateNV2")


@binary_elementwise
def equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x == y, elementwise."""
    return tensor("Equal", name, x=x, y=y)


@binary_elementwise
def not_equal(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x != y, elementwise."""
    return tensor("NotEqual", name, x=x, y=y)


def approximate_equal(
    x: TensorLike, y: TensorLike, tolerance: float = 1e-5, name: str | None = None
) -> Tensor:
    """Return |x - y| < tolerance."""
    return tensor("ApproximateEqual", name, x=x, y=y, tolerance=tolerance)


@binary_elementwise
def logical_xor(x: TensorLike, y: TensorLike, name: str = "LogicalXor") -> Tensor:
    """Return whether exactly one is true."""
    with name_scope(name, "LogicalXor", [x, y]) as scope:
        return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=scope)


@unary_elementwise
@maps_sparse_values
def abs(x: TensorLike, name: str | None = None) -> Tensor:
    """Return |x|; real for complex numbers."""
    with name_scope(name, "Abs", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return tensor("ComplexAbs", scope, x=x, Tout=x.dtype.real_dtype)
        return tensor("Abs", scope, x=x)


complex_abs = abs


@binary_elementwise
def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x to the power of y.

    Negative integer powers of integers fail when they run.
    """
    with name_scope(name, "Pow", [x]) as scope:
        return tensor("Pow", scope, x=x, y=y)


@unary_elementwise
def round(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the nearest integer, halves to even; integers unchanged."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else tensor("Round", name, x=x)


@unary_elementwise
def cast(x: Structure, dtype: DTypeLike, name: str | None = None) -> Structure:
    """Convert `x`, dense or sparse, to another dtype.

    A tensor of that dtype is returned as it is.
    """
    wanted = as_dtype(dtype).base_dtype
    if is_sparse(x):
        with name_scope(name, "Cast", [x.values]) as scope:
            return x.with_values(cast(x.values, wanted, name=scope))
    if isinstance(x, Tensor) and x.dtype is wanted:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        value = convert_to_tensor(x, name="x")
        if value.dtype.base_dtype is wanted:
            return value
        return tensor("Cast", scope, x=value, DstT=wanted)


@unary_elementwise
def saturate_cast(value: TensorLike, dtype: DTypeLike, name: str | None = None) -> Tensor:
    """Convert as `cast`, after clipping to the dtype's range."""
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        wanted, given = as_dtype(dtype).base_dtype, value.dtype.base_dtype
        lowest, highest = (
            convert_to_tensor(limit, given) for limit in _common_limits(given, wanted.real_dtype)
        )
        clipped = tensor(
            "ClipByValue", "clamp", t=value, clip_value_min=lowest, clip_value_max=highest
        )
        return cast(clipped, wanted, name=scope)


def _common_limits(given: DType, wanted: DType) -> tuple[Any, Any]:
    """Return the lowest and highest values that both dtypes have.

    They are values of `given`. A limit that `given` rounds to a value beyond it moves to the next
    value towards 0.
    """
    kind = given.as_numpy_dtype
    try:
        both = np.promote_types(kind, wanted.as_numpy_dtype)
    except TypeError:  # bfloat16 and an integer
        both = np.dtype(float)
    with np.errstate(all="ignore"):  # a half has no 65535, and a float no 2**63 - 1
        lowest = kind(np.maximum(given.min, wanted.min))
        highest = kind(np.minimum(float(given.max), float(wanted.max)))
    if both.type(lowest) < both.type(wanted.min):
        lowest = np.nextafter(lowest, kind(0), dtype=kind)
    if both.type(highest) > both.type(wanted.max):
        highest = np.nextafter(highest, kind(0), dtype=kind)
    return lowest, highest


def _to(dtype: DType, public: str) -> Callable[..., Tensor]:
    def convert(x: TensorLike, name: str = public) -> Tensor:
        return cast(x, dtype, name=name)

    convert.__name__ = convert.__qualname__ = public
    convert.__doc__ = f"`x` as {dtype.name}."
    return convert


to_float = _to(dtypes.float32, "ToFloat")
to_double = _to(dtypes.float64, "ToDouble")
to_int32 = _to(dtypes.int32, "ToInt32")
to_int64 = _to(dtypes.int64, "ToInt64")
to_bfloat16 = _to(dtypes.bfloat16, "ToBFloat16")
to_complex64 = _to(dtypes.complex64, "ToComplex64")
to_complex128 = _to(dtypes.complex128, "ToComplex128")


@binary_elementwise
def complex(real: object, imag: object, name: str | None = None) -> Tensor:
    """Return real + imag * i.

    Raises TypeError for other than two float32 or two float64.
    """
    with name_scope(name, "Complex", [real, imag]) as scope:
        real, imag = convert_to_tensor(real, name="real"), convert_to_tensor(imag, name="imag")
        kinds = (real.dtype.base_dtype, imag.dtype.base_dtype)
        result = (
            {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(kinds[0])
            if kinds[0] is kinds[1]
            else None
        )
        if result is None:
            raise TypeError(
                f"The `real` and `imag` components have incorrect types: {kinds[0].name} "
                f"{kinds[1].name}"
            )
        return tensor("Complex", scope, real=real, imag=imag, Tout=result)


def _part(op_type: str, text: str) -> Callable[..., Tensor]:
    def part(input: TensorLike, name: str | None = None) -> Tensor:
        with name_scope(name, op_type, [input]) as scope:
            value = convert_to_tensor(input, name="input")
            if value.dtype.is_complex:
                return tensor(op_type, scope, input=value, Tout=value.dtype.real_dtype)
            if op_type == "Real":
                return value
            zero = tensor("ZerosLike", None, x=value)
            return (
                zero
                if op_type == "Imag"
                else tensor("Select", scope, condition=less(value, zero), t=_pi_like(value), e=zero)
            )

    part.__name__ = part.__qualname__ = op_type.lower()
    part.__doc__ = text
    return unary_elementwise(part)


def _pi_like(value: Tensor) -> Tensor:
    return add(
        tensor("ZerosLike", None, x=value),
        convert_to_tensor(3.141592653589793, value.dtype.base_dtype),
    )


real = _part("Real", "The real part.")
imag = _part("Imag", "The imaginary part.")
angle = _part("Angle", "The angle of complex numbers.")


@unary_elementwise
def conj(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the conjugate; real tensors unchanged."""
    value = convert_to_tensor(x, name="x")
    return tensor("Conj", name, input=value) if value.dtype.is_complex else value


AS_FLOAT = {
    dtypes.uint8: dtypes.float32,
    dtypes.int8: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.int32: dtypes.float64,
    dtypes.int64: dtypes.float64,
    dtypes.uint32: dtypes.float64,
    dtypes.uint64: dtypes.float64,
}


@binary_elementwise
def truediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y; integers as floats.

    Raises TypeError for differing dtypes.
    """
    with name_scope(name, "truediv", [x, y]) as scope:
        x = convert_to_tensor(
            x, name="x", preferred_dtype=y.dtype.base_dtype if isinstance(y, Tensor) else None
        )
        y = convert_to_tensor(y, name="y", preferred_dtype=x.dtype.base_dtype)
        kind = x.dtype.base_dtype
        if kind is not y.dtype.base_dtype:
            raise TypeError(
                f"`x` and `y` must have the same dtype, got {kind!r} != {y.dtype.base_dtype!r}."
            )
        wide = AS_FLOAT.get(kind)
        if wide is not None:
            x, y = cast(x, wide), cast(y, wide)
        return tensor("RealDiv", scope, x=x, y=y)


@binary_elementwise
def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Return x / y by Python's operator; integers as floats.

    x may be sparse.
    """
    if is_sparse(x):
        with name_scope(name, "truediv", [y]):
            quotient: Tensor = x / y
            return quotient
    return truediv(x, y, name)


@binary_elementwise
def div(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y; integers are divided rounding down, as Python 2 did."""
    with name_scope(name, "div", [x, y]) as scope:
        x = convert_to_tensor(
            x, name="x", preferred_dtype=y.dtype.base_dtype if isinstance(y, Tensor) else None
        )
        y = convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        if x.dtype.is_floating or x.dtype.is_complex:
            return tensor("RealDiv", scope, x=x, y=y)
        return tensor("FloorDiv", scope, x=x, y=y)


@binary_elementwise
def div_no_nan(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y, 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x = convert_to_tensor(
            x, name="x", preferred_dtype=y.dtype.base_dtype if isinstance(y, Tensor) else None
        )
        y = convert_to_tensor(y, name="y", dtype=x.dtype.base_dtype)
        return tensor("DivNoNan", scope, x=x, y=y)


@binary_elementwise
def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y, rounded down."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        return tensor("FloorDiv", scope, x=x, y=y)


@unary_elementwise
def clip_by_value(
    t: TensorLike, clip_value_min: object, clip_value_max: object, name: str | None = None
) -> Tensor:
    """Clip `t` to two bounds.

    Raises InvalidArgumentError when the bounds change its shape.
    """
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = convert_to_tensor(t, name="t")
        lower = minimum(values, clip_value_max)
        values.shape.assert_is_compatible_with(lower.shape)
        clipped = maximum(lower, clip_value_min, name=scope)
        values.shape.assert_is_compatible_with(clipped.shape)
        return clipped


@binary_elementwise
def scalar_mul(scalar: object, x: TensorLike, name: str | None = None) -> Tensor:
    """Return scalar * x.

    Raises ValueError when the scalar is none.
    """
    x = convert_to_tensor(x)
    factor = convert_to_tensor(scalar, dtype=x.dtype.base_dtype, name="scalar")
    if factor.shape.rank not in (None, 0):
        raise ValueError(f"The input scalar must be a 0-D value. Received shape {factor.shape}.")
    return multiply(factor, x, name=name)
