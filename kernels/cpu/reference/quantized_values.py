"""Convert between quantised arrays and their integers, for every family's references.

A quantised array has a structured dtype of one field, as TensorFlow's do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import invalid

Array = np.ndarray
f32, f64 = np.float32, np.float64


def levels(value: Array) -> Array:
    """Return the integers of a quantised array.

    An array that is not quantised is returned as it is.
    """
    names = value.dtype.names
    return np.asarray(value[names[0]]) if names else value


def quantized(values: Array, dtype: Any) -> Array:
    """Return integers within the range of a quantised dtype as that dtype."""
    kind = np.dtype(dtype)
    whole = np.asarray(values, order="C")
    return (
        whole.astype(kind[0]).view(kind).reshape(whole.shape) if kind.names else whole.astype(kind)
    )


def integer(dtype: Any) -> Any:
    """Return the limits of a quantised dtype's integers: .min, .max, .bits."""
    kind = np.dtype(dtype)
    return np.iinfo(kind[0] if kind.names else kind)


def scalar(value: Array, name: str) -> Any:
    """Return the value of a scalar input.

    Raises InvalidArgumentError for any other shape.
    """
    if value.ndim:
        invalid(f"`{name}` must be rank 0 but is rank {value.ndim}")
    return f32(value[()])
