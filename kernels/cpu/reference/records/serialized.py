"""Convert tensors to messages and back; decode compressed and padded bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types.dtypes import as_dtype, short_name
from tfjit.framework.types.shape import format_shape
from tfjit.framework.types.tensors import from_proto
from tfjit.kernels.registry import NodeSpec, reference

Arrays = Sequence[Any]


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


def tensor_message(value: np.ndarray) -> bytes:
    """Return a tensor as a serialized TensorProto.

    The elements are in `tensor_content`.
    """
    from tfjit.protos import TensorProto

    message: Any = TensorProto()
    message.dtype = as_dtype(value.dtype).as_datatype_enum
    message.tensor_shape.SetInParent()
    for size in value.shape:
        message.tensor_shape.dim.add(size=size)
    if value.dtype == object:
        message.string_val.extend(value.reshape(-1).tolist())
    else:
        message.tensor_content = value.tobytes()
    return message.SerializeToString()


def parsed_tensor(data: bytes) -> np.ndarray:
    """Return the tensor of a serialized TensorProto.

    Raises InvalidArgumentError for bytes that are not one.
    """
    from tfjit.protos import TensorProto

    try:
        message = TensorProto.FromString(data)
    except DecodeError:
        shown = base64.b64encode(data).decode()
        raise _fail(f"Could not parse `serialized` as TensorProto, base64: {shown}") from None
    value = from_proto(message)
    if not isinstance(value, np.ndarray):
        raise _fail(f"Cannot parse tensor from proto: a {message.dtype} holds no values")
    return value


@reference("SerializeTensor")
def _serialize_tensor(node: NodeSpec, inputs: Arrays) -> Arrays:
    return (np.array(tensor_message(np.asarray(inputs[0])), object),)


@reference("ParseTensor")
def _parse_tensor(node: NodeSpec, inputs: Arrays) -> Arrays:
    serialized = np.asarray(inputs[0], object)
    if serialized.ndim:
        raise _fail(
            f"Expected `serialized` to be a scalar, got shape: {format_shape(serialized.shape)}"
        )
    value = parsed_tensor(serialized.item())
    found, wanted = as_dtype(value.dtype), node.attrs["out_type"]
    if found is not wanted:
        raise _fail(
            f"Type mismatch between parsed tensor ({short_name(found)}) and dtype "
            f"({short_name(wanted)})"
        )
    return (value.copy(),)


@reference("DecodeJSONExample")
def _decode_json_example(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Convert Example messages from protobuf's JSON form to serialized messages."""
    from tfjit.protos import Example

    texts = np.asarray(inputs[0], object)
    out = np.empty(texts.size, object)
    for k, text in enumerate(texts.reshape(-1)):
        try:
            out[k] = Parse(text, Example()).SerializeToString(deterministic=True)
        except (ParseError, UnicodeDecodeError) as error:
            raise _fail(f"Error while parsing JSON: {error}") from None
    return (out.reshape(texts.shape),)


@reference("DecodeCompressed")
def _decode_compressed(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Decompress each string.

    Truncated data gives the readable part, as in TensorFlow.
    """
    kind: bytes = node.attrs["compression_type"]
    packed = np.asarray(inputs[0], object)
    if kind not in (b"", b"ZLIB", b"GZIP", b"ZSTD"):
        raise _fail("Only ZLIB, ZSTD, GZIP or NONE are supported compressions")
    if kind == b"ZSTD":
        raise _fail(
            "DecodeCompressed: ZSTD needs a library that tfjit does not have; pack with ZLIB or "
            "GZIP"
        )
    if kind == b"":
        return (packed.copy(),)
    out = np.empty(packed.size, object)
    for k, item in enumerate(packed.reshape(-1)):
        try:
            out[k] = zlib.decompressobj(
                zlib.MAX_WBITS if kind == b"ZLIB" else 16 + zlib.MAX_WBITS
            ).decompress(item)
        except zlib.error as error:
            # "Error -3 while decompressing data: incorrect header check"
            number, _, reason = (
                str(error).removeprefix("Error ").partition(" while decompressing data: ")
            )
            raise _fail(f"inflate() failed with error {number}: {reason}") from None
    return (out.reshape(packed.shape),)


@reference("DecodePaddedRaw")
def _decode_padded_raw(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Read each string's bytes as numbers along a new last axis.

    Strings are cut or filled with zeros to `fixed_length` bytes.
    """
    strings, length = np.asarray(inputs[0], object), np.asarray(inputs[1])
    target = np.dtype(node.attrs["out_type"].as_numpy_dtype)
    if length.ndim:
        raise _fail(f"k must be scalar, got shape {format_shape(length.shape)}")
    size = int(length)
    if size % target.itemsize:
        raise _fail(
            f"fixed_length ({size}) must be a multiple of the size of out_type ({target.itemsize})"
        )
    if size <= 0:
        raise _fail(f"fixed_length ({size}) must be greater than zero.")
    joined = b"".join(item[:size].ljust(size, b"\0") for item in strings.reshape(-1))
    found = np.frombuffer(joined, target).reshape(*strings.shape, size // target.itemsize).copy()
    return (found if node.attrs["little_endian"] else found.byteswap(),)
