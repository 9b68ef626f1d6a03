"""Parameters of distributions: conversions, checks in a run, seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.ops import nn
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_INTEGERS = {
    dtypes.float16: dtypes.int16,
    dtypes.float32: dtypes.int32,
    dtypes.float64: dtypes.int64,
}


def select(condition: Tensor, yes: TensorLike, no: TensorLike) -> Tensor:
    """Return the elements of one of two tensors, broadcast to one shape."""
    return tensor("SelectV2", None, condition=condition, t=yes, e=no)


def pick_vector(condition: Tensor, yes: TensorLike, no: TensorLike) -> Tensor:
    """Return one of two vectors."""
    with name_scope("pick_vector", values=[condition, yes, no]):
        known = constant_value(condition)
        if known is not None:
            return convert_to_tensor(yes if known else no)
        yes = convert_to_tensor(yes, name="true_vector")
        no = convert_to_tensor(no, name="false_vector")
        length = ops.shape(yes)[0]
        both = ops.concat([yes, no], 0)
        begin = [select(condition, 0, length)]
        return ops.slice(both, begin, [ops.where(condition, length, -1)])


def new_seed(seed: int | None, salt: str) -> int | None:
    """Return the seed of a second op, from the first one's."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def param_shapes(sample_shape: TensorLike, names: Sequence[str]) -> dict[str, Tensor]:
    """Return the sample's shape for each of the names."""
    return dict.fromkeys(names, convert_to_tensor(sample_shape, dtypes.int32))


def positive(value: Tensor, message: str, validates: bool) -> Tensor:
    """Return a value that a run finds to be positive.

    Without `validates` the run does not look at it.
    """
    if not validates:
        return value
    return with_dependencies([ops.assert_positive(value, message=message)], value)


