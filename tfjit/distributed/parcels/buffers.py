"""The buffers of collectives in TensorFlow's answers to RecvBuf."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.wire import varint
from tfjit.framework import errors

TYPE_URL: Final = "type.googleapis.com/tensorflow.RecvBufRespExtra"
"""The type of an answer's transport options."""

_TYPE: Final = b"\x0a" + varint(len(TYPE_URL)) + TYPE_URL.encode()  # field 1 of Any
_VALUE: Final = b"\x12"  # field 2 of Any
_CONTENT: Final = b"\x0a"  # field 1 of RecvBufRespExtra
_OPTIONS: Final = b"\x22"  # field 4 of RecvBufResponse
_MAX_BYTES: Final = (1 << 31) - (1 << 10)


def elements(value: np.ndarray) -> np.ndarray:
    """Return the bytes of an array, a view of a contiguous one."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def encode_buffer(value: np.ndarray) -> bytes:
    """Return the RecvBufResponse with a buffer; its elements are copied once.

    Raises ResourceExhaustedError above protobuf's 2 GB.
    """
    data = elements(value).data
    if data.nbytes > _MAX_BYTES:
        raise errors.ResourceExhaustedError(
            None, None, f"A buffer of {data.nbytes} bytes is too large for one message."
        )
    content = _CONTENT + varint(data.nbytes)
    extra = len(content) + data.nbytes
    head = _TYPE + _VALUE + varint(extra)
    size = len(head) + extra
    return b"".join((_OPTIONS, varint(size), head, content, data))


def decode_buffer(answer: Parcel | bytes | None) -> np.ndarray:
    """Return the bytes of the buffer in an answer to RecvBuf.

    Raises InternalError for an answer that is none.
    """
    from tfjit.protos import RecvBufRespExtra, RecvBufResponse

    if isinstance(answer, Parcel):
        return answer.arrays[0] if answer.arrays else np.empty(0, np.uint8)
    try:
        options: Any = RecvBufResponse.FromString(answer or b"").transport_options
        if options.type_url and options.type_url.rpartition("/")[2] != TYPE_URL.rpartition("/")[2]:
            raise DecodeError(f"transport options of type {options.type_url}")
        pieces = RecvBufRespExtra.FromString(options.value).tensor_content
    except DecodeError as error:
        raise errors.InternalError(
            None, None, f"Could not parse the answer to RecvBuf: {error}"
        ) from None
    return np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)


__all__ = ["decode_buffer", "elements", "encode_buffer"]
