"""Make constants of Python values, as arrays and as TensorProtos.

Of Python values without a dtype, ints become int32 (int64 where one does not fit), floats float32,
complex complex128; NumPy values keep their type. With a shape, missing elements repeat the last
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.framework.types.tensors import append_values, as_bytes, fill_proto, frozen

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
