"""One row per scalar function: generated expression, NumPy answer, dtypes.

The expression is text over `{0}`, `{1}` .. (the argument values, always plain names), for which
`kernels.expressions` fills in

    {T}        the register type, for literals: {T}(1). A bare 1 or 1.0 would turn float32 into
               float64 in Numba.
    {R}(...)   rounding to the operand's dtype where registers are wider (float16 and bfloat16 are
               computed in float32); no effect elsewhere. It marks the inner steps that TensorFlow
               rounds; the result of a row is rounded anyway.
    {alpha}    an attr of the op, as a literal of the register type
    vm.f(...)  vector math or bit operations of the row's kind

Subnormals: compiled kernels run with flush-to-zero set, as TensorFlow's do; the NumPy references do
not flush.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar import scalar_reference as ref
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType

FLOATS: Final = frozenset({d.float16, d.bfloat16, d.float32, d.float64})
HALF_FLOATS: Final = frozenset({d.float16, d.float32, d.float64})
WIDE: Final = frozenset({d.float32, d.float64})
COMPLEX: Final = frozenset({d.complex64, d.complex128})
SIGNED: Final = frozenset({d.int8, d.int16, d.int32, d.int64})
UNSIGNED: Final = frozenset({d.uint8, d.uint16, d.uint32, d.uint64})
INTEGERS: Final = SIGNED | UNSIGNED
REALS: Final = FLOATS | INTEGERS
NUMBERS: Final = REALS | COMPLEX
BOOL: Final = frozenset({d.bool})
ANY: Final = NUMBERS | BOOL


@dataclass(frozen=True, slots=True)
class ElementError:
    """An input for which the op fails.

    condition: expression that is true for a bad element; is_bad: the same over NumPy inputs; kinds:
    for which of "i" and "u"; code: a bit of the kernel's status word; message, kind: text and class
    of the error.
    """

    condition: str
    is_bad: Callable[..., Any]
    code: int
    message: str
    kinds: str = "iu"
    kind: str = "InvalidArgumentError"

    def occurs(self, operands: Sequence[Any]) -> bool:
        """Tell whether an element of the result has a bad input.

        A result without elements has none.
        """
        if operands[0].dtype.kind not in self.kinds or not all(x.size for x in operands):
            return False
        return bool(np.any(self.is_bad(*operands)))


DIVISION_BY_ZERO: Final = ElementError(
    "{1} == {T}(0)", lambda x, y: y == 0, 1, "Integer division by zero"
)
# TensorFlow's kernels that truncate report a zero as an internal error.
TRUNCATION_BY_ZERO: Final = replace(DIVISION_BY_ZERO, code=4, kind="InternalError")
NEGATIVE_POWER: Final = ElementError(
    "{1} < {T}(0)",
    lambda x, y: y < 0,
    2,
    "Integers to negative integer powers are not allowed",
    "i",
)


LITERAL: Final = "_Literal"
"""The op of a step that is a number, of the operands' dtype."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a scalar function that is written with others.

    op: a row of the table, or LITERAL. args: value numbers: the inputs', then one a step. value: of
    a LITERAL: a number, or the name of an attr.
    """

    op: str
    args: tuple[int, ...] = ()
    value: float | str | None = None


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A scalar function; shape rule, kernels, folding and fusion follow from it.

    op: op type, as a GraphDef spells it. expr: text for floats, and for every dtype without an
    entry in `by_kind`. reference: NumPy arrays (and attrs by name) -> array. Also rounds each step
    to float16 and bfloat16. dtypes: allowed values of attr T: those of TensorFlow's CPU kernels
    that are numbers or bool. by_kind: other texts for a dtype by name, or for "h" float16 and
    bfloat16, "i" signed, "u" unsigned, "c" complex, "b" bool. constants: named literals of the
    expression, rounded to the operand's dtype. signature: an entry an input: "T" or "bool"; "T*" =
    any number, folded from the left. result: "T", "bool", "uint8", or the name of the attr that
    holds the result's dtype. attrs: attrs that the expression and the reference take. exact: the
    result needs no rounding to float16 or bfloat16 (it is an operand, a constant or a small
    integer). commutative: as its OpDef says. cost_ns: predicted time an element, float32, one core,
    arithmetic only. error: inputs that fail. steps: the function in terms of other rows, instead of
    `expr`; it fails where they do.
    """

    op: str
    expr: str
    reference: Callable[..., Any]
    dtypes: frozenset[DType] = FLOATS
    by_kind: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    signature: tuple[str, ...] = ("T",)
    result: str = "T"
    attrs: tuple[str, ...] = ()
    exact: bool = False
    commutative: bool = False
    cost_ns: float = 0.05
    error: ElementError | None = None
    steps: tuple[Step, ...] = ()

    @property
    def arity(self) -> int:
        """Number of inputs; -1 when it varies."""
        return -1 if self.signature == ("T*",) else len(self.signature)

    def result_dtype(self, operand: DType, attrs: Mapping[str, Any]) -> DType:
        """Return the result's dtype, `operand` being attr T."""
        if self.result == "T":
            return operand
        if self.result == "bool":
            return d.bool
        if self.result == "uint8":
            return d.uint8
        found: DType = attrs[self.result]
        return found


