"""Read the fields of requests, which any peer may have filled."""

from __future__ import annotations

import math
from typing import Any, Final

from tfjit.distributed.protocol.tensors import from_proto
from tfjit.framework import errors
from tfjit.framework.types import dtypes

_MOST_PADDED: Final = 1 << 30
"""The bytes that a message may claim without containing them."""


def given(request: Any, field: str) -> Any:
    """Return the message in a field, None if not set."""
    return getattr(request, field) if request.HasField(field) else None


def value_of(proto: Any) -> Any:
    """Return the value of a TensorProto.

    Raises InvalidArgumentError for a shape that the contents do not fit, and for a large one whose
    contents are missing: a few bytes must not take the server's memory.
    """
    if not proto.tensor_content:
        sizes = [dim.size for dim in proto.tensor_shape.dim]
        claimed = math.prod(sizes) * _element_bytes(proto.dtype)
        if math.prod(size for size in sizes if size) >= 1 << 60:
            raise errors.InvalidArgumentError(
                None, None, f"A tensor in a request has a shape with too many elements: {sizes}"
            )
        if claimed > _MOST_PADDED and claimed > 16 * proto.ByteSize():
            raise errors.InvalidArgumentError(
                None,
                None,
                f"A tensor in a request claims {claimed} bytes, but its message has "
                f"{proto.ByteSize()}.",
            )
    return from_proto(proto)


def _element_bytes(number: int) -> int:
    """Return the bytes of an element, a string's pointer included."""
    try:
        return max(dtypes.as_dtype(number).size or 0, 8 if number == _STRING else 1)
    except TypeError:
        return 1


_STRING: Final = dtypes.string.as_datatype_enum
