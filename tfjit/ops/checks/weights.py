"""Present the rule by which weights are broadcast to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.ops.arithmetic.elementwise_functions import equal, multiply
from tfjit.ops.arrays.array import expand_dims, rank, shape, size
from tfjit.ops.arrays.creation import ones_like
from tfjit.ops.arrays.movement_functions import concat
from tfjit.ops.control_flow.conditionals import Assert, cond
from tfjit.ops.control_flow.control_flow import no_op
from tfjit.ops.core.apply import call
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure, TensorLike

_TEXT: Final = "weights can not be broadcast to values."


class _Sizes:
    """A tensor with its shape and rank, as tensors and known."""

    def __init__(self, given: TensorLike, name: str) -> None:
        with name_scope(None, name, [given]) as scope:
            self.tensor = convert_to_tensor(given, name=scope)
            self.shape = shape(self.tensor, name="shape")
            self.rank = rank(self.tensor, name="rank")
        self.known_rank = self.tensor.shape.rank
        self.known_shape = constant_value(self.shape)


def assert_broadcastable(weights: TensorLike, values: TensorLike) -> Operation:
    """Return an operation that checks that weights fit values.

    weights: a scalar, or of the values' rank, with sizes that are 1 or the values' ones. Raises
    ValueError for known shapes that don't fit; a run raises InvalidArgumentError for others.
    """
    with name_scope(None, "assert_broadcastable", [weights, values]) as scope:
        own, wanted = _Sizes(weights, "weights"), _Sizes(values, "values")
        if own.known_rank is not None and wanted.known_rank is not None:
            if own.known_rank == 0:
                return no_op(name="static_scalar_check_success")
            if _known_to_fit(own, wanted):
                return no_op(name="static_dims_check_success")
        is_scalar = equal(0, own.rank, name="is_scalar")
        data: list[TensorLike] = [_TEXT, "weights.shape=", own.tensor.name, own.shape]
        data += ["values.shape=", wanted.tensor.name, wanted.shape, "is_scalar=", is_scalar]
        fits = cond(is_scalar, lambda: is_scalar, lambda: _fit(own, wanted), name="is_valid_shape")
        return Assert(fits, data, name=scope)


def _known_to_fit(own: _Sizes, wanted: _Sizes) -> bool:
    """Return whether weights are known to fit.

    Raises ValueError where they are known not to.
    """
    tensors = f"Received weights={own.tensor}, values={wanted.tensor}"
    if own.known_rank != wanted.known_rank:
        raise ValueError(
            f"{_TEXT} values.rank={wanted.known_rank}. weights.rank={own.known_rank}. "
            f"values.shape={wanted.tensor.shape}. weights.shape={own.tensor.shape}. {tensors}"
        )
    if own.known_shape is None or wanted.known_shape is None:
        return False
    for axis, (mine, theirs) in enumerate(zip(own.known_shape, wanted.known_shape, strict=True)):
        if mine not in (1, theirs):
            raise ValueError(
                f"{_TEXT} Mismatch at dim {axis}. values.shape={wanted.known_shape}, "
                f"weights.shape={own.known_shape}. {tensors}"
            )
    return True


def _fit(own: _Sizes, wanted: _Sizes) -> Structure:
    """Return whether weights that are no scalar fit, in a run."""
    ends = [own.rank, own.shape, wanted.rank, wanted.shape]
    with name_scope(None, "has_valid_nonscalar_shape", ends) as scope:
        same = equal(wanted.rank, own.rank, name="is_same_rank")
        return cond(same, lambda: _sizes_fit(own.shape, wanted.shape), lambda: same, name=scope)


def _sizes_fit(own: Tensor, wanted: Tensor) -> Tensor:
    """Return whether each size is 1 or the wanted one.

    Each row of a set operation holds one axis: its size less the sizes that it may have.
    """
    with name_scope(None, "has_invalid_dims", [own, wanted]) as scope:
        column = expand_dims(wanted, -1)
        allowed = concat([column, ones_like(column)], axis=1)
        wrong = call(
            "DenseToDenseSetOperation",
            None,
            set1=expand_dims(own, -1),
            set2=allowed,
            set_operation="a-b",
            validate_indices=True,
        )
        return equal(0, size(wrong.result_values, name="num_invalid_dims"), name=scope)


def broadcast_weights(weights: TensorLike, values: TensorLike) -> Tensor:
    """Return weights in the shape of values.

    Raises as `assert_broadcastable` does.
    """
    with name_scope(None, "broadcast_weights", [weights, values]) as scope:
        values = convert_to_tensor(values, name="values")
        weights = convert_to_tensor(weights, dtype=values.dtype.base_dtype, name="weights")
        shapes = weights.shape, values.shape
        if all(s.is_fully_defined() for s in shapes) and shapes[0].is_compatible_with(shapes[1]):
            return weights
        with control_dependencies([assert_broadcastable(weights, values)]):
            return multiply(weights, ones_like(values), name=scope)
