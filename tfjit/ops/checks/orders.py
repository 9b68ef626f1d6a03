"""Present checks of the order of a tensor's elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic import elementwise_functions as elementwise
from tfjit.ops.arithmetic.reduction import reduce_all
from tfjit.ops.arrays.array import reshape, shape, size
from tfjit.ops.arrays.slicing import strided_slice
from tfjit.ops.checks.kinds import is_numeric_tensor
from tfjit.ops.control_flow.conditionals import cond
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _neighbours(x: TensorLike, relation: Callable[..., Tensor]) -> Tensor:
    """Return the relation of each element to the one before it."""
    row = reshape(x, [-1])
    if not is_numeric_tensor(row):
        raise TypeError(f"Expected x to be numeric, instead found: {row}")
    short = elementwise.less(size(row), 2)
    last = shape(row) - 1
    found = cond(
        short,
        lambda: convert_to_tensor([], dtype=dtypes.bool),
        lambda: relation(strided_slice(row, [1], [1] + last), strided_slice(row, [0], last)),
    )
    assert isinstance(found, Tensor)
    return found


def is_non_decreasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Return whether no element is below the one before it.

    x: numbers of any shape, in the order of rows. Raises TypeError for other dtypes.
    """
    with name_scope(name, "is_non_decreasing", [x]):
        return reduce_all(_neighbours(x, elementwise.greater_equal))


def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Return whether each element is above the one before it.

    x: numbers of any shape, in the order of rows. Raises TypeError for other dtypes.
    """
    with name_scope(name, "is_strictly_increasing", [x]):
        return reduce_all(_neighbours(x, elementwise.greater))
