"""Present checks of ranks, known ones and those of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic import elementwise_functions as elementwise
from tfjit.ops.arrays.array import rank as rank_of
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.checks.comparisons import message_prefix
from tfjit.ops.checks.kinds import assert_type
from tfjit.ops.control_flow.conditionals import Assert
from tfjit.ops.control_flow.control_flow import no_op, with_dependencies
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.sparse_values import is_sparse

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, TensorLike


class _Refused(Exception):
    """A known rank that is none of those allowed."""


def _check(
    x: DenseOrSparse,
    ranks: Sequence[Tensor],
    holds: Callable[..., bool],
    holds_in_run: Callable[[Tensor], Tensor],
    data: Sequence[TensorLike],
    summarize: int | None,
) -> Operation:
    """Return the operation that checks a tensor's rank.

    Raises _Refused for a known rank, ValueError for allowed ranks that are no scalars.
    """
    for one in ranks:
        assert_type(one, dtypes.int32)
    known = [constant_value(one) for one in ranks]
    if all(value is not None for value in known):
        if any(value.ndim != 0 for value in known if value is not None):
            raise ValueError("Rank must be a scalar.")
        if (own := x.get_shape().rank) is not None:
            if not holds(own, [int(value) for value in known if value is not None]):
                raise _Refused
            return no_op(name="static_checks_determined_all_ok")
    condition = holds_in_run(rank_of(x))
    for one, value in zip(ranks, known, strict=True):
        if value is None:
            scalar = assert_rank(one, 0, data=["Rank must be a scalar. Received rank: ", one])
            condition = with_dependencies([scalar], condition)
    return Assert(condition, data, summarize=summarize)


def _tensor_and_name(x: TensorLike) -> tuple[DenseOrSparse, str]:
    """Return a tensor and its name; a sparse one has none."""
    if is_sparse(x):
        return x, ""
    made = convert_to_tensor(x, name="x")
    return made, made.name


def _static_text(x: DenseOrSparse, message: str, name: str, allowed: str) -> str:
    """Return the text of the error for a known rank."""
    shape = x.get_shape()
    found = f"Received rank {shape.rank}, shape {shape}"
    return f"{message}Tensor {name} must have rank {allowed}.  {found}"


def _check_one(
    x: TensorLike,
    rank: TensorLike,
    at_least: bool,
    data: Sequence[TensorLike] | None,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    """Return the operation that checks a rank against one number."""
    words = "at least " if at_least else ""
    relation = elementwise.greater_equal if at_least else elementwise.equal
    scope = "assert_rank_at_least" if at_least else "assert_rank"
    with name_scope(name, scope, [x, rank, *(data or ())]):
        x, own_name = _tensor_and_name(x)
        wanted = convert_to_tensor(rank, name="rank")
        prefix = message_prefix(message)
        if data is None:
            text = f"Tensor {own_name} must have rank {words}".rstrip()
            data = [prefix, text, wanted, "Received shape: ", shape_of(x)]
        try:
            return _check(
                x,
                [wanted],
                lambda own, allowed: own >= allowed[0] if at_least else own == allowed[0],
                lambda own: relation(own, wanted),
                data,
                summarize,
            )
        except _Refused:
            limit = f"{words}{constant_value(wanted)}"
            raise ValueError(_static_text(x, prefix, own_name, limit)) from None


def assert_rank(
    x: TensorLike,
    rank: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that checks the rank of a tensor.

    x: a tensor or sparse tensor. rank: an int32 scalar. data: shown by the error, by default the
    rank and the shape. Raises ValueError for a known rank that differs; a run raises
    InvalidArgumentError.
    """
    return _check_one(x, rank, False, data, summarize, message, name)


def assert_rank_at_least(
    x: TensorLike,
    rank: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check the least rank of a tensor; see `assert_rank`."""
    return _check_one(x, rank, True, data, summarize, message, name)


def _equals_any(own: Tensor, ranks: Sequence[Tensor]) -> Tensor:
    """Return whether a rank is one of several."""
    if not ranks:
        return convert_to_tensor(False)
    found = elementwise.equal(ranks[0], own)
    for one in ranks[1:]:
        found = elementwise.logical_or(found, elementwise.equal(one, own))
    return found


def assert_rank_in(
    x: TensorLike,
    ranks: Sequence[TensorLike],
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check that a rank is one of several; see `assert_rank`."""
    with name_scope(name, "assert_rank_in", [x, *ranks, *(data or ())]):
        x, own_name = _tensor_and_name(x)
        wanted = [convert_to_tensor(one, name="rank") for one in ranks]
        prefix = message_prefix(message)
        if data is None:
            text = f"Tensor {own_name} must have rank in"
            data = [prefix, text, *wanted, "Received shape: ", shape_of(x)]
        try:
            return _check(
                x,
                wanted,
                lambda own, allowed: own in allowed,
                lambda own: _equals_any(own, wanted),
                data,
                summarize,
            )
        except _Refused:
            known = tuple(
                int(value) for one in wanted if (value := constant_value(one)) is not None
            )
            raise ValueError(_static_text(x, prefix, own_name, f"in {known}")) from None


def assert_scalar(
    tensor: TensorLike, name: str | None = None, message: str | None = None
) -> Tensor:
    """Return a tensor that is known to be a scalar.

    Raises ValueError for any other.
    """
    with name_scope(name, "assert_scalar", [tensor]) as scope:
        made = convert_to_tensor(tensor, name=scope)
        if made.shape.rank != 0:
            raise ValueError(
                f"{message_prefix(message)}Expected scalar shape for {made.name}, saw shape: "
                f"{made.shape}."
            )
        return made
