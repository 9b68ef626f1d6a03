"""ndarray <-> TensorProto for every dtype."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import as_shape, format_shape
from tfjit.framework.types.shape import fill_proto as fill_shape_proto

if TYPE_CHECKING:
    from tfjit.protos import TensorProto

# Field that holds the values of a dtype when tensor_content is empty, and the NumPy type of its
# elements.
_VALUE_FIELD: dict[int, tuple[str, Any]] = {
    1: ("float_val", np.float32),
    2: ("double_val", np.float64),
    3: ("int_val", np.int32),
    4: ("int_val", np.uint8),
    5: ("int_val", np.int16),
    6: ("int_val", np.int8),
    7: ("string_val", None),
    8: ("scomplex_val", np.complex64),
    9: ("int64_val", np.int64),
    10: ("bool_val", np.bool_),
    11: ("int_val", np.int8),
    12: ("int_val", np.uint8),
    13: ("int_val", np.int32),
    14: ("half_val", np.uint16),
    15: ("int_val", np.int16),
    16: ("int_val", np.uint16),
    17: ("int_val", np.uint16),
    18: ("dcomplex_val", np.complex128),
    19: ("half_val", np.uint16),
    22: ("uint32_val", np.uint32),
    23: ("uint64_val", np.uint64),
    **dict.fromkeys((24, 25, 26, 27, 28), ("float8_val", np.uint8)),
    **dict.fromkeys((29, 31), ("int_val", np.int8)),
    **dict.fromkeys((30, 32), ("int_val", np.uint8)),
    33: ("float8_val", np.uint8),
}


# Types that TensorFlow writes as tensor_content from two elements on; the others always go into
# their value field.
CONTENT_TYPES = frozenset(
    {1, 2, 3, 4, 5, 6, 9, 11, 12, 13, 14, 15, 16, 19, 22, 23, 24, 25, 26, 27, 28, 33}
)
# int4, uint4, int2, uint2: NumPy keeps one element in a byte, in another form
_BELOW_A_BYTE = frozenset({29, 30, 31, 32})


@dataclass(frozen=True, slots=True)
class OpaqueTensor:
    """A resource or variant tensor as it came: no array holds it."""

    dtype: DType
    serialized: bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the tensor; a scalar's where the message says nothing."""
        from tfjit.protos import tensor_pb2

        return _shape_of(tensor_pb2.TensorProto.FromString(self.serialized)) or ()


def frozen(array: np.ndarray) -> np.ndarray:
    """Return a read-only contiguous array of a TensorProto type.

    The array is copied only if it could still be written to. Text becomes an object array of bytes.
    Raises TypeError for element types without a DType.
    """
    if array.dtype.kind in "US":
        return _string_array(array)
    if array.dtype.kind == "O":
        return _string_array(array) if array.flags.writeable else array
    dtypes.as_dtype(array.dtype)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.flags.writeable or not array.flags.c_contiguous or not _is_frozen_root(array):
        array = np.array(array, order="C")
        array.setflags(write=False)
    return array


def _is_frozen_root(array: np.ndarray) -> bool:
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return True


def _string_array(array: np.ndarray) -> np.ndarray:
    out = np.empty(array.shape, dtype=object)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1)):
        flat[i] = as_bytes(item)
    out.setflags(write=False)
    return out


def as_bytes(item: Any) -> bytes:
    """Return a string tensor's element as bytes.

    Raises TypeError for values that are neither str nor bytes.
    """
    if isinstance(item, bytes):
        return bytes(item)
    if isinstance(item, str):
        return item.encode()
    raise TypeError(f"Expected binary or unicode string, got {item!r}")


def _shape_of(proto: Any) -> tuple[int, ...] | None:
    """Return the sizes of a TensorProto's shape, None for unknown rank.

    Raises InvalidArgumentError for negative and huge ones.
    """
    shape = proto.tensor_shape
    if shape.unknown_rank:
        return None
    sizes = tuple(dim.size for dim in shape.dim)
    total = 1
    for size in sizes:
        if size < 0:
            text = "[" + ",".join("?" if s == -1 else str(s) for s in sizes) + "]"
            raise InvalidArgumentError(None, None, f"Shape {text} is not fully defined")
        total *= size
    if total >= 2**63:
        raise InvalidArgumentError(
            None,
            None,
            f"Shape [{','.join(map(str, sizes))}] is too large (more than 2**63 - 1 entries)",
        )
    return sizes


