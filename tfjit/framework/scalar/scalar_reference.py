"""NumPy answers of the elementwise table: arrays -> array of their dtype.

Each step is rounded to that dtype. float16 and bfloat16 arrays round after every NumPy operation,
as TensorFlow's kernels for them do; that is why these functions are steps over the arrays
themselves rather than in float64. Subnormals are kept (compiled kernels flush them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar import special, special_series
from tfjit.framework.types.dtypes import DType

Array = Any  # an ndarray or NumPy scalar; NumPy's own stubs do not know ml_dtypes' types


def _is_narrow(x: Array) -> bool:
    return bool(x.dtype.itemsize == 2 and x.dtype.kind not in "iu")


def _wide(x: Array) -> Array:
    """Return float16 and bfloat16 as float32."""
    return x.astype(np.float32) if _is_narrow(x) else x


def _through_float32(function: Any) -> Any:
    """Return `function` computed in float32 for float16 and bfloat16, rounded once."""

    def wrapped(x: Array, *others: Array) -> Array:
        if not _is_narrow(x):
            return function(x, *others)
        return function(_wide(x), *(_wide(o) for o in others)).astype(x.dtype)

    return wrapped


def _constant(x: Array, value: float) -> Array:
    """Return `value` in x's dtype: bfloat16 knows no weak Python floats."""
    return np.asarray(value).astype(x.dtype)


exp = _through_float32(np.exp)
expm1 = _through_float32(np.expm1)
log = _through_float32(np.log)
log1p = _through_float32(np.log1p)
sqrt = _through_float32(np.sqrt)
sin = _through_float32(np.sin)
cos = _through_float32(np.cos)
tan = _through_float32(np.tan)
asin = _through_float32(np.arcsin)
acos = _through_float32(np.arccos)
atan = _through_float32(np.arctan)
atan2 = _through_float32(np.arctan2)
sinh = _through_float32(np.sinh)
cosh = _through_float32(np.cosh)
tanh = _through_float32(np.tanh)
asinh = _through_float32(np.arcsinh)
acosh = _through_float32(np.arccosh)
atanh = _through_float32(np.arctanh)


@_through_float32
def rsqrt(x: Array) -> Array:
    """Return 1 / sqrt(x)."""
    return divide(_constant(x, 1.0), np.sqrt(x))


def reciprocal(x: Array) -> Array:
    """Return 1 / x."""
    return divide(_constant(x, 1.0), x)


def square(x: Array) -> Array:
    """Return x x."""
    return multiply(x, x)


def add_n(*arrays: Array) -> Array:
    """Sum from the left."""
    total = arrays[0]
    for x in arrays[1:]:
        total = total + x
    return total


def _pair(re: Array, im: Array) -> Array:
    out = np.empty(
        np.broadcast_shapes(np.shape(re), np.shape(im)),
        np.complex64 if re.dtype == np.float32 else np.complex128,
    )
    out.real, out.imag = re, im
    return out


