"""Declare the arithmetic that changes nothing, as patterns.

Each rule keeps every value bit by bit. The rules are checked by their test, not when this module is
imported: the check imports the families of all these ops.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.passes.ir.declined import Declined
from tfjit.passes.patterns.bound import Bound
from tfjit.passes.patterns.expressions import constant, op, op_type, tensors
from tfjit.passes.patterns.rewrite_rule import Rule


def _is_integer(x: Bound) -> bool:
    return x.dtype.is_integer


def _keeps_signs(x: Bound, zero: Bound, root: Bound) -> bool:
    """Return whether x + zero or x - zero is x.

    It is not where -0.0 becomes 0.0.
    """
    if x.dtype.is_floating and zero.value is not None:
        negative = np.signbit(zero.value.astype(np.float64))
        if negative.any() if root.op == "Sub" else not negative.all():
            raise Declined("adding 0.0 turns -0.0 into 0.0")
    return not x.dtype.is_complex


def _is_zero(value: np.ndarray) -> bool:
    return value.size > 0 and not value.any()


x, y, axis = tensors("x y axis")
f = op_type("f", "Neg LogicalNot Invert Conj")
g = op_type("g", "Relu Relu6 Abs Floor Ceil Rint Round Sign")
gx = g(x)
plus, sum_of = op.any_of("AddV2", "Add"), op.any_of("AddN", "AccumulateNV2")
zero, nothing = constant("zero", when=_is_zero), constant(when=_is_zero)

IDENTITIES: Final = (
    Rule("times_one", x * 1, x),
    Rule("over_one", op.any_of("RealDiv", "Div", "TruncateDiv")(x, 1), x),
    Rule("floor_over_one", op.FloorDiv(x, 1), x, _is_integer),  # FloorDiv of floats rounds
    Rule("plus_zero", plus(x, zero), x, _keeps_signs),
    Rule("minus_zero", x - zero, x, _keeps_signs),
    Rule("undo", f(f(x)), x, keeps_shape=True),
    Rule("idempotent", g(gx), gx, keeps_shape=True),
    Rule("pad_nothing", op.any_of("Pad", "MirrorPad")(x, nothing), x, keeps_shape=True),
    Rule("pad_nothing_v2", op.PadV2(x, nothing, y), x, keeps_shape=True),
    Rule("concat_one", op.ConcatV2(x, axis), x, keeps_shape=True),
    Rule("concat_one_v1", op.Concat(axis, x), x, keeps_shape=True),
    Rule("sum_of_one", sum_of(x), x, keeps_shape=True),
)
