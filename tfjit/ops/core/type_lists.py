"""Allowed-type lists that several op definitions share.

They stand in the order that their OpDefs have them.
"""

from typing import Final

INDEX: Final = "{int32, int64}"
FLOAT: Final = "{bfloat16, half, float, double}"
HALF_TO_DOUBLE: Final = "{half, bfloat16, float, double}"
FLOAT_OR_COMPLEX: Final = "{bfloat16, half, float, double, complex64, complex128}"
INTEGER: Final = "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"
ARITHMETIC: Final = (
    "{bfloat16, half, float, double, uint8, int8, uint16, int16, int32, uint32, "
    "uint64, int64, complex64, complex128}"
)
SIGNED: Final = "{bfloat16, half, float, double, int8, int16, int32, int64, complex64, complex128}"
WIDE_SIGNED: Final = "{bfloat16, half, float, double, int32, int64, complex64, complex128}"
HALF_TO_COMPLEX: Final = "{half, bfloat16, float, double, complex64, complex128}"