def _unary(
    op: str,
    expr: str,
    reference: Callable[..., Any],
    dtypes: frozenset[DType] = FLOATS,
    **more: Any,
) -> Elementwise:
    return Elementwise(op, expr, reference, dtypes, **more)


def _binary(
    op: str,
    expr: str,
    reference: Callable[..., Any],
    dtypes: frozenset[DType] = FLOATS,
    **more: Any,
) -> Elementwise:
    return Elementwise(op, expr, reference, dtypes, signature=("T", "T"), **more)


def _compare(
    op: str, sign: str, reference: Callable[..., Any], dtypes: frozenset[DType], **more: Any
) -> Elementwise:
    return _binary(op, f"{{0}} {sign} {{1}}", reference, dtypes, result="bool", **more)


_ARITHMETIC: Final = (
    _binary("Add", "{0} + {1}", np.add, NUMBERS - {d.uint16, d.uint32, d.uint64}),
    _binary("AddV2", "{0} + {1}", np.add, NUMBERS, commutative=True),
    Elementwise("AddN", "{0} + {1}", ref.add_n, NUMBERS, signature=("T*",), commutative=True),
    _binary("Sub", "{0} - {1}", np.subtract, NUMBERS),
    _binary(
        "Mul", "{0} * {1}", ref.multiply, NUMBERS, by_kind={"c": "vm.multiply({0}, {1})"},
        commutative=True,
    ),
    _binary(
        "RealDiv", "{0} / {1}", ref.divide, FLOATS | COMPLEX, by_kind={"c": "vm.div({0}, {1})"},
        cost_ns=0.15,
    ),
    _binary(
        "Div", "{0} / {1}", ref.div, NUMBERS, cost_ns=0.15, error=DIVISION_BY_ZERO,
        by_kind={
            "i": "vm.truncdiv({0}, {1})", "u": "vm.truncdiv({0}, {1})", "c": "vm.div({0}, {1})",
        },
    ),
    _binary(
        "TruncateDiv", "vm.trunc({R}({0} / {1}))", ref.truncate_div, REALS, cost_ns=0.2,
        error=TRUNCATION_BY_ZERO,
        by_kind={"i": "vm.truncdiv({0}, {1})", "u": "vm.truncdiv({0}, {1})"},
    ),
    _binary(
        "FloorDiv", "vm.floor({R}({0} / {1}))", ref.floor_div, REALS, cost_ns=0.2,
        error=DIVISION_BY_ZERO,
        by_kind={"i": "vm.floordiv({0}, {1})", "u": "vm.floordiv({0}, {1})"},
    ),
    _binary(
        "FloorMod", "vm.floormod({0}, {1})", ref.floor_mod, REALS, cost_ns=5.0,
        error=DIVISION_BY_ZERO,
    ),
    _binary(
        "Mod", "vm.truncmod({0}, {1})", ref.truncate_mod, WIDE | {d.int32, d.int64}, cost_ns=5.0,
        error=DIVISION_BY_ZERO,
    ),
    _binary(
        "TruncateMod", "vm.truncmod({0}, {1})", ref.truncate_mod, WIDE | {d.int32, d.int64},
        cost_ns=5.0, error=TRUNCATION_BY_ZERO,
    ),
    _binary(
        "DivNoNan", "vm.select({1} == {T}(0), {T}(0), {0} / {1})", ref.div_no_nan, FLOATS | COMPLEX,
        cost_ns=0.15, by_kind={"c": "vm.select({1} == {T}(0), {T}(0), vm.div({0}, {1}))"},
    ),
    _binary(
        "MulNoNan", "vm.select({1} == {T}(0), {T}(0), {0} * {1})", ref.mul_no_nan, FLOATS | COMPLEX,
        by_kind={"c": "vm.select({1} == {T}(0), {T}(0), vm.multiply({0}, {1}))"},
    ),
    _binary(
        "SquaredDifference", "vm.square({R}({0} - {1}))", ref.squared_difference,
        FLOATS | COMPLEX | {d.int32, d.int64},
        by_kind={"i": "vm.square({T}({0} - {1}))", "c": "vm.squared_difference({0}, {1})"},
        commutative=True,
    ),
    _binary("Maximum", "vm.maximum({0}, {1})", ref.maximum, REALS, exact=True),
    _binary("Minimum", "vm.minimum({0}, {1})", ref.minimum, REALS, exact=True),
    _unary("Neg", "-{0}", np.negative, FLOATS | SIGNED | COMPLEX, exact=True),
    _unary("Abs", "vm.abs({0})", np.abs, FLOATS | SIGNED, exact=True),
    _unary("Sign", "vm.sign({0})", ref.sign, FLOATS | SIGNED | COMPLEX, exact=True),
    _unary("Square", "vm.square({0})", ref.square, NUMBERS),
    _unary(
        "Reciprocal", "{T}(1) / {0}", ref.reciprocal, FLOATS | COMPLEX,
        by_kind={"c": "vm.div({T}(1), {0})"}, cost_ns=0.15,
    ),
    _unary(
        "Inv", "{T}(1) / {0}", ref.reciprocal, FLOATS | COMPLEX,
        by_kind={"c": "vm.div({T}(1), {0})"}, cost_ns=0.15,
    ),
    _unary("Floor", "vm.floor({0})", np.floor, exact=True),
    _unary("Ceil", "vm.ceil({0})", np.ceil, exact=True),
    _unary("Rint", "vm.rint({0})", np.rint, WIDE, exact=True),
    _unary(
        "Round", "vm.rint({0})", ref.round_half_even, FLOATS | {d.int32, d.int64},
        by_kind={"i": "{0}"}, exact=True,
    ),
    Elementwise(
        "ClipByValue", "vm.clip({0}, {1}, {2})", ref.clip_by_value, REALS - {d.uint32, d.uint64},
        signature=("T", "T", "T"), exact=True,
    ),
)  # fmt: skip

