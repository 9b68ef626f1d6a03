"""Tensors that a session keeps between runs, by handle.

GetSessionHandle makes the handle "node;id;device".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A kept value.

    dtype: of the original tensor; value: a read-only array, a device tensor, or another edge value
    (a resource, a variant).
    """

    dtype: DType
    value: Any


class TensorStore:
    """The kept tensors of a session.

    Thread-safe: each change is one operation of a dictionary.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, StoredTensor] = {}
        self._ids = itertools.count()

    def __len__(self) -> int:
        return len(self._tensors)

    def add(self, node: str, device: str, dtype: DType, value: Any) -> str:
        """Keep a value, arrays as a copy, and return its handle."""
        if isinstance(value, (np.ndarray, np.generic)):
            value = np.array(value, order="C")
            value.flags.writeable = False  # a fetch of it gets a copy
        handle = f"{node};{next(self._ids)};{device}"
        self._tensors[handle] = StoredTensor(dtype, value)
        return handle

    def get(self, handle: str) -> StoredTensor:
        """Return the kept tensor. Raises InvalidArgumentError when there is none."""
        found = self._tensors.get(handle)
        if found is None:
            raise errors.InvalidArgumentError(
                None, None, f"The tensor with handle '{handle}' is not in the session store."
            )
        return found

    def delete(self, handle: str) -> None:
        """Drop a tensor. Raises InvalidArgumentError when there is none."""
        if self._tensors.pop(handle, None) is None:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Failed to delete a tensor with handle '{handle}' in the session store.",
            )

    def discard(self, handles: Iterable[str]) -> None:
        """Drop these tensors; unknown handles are ignored."""
        for handle in handles:
            self._tensors.pop(handle, None)

    def clear(self) -> None:
        """Drop all tensors at the end of the session."""
        self._tensors.clear()
