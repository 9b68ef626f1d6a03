"""Describe matrix products as libraries compute them."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Final, Literal

from tfjit.framework import settings
from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType

ProductEpilogue = Literal["", "relu", "bias", "bias+relu", "gelu", "bias+gelu"]
WORKSPACE_BYTES: Final = 32 << 20
"""The most that a product may use, as NVIDIA recommends for Hopper."""


@functools.cache
def allows_tf32() -> bool:
    """Return whether float32 operands may be rounded for tensor cores.

    Variables: TFJIT_TF32, and NVIDIA_TF32_OVERRIDE=0, which NVIDIA's libraries read too.
    """
    with settings.using(os.environ):
        return settings.flag("TFJIT_TF32") and os.environ.get("NVIDIA_TF32_OVERRIDE") != "0"


@dataclass(frozen=True, slots=True)
class ProductOperand:
    """One operand: matrices by rows, contiguous.

    transposed: the last two axes are stored the other way round. stride: elements between matrices,
    0 for one matrix.
    """

    transposed: bool
    stride: int


@dataclass(frozen=True, slots=True)
class ProductProblem:
    """A batch of products [m, k] x [k, n].

    Results are by rows, one matrix after the other.

    Words: x, y, the bias [n] if the epilogue has one, the added array if there is one, result,
    workspace. dtype: of the operands. result: that of bias, added array and results. Sums are
    float64 for float64, else float32. tf32: float32 operands may be rounded to TF32. adds: an array
    of the result's shape is added before the epilogue.
    """

    dtype: DType
    result: DType
    matrices: int
    m: int
    n: int
    k: int
    x: ProductOperand
    y: ProductOperand
    epilogue: ProductEpilogue = ""
    tf32: bool = False
    adds: bool = False

    @property
    def library(self) -> str:
        """Return "cuBLASLt"."""
        return "cuBLASLt"

    @property
    def has_bias(self) -> bool:
        """Return whether the words have a bias."""
        return self.epilogue.startswith("bias")

    @property
    def computation(self) -> DType:
        """Return the dtype of sums."""
        return d.float64 if self.dtype is d.float64 else d.float32

    @property
    def title(self) -> str:
        """Return "cuBLASLt product 64x32x128 bfloat16+add+bias"."""
        sizes = f"{self.m}x{self.n}x{self.k}"
        if self.matrices > 1:
            sizes = f"{self.matrices} of {sizes}"
        kind = f"{self.dtype.name}{' (TF32)' if self.tf32 else ''}"
        end = ("+add" if self.adds else "") + (f"+{self.epilogue}" if self.epilogue else "")
        return f"cuBLASLt product {sizes} {kind}{end}"


__all__ = ["WORKSPACE_BYTES", "ProductEpilogue", "ProductOperand", "ProductProblem", "allows_tf32"]