_POWERS: Final = (
    _unary("Sqrt", "vm.sqrt({0})", ref.sqrt, FLOATS | COMPLEX, cost_ns=0.15),
    _unary("Rsqrt", "vm.rsqrt({0})", ref.rsqrt, FLOATS | COMPLEX, cost_ns=0.3),
    _unary("Exp", "vm.exp({0})", ref.exp, FLOATS | COMPLEX, cost_ns=0.18),
    _unary("Expm1", "vm.expm1({0})", ref.expm1, FLOATS | COMPLEX, cost_ns=0.2),
    _unary("Log", "vm.log({0})", ref.log, FLOATS | COMPLEX, cost_ns=0.27),
    _unary("Log1p", "vm.log1p({0})", ref.log1p, FLOATS | COMPLEX, cost_ns=0.35),
    _binary(
        "Pow", "vm.pow({0}, {1})", ref.power, FLOATS | SIGNED | COMPLEX, cost_ns=0.9,
        error=NEGATIVE_POWER,
    ),
    _binary(
        "Xlogy", "vm.select({0} == {T}(0), {0}, {0} * {R}(vm.log({1})))", ref.xlogy,
        FLOATS | COMPLEX, cost_ns=0.3,
    ),
    _binary(
        "Xlog1py", "vm.select({0} == {T}(0), {0}, {0} * {R}(vm.log1p({1})))", ref.xlog1py,
        FLOATS | COMPLEX, cost_ns=0.4,
    ),
    _binary(
        "Xdivy", "vm.select({0} == {T}(0), {0}, {0} / {1})", ref.xdivy, FLOATS | COMPLEX,
        cost_ns=0.15, by_kind={"c": "vm.select({0} == {T}(0), {0}, vm.div({0}, {1}))"},
    ),
)  # fmt: skip

