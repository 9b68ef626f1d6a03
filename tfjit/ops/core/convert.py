"""Values to tensors: constants, and conversions that users register."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.constants import make_tensor_array
from tfjit.framework.types.dimension import Dimension
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike

# (value, dtype, name, as_ref) -> Tensor, or NotImplemented to let the next one try
ConversionFunction = Callable[..., Any]

_MAX_INT32: Final = 2**31 - 1


class _Conversions:
    """The registered functions, lowest priority first, and the found ones by type.

    A registration makes a new one, so that a thread that converts meanwhile sees a whole list, and
    never keeps functions found in the old list for the new one.
    """

    def __init__(self, entries: Iterable[tuple[int, tuple[type, ...], ConversionFunction]]) -> None:
        self.entries = sorted(entries, key=lambda entry: entry[0])
        self.found: dict[type, tuple[ConversionFunction, ...]] = {}


_conversions = _Conversions(())
_registering: Final = threading.Lock()


def constant(
    value: object,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    name: str = "Const",
    verify_shape: bool = False,
) -> Tensor:
    """Return a constant.

    shape: the values fill it, the last one repeated, unless verify_shape is set. Raises TypeError
    for values that don't fit the dtype, ValueError for ragged lists and too many elements.
    """
    array = make_tensor_array(value, dtype=dtype, shape=shape, verify_shape=verify_shape)
    wanted = as_dtype(dtype).base_dtype if dtype is not None else as_dtype(array.dtype)
    op = get_default_graph().create_op(
        "Const", (), attrs={"value": array, "dtype": wanted}, name=name
    )
    return op.outputs[0]


def register_tensor_conversion_function(
    base_type: object, conversion_func: ConversionFunction, priority: int = 100
) -> None:
    """Register a conversion function for these types.

    `conversion_func(value, dtype=None, name=None, as_ref=False)` returns a Tensor, or
    NotImplemented when the next function shall try; lower priorities go first. Raises TypeError for
    a value that is no type or callable.
    """
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not all(isinstance(t, type) for t in types):
        raise TypeError(
            f"Argument `base_type` must be a type or a tuple of types. Obtained: {base_type}"
        )
    if not callable(conversion_func):
        raise TypeError(f"Argument `conversion_func` must be callable. Obtained: {conversion_func}")
    global _conversions
    with _registering:
        _conversions = _Conversions([*_conversions.entries, (priority, types, conversion_func)])


def _functions(kind: type) -> tuple[ConversionFunction, ...]:
    known = _conversions
    found = known.found.get(kind)
    if found is None:
        found = known.found[kind] = tuple(
            function for _, types, function in known.entries if issubclass(kind, types)
        )
    return found


def convert_to_tensor(
    value: object,
    dtype: DTypeLike | None = None,
    name: str | None = None,
    preferred_dtype: object = None,
    dtype_hint: object = None,
    as_ref: bool = False,
) -> Tensor:
    """Return `value` as a Tensor.

    The result is the value itself, a constant, or the result of a registered function. dtype: the
    required dtype. preferred_dtype, dtype_hint: the dtype if possible. as_ref: keep a variable's
    reference. Raises TypeError or ValueError for values that do not convert, ValueError for a
    tensor of another dtype.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        if wanted is not None and not wanted.is_compatible_with(value.dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {wanted.name} for Tensor with dtype "
                f"{value.dtype.name}: {value!r}"
            )
        return value
    hint = dtype_hint if preferred_dtype is None else preferred_dtype
    functions = _functions(type(value))
    for function in functions:
        if wanted is None and hint is not None:
            try:
                made = function(value, dtype=as_dtype(hint), name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                made = NotImplemented
            if made is not NotImplemented and as_dtype(hint).is_compatible_with(made.dtype):
                return made
        made = function(value, dtype=wanted, name=name, as_ref=as_ref)
        if made is NotImplemented:
            continue
        if not isinstance(made, Tensor):
            raise RuntimeError(
                f"The conversion function {function} of {type(value)} returned {made!r}, which is "
                "no Tensor"
            )
        if wanted is not None and not wanted.is_compatible_with(made.dtype):
            raise RuntimeError(
                f"The conversion function {function} of {type(value)} returned dtype "
                f"{made.dtype.name}, but {wanted.name} was asked for"
            )
        return made
    raise TypeError(f"Cannot convert value {value!r} of type {type(value)} to a Tensor.")


def _from_constant(
    value: TensorLike, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    return constant(value, dtype=dtype, name=name or "Const")


def _holds_tensor(values: Any) -> bool:
    stack = list(values)
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, Tensor) or hasattr(item, "_as_graph_element"):
            return True
    return False


def _from_list(
    value: TensorLike, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Any:
    """Pack a list that holds tensors.

    Other elements take the tensors' dtype.
    """
    if not _holds_tensor(value):
        return NotImplemented
    found = dtype or _element_dtype(value)
    return _pack(value, found, name or "packed")


def _element_dtype(values: Any) -> DType | None:
    for item in values:
        if isinstance(item, Tensor):
            return item.dtype.base_dtype
        if isinstance(item, (list, tuple)):
            inner = _element_dtype(item)
            if inner is not None:
                return inner
        elif hasattr(item, "_as_graph_element"):
            return as_dtype(item.dtype).base_dtype
    return None


def _pack(values: Any, dtype: DType | None, name: str) -> Tensor:
    graph = get_default_graph()
    with graph.name_scope(name) as scope:
        parts = []
        for i, item in enumerate(values):
            if isinstance(item, (list, tuple)) and _holds_tensor(item):
                parts.append(_pack(item, dtype, str(i)))
            else:
                part = convert_to_tensor(item, dtype=dtype, name=str(i))
                parts.append(part)
        return graph.create_op(
            "Pack", parts, attrs={"N": len(parts), "axis": 0}, name=scope
        ).outputs[0]


def _from_shape(
    value: TensorShape, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape {value} to a Tensor.")
    sizes = [int(d) for d in value.dims_tuple or () if d is not None]
    if dtype is None:
        dtype = dtypes.int64 if any(d > _MAX_INT32 for d in sizes) else dtypes.int32
    elif dtype not in (dtypes.int32, dtypes.int64):
        raise TypeError(f"Cannot convert value {value!r} to a Tensor with dtype {dtype.name}.")
    return constant(
        np.array(sizes, dtype.as_numpy_dtype), dtype=dtype, name=name or "shape_as_tensor"
    )


def _from_dimension(
    value: Dimension, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    if value.value is None:
        raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
    return constant(value.value, dtype=dtype or dtypes.int32, name=name or "shape_as_tensor")


def _from_operation(
    value: Operation, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Tensor:
    raise TypeError(
        f"Can't convert Operation '{value.name}' to Tensor (target "
        f"dtype={None if dtype is None else repr(dtype.name)}, name={name!r})"
    )


register_tensor_conversion_function(object, _from_constant, 200)
register_tensor_conversion_function((list, tuple), _from_list, 99)
register_tensor_conversion_function(TensorShape, _from_shape, 100)
register_tensor_conversion_function(Dimension, _from_dimension, 100)
register_tensor_conversion_function(Operation, _from_operation, 100)


def convert_n_to_tensor(
    values: Iterable[Any],
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: object = None,
) -> list[Tensor]:
    """Convert each value to a tensor, named name_0, name_1 .."""
    return [
        convert_to_tensor(
            value,
            dtype=dtype,
            name=None if name is None else f"{name}_{i}",
            preferred_dtype=preferred_dtype,
        )
        for i, value in enumerate(values)
    ]
