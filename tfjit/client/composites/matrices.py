"""Solve with LU factors, and compute exponentials of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import linalg, nn
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _factors(
    lower_upper: TensorLike, perm: TensorLike, validate_args: bool
) -> tuple[Tensor, Tensor, list[Operation]]:
    """Return factors and permutation as tensors, with checks of their shapes.

    Raises ValueError for known shapes that do not fit.
    """
    both = convert_to_tensor(lower_upper, preferred_dtype=dtypes.float32, name="lower_upper")
    order = convert_to_tensor(perm, preferred_dtype=dtypes.int32, name="perm")
    checks = []
    rank, order_rank = both.shape.rank, order.shape.rank
    message = "Input `lower_upper` must have at least 2 dimensions."
    if rank is not None and rank < 2:
        raise ValueError(message)
    if validate_args:
        checks.append(ops.assert_rank_at_least(both, 2, message=message))
    message = "`rank(lower_upper)` must equal `rank(perm) + 1`"
    if rank is not None and order_rank is not None:
        if rank != order_rank + 1:
            raise ValueError(message)
    elif validate_args:
        checks.append(ops.assert_equal(ops.rank(both), ops.rank(order) + 1, message=message))
    message = "`lower_upper` must be square."
    sizes = None if both.shape_tuple is None else both.shape_tuple[-2:]
    if sizes is not None and None not in sizes:
        if sizes[0] != sizes[1]:
            raise ValueError(message)
    elif validate_args:
        checks.append(ops.assert_equal(ops.shape(both)[-2], ops.shape(both)[-1], message=message))
    return both, order, [check for check in checks if check is not None]


def _lower(both: Tensor) -> Tensor:
    """Return the lower factor, which has ones on its diagonal."""
    ones = ops.ones(ops.shape(both)[:-1], dtype=both.dtype)
    return linalg.set_diag(linalg.band_part(both, num_lower=-1, num_upper=0), ones)


def lu_solve(
    lower_upper: TensorLike,
    perm: TensorLike,
    rhs: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Solve A x = rhs, given the results of `lu` of A.

    lower_upper [..., n, n], perm [..., n], rhs [..., n, m] -> [..., n, m]. Raises ValueError for
    known shapes that do not fit; validate_args: check others in a run.
    """
    with name_scope(name or "lu_solve"):
        both, order, checks = _factors(lower_upper, perm, validate_args)
        right = convert_to_tensor(rhs, preferred_dtype=both.dtype, name="rhs")
        if right.shape.rank is not None and right.shape.rank < 2:
            raise ValueError("Input `rhs` must have at least 2 dimensions.")
        known = both.shape_tuple, right.shape_tuple
        message = "`lower_upper.shape[-1]` must equal `rhs.shape[-1]`."
        sizes = [shape[k] if shape else None for shape, k in zip(known, (-1, -2), strict=True)]
        if None not in sizes:
            if sizes[0] != sizes[1]:
                raise ValueError(message)
        elif validate_args:
            check = ops.assert_equal(ops.shape(both)[-1], ops.shape(right)[-2], message=message)
            checks += [] if check is None else [check]
        with control_dependencies(checks):
            both, order, right = (ops.identity(t) for t in (both, order, right))
        if right.shape.rank == 2 and order.shape.rank == 1:
            permuted = ops.gather(right, order, axis=-2)
        else:
            permuted = _permuted(right, order)
        solved = linalg.triangular_solve(_lower(both), permuted)
        return linalg.triangular_solve(both, solved, lower=False)


def _permuted(rows: Tensor, order: Tensor) -> Tensor:
    """Return rows [..., n, m] in the order [..., n].

    Batches broadcast.
    """
    shape = ops.shape(rows)
    batch = ops.broadcast_dynamic_shape(shape[:-2], ops.shape(order)[:-1])
    whole = ops.concat([batch, shape[-2:]], axis=0)
    flat = ops.reshape(ops.broadcast_to(rows, whole), ops.concat([[-1], shape[-2:]], axis=0))
    flat_order = ops.reshape(ops.broadcast_to(order, whole[:-1]), ops.stack([-1, shape[-2]]))
    return ops.reshape(ops.gather(flat, flat_order, batch_dims=1, axis=1), whole)


