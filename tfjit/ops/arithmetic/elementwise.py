"""Declare scalar functions over tensors.

Dtypes, shapes and kernels follow from the rows of framework.scalar.elementwise.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import ELEMENTWISE, FAILS_ON_INTEGERS
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.apply import create
from tfjit.ops.core.declare import register_elementwise, register_op
from tfjit.ops.core.dispatch import binary_elementwise, unary_elementwise
from tfjit.ops.core.shape_rules import Shapes, broadcast, merged, merged_last_first, unchanged
from tfjit.ops.core.type_lists import (
    ARITHMETIC,
    FLOAT,
    FLOAT_OR_COMPLEX,
    HALF_TO_COMPLEX,
    INTEGER,
    SIGNED,
    WIDE_SIGNED,
)

if TYPE_CHECKING:
    pass


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
    # Tensors that do not broadcast are unequal: one False. So where that is open, not even the rank
    # is known.
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


register_elementwise(
    "Abs",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=("T: {bfloat16, half, float, double, int8, int16, int32, int64}",),
    shape=unchanged,
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
for _op_type in (
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Cos",
    "Cosh",
    "Exp",
    "Expm1",
    "Log",
    "Log1p",
    "Rsqrt",
    "Sin",
    "Sinh",
    "Sqrt",
    "Tan",
):
    register_elementwise(
        _op_type,
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=(f"T: {FLOAT_OR_COMPLEX}",),
        shape=unchanged,
    )
register_elementwise(
    "Add",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(
        "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, "
        "complex128, string}",
    ),
    shape=broadcast,
)
register_elementwise(
    "AddN",
    inputs=("inputs: N * T",),
    outputs=("sum: T",),
    attrs=("N: int >= 1", "T: {numbertype, variant}"),
    commutative=True,
    aggregate=True,
    shape=merged_last_first,
)
register_elementwise(
    "AddV2",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(
        (
            "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, int32, "
            "int64, complex64, complex128}"
        ),
    ),
    commutative=True,
    aggregate=True,
    shape=broadcast,
)
for _op_type in (
    "Angle",
    "Imag",
    "Real",
):
    register_elementwise(
        _op_type,
        inputs=("input: T",),
        outputs=("output: Tout",),
        attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
        shape=unchanged,
    )
register_elementwise(
    "ApproximateEqual",
    inputs=("x: T", "y: T"),
    outputs=("z: bool",),
    attrs=("T: numbertype", "tolerance: float = 1e-05"),
    commutative=True,
    shape=merged,
)
register_elementwise(
    "Atan2", inputs=("y: T", "x: T"), outputs=("z: T",), attrs=(f"T: {FLOAT}",), shape=broadcast
)
for _op_type in (
    "BesselI0",
    "BesselI0e",
    "BesselI1",
    "BesselI1e",
    "BesselJ0",
    "BesselJ1",
    "BesselK0",
    "BesselK0e",
    "BesselK1",
    "BesselK1e",
    "BesselY0",
    "BesselY1",
    "Ceil",
    "Dawsn",
    "Digamma",
    "Erf",
    "Erfc",
    "Erfinv",
    "Expint",
    "Floor",
    "FresnelCos",
    "FresnelSin",
    "Lgamma",
    "Ndtri",
    "Rint",
    "Spence",
):
    register_elementwise(
        _op_type,
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=(f"T: {FLOAT}",),
        shape=unchanged,
    )
register_elementwise(
    "Betainc",
    inputs=("a: T", "b: T", "x: T"),
    outputs=("z: T",),
    attrs=("T: {float, double}",),
    shape=_betainc,
)
for _op_type in (
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
):
    register_elementwise(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=(f"T: {INTEGER}",),
        commutative=True,
        shape=broadcast,
    )
register_elementwise(
    "Cast",
    inputs=("x: SrcT",),
    outputs=("y: DstT",),
    attrs=("SrcT: type", "DstT: type", "Truncate: bool = false"),
    shape=unchanged,
)
register_elementwise(
    "ClipByValue",
    inputs=("t: T", "clip_value_min: T", "clip_value_max: T"),
    outputs=("output: T",),
    attrs=("T: numbertype",),
    shape=unchanged,
)
register_elementwise(
    "Complex",
    inputs=("real: T", "imag: T"),
    outputs=("out: Tout",),
    attrs=("T: {float, double} = DT_FLOAT", "Tout: {complex64, complex128} = DT_COMPLEX64"),
    shape=broadcast,
)
register_elementwise(
    "ComplexAbs",
    inputs=("x: T",),
    outputs=("y: Tout",),
    attrs=("T: {complex64, complex128} = DT_COMPLEX64", "Tout: {float, double} = DT_FLOAT"),
    shape=unchanged,
)
register_elementwise(
    "Conj",
    inputs=("input: T",),
    outputs=("output: T",),
    attrs=("T: {complex64, complex128, variant} = DT_COMPLEX64",),
    shape=unchanged,
)
for _op_type in (
    "Div",
    "FloorDiv",
    "TruncateDiv",
):
    register_op(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=(f"T: {ARITHMETIC}",),
        shape=broadcast,
        traits=ELEMENTWISE | FAILS_ON_INTEGERS,
    )
register_elementwise(
    "DivNoNan",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {half, float, bfloat16, double, complex64, complex128}",),
    shape=broadcast,
)
for _op_type in (
    "Equal",
    "NotEqual",
):
    register_elementwise(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: bool",),
        attrs=("T: type", "incompatible_shape_error: bool = true"),
        commutative=True,
        shape=_equal,
    )
register_op(
    "FloorMod",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(
        "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64, bfloat16, half, float, "
        "double}",
    ),
    shape=broadcast,
    traits=ELEMENTWISE | FAILS_ON_INTEGERS,
)
for _op_type in (
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
):
    register_elementwise(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: bool",),
        attrs=("T: realnumbertype",),
        shape=broadcast,
    )
for _op_type in (
    "Igamma",
    "Igammac",
):
    register_elementwise(
        _op_type,
        inputs=("a: T", "x: T"),
        outputs=("z: T",),
        attrs=(f"T: {FLOAT}",),
        shape=broadcast,
    )
for _op_type in (
    "IgammaGradA",
    "Polygamma",
):
    register_elementwise(
        _op_type,
        inputs=("a: T", "x: T"),
        outputs=("z: T",),
        attrs=("T: {float, double}",),
        shape=broadcast,
    )
for _op_type in (
    "Inv",
    "Neg",
    "Reciprocal",
    "Round",
    "Sign",
):
    register_elementwise(
        _op_type,
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=(f"T: {SIGNED}",),
        shape=unchanged,
    )
register_elementwise(
    "Invert", inputs=("x: T",), outputs=("y: T",), attrs=(f"T: {INTEGER}",), shape=unchanged
)
for _op_type in (
    "InvGrad",
    "ReciprocalGrad",
    "RsqrtGrad",
    "SqrtGrad",
):
    register_elementwise(
        _op_type,
        inputs=("y: T", "dy: T"),
        outputs=("z: T",),
        attrs=(f"T: {FLOAT_OR_COMPLEX}",),
        shape=unchanged,
    )
for _op_type in (
    "IsFinite",
    "IsInf",
    "IsNan",
):
    register_elementwise(
        _op_type,
        inputs=("x: T",),
        outputs=("y: bool",),
        attrs=(f"T: {FLOAT}",),
        shape=unchanged,
    )
for _op_type in (
    "LeftShift",
    "RightShift",
):
    register_elementwise(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=(f"T: {INTEGER}",),
        shape=broadcast,
    )
for _op_type in (
    "LogicalAnd",
    "LogicalOr",
):
    register_elementwise(
        _op_type,
        inputs=("x: bool", "y: bool"),
        outputs=("z: bool",),
        commutative=True,
        shape=broadcast,
    )
register_elementwise("LogicalNot", inputs=("x: bool",), outputs=("y: bool",), shape=unchanged)
for _op_type in (
    "Maximum",
    "Minimum",
):
    register_elementwise(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=(
            "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
            "uint64}",
        ),
        shape=broadcast,
    )
register_op(
    "Mod",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {int32, int64, half, half, bfloat16, float, double}",),
    shape=broadcast,
    traits=ELEMENTWISE | FAILS_ON_INTEGERS,
)
register_elementwise(
    "Mul",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(f"T: {ARITHMETIC}",),
    commutative=True,
    shape=broadcast,
)
register_elementwise(
    "MulNoNan",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(f"T: {FLOAT_OR_COMPLEX}",),
    shape=broadcast,
)
register_elementwise(
    "NextAfter",
    inputs=("x1: T", "x2: T"),
    outputs=("output: T",),
    attrs=("T: {double, float} = DT_FLOAT",),
    shape=broadcast,
)
register_elementwise(
    "PopulationCount",
    inputs=("x: T",),
    outputs=("y: uint8",),
    attrs=(f"T: {INTEGER}",),
    shape=unchanged,
)
register_op(
    "Pow",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {bfloat16, float, half, double, int8, int16, int32, int64, complex64, complex128}",),
    shape=broadcast,
    traits=ELEMENTWISE | FAILS_ON_INTEGERS,
)
register_elementwise(
    "RandomGammaGrad",
    inputs=("alpha: T", "sample: T"),
    outputs=("output: T",),
    attrs=("T: {float, double}",),
    shape=broadcast,
)
register_elementwise(
    "RealDiv",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(f"T: {ARITHMETIC}",),
    shape=broadcast,
)
register_elementwise(
    "Select",
    inputs=("condition: bool", "t: T", "e: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=_select,
)
register_elementwise(
    "SelectV2",
    inputs=("condition: bool", "t: T", "e: T"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=_select_v2,
)
register_elementwise(
    "Square",
    inputs=("x: T",),
    outputs=("y: T",),
    attrs=(
        (
            "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, "
            "uint64, complex64, complex128}"
        ),
    ),
    shape=unchanged,
)
register_elementwise(
    "SquaredDifference",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(f"T: {WIDE_SIGNED}",),
    commutative=True,
    shape=broadcast,
)
register_elementwise(
    "Sub",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=(
        (
            "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, "
            "complex64, complex128, uint32, uint64}"
        ),
    ),
    shape=broadcast,
)
register_op(
    "TruncateMod",
    inputs=("x: T", "y: T"),
    outputs=("z: T",),
    attrs=("T: {int32, int64, bfloat16, half, float, double}",),
    shape=broadcast,
    traits=ELEMENTWISE | FAILS_ON_INTEGERS,
)
for _op_type in (
    "Xdivy",
    "Xlog1py",
    "Xlogy",
):
    register_elementwise(
        _op_type,
        inputs=("x: T", "y: T"),
        outputs=("z: T",),
        attrs=(f"T: {HALF_TO_COMPLEX}",),
        shape=broadcast,
    )
register_elementwise(
    "Zeta",
    inputs=("x: T", "q: T"),
    outputs=("z: T",),
    attrs=("T: {float, double}",),
    shape=broadcast,
)


def elementwise_function(public: str, op_type: str, text: str) -> Callable[..., Tensor]:
    """Return a public function of the op's inputs and numeric attrs.

    The arguments are in the op's order.
    """

    names = [arg.name for arg in registry.require(op_type).inputs]

    def function(*args: object, name: str | None = None, **keywords: object) -> Tensor:
        if len(args) == len(names) + 1 and (args[-1] is None or isinstance(args[-1], str)):
            *args, name = args  # type: ignore[assignment]
        if len(args) > len(names):
            raise TypeError(
                f"{public}() takes {len(names)} tensors ({', '.join(names)}), got {len(args)}"
            )
        return create(op_type, name, **dict(zip(names, args)), **keywords).outputs[0]

    parameters = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in names]
    parameters.append(Parameter("name", Parameter.POSITIONAL_OR_KEYWORD, default=None))
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = public
    function.__doc__ = f"{text} ({op_type})"
    marks = {1: unary_elementwise, 2: binary_elementwise}
    return marks[len(names)](function) if len(names) in marks else function