_TRIGONOMETRIC: Final = (
    _unary("Sin", "vm.sin({0})", ref.sin, FLOATS | COMPLEX, cost_ns=0.3),
    _unary("Cos", "vm.cos({0})", ref.cos, FLOATS | COMPLEX, cost_ns=0.3),
    _unary("Tan", "vm.tan({0})", ref.tan, FLOATS | COMPLEX, cost_ns=0.5),
    _unary("Asin", "vm.asin({0})", ref.asin, FLOATS | COMPLEX, cost_ns=0.4),
    _unary("Acos", "vm.acos({0})", ref.acos, FLOATS | COMPLEX, cost_ns=0.4),
    _unary("Atan", "vm.atan({0})", ref.atan, FLOATS | COMPLEX, cost_ns=0.4),
    _binary("Atan2", "vm.atan2({0}, {1})", ref.atan2, cost_ns=0.6),
    _unary("Sinh", "vm.sinh({0})", ref.sinh, FLOATS | COMPLEX, cost_ns=0.4),
    _unary("Cosh", "vm.cosh({0})", ref.cosh, FLOATS | COMPLEX, cost_ns=0.4),
    _unary("Tanh", "vm.tanh({0})", ref.tanh, FLOATS | COMPLEX, cost_ns=0.16),
    _unary("Asinh", "vm.asinh({0})", ref.asinh, FLOATS | COMPLEX, cost_ns=0.6),
    _unary("Acosh", "vm.acosh({0})", ref.acosh, FLOATS | COMPLEX, cost_ns=0.6),
    _unary("Atanh", "vm.atanh({0})", ref.atanh, FLOATS | COMPLEX, cost_ns=0.6),
)

_SELU: Final = MappingProxyType({"scale": ref.SELU_SCALE, "scale_alpha": ref.SELU_SCALE_ALPHA})
# TensorFlow cuts softplus off where e^x falls below the narrow type's idea of epsilon
_SOFTPLUS_NARROW: Final = (
    "vm.select({{0}} > {{T}}({0}), {{0}}, vm.select({{0}} < {{T}}(-{0}), "
    "{{R}}(vm.exp({{0}})), {{R}}(vm.log1p({{R}}(vm.exp({{0}}))))))"
)