def lu_matrix_inverse(
    lower_upper: TensorLike,
    perm: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the inverse of a matrix from its results of `lu`.

    The arguments are those of `lu_solve`.
    """
    with name_scope(name or "lu_matrix_inverse"):
        both, order, checks = _factors(lower_upper, perm, validate_args)
        with control_dependencies(checks):
            both, order = ops.identity(both), ops.identity(order)
        shape = ops.shape(both)
        unit = ops.eye(shape[-1], batch_shape=shape[:-2], dtype=both.dtype)
        return lu_solve(both, order, unit)


def lu_reconstruct(
    lower_upper: TensorLike,
    perm: TensorLike,
    validate_args: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the matrix of which `lu` gave the factors.

    The arguments are those of `lu_solve`.
    """
    with name_scope(name or "lu_reconstruct"):
        both, order, checks = _factors(lower_upper, perm, validate_args)
        with control_dependencies(checks):
            both, order = ops.identity(both), ops.identity(order)
        product = ops.matmul(_lower(both), linalg.band_part(both, num_lower=0, num_upper=-1))
        if both.shape.rank == 2:
            found = ops.gather(product, ops.invert_permutation(order))
        else:
            found = _permuted(product, nn.top_k(-order, ops.shape(order)[-1])[1])
        found.set_shape(both.shape)
        return found


Approximants = tuple[float, tuple[int, ...], tuple[float, ...]]
# dtype -> (largest norm of the last degree, degrees, norms up to which the others are exact)
# Source: Higham 2005, "The scaling and squaring method for the matrix exponential revisited".
_SINGLE: Approximants = (3.925724783138660, (3, 5, 7), (4.258730016922831e-1, 1.880152677804762))
_DOUBLE: Approximants = (
    5.371920351148152,
    (3, 5, 7, 9, 13),
    (1.495585217958292e-2, 2.539398330063230e-1, 9.504178996162932e-1, 2.097847961257068),
)


def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the exponentials of matrices [..., n, n].

    By Pade approximants of rising degree, the last with scaling and squaring. A batch with a matrix
    that is not finite gives NaN. Raises ValueError for dtypes without approximants.
    """
    with name_scope(name, "matrix_exponential", [input]):
        given = convert_to_tensor(input, name="input")
        if given.shape_tuple is not None and given.shape_tuple[-2:] == (0, 0):
            return given
        kind = given.dtype
        if kind in (dtypes.float16, dtypes.float32, dtypes.complex64):
            chosen = _SINGLE
        elif kind in (dtypes.float64, dtypes.complex128):
            chosen = _DOUBLE
        else:
            raise ValueError(f"tf.linalg.expm does not support matrices of type {kind}")
        largest, degrees, bounds = chosen
        shape = ops.shape(given)
        matrix = ops.reshape(given, ops.concat([[-1], shape[-2:]], axis=0))
        norm = ops.reduce_max(ops.reduce_sum(ops.abs(matrix), axis=-2), axis=-1)[:, None, None]
        halvings = ops.floor(ops.log(norm / largest) / math.log(2.0))
        halvings = ops.maximum(halvings, ops.zeros_like(halvings))
        scaled = matrix / ops.cast(ops.pow(ops.constant(2.0, norm.dtype), halvings), kind)
        odd, even = _pade(scaled, degrees[-1])
        for degree, bound in reversed(list(zip(degrees, bounds, strict=False))):
            small = ops.less(norm, ops.constant(bound, norm.dtype))
            parts = _pade(matrix, degree)
            odd, even = (
                ops.raw_ops.SelectV2(condition=small, t=part, e=other)
                for part, other in zip(parts, (odd, even), strict=True)
            )
        finite = ops.is_finite(ops.reduce_max(norm))
        result = ops.cond(
            finite,
            lambda: linalg.solve(even - odd, even + odd),
            lambda: ops.fill(ops.shape(matrix), ops.cast(math.nan, kind)),
        )
        count = ops.cond(
            finite, lambda: ops.reduce_max(halvings), lambda: ops.constant(0.0, norm.dtype)
        )

        def squared(i: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            chosen = ops.raw_ops.SelectV2(condition=ops.less(i, halvings), t=ops.matmul(x, x), e=x)
            return i + 1, chosen

        start = ops.constant(0.0, norm.dtype)
        _, result = ops.while_loop(lambda i, _: ops.less(i, count), squared, [start, result])
        whole = ops.reshape(result, shape)
        whole.set_shape(given.shape)
        return whole


def _pade(matrix: Tensor, degree: int) -> tuple[Tensor, Tensor]:
    """Return (odd, even) parts of a Pade approximant's numerator.

    It approximates the exponential. The coefficient of power k is (2 n - k)! / (k! (n - k)!) for
    the degree n, by that of power n.
    """
    factorial = math.factorial
    weights = [
        factorial(2 * degree - k) / (factorial(k) * factorial(degree - k))
        for k in range(degree + 1)
    ]
    weights = [weight / weights[degree] for weight in weights]
    shape = ops.shape(matrix)
    unit = ops.eye(shape[-2], batch_shape=shape[:-2], dtype=matrix.dtype)
    square = ops.matmul(matrix, matrix)
    powers = [unit, square]
    while len(powers) <= degree // 2:
        powers.append(ops.matmul(powers[-1], square))
    even, odd = (
        ops.add_n(
            [
                ops.constant(weights[2 * k + first], matrix.dtype) * power
                for k, power in enumerate(powers)
            ]
        )
        for first in (0, 1)
    )
    return ops.matmul(matrix, odd), even
