"""Define gradients of elementwise operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient, register
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import COMPLEX, UnaryRule, both, conj, like, reduced, unary

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


def _except_at(point: float, value: float, x: Tensor, slope: Tensor) -> Tensor:
    """Return a slope, its limit where it is 0 / 0."""
    there = raw.Equal(x=x, y=like(point, x))
    limit = raw.BroadcastTo(input=like(value, x), shape=raw.Shape(input=x))
    return raw.SelectV2(condition=there, t=limit, e=slope)


def _half_pi_squares(x: Tensor) -> Tensor:
    return like(math.pi / 2.0, x) * raw.Square(x=x)


# The slopes of Bessel functions are in Abramowitz and Stegun, 9.1.27-30 and 9.6.26-28. At 0 that
# of I1 is 1 in TensorFlow, though it tends to 1/2.
UNARY: dict[str, UnaryRule] = {
    "Neg": lambda x, y, g: -g,
    "Sign": lambda x, y, g: raw.ZerosLike(x=x),
    "Abs": lambda x, y, g: g * raw.Sign(x=x),
    "Square": lambda x, y, g: g * (like(2.0, x) * conj(x)),
    "Sqrt": lambda x, y, g: (
        raw.SqrtGrad(y=conj(y), dy=g) if x.dtype.base_dtype in COMPLEX else raw.SqrtGrad(y=y, dy=g)
    ),
    "Rsqrt": lambda x, y, g: raw.RsqrtGrad(y=conj(y), dy=g),
    "Inv": lambda x, y, g: raw.ReciprocalGrad(y=conj(y), dy=g),
    "Reciprocal": lambda x, y, g: raw.ReciprocalGrad(y=conj(y), dy=g),
    "Exp": lambda x, y, g: g * conj(y),
    "Expm1": lambda x, y, g: g * raw.Exp(x=conj(x)),
    "Log": lambda x, y, g: g * raw.Reciprocal(x=conj(x)),
    "Log1p": lambda x, y, g: g * raw.Reciprocal(x=like(1.0, x) + conj(x)),
    "Sinh": lambda x, y, g: g * raw.Cosh(x=conj(x)),
    "Cosh": lambda x, y, g: g * raw.Sinh(x=conj(x)),
    "Asinh": lambda x, y, g: g / raw.Cosh(x=conj(y)),
    "Acosh": lambda x, y, g: g / raw.Sinh(x=conj(y)),
    "Atanh": lambda x, y, g: g * raw.Reciprocal(x=like(1.0, x) - raw.Square(x=conj(x))),
    "Sin": lambda x, y, g: g * raw.Cos(x=conj(x)),
    "Cos": lambda x, y, g: -g * raw.Sin(x=conj(x)),
    "Tan": lambda x, y, g: raw.Square(x=raw.Reciprocal(x=raw.Cos(x=conj(x)))) * g,
    "Asin": lambda x, y, g: g * raw.Reciprocal(x=raw.Sqrt(x=like(1.0, x) - raw.Square(x=conj(x)))),
    "Acos": lambda x, y, g: -g * raw.Reciprocal(x=raw.Sqrt(x=like(1.0, x) - raw.Square(x=conj(x)))),
    "Atan": lambda x, y, g: g * raw.Reciprocal(x=like(1.0, x) + raw.Square(x=conj(x))),
    "Erf": lambda x, y, g: g * (like(2.0 / math.sqrt(math.pi), x) * raw.Exp(x=-raw.Square(x=x))),
    "Erfc": lambda x, y, g: g * (like(-2.0 / math.sqrt(math.pi), x) * raw.Exp(x=-raw.Square(x=x))),
    "Erfinv": lambda x, y, g: g * (like(math.sqrt(math.pi) / 2.0, x) * raw.Exp(x=raw.Square(x=y))),
    "Ndtri": lambda x, y, g: (
        g * (like(math.sqrt(2.0 * math.pi), x) * raw.Exp(x=raw.Square(x=y) / like(2.0, x)))
    ),
    "Lgamma": lambda x, y, g: g * raw.Digamma(x=x),
    "Digamma": lambda x, y, g: g * raw.Polygamma(a=like(1.0, x), x=x),
    "BesselI0e": lambda x, y, g: g * (raw.BesselI1e(x=x) - raw.Sign(x=x) * y),
    "BesselI0": lambda x, y, g: g * raw.BesselI1(x=x),
    "BesselI1": lambda x, y, g: g * _except_at(0.0, 1.0, x, raw.BesselI0(x=x) - y / x),
    "BesselI1e": lambda x, y, g: (
        g * _except_at(0.0, 0.5, x, raw.BesselI0e(x=x) - y * (raw.Sign(x=x) + raw.Reciprocal(x=x)))
    ),
    "BesselK0": lambda x, y, g: -g * raw.BesselK1(x=x),
    "BesselK0e": lambda x, y, g: g * (y - raw.BesselK1e(x=x)),
    "BesselK1": lambda x, y, g: g * (-raw.BesselK0(x=x) - y / x),
    "BesselK1e": lambda x, y, g: (
        g * (y * (like(1.0, x) - raw.Reciprocal(x=x)) - raw.BesselK0e(x=x))
    ),
    "BesselJ0": lambda x, y, g: -g * raw.BesselJ1(x=x),
    "BesselJ1": lambda x, y, g: g * _except_at(0.0, 0.5, x, raw.BesselJ0(x=x) - y / x),
    "BesselY0": lambda x, y, g: -g * raw.BesselY1(x=x),
    "BesselY1": lambda x, y, g: g * (raw.BesselY0(x=x) - y / x),
    "Dawsn": lambda x, y, g: g * (like(1.0, x) - like(2.0, x) * x * y),
    "Expint": lambda x, y, g: g * raw.Exp(x=x) / x,
    "FresnelCos": lambda x, y, g: g * raw.Cos(x=_half_pi_squares(x)),
    "FresnelSin": lambda x, y, g: g * raw.Sin(x=_half_pi_squares(x)),
    "Spence": lambda x, y, g: g * _except_at(1.0, -1.0, x, raw.Log(x=x) / (like(1.0, x) - x)),
    "Conj": lambda x, y, g: raw.Conj(input=g),
}


for _op_type, _rule in UNARY.items():
    register(_op_type, unary(_rule))


@RegisterGradient("Add")
@RegisterGradient("AddV2")
def _add(op: Operation, grad: Tensor) -> Gradients:
    return both(op, grad, grad)


@RegisterGradient("Sub")
def _sub(op: Operation, grad: Tensor) -> Gradients:
    return both(op, grad, -grad)


@RegisterGradient("Mul")
def _mul(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return both(op, grad * conj(y), conj(x) * grad)


@RegisterGradient("MulNoNan")
def _mul_no_nan(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return both(op, raw.MulNoNan(x=grad, y=y), raw.MulNoNan(x=x, y=grad))


@RegisterGradient("Div")
@RegisterGradient("RealDiv")
def _div(op: Operation, grad: Tensor) -> Gradients:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    return both(op, raw.RealDiv(x=grad, y=y), grad * raw.RealDiv(x=raw.RealDiv(x=-x, y=y), y=y))


@RegisterGradient("DivNoNan")
def _div_no_nan(op: Operation, grad: Tensor) -> Gradients:
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    return both(op, raw.DivNoNan(x=grad, y=y), grad * raw.DivNoNan(x=raw.DivNoNan(x=-x, y=y), y=y))


@RegisterGradient("Xdivy")
def _xdivy(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    there = raw.Cast(x=raw.NotEqual(x=x, y=like(0.0, x)), DstT=x.dtype)
    return both(op, grad * raw.Xdivy(x=there, y=y), grad * raw.Xdivy(x=-x, y=raw.Square(x=y)))


@RegisterGradient("Xlogy")
def _xlogy(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    there = raw.Cast(x=raw.NotEqual(x=x, y=like(0.0, x)), DstT=x.dtype)
    return both(op, grad * raw.Xlogy(x=there, y=y), grad * raw.Xdivy(x=x, y=y))


@RegisterGradient("Xlog1py")
def _xlog1py(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    there = raw.Cast(x=raw.NotEqual(x=x, y=like(0.0, x)), DstT=x.dtype)
    return both(op, grad * raw.Xlog1py(x=there, y=y), grad * raw.Xdivy(x=x, y=y + like(1.0, x)))


@RegisterGradient("FloorMod")
def _floor_mod(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    return both(op, grad, grad * -raw.FloorDiv(x=x, y=y))


@RegisterGradient("Pow")
def _pow(op: Operation, grad: Tensor) -> Gradients:
    x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])
    zero = raw.ZerosLike(x=x)
    # no log is taken of values that are not positive: 0 replaces it
    positive = (
        raw.NotEqual(x=x, y=like(0.0, x))
        if x.dtype.base_dtype in COMPLEX
        else raw.Greater(x=x, y=like(0.0, x))
    )
    safe = raw.Select(condition=positive, t=x, e=raw.OnesLike(x=x))
    log = raw.Select(condition=positive, t=raw.Log(x=safe), e=zero)
    return both(op, grad * y * raw.Pow(x=x, y=y - like(1.0, y)), grad * z * log)


def _extremum(op: Operation, grad: Tensor, comparison: Callable[..., Tensor]) -> Any:
    x, y = op.inputs
    zero = raw.ZerosLike(x=grad)
    chosen = comparison(x=x, y=y)
    return both(
        op,
        raw.SelectV2(condition=chosen, t=grad, e=zero),
        raw.SelectV2(condition=chosen, t=zero, e=grad),
    )


@RegisterGradient("Maximum")
def _maximum(op: Operation, grad: Tensor) -> Gradients:
    return _extremum(op, grad, raw.GreaterEqual)


@RegisterGradient("Minimum")
def _minimum(op: Operation, grad: Tensor) -> Gradients:
    return _extremum(op, grad, raw.LessEqual)


@RegisterGradient("SquaredDifference")
def _squared_difference(op: Operation, grad: Tensor) -> Gradients:
    x, y = op.inputs
    for_x = like(2.0, x) * grad * (x - y)
    return both(op, for_x, -for_x)


@RegisterGradient("Atan2")
def _atan2(op: Operation, grad: Tensor) -> Gradients:
    y, x = op.inputs
    over = grad / (raw.Square(x=x) + raw.Square(x=y))
    return both(op, x * over, -y * over)


@RegisterGradient("NextAfter")
def _next_after(op: Operation, grad: Tensor) -> Gradients:
    return both(op, grad, raw.ZerosLike(x=grad))


@RegisterGradient("Igamma")
def _igamma(op: Operation, grad: Tensor) -> Gradients:
    a, x = op.inputs
    density = raw.Exp(x=-x + (a - like(1.0, x)) * raw.Log(x=x) - raw.Lgamma(x=a))
    return both(op, grad * raw.IgammaGradA(a=a, x=x), grad * density)


@RegisterGradient("Igammac")
def _igammac(op: Operation, grad: Tensor) -> Gradients:
    first, second = _igamma(op, grad)
    return (-first if first is not None else None), (-second if second is not None else None)


@RegisterGradient("Betainc")
def _betainc(op: Operation, grad: Tensor) -> Gradients:
    """Return the gradient by x: the beta distribution's density.

    Its logarithm is added up first, since its factors can be large.
    """
    a, b, x = op.inputs
    one = like(1.0, x)
    log_beta = raw.Lgamma(x=a) + raw.Lgamma(x=b) - raw.Lgamma(x=a + b)
    log_density = raw.Xlog1py(x=b - one, y=-x) + raw.Xlogy(x=a - one, y=x) - log_beta
    return None, None, reduced(grad * raw.Exp(x=log_density), x, a, first=False)


@RegisterGradient("Polygamma")
def _polygamma(op: Operation, grad: Tensor) -> Gradients:
    n, x = op.inputs
    return None, both(op, None, grad * raw.Polygamma(a=n + like(1.0, n), x=x))[1]


@RegisterGradient("Zeta")
def _zeta(op: Operation, grad: Tensor) -> Gradients:
    x, q = op.inputs
    return None, both(op, None, grad * (-x * raw.Zeta(x=x + like(1.0, x), q=q)))[1]


@RegisterGradient("Select")
def _select(op: Operation, grad: Tensor) -> Gradients:
    condition, x = op.inputs[0], op.inputs[1]
    zero = raw.ZerosLike(x=x)
    return (
        None,
        raw.Select(condition=condition, t=grad, e=zero),
        raw.Select(condition=condition, t=zero, e=grad),
    )


@RegisterGradient("SelectV2")
def _select_v2(op: Operation, grad: Tensor) -> Gradients:
    condition, x, y = op.inputs
    zero = raw.ZerosLike(x=grad)
    out = op.outputs[0]
    for_x = reduced(raw.SelectV2(condition=condition, t=grad, e=zero), x, out, first=True)
    return (
        None,
        for_x,
        reduced(raw.SelectV2(condition=condition, t=zero, e=grad), y, out, first=True),
    )


@RegisterGradient("ClipByValue")
def _clip_by_value(op: Operation, grad: Tensor) -> Gradients:
    x, low, high = op.inputs
    zero = raw.ZerosLike(x=grad)
    below, above = raw.Less(x=x, y=low), raw.Greater(x=x, y=high)
    outside = raw.LogicalOr(x=below, y=above)
    out = op.outputs[0]
    for_x = raw.SelectV2(condition=outside, t=zero, e=grad)
    for_low = reduced(raw.SelectV2(condition=below, t=grad, e=zero), low, out, first=True)
    return (
        for_x,
        for_low,
        reduced(raw.SelectV2(condition=above, t=grad, e=zero), high, out, first=True),
    )


@RegisterGradient("Cast")
def _cast(op: Operation, grad: Tensor) -> Gradients:
    source = op.inputs[0].dtype.base_dtype
    floats = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16, *COMPLEX)
    return (
        raw.Cast(x=grad, DstT=source)
        if source in floats and grad.dtype.base_dtype in floats
        else None
    )


@RegisterGradient("AddN")
def _add_n(op: Operation, grad: Tensor) -> Gradients:
    return [grad] * len(op.inputs)


@RegisterGradient("AccumulateNV2")
def _accumulate_n(op: Operation, grad: Tensor) -> Gradients:
    return [grad] * len(op.inputs)


@RegisterGradient("Complex")
def _complex(op: Operation, grad: Tensor) -> Gradients:
    real = op.inputs[0].dtype.base_dtype
    return both(op, raw.Real(input=grad, Tout=real), raw.Imag(input=grad, Tout=real))


@RegisterGradient("Real")
def _real(op: Operation, grad: Tensor) -> Gradients:
    return raw.Complex(real=grad, imag=raw.ZerosLike(x=grad), Tout=op.inputs[0].dtype.base_dtype)


@RegisterGradient("Imag")
def _imag(op: Operation, grad: Tensor) -> Gradients:
    return raw.Complex(real=raw.ZerosLike(x=grad), imag=grad, Tout=op.inputs[0].dtype.base_dtype)


@RegisterGradient("ComplexAbs")
def _complex_abs(op: Operation, grad: Tensor) -> Gradients:
    kind = op.inputs[0].dtype.base_dtype
    scale = raw.DivNoNan(x=grad, y=op.outputs[0])
    return raw.Complex(real=scale, imag=raw.ZerosLike(x=scale), Tout=kind) * op.inputs[0]


@RegisterGradient("Angle")
def _angle(op: Operation, grad: Tensor) -> Gradients:
    x = op.inputs[0]
    part = x.dtype.base_dtype.real_dtype
    exchanged = raw.Complex(
        real=raw.Imag(input=x, Tout=part),
        imag=raw.Real(input=x, Tout=part),
        Tout=x.dtype.base_dtype,
    )
    return raw.Complex(real=-grad, imag=raw.ZerosLike(x=grad), Tout=x.dtype.base_dtype) / exchanged


@RegisterGradient("SqrtGrad")
def _sqrt_grad(op: Operation, grad: Tensor) -> Gradients:
    y, dy = op.inputs[0], op.outputs[0]
    by = grad / y
    return -conj(by) * dy, like(0.5, y) * by


@RegisterGradient("RsqrtGrad")
def _rsqrt_grad(op: Operation, grad: Tensor) -> Gradients:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return like(-1.5, y) * grad * dy * raw.Square(x=y), raw.RsqrtGrad(y=y, dy=grad)


@RegisterGradient("ReciprocalGrad")
@RegisterGradient("InvGrad")
def _reciprocal_grad(op: Operation, grad: Tensor) -> Gradients:
    y, dy = conj(op.inputs[0]), conj(op.inputs[1])
    return grad * dy * like(-2.0, y) * y, raw.ReciprocalGrad(y=y, dy=grad)
