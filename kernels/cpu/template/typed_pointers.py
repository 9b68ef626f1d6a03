"""Write pointers to elements: the memory layout of each dtype."""

from __future__ import annotations

from typing import Final

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.registry import Unsupported

# element type of the pointers in kernels/codegen/intrinsics.py, by the name of the Numba type in
# memory
_POINTERS: Final = {
    "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")},
}  # fmt: skip

# Plain words of a size, for kernels that move elements of any dtype.
_RAW: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}


def pointer(dtype: DType, address: str) -> str:
    """Return the text of a typed pointer to an address.

    Raises Unsupported for a type that kernels do not hold.
    """
    return f"ptr_{_POINTERS[expressions.memory_type(dtype)]}({address})"


def register_pointer(name: str, address: str) -> str:
    """Return the text of a pointer to values of a register type.

    name: of the Numba type.
    """
    return f"ptr_{'b8' if name == 'boolean' else _POINTERS[name]}({address})"


def raw_pointer(size: int, address: str) -> str:
    """Return the text of a pointer to elements that are only moved.

    size: their bytes. Raises Unsupported for other sizes.
    """
    if size not in _RAW:
        raise Unsupported(f"elements of {size} bytes")
    return f"ptr_{_RAW[size]}({address})"


def is_supported(dtype: DType) -> bool:
    """Return whether kernels can load and store this dtype."""
    return expressions.has_register_type(dtype)
