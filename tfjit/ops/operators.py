"""Define the operators of Tensor.

`==` and `!=` are identity, as in TensorFlow 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic import elementwise_functions as e
from tfjit.ops.arithmetic.matrix_product import matmul
from tfjit.ops.arrays.slicing import slice_helper
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

Binary = Callable[..., Tensor]


def _add(x: Tensor, y: TensorLike, name: str) -> Tensor:
    return tensor("Add" if x.dtype.base_dtype is dtypes.string else "AddV2", name, x=x, y=y)


def _op(op_type: str) -> Binary:
    def apply(x: Tensor, y: TensorLike, name: str) -> Tensor:
        return tensor(op_type, name, x=x, y=y)

    return apply


def _logical(logical_op: str, bitwise_op: str) -> Binary:
    def apply(x: Tensor, y: TensorLike, name: str) -> Tensor:
        if x.dtype.base_dtype is dtypes.bool:
            return tensor(logical_op, name, x=x, y=y)
        return tensor(bitwise_op, None, x=x, y=y)  # inside the operator's scope: "and/BitwiseAnd"

    return apply


def _matmul(x: Tensor, y: TensorLike, name: str) -> Tensor:
    return matmul(x, y, name=name)


def _truediv(x: Tensor, y: TensorLike, name: str) -> Tensor:
    return e.truediv(x, y, name=name)


def _xor(x: Tensor, y: TensorLike, name: str) -> Tensor:
    return (
        e.logical_xor(x, y, name=name)
        if x.dtype.base_dtype is dtypes.bool
        else tensor("BitwiseXor", None, x=x, y=y)
    )


# operator -> (name of its nodes, function)
_BINARY: dict[str, tuple[str, Binary]] = {
    "add": ("add", _add),
    "sub": ("sub", _op("Sub")),
    "mul": ("mul", _op("Mul")),
    "truediv": ("truediv", _truediv),
    "div": ("div", e.div),
    "floordiv": ("floordiv", _op("FloorDiv")),
    "mod": ("mod", _op("FloorMod")),
    "pow": ("pow", _op("Pow")),
    "matmul": ("matmul", _matmul),
    "and": ("and", _logical("LogicalAnd", "BitwiseAnd")),
    "or": ("or", _logical("LogicalOr", "BitwiseOr")),
    "xor": ("xor", _xor),
}


def _forward(name: str, function: Binary) -> Callable[[Tensor, Any], Any]:
    def operator(x: Tensor, y: TensorLike) -> Any:
        with name_scope(None, name, [x, y]) as scope:
            try:
                return function(x, y, scope)
            except (TypeError, ValueError):
                # The other operand's class may know how to combine with a tensor.
                if hasattr(type(y), f"__r{name}__") and not isinstance(
                    y, (Tensor, int, float, complex, str, np.ndarray, np.generic)
                ):
                    return NotImplemented
                raise

    return operator


def _reflected(name: str, function: Binary) -> Callable[[Tensor, Any], Any]:
    def operator(y: Tensor, x: TensorLike) -> Any:
        with name_scope(None, name, [x, y]) as scope:
            return function(convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x"), y, scope)

    return operator


def _compare(op_type: str) -> Callable[[Tensor, Any], Tensor]:
    def operator(x: Tensor, y: TensorLike) -> Tensor:
        return tensor(op_type, None, x=x, y=y)

    return operator


def _invert(x: Tensor) -> Tensor:
    return (
        tensor("LogicalNot", None, x=x)
        if x.dtype.base_dtype is dtypes.bool
        else tensor("Invert", None, x=x)
    )


def _negative(x: Tensor) -> Tensor:
    return tensor("Neg", None, x=x)


def _absolute(x: Tensor) -> Tensor:
    return e.abs(x)


def install() -> None:
    """Give Tensor its operators. Done once, when tfjit.ops is imported."""
    for operator, (name, function) in _BINARY.items():
        Tensor._override_operator(f"__{operator}__", _forward(name, function))
        Tensor._override_operator(f"__r{operator}__", _reflected(name, function))
    for operator, op_type in (
        ("lt", "Less"),
        ("le", "LessEqual"),
        ("gt", "Greater"),
        ("ge", "GreaterEqual"),
    ):
        Tensor._override_operator(f"__{operator}__", _compare(op_type))
    Tensor._override_operator("__neg__", _negative)
    Tensor._override_operator("__abs__", _absolute)
    Tensor._override_operator("__invert__", _invert)
    Tensor._override_operator("__getitem__", slice_helper)


install()