def logits_and_probs(
    logits: TensorLike | None,
    probs: TensorLike | None,
    validates: bool,
    name: str,
    classes: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return log-odds and probabilities, of which one is given.

    classes: whether the last axis is over classes. Raises ValueError for both or none, TypeError
    for values that are no floats.
    """
    with name_scope(name, values=[probs, logits]):
        if (probs is None) == (logits is None):
            raise ValueError("Must pass probs or logits, but not both.")
        if probs is None:
            given = convert_to_tensor(logits, name="logits")
            if not given.dtype.is_floating:
                raise TypeError("logits must having floating type.")
            if not classes:
                return given, ops.sigmoid(given, name="probs")
            given = checked_classes(given) if validates else given
            return given, nn.softmax(given, name="probs")
        given = convert_to_tensor(probs, name="probs")
        if not given.dtype.is_floating:
            raise TypeError("probs must having floating type.")
        if validates:
            given = _checked_probs(given, classes)
        with name_scope("logits"):
            if classes:
                return ops.log(given), given
            return ops.log(given) - ops.log1p(-1.0 * given), given


def _checked_probs(probs: Tensor, classes: bool) -> Tensor:
    with name_scope("validate_probs"):
        one = ops.constant(1.0, probs.dtype)
        checks = [ops.assert_non_negative(probs)]
        if classes:
            probs = checked_classes(probs)
            total = ops.reduce_sum(probs, -1)
            checks.append(ops.assert_near(total, one, message="probs does not sum to 1."))
        else:
            message = "probs has components greater than 1."
            checks.append(ops.assert_less_equal(probs, one, message=message))
        return with_dependencies(checks, probs)


def _largest_integer(dtype: DType) -> int:
    """Return the largest n with all of 0..n in the dtype."""
    if dtype.is_floating:
        return int(2 ** (np.finfo(dtype.as_numpy_dtype).nmant + 1))
    return 1 if dtype.is_bool else int(np.iinfo(dtype.as_numpy_dtype).max)


def checked_classes(value: Tensor) -> Tensor:
    """Return a parameter [..., classes] of two classes or more.

    A run checks the number where it is not known. Raises TypeError for values that are no floats,
    ValueError for another known number or a scalar.
    """
    with name_scope("embed_check_categorical_event_shape", values=[value]):
        value = convert_to_tensor(value, name="categorical_param")
        kind = value.dtype.base_dtype
        if not kind.is_floating:
            raise TypeError(f"Unable to validate size of unrecognized dtype ({kind.name}).")
        few = "A categorical-distribution parameter must have at least 2 events."
        scalar = "A categorical-distribution parameter must have at least 1 dimension."
        try:
            known = value.shape.with_rank_at_least(1)
        except ValueError:
            raise ValueError(scalar) from None
        largest = _largest_integer(kind)
        count = None if known.rank is None else known.as_list()[-1]
        if count is not None:
            if count < 2:
                raise ValueError(few)
            if count > largest:
                raise ValueError(
                    f"Number of classes exceeds `dtype` precision, i.e., {kind.name} implies shape "
                    f"({count}) cannot exceed {largest}."
                )
            return value
        found = ops.shape(value, name="x_shape")[-1]
        many = (
            f"Number of classes exceeds `dtype` precision, i.e., {kind.name} dtype cannot exceed "
            f"{largest} shape."
        )
        checks = [
            ops.assert_rank_at_least(value, 1, message=scalar),
            ops.assert_greater_equal(ops.shape(value)[-1], 2, message=few),
            ops.assert_less_equal(found, largest, message=many),
        ]
        return with_dependencies(checks, value)


def _is_whole(value: Tensor, message: str, integer: DType | None = None) -> Operation:
    """Return the check that a run finds no fractions."""
    with name_scope("assert_integer_form", values=[value]):
        integer = integer or _INTEGERS[value.dtype.base_dtype]
        whole = ops.cast(ops.cast(value, integer), value.dtype)
        made: Operation = ops.assert_equal(
            value, whole, message=message, name="assert_integer_form"
        )
        return made


def whole_number(value: TensorLike) -> Tensor:
    """Return a value that a run finds to be whole, not negative."""
    with name_scope("embed_check_nonnegative_integer_form", values=[value]):
        found = convert_to_tensor(value, name="x")
        checks = [ops.assert_non_negative(found, message=f"'{found}' must be non-negative.")]
        if not found.dtype.is_integer:
            message = f"'{found}' cannot contain fractional components."
            checks.append(_is_whole(found, message))
        return with_dependencies(checks, found)


def whole_number_of(value: TensorLike, dtype: DType) -> Tensor:
    """Return a value that a run finds to fit a dtype.

    The dtype is of integers or bool; the value is not negative.
    """
    with name_scope("embed_check_casting_closed", values=[value]):
        found = convert_to_tensor(value, name="x")
        checks = [ops.assert_non_negative(found, message="Elements must be non-negative.")]
        if found.dtype.is_floating:
            message = f"Elements must be {dtype.name}-equivalent."
            checks.append(_is_whole(found, message, dtype))
        elif _largest_integer(found.dtype) > _largest_integer(dtype):
            largest = _largest_integer(dtype)
            message = f"Elements cannot exceed {largest}."
            checks.append(ops.assert_less_equal(found, largest, message=message))
        return with_dependencies(checks, found)


def log_combinations(total: TensorLike, counts: TensorLike) -> Tensor:
    """Return the logarithm of the number of orders that give counts.

    counts: [..., classes].
    """
    with name_scope("log_combinations", values=[total, counts]):
        total = convert_to_tensor(total, name="n")
        counts = convert_to_tensor(counts, name="counts")
        orders = ops.lgamma(total + 1)
        alike = ops.reduce_sum(ops.lgamma(counts + 1), axis=[-1])
        return orders - alike


def counts_of(total: Tensor, counts: Tensor, message: str, validates: bool) -> Tensor:
    """Return counts that a run finds to be whole, of the total."""
    if not validates:
        return counts
    counts = whole_number(counts)
    check = ops.assert_equal(total, ops.reduce_sum(counts, -1), message=message)
    return with_dependencies([check], counts)
