"""Define gradients of elementwise operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import GradientFn, RegisterGradient, register
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients

_COMPLEX = (dtypes.complex64, dtypes.complex128)


def conj(x: Tensor) -> Tensor:
    """Return the conjugate; for reals the tensor itself."""
    return raw.Conj(input=x) if x.dtype.base_dtype in _COMPLEX else x


def like(value: float, x: Tensor) -> Tensor:
    """Return a scalar constant of a tensor's dtype."""
    return convert_to_tensor(value, dtype=x.dtype.base_dtype)


def reduced(gradient: Tensor | None, x: Tensor, other: Tensor, *, first: bool) -> Tensor | None:
    """Sum a gradient of the broadcast shape to x's shape.

    The broadcast is of x and `other`. first: x stood before `other`.
    """
    if gradient is None:
        return None
    ours, theirs = x.shape_tuple, other.shape_tuple
    if ours is not None and None not in ours and ours == theirs:
        return gradient
    gradient = convert_to_tensor(gradient)  # rows of a gather's gradient are to be summed
    if (
        gradient.shape_tuple is not None
        and gradient.shape_tuple == ours
        and None not in (ours or ())
    ):
        return gradient
    shape, other_shape = raw.Shape(input=x), raw.Shape(input=other)
    pair = (
        raw.BroadcastGradientArgs(s0=shape, s1=other_shape)
        if first
        else raw.BroadcastGradientArgs(s0=other_shape, s1=shape)
    )
    axes = pair[0] if first else pair[1]
    return raw.Reshape(tensor=raw.Sum(input=gradient, reduction_indices=axes), shape=shape)


def attrs_of(op: Operation, *names: str) -> dict[str, object]:
    """Return attrs of the operation by name."""
    return {name: op.get_attr(name) for name in names}


def both(
    op: Operation, for_x: Tensor | None, for_y: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """Return gradients of a broadcasting operation's two inputs.

    Each is summed to its input's shape.
    """
    x, y = op.inputs[:2]
    return reduced(for_x, x, y, first=True), reduced(for_y, y, x, first=False)


# (x, y, gradient of y) -> gradient of x
UnaryRule = Callable[[Tensor, Tensor, Tensor], Tensor]
UNARY: dict[str, UnaryRule] = {
    "Neg": lambda x, y, g: -g,
    "Sign": lambda x, y, g: raw.ZerosLike(x=x),
    "Abs": lambda x, y, g: g * raw.Sign(x=x),
    "Square": lambda x, y, g: g * (like(2.0, x) * conj(x)),
    "Sqrt": lambda x, y, g: (
        raw.SqrtGrad(y=conj(y), dy=g) if x.dtype.base_dtype in _COMPLEX else raw.SqrtGrad(y=y, dy=g)
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
    "Conj": lambda x, y, g: raw.Conj(input=g),
}


def unary(rule: UnaryRule) -> GradientFn:
    """Return the gradient function of an op of one input and output."""
    return lambda op, grad: rule(op.inputs[0], op.outputs[0], grad)


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
        if x.dtype.base_dtype in _COMPLEX
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
    floats = (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16, *_COMPLEX)
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