def multiply(x: Array, y: Array) -> Array:
    """Return x y.

    Complex products are four products and two sums, each rounded (NumPy's own may fuse them).
    """
    if x.dtype.kind != "c":
        return x * y
    return _pair(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def divide(x: Array, y: Array) -> Array:
    """Return x / y of floats or complex numbers.

    A complex y is scaled by its larger part first.
    """
    if x.dtype.kind != "c":
        return x / y
    scale = np.maximum(np.abs(y.real), np.abs(y.imag))
    re, im = y.real / scale, y.imag / scale
    size = re * re + im * im
    product = multiply(x, _pair(re, -im))
    return _pair(product.real / size / scale, product.imag / size / scale)


def div(x: Array, y: Array) -> Array:
    """Return the quotient, truncated for integers."""
    return truncate_div(x, y) if x.dtype.kind in "iu" else divide(x, y)


def _safe(y: Array) -> Array:
    return np.where(y == 0, np.ones_like(y), y)


def truncate_div(x: Array, y: Array) -> Array:
    """Return the quotient towards zero; for integers 0 where y = 0."""
    if x.dtype.kind not in "iu":
        return np.trunc(x / y)
    q = np.floor_divide(x, _safe(y))
    if x.dtype.kind == "i":
        q = q + ((q * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)
    return np.where(y == 0, np.zeros_like(q), q)


def floor_div(x: Array, y: Array) -> Array:
    """Return the quotient towards minus infinity.

    For integers 0 where y = 0.
    """
    if x.dtype.kind not in "iu":
        return np.floor(x / y)
    q = np.floor_divide(x, _safe(y))
    return np.where(y == 0, np.zeros_like(q), q)


def truncate_mod(x: Array, y: Array) -> Array:
    """Return the remainder with the sign of x."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    r = np.fmod(x, _safe(y))
    return np.where(y == 0, np.zeros_like(r), r)


def floor_mod(x: Array, y: Array) -> Array:
    """Return the remainder with the sign of y."""
    if x.dtype.kind in "iu":
        r = np.mod(x, _safe(y))
        return np.where(y == 0, np.zeros_like(r), r)
    r = np.fmod(_wide(x), _wide(y))
    r = np.where((r != 0) & ((r < 0) != (y < 0)), r + _wide(y), r)
    return r.astype(x.dtype)


def div_no_nan(x: Array, y: Array) -> Array:
    """Return x / y, 0 where y = 0."""
    return np.where(y == 0, _constant(x, 0), divide(x, y))


def mul_no_nan(x: Array, y: Array) -> Array:
    """Return x y, and 0 where y = 0 for any x."""
    return np.where(y == 0, _constant(x, 0), multiply(x, y))


def squared_difference(x: Array, y: Array) -> Array:
    """Return (x - y)^2; of complex numbers (x - y) conj(x - y)."""
    difference = x - y
    return (
        multiply(difference, np.conj(difference))
        if difference.dtype.kind == "c"
        else difference * difference
    )


def maximum(x: Array, y: Array) -> Array:
    """Return the larger, NaN if either is."""
    return np.maximum(x, y)


def minimum(x: Array, y: Array) -> Array:
    """Return the smaller, NaN if either is."""
    return np.minimum(x, y)


def sign(x: Array) -> Array:
    """Return -1, 0, 1 or NaN; x / |x| of complex numbers."""
    if x.dtype.kind in "iu":
        return np.sign(x)
    if x.dtype.kind != "c":
        return np.where(
            x < 0, _constant(x, -1), np.where(x > 0, _constant(x, 1), x + _constant(x, 0))
        )
    size = np.abs(x)
    safe = np.where(size == 0, _constant(size, 1), size)
    return np.where(size == 0, _constant(x, 0), _pair(x.real / safe, x.imag / safe))


def round_half_even(x: Array) -> Array:
    """Return the nearest integer, halves to even."""
    return x if x.dtype.kind in "iu" else np.rint(x)


def clip_by_value(x: Array, low: Array, high: Array) -> Array:
    """Return max(min(x, high), low).

    A NaN bound does not limit, a NaN x stays.
    """
    y = np.where(high < x, high, x)
    return np.where(y < low, low, y)


def power(x: Array, y: Array) -> Array:
    """Return x^y; integers wrap, and a negative exponent is the caller's error."""
    if x.dtype.kind in "iu":
        return (
            np.power(x, np.where(y < 0, np.zeros_like(y), y))
            if x.dtype.kind == "i"
            else np.power(x, y)
        )
    if x.dtype == np.float32 or _is_narrow(x):
        return (
            np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32).astype(x.dtype)
        )
    return np.power(x, y)


def xlogy(x: Array, y: Array) -> Array:
    """Return x log y, x where x = 0."""
    return np.where(x == 0, x, multiply(x, log(y)))


def xlog1py(x: Array, y: Array) -> Array:
    """Return x log1p y, x where x = 0."""
    return np.where(x == 0, x, multiply(x, log1p(y)))


def xdivy(x: Array, y: Array) -> Array:
    """Return x / y, x where x = 0."""
    return np.where(x == 0, x, divide(x, y))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + e^-x).

    float16 and bfloat16 take e / (1 + e) in rounded steps, e = e^x.
    """
    one = _constant(x, 1.0)
    if x.dtype.kind == "c":
        return divide(one, one + np.exp(-x))
    if _is_narrow(x):
        e = exp(x)
        return np.where(np.isinf(e), one, e / (one + e))
    e = np.exp(-np.abs(x))
    return np.where(np.isnan(x), x, np.where(x >= 0, one, e) / (one + e))


def relu(x: Array) -> Array:
    """Return x, 0 where x < 0; NaN stays."""
    return np.maximum(x, _constant(x, 0))


def relu6(x: Array) -> Array:
    """Return x limited to [0, 6]; NaN stays."""
    return np.minimum(np.maximum(x, _constant(x, 0)), _constant(x, 6))


def elu(x: Array) -> Array:
    """Return x, or e^x - 1 where x < 0.

    The latter takes two steps, as in TensorFlow.
    """
    return np.where(x < 0, exp(x) - _constant(x, 1), x)


SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def selu(x: Array) -> Array:
    """Return scale x, scale alpha (e^x - 1) where x < 0."""
    return np.where(
        x < 0,
        _constant(x, SELU_SCALE_ALPHA) * (exp(x) - _constant(x, 1)),
        _constant(x, SELU_SCALE) * x,
    )


def leaky_relu(x: Array, alpha: float) -> Array:
    """Return x, alpha x where x <= 0."""
    return np.where(x > 0, x, x * _constant(x, float(np.float32(alpha))))


SOFTPLUS_BOUND = {"float16": 7.0078125, "bfloat16": 2.84375}


def softplus(x: Array) -> Array:
    """Return log(1 + e^x).

    float16 and bfloat16 take x or e^x beyond a bound, and round e^x.
    """
    if _is_narrow(x):
        bound = _constant(x, SOFTPLUS_BOUND[x.dtype.name])
        e = exp(x)
        return np.where(x > bound, x, np.where(x < -bound, e, log1p(e)))
    return np.maximum(x, _constant(x, 0)) + np.log1p(np.exp(-np.abs(x)))


def softsign(x: Array) -> Array:
    """Return x / (1 + |x|)."""
    return x / (np.abs(x) + _constant(x, 1))


def relu_grad(dy: Array, x: Array) -> Array:
    """Return dy times (x > 0).

    An infinite dy gives NaN where x <= 0.
    """
    return dy * (x > 0).astype(dy.dtype)


def relu6_grad(dy: Array, x: Array) -> Array:
    """Return dy times (0 < x < 6)."""
    return dy * ((x > 0) & (x < 6)).astype(dy.dtype)


def elu_grad(dy: Array, y: Array) -> Array:
    """Return dy (y + 1) where the output y < 0, else dy."""
    return np.where(y < 0, (y + _constant(y, 1)) * dy, dy)


def selu_grad(dy: Array, y: Array) -> Array:
    """Return the gradient of selu over the outputs y."""
    return np.where(y < 0, dy * (y + _constant(y, SELU_SCALE_ALPHA)), dy * _constant(y, SELU_SCALE))


def leaky_relu_grad(dy: Array, x: Array, alpha: float) -> Array:
    """Return dy where x > 0, else alpha dy."""
    return np.where(x > 0, dy, dy * _constant(dy, float(np.float32(alpha))))


def softplus_grad(dy: Array, x: Array) -> Array:
    """Return dy / (e^-x + 1)."""
    return dy / (exp(-x) + _constant(x, 1))


def softsign_grad(dy: Array, x: Array) -> Array:
    """Return dy / (1 + |x|)^2."""
    return dy / np.square(_constant(x, 1) + np.abs(x))


def sigmoid_grad(y: Array, dy: Array) -> Array:
    """Return dy y (1 - y)."""
    return multiply(dy, multiply(y, _constant(y, 1) - y))


def tanh_grad(y: Array, dy: Array) -> Array:
    """Return dy (1 - y^2)."""
    return multiply(dy, _constant(y, 1) - multiply(y, y))


def sqrt_grad(y: Array, dy: Array) -> Array:
    """Return dy / (2 y), y conjugated; 0 where dy is."""
    return np.where(
        dy == 0, _constant(dy, 0), multiply(dy, divide(_constant(y, 0.5), _conjugate(y)))
    )


def rsqrt_grad(y: Array, dy: Array) -> Array:
    """Return -dy y^3 / 2, y conjugated; 0 where dy is."""
    y = _conjugate(y)
    return np.where(
        dy == 0,
        _constant(dy, 0),
        multiply(multiply(dy, y), multiply(_constant(y, -0.5), multiply(y, y))),
    )


def reciprocal_grad(y: Array, dy: Array) -> Array:
    """Return -dy y^2, y conjugated; 0 where dy is."""
    y = _conjugate(y)
    return np.where(dy == 0, _constant(dy, 0), multiply(multiply(-y, y), dy))


def _conjugate(y: Array) -> Array:
    return np.conj(y) if y.dtype.kind == "c" else y


def approximate_equal(x: Array, y: Array, tolerance: float) -> Array:
    """Return |x - y| < tolerance."""
    return np.abs(x - y) < _constant(x, float(np.float32(tolerance)))


def _clamped_shift(x: Array, y: Array) -> Array:
    return np.clip(y, 0, 8 * x.dtype.itemsize - 1).astype(x.dtype)


def left_shift(x: Array, y: Array) -> Array:
    """Return x << y, y limited to [0, width - 1]."""
    return np.left_shift(x, _clamped_shift(x, y))


def right_shift(x: Array, y: Array) -> Array:
    """Return x >> y, y limited to [0, width - 1]."""
    return np.right_shift(x, _clamped_shift(x, y))


def population_count(x: Array) -> Array:
    """Return the number of one bits (of the two's complement form), uint8."""
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}"))