def from_proto(proto: Any) -> Any:
    """Return the read-only array of a TensorProto of any package.

    An OpaqueTensor for resources and variants. Values of `tensor_content` are not copied again. A
    short value field is padded with its last element, a missing one means zeros, surplus values are
    dropped, and unknown rank means a scalar, as in TensorFlow. Raises InvalidArgumentError for a
    content of the wrong size and for shapes that aren't fully known.
    """
    try:
        dtype = dtypes.as_dtype(proto.dtype).base_dtype
    except TypeError:
        raise InvalidArgumentError(
            None, None, f"Cannot parse tensor from proto: unknown dtype {proto.dtype}"
        ) from None
    shape = _shape_of(proto)
    number = dtype.as_datatype_enum
    entry = _VALUE_FIELD.get(number)
    if entry is None:
        return OpaqueTensor(dtype, proto.SerializeToString(deterministic=True))
    if shape is None:
        shape = ()
    size = 1
    for d in shape:
        size *= d
    if number == 7:
        return _strings_from_proto(proto, shape, size)
    field_name, element = entry
    numpy_type = dtype.as_numpy_dtype
    content = proto.tensor_content
    if content:
        if len(content) != size * dtype.size:
            raise InvalidArgumentError(
                None,
                None,
                f"Cannot parse tensor from proto: tensor_content has {len(content)} bytes, "
                f"but {dtypes.short_name(dtype)} of shape {format_shape(shape)} takes "
                f"{size * dtype.size}",
            )
        return np.frombuffer(content, dtype=numpy_type).reshape(shape)
    _check_memory(size * dtype.size, dtype, shape)
    values = getattr(proto, field_name)
    given = len(values)
    if field_name in ("scomplex_val", "dcomplex_val"):
        given //= 2
        part = np.float32 if field_name == "scomplex_val" else np.float64
        flat = np.fromiter(values, part, count=2 * given).view(element)
    elif field_name == "float8_val":
        flat = np.frombuffer(values, np.uint8)
    elif field_name in ("int_val", "half_val"):
        # 32-bit numbers hold narrower ones: larger values wrap, as in TensorFlow.
        flat = np.fromiter(values, np.int32, count=given).astype(element)
    else:
        flat = np.fromiter(values, element, count=given)
    if given < size:
        # A zero-strided view would be smaller, but kernels take contiguous buffers.
        full = np.zeros(size, dtype=flat.dtype)  # pages that are never written to cost nothing
        if given:
            full[:given] = flat
            full[given:] = flat[-1]
        flat = full
    elif given > size:
        flat = flat[:size].copy()
    if number in _BELOW_A_BYTE:
        flat = flat.astype(numpy_type)
    elif flat.dtype != numpy_type:
        flat = flat.view(numpy_type)
    array = flat.reshape(shape)
    flat.setflags(write=False)
    array.setflags(write=False)
    return array


def _check_memory(nbytes: int, dtype: DType, shape: tuple[int, ...]) -> None:
    # A few bytes of message may claim any size: refuse before the system kills the process for it.
    if nbytes > 1 << 32 and nbytes > _physical_memory():
        raise InvalidArgumentError(
            None,
            None,
            f"Cannot parse tensor from proto: {dtypes.short_name(dtype)} of shape "
            f"{format_shape(shape)} is too large",
        )


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # not on every system
        return 1 << 36


def _strings_from_proto(proto: Any, shape: tuple[int, ...], size: int) -> np.ndarray:
    content = proto.tensor_content
    if content:
        values = packed_strings(content, 0, len(content), size)
    else:
        values = list(proto.string_val)
    _check_memory(size * 8, dtypes.string, shape)
    out = np.empty(size, dtype=object)
    given = min(len(values), size)
    out[:given] = values[:given]
    if given < size:
        out[given:] = values[-1] if values else b""
    out = out.reshape(shape)
    out.setflags(write=False)
    return out


def packed_strings(data: bytes, first: int, end: int, count: int) -> list[bytes]:
    """Return the strings of a content: all lengths, then all bytes.

    TensorFlow's servers and clients send strings so, constants of more than 64 bytes among them.
    Raises InvalidArgumentError for other bytes.
    """
    lengths: list[int] = []
    at = first
    # each length takes a byte or more: a shape of more strings ends with the data
    while len(lengths) < count and at < end:
        length = shift = 0
        while at < end and shift < 63:
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                lengths.append(length)
                break
        else:
            break
    if len(lengths) < count or at + sum(lengths) != end:
        raise InvalidArgumentError(
            None,
            None,
            f"Cannot parse tensor from proto: a content of {end - first} bytes does not have the "
            f"lengths and bytes of {count} strings",
        )
    found = []
    for length in lengths:
        found.append(data[at : at + length])
        at += length
    return found


