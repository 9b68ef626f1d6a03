"""Values as TensorProtos, and the bytes of an answer to RecvTensor.

The bytes are those of an ordinary RecvTensorResponse whose tensor comes last, and in it the
elements. So a sender appends the array's memory to a short head, and a receiver takes the elements
as a view of what arrived.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tfjit.distributed.protocol.wire import read_varint, varint
from tfjit.framework import errors
from tfjit.framework.types import dtypes, tensors
from tfjit.framework.types.shape import fill_proto as fill_shape
from tfjit.framework.types.tensors import CONTENT_TYPES, OpaqueTensor
from tfjit.runtime.kernel_api.op_kernel import DEAD

# field numbers and wire types of RecvTensorResponse and TensorProto
_TENSOR: Final = b"\x0a"
_IS_DEAD: Final = b"\x10\x01"
_SEND_START: Final = b"\x18"
_CONTENT: Final = b"\x22"


def to_proto(value: Any) -> Any:
    """Return a value as a TensorProto."""
    from tfjit.protos import TensorProto

    proto = TensorProto()
    fill(proto, value)
    return proto


def fill(proto: Any, value: Any) -> None:
    """Write a value into an empty TensorProto."""
    if not isinstance(value, OpaqueTensor):
        value = tensors.frozen(value if isinstance(value, np.ndarray) else _array(value))
    tensors.fill_proto(proto, value)


def _array(value: Any) -> np.ndarray:
    """Return a scalar of a run's results as an array."""
    return np.array(value, object if isinstance(value, (bytes, str)) else None)


def from_proto(proto: Any) -> Any:
    """Return the value of a TensorProto.

    An array may be a read-only view of its bytes.

    Raises InvalidArgumentError for contents that do not fit the shape.
    """
    return tensors.from_proto(proto)


@functools.lru_cache(maxsize=4096)
def _about(number: int, shape: tuple[int, ...]) -> bytes:
    """Return the bytes of a TensorProto's dtype and shape."""
    from tfjit.protos import TensorProto

    described = TensorProto()
    described.dtype = number  # type: ignore[assignment]  # the stub wants the enum
    described.tensor_shape.SetInParent()
    fill_shape(described.tensor_shape, shape)
    return described.SerializeToString()


def tensor_parts(value: Any) -> list[Any]:
    """Return the bytes of a value's TensorProto in parts.

    An array's elements are a view of it.
    """
    if isinstance(value, np.ndarray) and value.size and value.dtype.isnative:
        number = dtypes.as_dtype(value.dtype).as_datatype_enum
        if number in CONTENT_TYPES:
            elements = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
            return [_about(number, value.shape), _CONTENT, varint(value.nbytes), elements]
    return [to_proto(value).SerializeToString()]


def size_of(parts: Sequence[Any]) -> int:
    """Return the number of bytes in parts of a message."""
    return sum(map(len, parts))


def encode_received(value: Any, is_dead: bool) -> bytes:
    """Return the bytes of an answer to RecvTensor."""
    from tfjit.protos import RecvTensorResponse

    head = _SEND_START + varint(time.time_ns() // 1000)
    if is_dead or value is DEAD:
        dead = RecvTensorResponse(is_dead=True)
        # the stub wants the enum
        dead.tensor.dtype = dtypes.float32.as_datatype_enum  # type: ignore[assignment]
        return bytes(head + dead.SerializeToString())
    tensor = tensor_parts(value)
    return b"".join((head, _TENSOR, varint(size_of(tensor)), *tensor))


def _content(data: bytes) -> tuple[int, int, int, int] | None:
    """Return where a message's tensor and, at its end, its elements are.

    (start of the tensor, start of the elements' field, start and end of the elements); None for a
    message of another form.
    """
    at, end = 0, len(data)
    try:
        while at < end and data[at : at + 1] != _TENSOR:
            if data[at] & 0x7 != 0:
                return None
            _, at = read_varint(data, at + 1)
        length, start = read_varint(data, at + 1)
        if start + length != end:
            return None
        at = start
        while at < end and data[at : at + 1] != _CONTENT:
            kind = data[at] & 0x7
            number, at = read_varint(data, at + 1)
            if kind == 2:
                at += number
            elif kind != 0:
                return None
        count, first = read_varint(data, at + 1)
        return (start, at, first, end) if first + count == end else None
    except IndexError:
        return None


def decode_received(data: bytes) -> tuple[Any, bool]:
    """Return (value, is_dead) of the bytes of an answer to RecvTensor.

    An array is a read-only view of the bytes where the elements come last. Raises InternalError
    for bytes that are no such message, InvalidArgumentError for a tensor that does not fit its
    shape.
    """
    from google.protobuf.message import DecodeError

    from tfjit.protos import RecvTensorResponse, TensorProto

    found = _content(data)
    try:
        if found is None:
            answer = RecvTensorResponse.FromString(data)
            return (DEAD if answer.is_dead else from_proto(answer.tensor)), answer.is_dead
        start, about_end, first, end = found
        described = TensorProto.FromString(data[start:about_end])
        head = RecvTensorResponse.FromString(data[: _head_end(data)])
    except DecodeError as error:
        raise errors.InternalError(
            None, None, f"Could not parse the answer to RecvTensor: {error}"
        ) from None
    if head.is_dead:
        return DEAD, True
    return from_content(described, data, first, end), False


def from_content(described: Any, data: bytes, first: int, end: int) -> Any:
    """Return the value of a TensorProto with content in the data.

    An array is a read-only view of the data. Raises InvalidArgumentError for a content that does
    not fit the shape.
    """
    if described.dtype == dtypes.string.as_datatype_enum:
        count = math.prod(dim.size for dim in described.tensor_shape.dim)
        described.string_val.extend(tensors.packed_strings(data, first, end, count))
        return from_proto(described)
    if described.dtype not in CONTENT_TYPES:
        described.tensor_content = data[first:end]
        return from_proto(described)
    dtype = dtypes.as_dtype(described.dtype)
    shape = tuple(dim.size for dim in described.tensor_shape.dim)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.size != end - first:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"A received tensor of {dtype.name} and shape {list(shape)} has {end - first} bytes.",
        )
    view = np.frombuffer(data, dtype.as_numpy_dtype, math.prod(shape), first)
    return view.reshape(shape)


def _head_end(data: bytes) -> int:
    """Return where the tensor of a message starts that `_content` has accepted."""
    at = 0
    while data[at : at + 1] != _TENSOR:
        _, at = read_varint(data, at + 1)
    return at


__all__ = [
    "decode_received",
    "encode_received",
    "fill",
    "from_content",
    "from_proto",
    "size_of",
    "tensor_parts",
    "to_proto",
]