def complex_number(re: Array, im: Array) -> Array:
    """Return re + i im."""
    return _pair(re, im)


# low mantissa bits that a cast with Truncate=true clears before it rounds, by source and target
TRUNCATED_BITS = {
    ("float32", "float16"): 13,
    ("float32", "bfloat16"): 16,
    ("float64", "float32"): 29,
    ("float64", "float16"): 42,
}


def cast(x: Array, DstT: DType, Truncate: bool = False) -> Array:
    """Return x in another dtype.

    A float outside the integer's range converts as x86's scalar instructions do.
    """
    target = np.dtype(DstT.as_numpy_dtype)
    dropped = TRUNCATED_BITS.get((x.dtype.name, target.name)) if Truncate else None
    if dropped:
        bits = f"i{x.dtype.itemsize}"
        cleared = (x.view(bits) & np.array(-(1 << dropped), bits)).view(x.dtype)
        x = np.where(np.isnan(x), x, cleared)
    if x.dtype.kind == "c" and target.kind != "c":
        if target.kind == "b":
            return x != 0
        x = x.real
    if target.kind not in "iu" or x.dtype.kind in "iub":
        return x.astype(target)
    if target == np.uint32:
        return _float_to_int(x, np.dtype(np.int64)).astype(target)
    return _float_to_int(x, target if target.itemsize >= 4 else np.dtype(np.int32)).astype(target)