def to_proto(array: Any) -> Any:
    """Return a tfjit TensorProto of an array or OpaqueTensor."""
    from tfjit.protos import tensor_pb2

    proto = tensor_pb2.TensorProto()
    fill_proto(proto, array)
    return proto


def fill_proto(proto: Any, array: Any) -> None:
    """Write an array into an empty TensorProto, as TensorFlow does.

    One element goes into its value field, more into the content if the type allows.
    """
    if isinstance(array, OpaqueTensor):
        proto.MergeFromString(array.serialized)
        return
    dtype = dtypes.as_dtype(array.dtype)
    proto.dtype = dtype.as_datatype_enum
    proto.tensor_shape.SetInParent()
    fill_shape_proto(proto.tensor_shape, array.shape)
    if dtype is dtypes.string:
        proto.string_val.extend([as_bytes(item) for item in array.reshape(-1)])
    elif array.size > 1 and dtype.as_datatype_enum in CONTENT_TYPES:
        proto.tensor_content = array.tobytes()
    elif array.size:
        append_values(proto, dtype, array.reshape(-1))


def append_values(proto: Any, dtype: DType, flat: np.ndarray) -> None:
    """Append elements to the value field of their dtype."""
    field_name, element = _VALUE_FIELD[dtype.as_datatype_enum]
    flat = np.ascontiguousarray(flat)
    values = getattr(proto, field_name) if field_name != "float8_val" else None
    if values is None:
        proto.float8_val += flat.view(np.uint8).tobytes()
    elif field_name == "half_val":
        values.extend(flat.view(np.uint16).tolist())
    elif field_name in ("scomplex_val", "dcomplex_val"):
        values.extend(flat.view(flat.real.dtype).tolist())
    elif dtype.as_datatype_enum in _BELOW_A_BYTE:
        values.extend(flat.astype(np.int32).tolist())
    elif flat.dtype.names is not None:
        values.extend(flat.view(element).tolist())
    else:
        values.extend(flat.tolist())


def value_count(proto: TensorProto) -> int:
    """Return the number of elements in a TensorProto's value field."""
    field_name, _ = _VALUE_FIELD[proto.dtype]
    count = len(getattr(proto, field_name))
    return count // 2 if field_name in ("scomplex_val", "dcomplex_val") else count


def summarize(array: np.ndarray) -> str:
    """Return a constant as TensorFlow's runtime writes it in messages.

    An example is "Tensor<type: float shape: [3] values: 1 2 3>".
    """
    dtype = dtypes.as_dtype(array.dtype)
    flat = array.reshape(-1)
    if dtype.is_floating:
        shown = [f"{float(v):.6g}" for v in flat[:10]]
    else:
        shown = [
            v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in flat[:10]
        ]
    dots = "..." if flat.size > 10 else ""
    return (
        f"Tensor<type: {dtypes.short_name(dtype)} shape: {format_shape(as_shape(array.shape))} "
        f"values: {' '.join(shown)}{dots}>"
    )


def make_ndarray(tensor: Any) -> np.ndarray:
    """Return a writeable array of a TensorProto of any package.

    Raises InvalidArgumentError when content and shape don't fit, TypeError for resources and
    variants.
    """
    array = from_proto(tensor)
    if isinstance(array, OpaqueTensor):
        raise TypeError(f"Unsupported tensor type: {array.dtype.name} has no NumPy form")
    return array.copy()


def parse_tensor_proto(data: bytes) -> Any:
    """Return a TensorProto from bytes. Raises InvalidArgumentError for bytes that are none."""
    from tfjit.protos import tensor_pb2

    proto = tensor_pb2.TensorProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError: its class differs between implementations
        raise InvalidArgumentError(
            None, None, f"Cannot parse {len(data)} bytes as a TensorProto: {error}"
        ) from None
    return proto


def truth(array: np.ndarray) -> bool:
    """Return whether If and While take a tensor for true.

    True are a scalar number that is not zero, a string that is not empty, and any other tensor with
    elements.
    """
    if array.ndim:
        return bool(array.size)
    return bool(array)  # of an object array, of its element