_ACTIVATIONS: Final = (
    _unary(
        "Sigmoid", "vm.sigmoid({0})", ref.sigmoid, FLOATS | COMPLEX, cost_ns=0.21,
        by_kind={"h": "vm.logistic({R}(vm.exp({0})), {R}({R}(vm.exp({0})) + {T}(1)))"},
    ),
    _unary(
        "Relu", "vm.select({0} < {T}(0), {T}(0), {0})", ref.relu, REALS, by_kind={"u": "{0}"},
        exact=True,
    ),
    _unary(
        "Relu6", "vm.select({0} < {T}(0), {T}(0), vm.select({0} > {T}(6), {T}(6), {0}))", ref.relu6,
        REALS, by_kind={"u": "vm.select({0} > {T}(6), {T}(6), {0})"}, exact=True,
    ),
    _unary("Elu", "vm.select({0} < {T}(0), {R}(vm.exp({0})) - {T}(1), {0})", ref.elu, cost_ns=0.25),
    _unary(
        "Selu",
        "vm.select({0} < {T}(0), {scale_alpha} * {R}({R}(vm.exp({0})) - {T}(1)), {scale} * {0})",
        ref.selu, cost_ns=0.25, constants=_SELU,
    ),
    _unary(
        "LeakyRelu", "vm.select({0} > {T}(0), {0}, {0} * {alpha})", ref.leaky_relu,
        attrs=("alpha",),
    ),
    _unary(
        "Softplus", "vm.softplus({0})", ref.softplus, cost_ns=0.35,
        by_kind={
            name: _SOFTPLUS_NARROW.format(bound) for name, bound in ref.SOFTPLUS_BOUND.items()
        },
    ),
    _unary("Softsign", "{0} / {R}(vm.abs({0}) + {T}(1))", ref.softsign, cost_ns=0.15),
    _binary(
        "ReluGrad", "{0} * vm.select({1} > {T}(0), {T}(1), {T}(0))", ref.relu_grad, REALS,
        exact=True,
    ),
    _binary(
        "Relu6Grad", "{0} * vm.select(({1} > {T}(0)) & ({1} < {T}(6)), {T}(1), {T}(0))",
        ref.relu6_grad, REALS, exact=True,
    ),
    _binary("EluGrad", "vm.select({1} < {T}(0), {R}({1} + {T}(1)) * {0}, {0})", ref.elu_grad),
    _binary(
        "SeluGrad", "vm.select({1} < {T}(0), {0} * {R}({1} + {scale_alpha}), {0} * {scale})",
        ref.selu_grad, constants=_SELU,
    ),
    _binary(
        "LeakyReluGrad", "vm.select({1} > {T}(0), {0}, {0} * {alpha})", ref.leaky_relu_grad,
        attrs=("alpha",),
    ),
    _binary(
        "SoftplusGrad", "{0} / {R}({R}(vm.exp(-{1})) + {T}(1))", ref.softplus_grad, cost_ns=0.3,
    ),
    _binary(
        "SoftsignGrad", "{0} / {R}(vm.square({R}({T}(1) + vm.abs({1}))))", ref.softsign_grad,
        cost_ns=0.2,
    ),
    _binary(
        "SigmoidGrad", "{1} * {R}({0} * {R}({T}(1) - {0}))", ref.sigmoid_grad, FLOATS | COMPLEX,
    ),
    _binary("TanhGrad", "{1} * {R}({T}(1) - {R}({0} * {0}))", ref.tanh_grad, FLOATS | COMPLEX),
    _binary(
        "SqrtGrad", "vm.select({1} == {T}(0), {T}(0), {1} * {R}({T}(0.5) / {0}))", ref.sqrt_grad,
        FLOATS | COMPLEX, by_kind={"c": "vm.sqrt_grad({0}, {1})"}, cost_ns=0.15,
    ),
    _binary(
        "RsqrtGrad",
        "vm.select({1} == {T}(0), {T}(0), {R}({1} * {0}) * {R}({T}(-0.5) * {R}({0} * {0})))",
        ref.rsqrt_grad, FLOATS | COMPLEX, by_kind={"c": "vm.rsqrt_grad({0}, {1})"},
    ),
    _binary(
        "ReciprocalGrad", "vm.select({1} == {T}(0), {T}(0), {R}(-{0} * {0}) * {1})",
        ref.reciprocal_grad, FLOATS | COMPLEX, by_kind={"c": "vm.reciprocal_grad({0}, {1})"},
    ),
    _binary(
        "InvGrad", "vm.select({1} == {T}(0), {T}(0), {R}(-{0} * {0}) * {1})", ref.reciprocal_grad,
        FLOATS | COMPLEX, by_kind={"c": "vm.reciprocal_grad({0}, {1})"},
    ),
)  # fmt: skip

