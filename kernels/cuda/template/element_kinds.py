"""Write access to elements of each dtype in texts of CUDA kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.registry import Unsupported

HEADER: Final = (
    "from tfjit.kernels.cuda.template import device_math as vm",
    "from tfjit.kernels.cuda.template.intrinsics import *",
    "",
    "",
)
"""Lines that every text of a kernel begins with, behind its comment."""

VECTOR_BYTES: Final = 16
"""The widest load and store of a thread."""

HOST_ONLY: Final = frozenset({
    "Betainc", "Igamma", "IgammaGradA", "Igammac", "Polygamma", "RandomGammaGrad", "Zeta",
})  # fmt: skip
"""Scalar functions without a device form: they are sums in loops."""

_POINTERS: Final = {
    "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}"
        for bits in (8, 16, 32, 64)
        for sign in ("", "u")
    },
}  # fmt: skip
_RAW: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}


def kind(dtype: DType) -> str:
    """Return the kind of pointers to a dtype in memory. Raises Unsupported."""
    return _POINTERS[expressions.memory_type(dtype)]


def register_kind(dtype: DType) -> str:
    """Return the kind of pointers to register values of a dtype."""
    name = expressions.register_type(dtype)
    return "b8" if name == "boolean" else _POINTERS[name]


def math_suffix(dtype: DType) -> str:
    """Return the suffix of `vm.` functions over register values of a dtype."""
    found = register_kind(dtype)
    return "b" if found == "b8" else found


def raw_kind(size: int) -> str:
    """Return the kind of pointers to elements that are only moved.

    Raises Unsupported for other sizes than 1, 2, 4, 8 and 16 bytes.
    """
    if size not in _RAW:
        raise Unsupported(f"elements of {size} bytes")
    return _RAW[size]


def pointer(dtype: DType, address: str) -> str:
    """Return the text of a typed pointer to an address."""
    return f"ptr_{kind(dtype)}({address})"


def is_supported(dtype: DType) -> bool:
    """Return whether kernels can load and store this dtype."""
    return expressions.has_register_type(dtype)


def widest_vector(dtypes: Sequence[DType]) -> int:
    """Return the elements that a thread moves at a time.

    The widest of the dtypes fills one load of 16 bytes.
    """
    if any(dtype.is_complex for dtype in dtypes):
        return 1
    return max(VECTOR_BYTES // max(dtype.size for dtype in dtypes), 1)
