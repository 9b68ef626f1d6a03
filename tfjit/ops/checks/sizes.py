"""Present checks of sizes that several tensors share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.arithmetic.elementwise_functions import equal
from tfjit.ops.arrays.array import rank as rank_of
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.checks.comparisons import message_prefix
from tfjit.ops.checks.ranks import assert_rank, assert_rank_at_least, assert_rank_in
from tfjit.ops.control_flow.conditionals import Assert, cond
from tfjit.ops.control_flow.control_flow import group
from tfjit.ops.core.convert import constant, convert_to_tensor
from tfjit.ops.core.sparse_values import is_sparse

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DenseOrSparse, Structure, TensorLike

_OTHER_AXES: Final = (Ellipsis, "*")
_ANY_SIZE: Final = (None, ".")


class _Constraint(NamedTuple):
    """A tensor, its sizes, and their symbols."""

    tensor: DenseOrSparse
    innermost: bool  # the symbols are of the last axes alone
    sizes: Structure
    symbols: tuple[Hashable, ...]


def _known(size: object) -> bool:
    """Return whether a size or symbol is a number."""
    try:
        int(size)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return False
    return True


def _shown(x: DenseOrSparse) -> str:
    """Return the name of a tensor; of a sparse one, its shape."""
    return f"shape={x.shape} dtype={x.dtype.name}" if is_sparse(x) else x.name


def _sizes(x: DenseOrSparse) -> Structure:
    """Return sizes as numbers or tensors; a scalar has one of 1."""
    own = shape_of(x)
    known = x.get_shape()
    if known.rank is None:
        return cond(equal(rank_of(x), 0), lambda: constant([1]), lambda: own)
    return [own[i] if n is None else n for i, n in enumerate(known.as_list())] or (1,)


def _constraint(x: DenseOrSparse, symbols: Structure, prefix: str) -> _Constraint:
    """Return a tensor's constraint. Raises ValueError for symbols that are malformed."""
    if not (hasattr(symbols, "__iter__") or hasattr(symbols, "__getitem__")):
        raise ValueError(
            f"{prefix}Tensor {_shown(x)}.  Specified shape must be an iterable.  An iterable has "
            f"the attribute `__iter__` or `__getitem__`.  Received specified shape: {symbols}"
        )
    wanted = tuple(symbols)
    places = [i for i, symbol in enumerate(wanted) if symbol in _OTHER_AXES]
    for i in places:
        if i != 0:
            raise ValueError(
                f"{prefix}Tensor {_shown(x)} specified shape index {i}.  Symbol `...` or `*` for a "
                "variable number of unspecified dimensions is only allowed as the first entry"
            )
    return _Constraint(x, bool(places), _sizes(x), wanted[len(places) :] or (1,))


def _rank_check(
    item: _Constraint,
    data: Sequence[TensorLike] | None,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation | None:
    """Return the check of a constraint's rank.

    A scalar counts as a vector of one element.
    """
    rank = len(item.symbols)
    if item.innermost:
        if rank <= 1:
            return None
        return assert_rank_at_least(item.tensor, rank, data, summarize, message, name)
    if rank <= 1:
        return assert_rank_in(item.tensor, [0, 1], data, summarize, message, name)
    return assert_rank(item.tensor, rank, data, summarize, message, name)


class _SizeChecks:
    """Checks of sizes, with the first axis of each symbol."""

    def __init__(
        self,
        after: list[Operation],
        prefix: str,
        data: Sequence[TensorLike] | None,
        summarize: int | None,
    ) -> None:
        self.after = after
        self.prefix = prefix
        self.data = data
        self.summarize = summarize
        self.first: dict[Hashable, tuple[Structure, DenseOrSparse, int]] = {}
        self.operations: list[Operation] = []

    def add(self, item: _Constraint, axis: int, symbol: Hashable) -> None:
        """Check one axis. Raises ValueError for a known size that differs."""
        number = _known(symbol)
        with control_dependencies(self.after):
            found = item.sizes[axis]
        if not number and symbol not in self.first:
            self.first[symbol] = found, item.tensor, axis
            return
        if number:
            wanted, origin = int(symbol), "Specified explicitly"  # type: ignore[call-overload]
        else:
            wanted, other, place = self.first[symbol]
            origin = f"Specified by tensor {_shown(other)} dimension {place}"
        if _known(found) and _known(wanted):
            if int(found) != int(wanted):
                raise ValueError(
                    f"{self.prefix}{origin}.  Tensor {_shown(item.tensor)} dimension {axis} must "
                    f"have size {wanted}.  Received size {found}, shape {item.tensor.get_shape()}"
                )
            return
        same = equal(convert_to_tensor(found), convert_to_tensor(wanted))
        data = self.data
        if data is None:
            data = [self.prefix, origin, f"Tensor {_shown(item.tensor)} dimension", axis]
            data += ["must have size", wanted, "Received shape: ", shape_of(item.tensor)]
        self.operations.append(Assert(same, data, summarize=self.summarize))


def assert_shapes(
    shapes: Mapping[DenseOrSparse, Structure] | Iterable[tuple[DenseOrSparse, Structure]],
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that checks shapes and relations of sizes.

    shapes: pairs of a tensor, dense or sparse, and a sequence with an entry for each axis: a
    number; a symbol (any other value) of one size in all tensors; or None or "." for
    any size. `...` or "*" as the first entry is for any further axes. A scalar counts as one
    axis of size 1. data: shown by the error. Raises ValueError for known shapes that don't fit and
    for malformed entries; a run raises InvalidArgumentError.
    """
    pairs = list(shapes.items() if isinstance(shapes, Mapping) else shapes)
    prefix = message_prefix(message)
    with name_scope(name, "assert_shapes", [x for x, _ in pairs if isinstance(x, Tensor)]):
        tensors = [
            (x if is_sparse(x) else convert_to_tensor(x), symbols)
            for x, symbols in pairs
            if symbols is not None
        ]
        items = [_constraint(x, symbols, prefix) for x, symbols in tensors]
        found = [_rank_check(item, data, summarize, message, name) for item in items]
        ranks = [check for check in found if check is not None]
        checks = _SizeChecks(ranks, prefix, data, summarize)
        for item in items:
            for i, symbol in enumerate(item.symbols):
                if symbol not in _ANY_SIZE:
                    axis = i - len(item.symbols) if item.innermost else i
                    checks.add(item, axis, symbol)
    with control_dependencies(ranks):
        return group(*checks.operations)
