"""ndarray <-> TensorProto for every dtype, and constants from Python values.

The latter are make_tensor_proto and make_ndarray. Of Python values without a dtype, ints become
int32 (int64 where one does not fit), floats float32, complex complex128; NumPy values keep their
type. With a shape, missing elements repeat the last one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape, as_shape, format_shape
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


_SUPPORTED_TYPES: Final = (
    "See https://www.tensorflow.org/api_docs/python/tf/dtypes for supported TF dtypes."
)


def make_tensor_array(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False
) -> np.ndarray:
    """Return the read-only array of a constant.

    Raises TypeError for values that don't fit the dtype or have none, ValueError for ragged lists
    and too many elements.
    """
    array = _array_of(values, dtype)
    if shape is None:
        return frozen(array)
    sizes = _sizes(shape)
    if verify_shape and array.shape != sizes:
        raise TypeError(f"Expected Tensor's shape: {sizes}, but got {array.shape}.")
    return frozen(_fill(array, sizes, dtype))


def _sizes(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, TensorShape):
        shape = shape.as_list()
    return tuple(int(d) for d in shape)


def _count(sizes: tuple[int, ...]) -> int:
    count = 1
    for d in sizes:
        count *= d
    return count


def _fill(array: np.ndarray, sizes: tuple[int, ...], dtype: Any) -> np.ndarray:
    count = _count(sizes)
    # for any values, as in TensorFlow: without a dtype the empty constant is float32
    if count == 0:
        return np.empty(
            sizes, np.float32 if dtype is None else dtypes.as_dtype(dtype).as_numpy_dtype
        )
    if array.size > count or count < 0:
        raise ValueError(
            f"Too many elements provided. Takes at most {count}, but got {array.size}."
        )
    if array.size == count:
        return array.reshape(sizes)
    full = np.empty(count, array.dtype)
    flat = array.reshape(-1)
    full[: flat.size] = flat
    full[flat.size :] = (
        flat[-1] if flat.size else (b"" if array.dtype == object else np.zeros((), array.dtype))
    )
    return full.reshape(sizes)


def _array_of(values: Any, dtype: Any) -> np.ndarray:
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    if wanted is not None and not wanted.is_numpy_compatible:
        raise TypeError(
            f"`dtype` {wanted} is not compatible with {values} of dtype "
            f"{dtypes.as_dtype(np.asarray(values).dtype).name}."
        )
    if isinstance(values, (np.ndarray, np.generic)):
        array = np.asarray(values)
        if array.dtype.kind in "USO":
            return _strings(array, values, wanted)
        return array if wanted is None else array.astype(wanted.as_numpy_dtype, copy=False)
    if values is None:
        raise ValueError("None values not supported.")
    if isinstance(values, TensorShape):
        return _shape_vector(values, wanted)
    if isinstance(values, range):
        values = list(values)
    if wanted is not None and wanted.is_quantized:
        _check_leaves(values, wanted)
        return np.array(values, dtype=wanted.as_numpy_dtype)
    if wanted is not None:
        _check_leaves(values, wanted)
    with np.errstate(all="ignore"):
        array = _from_python(values, wanted)
        if array.dtype.kind in "USO" and (wanted is None or not wanted.is_numeric):
            return _strings(array, values, wanted)
        if wanted is not None:
            return array.astype(wanted.as_numpy_dtype, copy=False)
        if array.dtype == np.float64:
            return array.astype(np.float32)
        if array.dtype == np.int64:
            narrow = array.astype(np.int32)
            return narrow if np.array_equal(narrow, array) else array
    dtypes.as_dtype(array.dtype)
    return array


def _from_python(values: Any, wanted: DType | None) -> np.ndarray:
    if isinstance(values, (str, bytes)):
        out = np.empty((), dtype=object)
        out[()] = values
        return out
    array = np.array(values)
    if array.dtype.kind in "US" or (array.dtype.kind == "O" and wanted is dtypes.string):
        # NumPy's own text types cut trailing zero bytes.
        return np.array(values, dtype=object)
    return array


def _shape_vector(shape: TensorShape, wanted: DType | None) -> np.ndarray:
    if not shape.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape {shape} to a Tensor.")
    sizes = shape.as_list()
    if wanted is None:
        wanted = dtypes.int64 if any(d >= 2**31 for d in sizes if d is not None) else dtypes.int32
    if wanted not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert a TensorShape to dtype {wanted.name}.")
    return np.array(sizes, wanted.as_numpy_dtype)


def _strings(array: np.ndarray, values: Any, wanted: DType | None) -> np.ndarray:
    if array.dtype.kind == "O":
        for item in array.reshape(-1):
            if not isinstance(item, (str, bytes)):
                if isinstance(values, np.ndarray):
                    as_bytes(item)  # raises
                if item is None or not isinstance(item, (int, float, complex)) or wanted is None:
                    raise TypeError(
                        f"Failed to convert elements of {values} to Tensor. "
                        f"Consider casting elements to a supported type. {_SUPPORTED_TYPES}"
                    )
                raise TypeError(
                    f"Expected {wanted.name}, but got {item} of type '{type(item).__name__}'."
                )
    if wanted is not None and wanted is not dtypes.string:
        first = array.reshape(-1)[0] if array.size else ""
        raise TypeError(
            f"Expected {wanted.name}, but got {first} of type '{type(first).__name__}'."
        )
    out = np.empty(array.shape, dtype=object)
    flat = out.reshape(-1)
    for i, item in enumerate(array.reshape(-1)):
        flat[i] = as_bytes(item if isinstance(item, (str, bytes)) else item.item())
    return out


def _leaves(values: Any) -> Iterator[Any]:
    """Yield the elements of nested lists and tuples, in order.

    There is no recursion.
    """
    stack = [iter((values,))]
    while stack:
        for item in stack[-1]:
            if isinstance(item, (list, tuple)):
                stack.append(iter(item))
                break
            yield item
        else:
            stack.pop()


def _check_leaves(values: Any, wanted: DType) -> None:
    allowed = _allowed_types(wanted)
    if wanted.is_quantized and not isinstance(values, (list, tuple)):
        raise TypeError(
            f"Expected {wanted.name}, but got {values} of type '{type(values).__name__}'."
        )
    for item in _leaves(values):
        if isinstance(item, (np.ndarray, np.generic)):
            fits = item.dtype.kind in _ARRAY_KINDS[_family(wanted)]
        else:
            fits = isinstance(item, allowed) or (
                int in allowed and hasattr(item, "__index__") and not wanted.is_bool
            )
        if not fits:
            raise TypeError(
                f"Expected {wanted.name}, but got {item!s} of type '{type(item).__name__}'."
            )


def _family(wanted: DType) -> str:
    if wanted.is_floating:
        return "float"
    if wanted.is_complex:
        return "complex"
    if wanted.is_bool:
        return "bool"
    return "string" if wanted is dtypes.string else "int"


_ARRAY_KINDS: Final = {
    "float": "biufV",
    "complex": "biufcV",
    "bool": "b",
    "string": "SUO",
    "int": "biuV",
}


def _allowed_types(wanted: DType) -> tuple[type, ...]:
    return {
        "float": (float, int),
        "complex": (complex, float, int),
        "bool": (bool,),
        "string": (str, bytes),
        "int": (int,),
    }[_family(wanted)]


def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> Any:
    """Return a tfjit TensorProto of `values`.

    With `shape`, values that fall short stand alone in the message and repeat when it is read.
    allow_broadcast: only one value may fall short. Raises ValueError with verify_shape, TypeError
    for other values, and as `make_tensor_array` does.
    """
    if allow_broadcast and verify_shape:
        raise ValueError("allow_broadcast and verify_shape are not both allowed.")
    from tfjit.protos import tensor_pb2

    descriptor = getattr(values, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.full_name.endswith("TensorProto"):
        return tensor_pb2.TensorProto.FromString(values.SerializeToString())
    proto = tensor_pb2.TensorProto()
    array = _array_of(values, dtype)
    if shape is None:
        fill_proto(proto, frozen(array))
        return proto
    sizes = _sizes(shape)
    if allow_broadcast and array.shape not in ((), (1,)) and array.size != _count(sizes):
        raise TypeError(f"Expected Tensor's shape: {sizes}, but got {array.shape}.")
    if verify_shape and array.shape != sizes:
        raise TypeError(f"Expected Tensor's shape: {sizes}, but got {array.shape}.")
    if array.size < _count(sizes):
        kind = dtypes.as_dtype(array.dtype)
        proto.dtype = kind.as_datatype_enum  # type: ignore[assignment]  # the stub wants the enum
        proto.tensor_shape.SetInParent()
        for size in sizes:
            proto.tensor_shape.dim.add().size = size
        flat = frozen(array).reshape(-1)
        if kind is dtypes.string:
            proto.string_val.extend(flat.tolist())
        else:
            append_values(proto, kind, flat)
        return proto
    fill_proto(proto, frozen(_fill(array, sizes, dtype)))
    return proto


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