_LOGIC: Final = (
    _compare("Equal", "==", np.equal, ANY, commutative=True),
    _compare("NotEqual", "!=", np.not_equal, ANY, commutative=True),
    _compare("Less", "<", np.less, REALS),
    _compare("LessEqual", "<=", np.less_equal, REALS),
    _compare("Greater", ">", np.greater, REALS),
    _compare("GreaterEqual", ">=", np.greater_equal, REALS),
    _binary(
        "ApproximateEqual", "vm.abs({0} - {1}) < {tolerance}", ref.approximate_equal, WIDE,
        result="bool", attrs=("tolerance",), commutative=True,
    ),
    _binary("LogicalAnd", "{0} & {1}", np.logical_and, BOOL, commutative=True),
    _binary("LogicalOr", "{0} | {1}", np.logical_or, BOOL, commutative=True),
    _unary("LogicalNot", "not {0}", np.logical_not, BOOL),
    Elementwise(
        "Select", "vm.select({0}, {1}, {2})", np.where, ANY, signature=("bool", "T", "T"),
        exact=True,
    ),
    Elementwise(
        "SelectV2", "vm.select({0}, {1}, {2})", np.where, ANY, signature=("bool", "T", "T"),
        exact=True,
    ),
    _unary("IsNan", "vm.isnan({0})", np.isnan, result="bool"),
    _unary("IsInf", "vm.isinf({0})", np.isinf, result="bool"),
    _unary("IsFinite", "vm.isfinite({0})", np.isfinite, result="bool"),
    _binary("BitwiseAnd", "{0} & {1}", np.bitwise_and, INTEGERS, commutative=True),
    _binary("BitwiseOr", "{0} | {1}", np.bitwise_or, INTEGERS, commutative=True),
    _binary("BitwiseXor", "{0} ^ {1}", np.bitwise_xor, INTEGERS, commutative=True),
    _unary("Invert", "~{0}", np.invert, INTEGERS),
    _binary("LeftShift", "vm.shift_left({0}, {1})", ref.left_shift, INTEGERS),
    _binary("RightShift", "vm.shift_right({0}, {1})", ref.right_shift, INTEGERS),
    _unary("PopulationCount", "vm.popcount({0})", ref.population_count, INTEGERS, result="uint8"),
)  # fmt: skip

_CONVERSIONS: Final = (
    _unary("Cast", "vm.cast({0})", ref.cast, ANY, result="DstT", attrs=("DstT", "Truncate")),
    _binary("Complex", "vm.complex({0}, {1})", ref.complex_number, WIDE, result="Tout"),
    _unary("Real", "vm.real({0})", np.real, COMPLEX, result="Tout"),
    _unary("Imag", "vm.imag({0})", np.imag, COMPLEX, result="Tout"),
    _unary("Conj", "vm.conj({0})", np.conj, COMPLEX),
    _unary("Angle", "vm.angle({0})", np.angle, COMPLEX, result="Tout", cost_ns=1.0),
    _unary("ComplexAbs", "vm.abs({0})", np.abs, COMPLEX, result="Tout", cost_ns=0.3),
)

