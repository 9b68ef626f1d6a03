"""Present functions that are made of others: polynomials, reciprocals, the beta function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.elementwise_functions import lgamma, ndtri
from tfjit.ops.arithmetic.reduction import reduce_sum
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.dispatch import unary_elementwise

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


@unary_elementwise
def reciprocal_no_nan(x: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 / x, and zero for zero."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        one = constant(1, dtype=x.dtype.base_dtype, name="one")
        return tensor("DivNoNan", scope, x=one, y=x)


def polyval(coeffs: list[TensorLike], x: TensorLike, name: str | None = None) -> Tensor:
    """Return the value of a polynomial.

    coeffs: a list, that of the highest power first, each a tensor that can be broadcast to x; zero
    for an empty one. Raises ValueError for coefficients that are no list.
    """
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval", [*coeffs, x]) as scope:
        x = convert_to_tensor(x, name="x")
        if not coeffs:
            return tensor("ZerosLike", scope, x=x)
        terms = [convert_to_tensor(c, name=f"coeff_{i}") for i, c in enumerate(coeffs)]
        total = terms[0]
        for term in terms[1:]:
            total = term + total * x
        return total


def lbeta(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the logarithm of the beta function over the last axis.

    x [..., n]: positive numbers -> [...]: the sum of lgamma(x) less lgamma of the sum of x.
    """
    with name_scope(name, "lbeta", [x]):
        x = convert_to_tensor(x, name="x")
        product = reduce_sum(lgamma(x), axis=[-1])
        return product - lgamma(reduce_sum(x, axis=[-1]))


@unary_elementwise
def erfcinv(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the inverse of the complementary error function."""
    with name_scope(name, "erfcinv", [x]):
        value = convert_to_tensor(x, name="start")
        return -ndtri(0.5 * value) * np.sqrt(0.5)
