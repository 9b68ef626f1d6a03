"""Read and write rows by index in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, reference


def _checked(spec: NodeSpec, array: np.ndarray, index: np.ndarray) -> int:
    k = int(index)
    if not 0 <= k < len(array):
        raise InvalidArgumentError(None, None, spec.attrs["message"].decode().format(detail=k))
    return k


@reference("_GetRow")
def _get_row(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    array, index = inputs
    return [np.array(array[_checked(spec, array, index)])]


@reference("_SetRow")
def _set_row(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    array, index, row = inputs
    made = array.copy()
    made[_checked(spec, array, index)] = row
    return [made]