_SPECIAL: Final = (
    _unary("Erf", "vm.erf({0})", ref.erf, cost_ns=0.2),
    _unary("Erfc", "vm.erfc({0})", ref.erfc, cost_ns=1.0),
    _unary("Erfinv", "vm.erfinv({0})", ref.erfinv, WIDE, cost_ns=4.0),
    _unary("Ndtri", "vm.ndtri({0})", ref.ndtri, WIDE, cost_ns=5.0),
    _unary("Lgamma", "vm.lgamma({0})", ref.lgamma, HALF_FLOATS, cost_ns=6.0),
    _unary("Digamma", "vm.digamma({0})", ref.digamma, HALF_FLOATS, cost_ns=6.0),
    _unary("Dawsn", "vm.dawsn({0})", ref.dawsn, WIDE, cost_ns=5.0),
    _unary("Expint", "vm.expint({0})", ref.expint, WIDE, cost_ns=5.0),
    _unary("FresnelCos", "vm.fresnel_cos({0})", ref.fresnel_cos, WIDE, cost_ns=6.0),
    _unary("FresnelSin", "vm.fresnel_sin({0})", ref.fresnel_sin, WIDE, cost_ns=6.0),
    _unary("Spence", "vm.spence({0})", ref.spence, WIDE, cost_ns=3.0),
    _unary("BesselI0", "vm.bessel_i0({0})", ref.bessel_i0, HALF_FLOATS, cost_ns=3.0),
    _unary("BesselI0e", "vm.bessel_i0e({0})", ref.bessel_i0e, HALF_FLOATS, cost_ns=3.0),
    _unary("BesselI1", "vm.bessel_i1({0})", ref.bessel_i1, HALF_FLOATS, cost_ns=3.0),
    _unary("BesselI1e", "vm.bessel_i1e({0})", ref.bessel_i1e, HALF_FLOATS, cost_ns=3.0),
    _unary("BesselJ0", "vm.bessel_j0({0})", ref.bessel_j0, HALF_FLOATS, cost_ns=5.0),
    _unary("BesselJ1", "vm.bessel_j1({0})", ref.bessel_j1, HALF_FLOATS, cost_ns=5.0),
    _unary("BesselK0", "vm.bessel_k0({0})", ref.bessel_k0, HALF_FLOATS, cost_ns=5.0),
    _unary("BesselK0e", "vm.bessel_k0e({0})", ref.bessel_k0e, HALF_FLOATS, cost_ns=5.0),
    _unary("BesselK1", "vm.bessel_k1({0})", ref.bessel_k1, HALF_FLOATS, cost_ns=5.0),
    _unary("BesselK1e", "vm.bessel_k1e({0})", ref.bessel_k1e, HALF_FLOATS, cost_ns=5.0),
    _unary("BesselY0", "vm.bessel_y0({0})", ref.bessel_y0, HALF_FLOATS, cost_ns=7.0),
    _unary("BesselY1", "vm.bessel_y1({0})", ref.bessel_y1, HALF_FLOATS, cost_ns=7.0),
    _binary("NextAfter", "vm.nextafter({0}, {1})", np.nextafter, WIDE),
    _binary("Igamma", "vm.igamma({0}, {1})", ref.igamma, WIDE, cost_ns=300.0),
    _binary("Igammac", "vm.igammac({0}, {1})", ref.igammac, WIDE, cost_ns=300.0),
    _binary("IgammaGradA", "vm.igamma_grad_a({0}, {1})", ref.igamma_grad_a, WIDE, cost_ns=400.0),
    _binary(
        "RandomGammaGrad",
        "vm.random_gamma_grad({0}, {1})",
        ref.random_gamma_grad,
        WIDE,
        cost_ns=400.0,
    ),
    _binary("Zeta", "vm.zeta({0}, {1})", ref.zeta, WIDE, cost_ns=100.0),
    _binary("Polygamma", "vm.polygamma({0}, {1})", ref.polygamma, WIDE, cost_ns=150.0),
    Elementwise(
        "Betainc",
        "vm.betainc({0}, {1}, {2})",
        ref.betainc,
        WIDE,
        signature=("T", "T", "T"),
        cost_ns=300.0,
    ),
)

TABLE: Final[tuple[Elementwise, ...]] = (
    *_ARITHMETIC, *_POWERS, *_TRIGONOMETRIC, *_ACTIVATIONS, *_LOGIC, *_CONVERSIONS, *_SPECIAL,
)  # fmt: skip
_BY_OP: Final[dict[str, Elementwise]] = {row.op: row for row in TABLE}


def lookup(op: str) -> Elementwise | None:
    """Return the row of an op type, or None."""
    return _BY_OP.get(op)


def add_row(row: Elementwise) -> None:
    """Add the row of an op that a user registers.

    Raises ValueError when the op has one.
    """
    if row.op in _BY_OP:
        raise ValueError(f"two scalar functions for {row.op}")
    _BY_OP[row.op] = row


def remove_row(op: str) -> None:
    """Undo `add_row`."""
    _BY_OP.pop(op, None)
