"""Describe the elementwise part of a fused kernel.

Every template shares this form (loop, reduction, rows, epilogue).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One elementwise op on scalars.

    op: op type with a row in framework.elementwise.TABLE ("AddV2", "Cast", "SelectV2" ...). args:
    value indices: 0..len(inputs)-1 are the program's inputs, then one value an op, in order. dtype:
    dtype of the result. attrs: (name, value) pairs the row's expression needs (alpha of LeakyRelu).
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    attrs: tuple[tuple[str, Hashable], ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """Hold elementwise ops in execution order.

    inputs: dtype of each input value; outputs: value indices.
    """

    inputs: tuple[DType, ...]
    ops: tuple[ScalarOp, ...]
    outputs: tuple[int, ...]
