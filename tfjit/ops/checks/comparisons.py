"""Present checks of elements: relations to another tensor or zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.ops.arithmetic import elementwise_functions as elementwise
from tfjit.ops.arithmetic.reduction import reduce_all
from tfjit.ops.control_flow.conditionals import Assert
from tfjit.ops.control_flow.control_flow import no_op
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import elementwise_assertion

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class _Relation(NamedTuple):
    """A relation of elements: sign, function of nodes, NumPy function."""

    sign: str
    scope: str
    nodes: Callable[..., Tensor]
    known: np.ufunc


_EQUAL: Final = _Relation("==", "assert_equal", elementwise.equal, np.equal)
_NOT_EQUAL: Final = _Relation("!=", "assert_none_equal", elementwise.not_equal, np.not_equal)
_LESS: Final = _Relation("<", "assert_less", elementwise.less, np.less)
_LESS_EQUAL: Final = _Relation("<=", "assert_less_equal", elementwise.less_equal, np.less_equal)
_GREATER: Final = _Relation(">", "assert_greater", elementwise.greater, np.greater)
_GREATER_EQUAL: Final = _Relation(
    ">=", "assert_greater_equal", elementwise.greater_equal, np.greater_equal
)


def message_prefix(message: str | None) -> str:
    """Return a message as the beginning of a sentence; empty without one."""
    return f"{message}.  " if message else ""


def _text(part: object) -> str:
    """Return a part of a message, of a tensor its known value."""
    if not isinstance(part, Tensor):
        return str(part)
    value = constant_value(part)
    return str(part if value is None else value)


def _check(
    relation: _Relation,
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    """Return the operation that checks a relation of all elements.

    Raises InvalidArgumentError at once where both values are known.
    """
    with name_scope(name, relation.scope, [x, y, data]):
        x, y = convert_to_tensor(x, name="x"), convert_to_tensor(y, name="y")
        parts: list[TensorLike] = list(data) if data is not None else []
        if data is None:
            parts = [f"Condition x {relation.sign} y did not hold element-wise:"]
            for letter, value in (("x", x), ("y", y)):
                parts += [f"{letter} ({value.name}) = ", value]
        if message is not None:
            parts.insert(0, message)
        condition = reduce_all(relation.nodes(x, y))
        known = constant_value(x), constant_value(y)
        if known[0] is not None and known[1] is not None and not np.all(relation.known(*known)):
            raise InvalidArgumentError(None, None, "\n".join(_text(part) for part in parts))
        return Assert(condition, parts, summarize=summarize)


@elementwise_assertion
def assert_equal(
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Return an operation that checks x == y for all elements.

    x, y: tensors of one dtype that can be broadcast. data: shown by the error, by default the
    tensors. message: stands before it. Raises InvalidArgumentError, at once for known values, else
    in a run.
    """
    with name_scope(name, _EQUAL.scope, [x, y, data]):
        if x is y:
            return no_op()
    return _check(_EQUAL, x, y, data, summarize, message, name)


@elementwise_assertion
def assert_none_equal(
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x != y for all elements; see `assert_equal`."""
    return _check(_NOT_EQUAL, x, y, data, summarize, message, name)


@elementwise_assertion
def assert_less(
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x < y for all elements; see `assert_equal`."""
    return _check(_LESS, x, y, data, summarize, message, name)


@elementwise_assertion
def assert_less_equal(
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x <= y for all elements; see `assert_equal`."""
    return _check(_LESS_EQUAL, x, y, data, summarize, message, name)


@elementwise_assertion
def assert_greater(
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x > y for all elements; see `assert_equal`."""
    return _check(_GREATER, x, y, data, summarize, message, name)


@elementwise_assertion
def assert_greater_equal(
    x: TensorLike,
    y: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x >= y for all elements; see `assert_equal`."""
    return _check(_GREATER_EQUAL, x, y, data, summarize, message, name)


@elementwise_assertion
def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: TensorLike | None = None,
    atol: TensorLike | None = None,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check that x and y are near, in a run.

    |x - y| < atol + rtol * |y| holds for all elements. x, y: float or complex. rtol, atol: ten
    times the dtype's epsilon by default. Raises InvalidArgumentError in a run.
    """
    with name_scope(name, "assert_near", [x, y, rtol, atol, data]):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, name="y", dtype=x.dtype)
        real = x.dtype.real_dtype if x.dtype.is_complex else x.dtype
        eps = np.finfo(real.as_numpy_dtype).eps
        limits = {"rtol": rtol, "atol": atol}
        near, least = (
            convert_to_tensor(10 * eps if given is None else given, name=which, dtype=real)
            for which, given in limits.items()
        )
        if data is None:
            data = [
                message_prefix(message),
                f"x and y not equal to tolerance rtol = {near}, atol = {least}",
                f"x ({x.name}) = ",
                x,
                f"y ({y.name}) = ",
                y,
            ]
        allowed = least + near * elementwise.abs(y)
        found = elementwise.abs(x - y)
        return Assert(reduce_all(elementwise.less(found, allowed)), data, summarize=summarize)


def _check_sign(
    sign: str,
    scope: str,
    x: TensorLike,
    data: Sequence[TensorLike] | None,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    """Return the operation that checks a relation to zero."""
    with name_scope(name, scope, [x, data]):
        x = convert_to_tensor(x, name="x")
        if data is None:
            texts = [f"Condition x {sign} 0 did not hold element-wise:", f"x ({x.name}) = "]
            if sign == "<=":  # one text in TensorFlow, with one constant node
                texts = ["".join(texts)]
            data = [message_prefix(message), *texts, x]
        zero = convert_to_tensor(0, dtype=x.dtype)
        low, high = (zero, x) if sign in (">", ">=") else (x, zero)
        relation = _LESS if sign in ("<", ">") else _LESS_EQUAL
        return _check(relation, low, high, data, summarize, None, None)


def assert_negative(
    x: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x < 0 for all elements; see `assert_equal`."""
    return _check_sign("<", "assert_negative", x, data, summarize, message, name)


def assert_positive(
    x: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x > 0 for all elements; see `assert_equal`."""
    return _check_sign(">", "assert_positive", x, data, summarize, message, name)


def assert_non_negative(
    x: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x >= 0 for all elements; see `assert_equal`."""
    return _check_sign(">=", "assert_non_negative", x, data, summarize, message, name)


def assert_non_positive(
    x: TensorLike,
    data: Sequence[TensorLike] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """Check x <= 0 for all elements; see `assert_equal`."""
    return _check_sign("<=", "assert_non_positive", x, data, summarize, message, name)
