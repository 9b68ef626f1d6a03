"""`tfjit.compat.v1` is tfjit itself; conversions of strings and sizes.

It serves programs that say `import tensorflow.compat.v1 as tf`.
"""

from __future__ import annotations

import numbers
import os
import sys
from typing import Any, Final

import numpy as np

import tfjit as v1
from tfjit.framework.types.dimension import dimension_value as dimension_value
from tfjit.framework.types.shape import dimension_at_index as dimension_at_index

bytes_or_text_types: Final = (bytes, str)
integral_types: Final = (numbers.Integral, np.integer)
real_types: Final = (numbers.Real, np.integer, np.floating)
complex_types: Final = (numbers.Complex, np.number)

# So that `import tfjit.compat.v1 as tf` finds it.
sys.modules[__name__ + ".v1"] = v1


def as_bytes(bytes_or_text: str | bytes | bytearray, encoding: str = "utf-8") -> bytes:
    """Return text as bytes. Raises TypeError for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: str | bytes, encoding: str = "utf-8") -> str:
    """Return the bytes as text. Raises TypeError for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Return any value as text."""
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return a path object as text; text stays."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path
