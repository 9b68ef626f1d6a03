"""Values as TensorProtos, and the bytes of an answer to RecvTensor.

The bytes are those of an ordinary RecvTensorResponse whose tensor comes last, and in it the
elements. So a sender appends the array's memory to a short head, and a receiver takes the elements
as a view of what arrived.
"""

from __future__ import annotations

import time
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
    """Return a scalar in the form of a run's results as an array."""
    return np.array(value, object if isinstance(value, (bytes, str)) else None)


def from_proto(proto: Any) -> Any:
    """Return the value of a TensorProto; an array may be a read-only view of its bytes.

    Raises InvalidArgumentError for contents that do not fit the shape.
    """
    if proto.dtype == dtypes.string.as_datatype_enum and proto.tensor_content:
        return tensors.from_proto(_with_string_values(proto))
    return tensors.from_proto(proto)


def _with_string_values(proto: Any) -> Any:
    """Return a string tensor with its elements in the value field.

    TensorFlow's workers answer with strings in the content: all lengths, then all bytes.
    """
    plain = type(proto)(dtype=proto.dtype, tensor_shape=proto.tensor_shape)
    content = proto.tensor_content
    lengths, at = [], 0
    try:
        for _ in range(int(np.prod([dim.size for dim in proto.tensor_shape.dim], dtype=object))):
            length, at = read_varint(content, at)
            lengths.append(length)
    except IndexError:
        at = len(content) + 1
    if at + sum(lengths) != len(content):
        raise errors.InvalidArgumentError(
            None, None, "The content of a string tensor does not fit its shape."
        )
    for length in lengths:
        plain.string_val.append(content[at : at + length])
        at += length
    return plain


def encode_received(value: Any, is_dead: bool) -> bytes:
    """Return the bytes of an answer to RecvTensor."""
    from tfjit.protos import RecvTensorResponse

    head = _SEND_START + varint(time.time_ns() // 1000)
    if is_dead or value is DEAD:
        dead = RecvTensorResponse(is_dead=True)
        dead.tensor.dtype = dtypes.float32.as_datatype_enum  # type: ignore[assignment]
        return bytes(head + dead.SerializeToString())
    if (
        isinstance(value, np.ndarray)
        and dtypes.as_dtype(value.dtype).as_datatype_enum in CONTENT_TYPES
        and value.size
    ):
        from tfjit.protos import TensorProto

        described = TensorProto()
        number = dtypes.as_dtype(value.dtype).as_datatype_enum
        described.dtype = number  # type: ignore[assignment]  # the stub wants the enum
        described.tensor_shape.SetInParent()
        fill_shape(described.tensor_shape, value.shape)
        about = described.SerializeToString() + _CONTENT + varint(value.nbytes)
        length = varint(len(about) + value.nbytes)
        elements = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        return b"".join((head, _TENSOR, length, about, elements))
    return bytes(head + RecvTensorResponse(tensor=to_proto(value)).SerializeToString())


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
    dtype = dtypes.as_dtype(described.dtype).base_dtype
    shape = tuple(dim.size for dim in described.tensor_shape.dim)
    if dtype.as_datatype_enum not in CONTENT_TYPES:
        described.tensor_content = data[first:end]
        return from_proto(described), False
    if int(np.prod(shape, dtype=object)) * dtype.size != end - first:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"A received tensor of {dtype.name} and shape {list(shape)} has {end - first} bytes.",
        )
    view = np.frombuffer(data, dtype.as_numpy_dtype, offset=first, count=-1)
    return view.reshape(shape), False


def _head_end(data: bytes) -> int:
    """Return where the tensor of a message starts that `_content` has accepted."""
    at = 0
    while data[at : at + 1] != _TENSOR:
        _, at = read_varint(data, at + 1)
    return at


__all__ = ["decode_received", "encode_received", "fill", "from_proto", "to_proto"]
