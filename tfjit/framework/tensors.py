"""ndarray <-> TensorProto, for every dtype and both ways of writing values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfjit.framework import dtypes
from tfjit.framework.dtypes import DType
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.shape import as_shape, format_shape
from tfjit.framework.shape import fill_proto as fill_shape_proto

# Field that holds the values of a dtype when tensor_content is empty, and the NumPy type of its elements.
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


# Types that TensorFlow writes as tensor_content from two elements on; the others always go into their value field.
CONTENT_TYPES = frozenset({1, 2, 3, 4, 5, 6, 9, 11, 12, 13, 14, 15, 16, 19, 22, 23, 24, 25, 26, 27, 28, 33})
_BELOW_A_BYTE = frozenset({29, 30, 31, 32})  # int4, uint4, int2, uint2: NumPy keeps one in a byte, in a form of its own


@dataclass(frozen=True, slots=True)
class OpaqueTensor:
    """A resource or variant tensor as it came: no array holds it."""

    dtype: DType
    serialized: bytes


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only contiguous array of a type that TensorProto knows; copied only while somebody could write to it.

    Text becomes an object array of bytes. Raises TypeError for element types that no DType stands for.
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
    """bytes of a string tensor's element. Raises TypeError for what is neither str nor bytes."""
    if isinstance(item, bytes):
        return bytes(item)
    if isinstance(item, str):
        return item.encode()
    raise TypeError(f"Expected binary or unicode string, got {item!r}")


def _shape_of(proto: Any) -> tuple[int, ...] | None:
    """Sizes of a TensorProto's shape, None for unknown rank. Raises InvalidArgumentError for negative and huge ones."""
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
        raise InvalidArgumentError(None, None, f"Shape [{','.join(map(str, sizes))}] is too large (more than 2**63 - 1 entries)")
    return sizes


def from_proto(proto: Any) -> Any:
    """The read-only array of a TensorProto (of any package); an OpaqueTensor for resources and variants.

    Values of `tensor_content` are not copied again. A short value field is padded with its last element, a missing one
    means zeros, surplus values are dropped, and unknown rank means a scalar, as TensorFlow has it.
    Raises InvalidArgumentError for a content of the wrong size and for shapes that aren't fully known.
    """
    try:
        dtype = dtypes.as_dtype(proto.dtype).base_dtype
    except TypeError:
        raise InvalidArgumentError(None, None, f"Cannot parse tensor from proto: unknown dtype {proto.dtype}") from None
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
                f"but {dtypes.short_name(dtype)} of shape {format_shape(shape)} takes {size * dtype.size}",
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
        # 32-bit numbers stand for narrower ones: what does not fit wraps, as it does in TensorFlow.
        flat = np.fromiter(values, np.int32, count=given).astype(element)
    else:
        flat = np.fromiter(values, element, count=given)
    if given < size:
        # A zero-strided view would be smaller, but kernels take contiguous buffers.
        full = np.empty(size, dtype=flat.dtype)
        full[:given] = flat
        full[given:] = flat[-1] if given else 0
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
    # A few bytes of message may claim any size: refuse before NumPy tries.
    if nbytes > 1 << 40:
        raise InvalidArgumentError(
            None, None, f"Cannot parse tensor from proto: {dtypes.short_name(dtype)} of shape {format_shape(shape)} is too large"
        )


def _strings_from_proto(proto: Any, shape: tuple[int, ...], size: int) -> np.ndarray:
    if proto.tensor_content:
        raise InvalidArgumentError(None, None, "Cannot parse tensor from proto: string tensors can't have tensor_content")
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


def to_proto(array: Any) -> Any:
    """A tfjit TensorProto of an array or OpaqueTensor."""
    from tfjit.protos import tensor_pb2

    proto = tensor_pb2.TensorProto()
    fill_proto(proto, array)
    return proto


def fill_proto(proto: Any, array: Any) -> None:
    """Write an array into an empty TensorProto, as TensorFlow does: one element in its value field, more as content if the type allows."""
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


def summarize(array: np.ndarray) -> str:
    """As TensorFlow's runtime writes constants in messages: "Tensor<type: float shape: [3] values: 1 2 3>"."""
    dtype = dtypes.as_dtype(array.dtype)
    flat = array.reshape(-1)
    if dtype.is_floating:
        shown = [f"{float(v):.6g}" for v in flat[:10]]
    else:
        shown = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in flat[:10]]
    dots = "..." if flat.size > 10 else ""
    return f"Tensor<type: {dtypes.short_name(dtype)} shape: {format_shape(as_shape(array.shape))} values: {' '.join(shown)}{dots}>"
