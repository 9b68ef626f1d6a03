"""The operators of RaggedTensor; `==` and `!=` are identity, as of Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tfjit import ops
from tfjit.client.ragged.getitem import getitem
from tfjit.client.ragged.ragged_tensor import RaggedTensor

# operator -> function; the reflected one has its operands exchanged
_BINARY: dict[str, Callable[..., object]] = {
    "add": ops.add,
    "sub": ops.subtract,
    "mul": ops.multiply,
    "div": ops.div,
    "truediv": ops.truediv,
    "floordiv": ops.floordiv,
    "mod": ops.floormod,
    "pow": ops.pow,
    "and": ops.logical_and,
    "or": ops.logical_or,
    "xor": ops.logical_xor,
}
_OTHER: dict[str, Callable[..., object]] = {
    "ge": ops.greater_equal,
    "gt": ops.greater,
    "le": ops.less_equal,
    "lt": ops.less,
    "neg": ops.negative,
    "abs": ops.abs,
    "invert": ops.logical_not,
    "getitem": getitem,
}


def _method(function: Callable[..., object]) -> Callable[..., object]:
    return lambda *operands: function(*operands)


def _reflected(function: Callable[..., object]) -> Callable[..., object]:
    return lambda y, x: function(x, y)


def _no_bool(ragged: RaggedTensor) -> NoReturn:
    raise TypeError("RaggedTensor may not be used as a boolean.")


def install() -> None:
    """Give RaggedTensor its operators."""
    for name, function in {**_BINARY, **_OTHER}.items():
        setattr(RaggedTensor, f"__{name}__", _method(function))
    for name, function in _BINARY.items():
        setattr(RaggedTensor, f"__r{name}__", _reflected(function))
    RaggedTensor.__bool__ = _no_bool  # type: ignore[attr-defined]


install()
