"""Write nodes of the set of generic kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.registry import NodeSpec, TensorSpec

Input = TensorSpec | np.ndarray
Shape = tuple[int, ...]


def tensor(dtype: DType, *shape: int) -> TensorSpec:
    """Return a tensor's dtype and shape."""
    return TensorSpec(dtype, shape)


def integers(*values: int, dtype: DType = d.int32) -> np.ndarray:
    """Return a vector of axes or sizes that is known while planning."""
    return np.array(values, dtype.as_numpy_dtype)


def scalar(value: float, dtype: DType = d.int32) -> np.ndarray:
    """Return a scalar that is known while planning."""
    return np.array(value, dtype.as_numpy_dtype)


def node(
    op: str, inputs: Sequence[Input], outputs: Sequence[TensorSpec], **attrs: object
) -> NodeSpec:
    """Return a node; inputs that are arrays are known while planning."""
    known = {k: x for k, x in enumerate(inputs) if isinstance(x, np.ndarray)}
    described = tuple(
        TensorSpec(d.as_dtype(x.dtype), x.shape) if isinstance(x, np.ndarray) else x for x in inputs
    )
    return NodeSpec(op.lower(), op, attrs, described, tuple(outputs), known)
