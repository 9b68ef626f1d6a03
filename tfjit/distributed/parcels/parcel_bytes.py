"""Parcels as the bytes of one message, and back.

gRPC carries messages alone. The elements of an array are copied once, into the bytes; those of a
large message are read as views of it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tfjit.distributed.parcels.parcels import Parcel, has_elements_of_bytes
from tfjit.distributed.protocol.wire import fields, varint
from tfjit.framework import errors
from tfjit.framework.types import dtypes

# the tensors of a message: their field, its number, whether each has a name
_TENSORS: Final = {
    "RunStepRequest": ("feed", 2, True),
    "RunStepResponse": ("tensor", 1, True),
    "RunCallableRequest": ("feed", 3, False),
    "RunCallableResponse": ("fetch", 1, False),
    "RunGraphRequest": ("send", 3, True),
    "RunGraphResponse": ("recv", 1, True),
    "RecvTensorsResponse": ("tensor", 1, True),
}
_BYTES: Final = 2  # the wire type of messages, strings and bytes
_NAME: Final = b"\x0a"  # of NamedTensorProto
_TENSOR: Final = b"\x12"
_CONTENT: Final = b"\x22"  # of TensorProto
_POSITION: Final = b"\x18"
_BESIDE: Final = 1 << 10
"""Contents of as many bytes are read as views."""
_LARGE: Final = 1 << 16
"""Protobuf parses shorter messages in less time than Python walks them."""


def encode(parcel: Parcel) -> bytes:
    """Return the bytes of a parcel's message with its arrays.

    The message is used up. Raises ResourceExhaustedError above protobuf's 2 GB.
    """
    message, arrays = parcel.message, parcel.arrays
    if not arrays:
        return _serialized(message)
    attribute, number, is_named = _TENSORS[message.DESCRIPTOR.name]
    tag = varint(number << 3 | _BYTES)
    parts: list[Any] = []
    for item in getattr(message, attribute):
        proto = item.tensor if is_named else item
        position = proto.version_number
        if position:
            proto.version_number = 0
            elements = arrays[position - 1].data
            tensor = [proto.SerializeToString(), _CONTENT, varint(elements.nbytes), elements]
        else:
            tensor = [proto.SerializeToString()]
        if is_named:
            name = item.name.encode()
            tensor = [_NAME, varint(len(name)), name, _TENSOR, varint(_size(tensor)), *tensor]
        parts += [tag, varint(_size(tensor)), *tensor]
    message.ClearField(attribute)
    return b"".join((_serialized(message), *parts))


def _size(parts: list[Any]) -> int:
    return sum(map(len, parts))


def _serialized(message: Any) -> bytes:
    from google.protobuf.message import EncodeError

    try:
        return bytes(message.SerializeToString())
    except (EncodeError, ValueError) as error:
        name = message.DESCRIPTOR.name
        raise errors.ResourceExhaustedError(
            None, None, f"Could not encode {name} as one message: {error}"
        ) from None


def decode(message_class: Any, data: bytes) -> Parcel:
    """Return the parcel of a message's bytes. Raises DecodeError for others.

    A large message's contents are views of the bytes beside it.
    """
    name = message_class.DESCRIPTOR.name
    if len(data) < _LARGE or name not in _TENSORS:
        return Parcel(message_class.FromString(data))
    _, number, is_named = _TENSORS[name]
    wanted, arrays, parts = number << 3 | _BYTES, list[np.ndarray](), list[bytes]()
    try:
        for tag, start, first, end in fields(data, 0, len(data)):
            if tag != wanted:
                parts.append(data[start:end])
                continue
            read = _named if is_named else _tensor
            item = read(data, first, end, arrays)
            parts += [varint(tag), varint(len(item)), item]
    except IndexError as error:
        raise DecodeError(str(error)) from None
    return Parcel(message_class.FromString(b"".join(parts)), arrays)


def _named(data: bytes, at: int, end: int, arrays: list[np.ndarray]) -> bytes:
    """Return a NamedTensorProto's bytes without contents that are beside it."""
    parts = []
    for tag, start, first, stop in fields(data, at, end):
        if tag == _TENSOR[0]:
            tensor = _tensor(data, first, stop, arrays)
            parts += [_TENSOR, varint(len(tensor)), tensor]
        else:
            parts.append(data[start:stop])
    return b"".join(parts)


def _tensor(data: bytes, at: int, end: int, arrays: list[np.ndarray]) -> bytes:
    """Return a TensorProto's bytes without a content that is beside it."""
    if end - at < _BESIDE:
        return data[at:end]
    from tfjit.protos import TensorProto

    content, parts = None, []
    for tag, start, first, stop in fields(data, at, end):
        if tag == _CONTENT[0]:
            content = first, stop
        else:
            parts.append(data[start:stop])
    if content is None:
        return data[at:end]
    described = TensorProto.FromString(b"".join(parts))
    try:
        is_beside = has_elements_of_bytes(dtypes.as_dtype(described.dtype).base_dtype)
    except TypeError:  # an unknown number, which the reader of the value refuses
        is_beside = False
    if not is_beside or described.version_number:
        return data[at:end]
    first, stop = content
    arrays.append(np.frombuffer(data, np.uint8, stop - first, first))
    return b"".join((*parts, _POSITION, varint(len(arrays))))


__all__ = ["decode", "encode"]