def _float_to_int(x: Array, target: np.dtype[Any]) -> Array:
    """Truncate floats to int32, int64 or uint64.

    Out of range gives the integer with only its top bit set. Negative uint64 wrap.
    """
    bits = 8 * target.itemsize
    wide = np.trunc(x.astype(np.float64))
    high = 2.0**bits if target.kind == "u" else 2.0 ** (bits - 1)
    inside = (wide >= -(2.0 ** (bits - 1))) & (wide < high)
    wide = np.where(inside, wide, 0.0)
    upper = wide >= 2.0**63
    value = np.where(upper, wide - 2.0**63, wide).astype(np.int64).astype(np.uint64) ^ (
        upper.astype(np.uint64) << np.uint64(63)
    )
    outside = np.uint64(1) << np.uint64(bits - 1)
    return np.where(inside, value, outside).astype(target)


def _in_float64(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a float64 function for every float dtype: computed wide, rounded once."""

    def wrapped(*operands: Array) -> Array:
        wide = function(*(x.astype(np.float64) for x in operands))
        return wide.astype(operands[0].dtype)

    return wrapped


# float64 elements of a block: a dozen temporary arrays fit in the L2 cache
_BLOCK: Final = 8192


def _special(name: str) -> Callable[..., Array]:
    """Return the function of `special` over arrays.

    Large arrays are computed in blocks, and temporaries stay in the cache.
    """
    function = getattr(special, name)

    def compute(x: Array) -> Array:
        if x.size <= _BLOCK:
            return function(special.NUMPY, x.astype(np.float64)).astype(x.dtype)
        out = np.empty(x.size, x.dtype)
        flat = x.reshape(-1)
        for start in range(0, x.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            out[block] = function(special.NUMPY, flat[block].astype(np.float64))
        return out.reshape(x.shape)

    return compute


def erf(x: Array) -> Array:
    """Return the error function; of float64 by TensorFlow's rule for huge numbers."""
    return _wide_erf(x) if x.dtype == np.float64 else _narrow_erf(x)


_wide_erf, _narrow_erf = _special("erf_float64"), _special("erf")
erfc = _special("erfc")
erfinv = _special("erfinv")
ndtri = _special("ndtri")
lgamma = _special("lgamma")
digamma = _special("digamma")
dawsn = _special("dawsn")
expint = _special("expint")
fresnel_cos = _special("fresnel_cos")
fresnel_sin = _special("fresnel_sin")
spence = _special("spence")
bessel_i0 = _special("bessel_i0")
bessel_i0e = _special("bessel_i0e")
bessel_i1 = _special("bessel_i1")
bessel_i1e = _special("bessel_i1e")
bessel_j0 = _special("bessel_j0")
bessel_j1 = _special("bessel_j1")
bessel_k0 = _special("bessel_k0")
bessel_k0e = _special("bessel_k0e")
bessel_k1 = _special("bessel_k1")
bessel_k1e = _special("bessel_k1e")
bessel_y0 = _special("bessel_y0")
bessel_y1 = _special("bessel_y1")
igamma = _in_float64(special_series.NUMPY.igamma)
igammac = _in_float64(special_series.NUMPY.igammac)
igamma_grad_a = _in_float64(special_series.NUMPY.igamma_grad_a)
random_gamma_grad = _in_float64(special_series.NUMPY.random_gamma_grad)
betainc = _in_float64(special_series.NUMPY.betainc)
zeta = _in_float64(special_series.NUMPY.zeta)
polygamma = _in_float64(special_series.NUMPY.polygamma)
