"""Messages with arrays beside them.

A local connection carries the elements of arrays beside a message, so that they are not copied into
its bytes. In the message, such a TensorProto has dtype and shape, and in `version_number`, which is
0 otherwise, one more than the array's position.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tfjit.distributed.protocol import tensors
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import fill_proto as fill_shape
from tfjit.framework.types.tensors import CONTENT_TYPES

_MIN_BYTES: Final = 64
"""Shorter arrays are part of the message."""


@dataclass(slots=True)
class Parcel:
    """A message and the arrays beside it, each of bytes and contiguous."""

    message: Any
    arrays: list[np.ndarray] = field(default_factory=list)

    def fill(self, proto: Any, value: Any) -> None:
        """Write a value into an empty TensorProto of the message."""
        if isinstance(value, np.ndarray) and value.nbytes >= _MIN_BYTES:
            dtype = dtypes.as_dtype(value.dtype)
            if has_elements_of_bytes(dtype):
                proto.dtype = dtype.as_datatype_enum
                proto.tensor_shape.SetInParent()
                fill_shape(proto.tensor_shape, value.shape)
                self.arrays.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
                proto.version_number = len(self.arrays)
                return
        tensors.fill(proto, value)

    def value(self, proto: Any) -> Any:
        """Return the value of a TensorProto of the message.

        An array from beside the message is a view, which may be written. Raises
        InvalidArgumentError for contents that do not fit.
        """
        position = proto.version_number
        if not position:
            return tensors.from_proto(proto)
        dtype = dtypes.as_dtype(proto.dtype).base_dtype
        shape = tuple(dim.size for dim in proto.tensor_shape.dim)
        if not 0 < position <= len(self.arrays) or min(shape, default=0) < 0:
            raise errors.InvalidArgumentError(None, None, "A tensor is not beside its message.")
        elements = self.arrays[position - 1]
        size = int(np.prod(shape, dtype=object))
        if not has_elements_of_bytes(dtype) or size * dtype.size != elements.nbytes:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"A tensor of {dtype.name} and shape {list(shape)} has {elements.nbytes} bytes.",
            )
        return elements.view(dtype.as_numpy_dtype).reshape(shape)


def has_elements_of_bytes(dtype: DType) -> bool:
    """Return whether arrays of a dtype travel as their bytes."""
    return dtype.is_bool or dtype.as_datatype_enum in CONTENT_TYPES


__all__ = ["Parcel", "has_elements_of_bytes"]
