"""Name the parts of CUDA's intrinsics, and call functions of NVVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext as Context
from numba.core.typing.templates import Signature

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
GLOBAL: Final = 1
"""The address space of global memory."""

Type = types.Type
Values = Sequence[ir.Value]
Emit = Callable[[Context, ir.IRBuilder, object, Values], ir.Value]
Typed = tuple[Signature, Emit] | None
"""Signature and emitter of an intrinsic; None for other types."""


def call(builder: ir.IRBuilder, result: ir.Type, name: str, args: list[ir.Value]) -> ir.Value:
    """Emit the call of a function of NVVM; declare it once."""
    kind = ir.FunctionType(result, [a.type for a in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


__all__ = [
    "F32", "F64", "GLOBAL", "I1", "I8", "I16", "I32", "I64", "Context", "Emit", "Type", "Typed",
    "Values", "call",
]  # fmt: skip
