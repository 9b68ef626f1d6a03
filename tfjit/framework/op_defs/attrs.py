"""Attr values: Python form <-> AttrValue, conversion and checks.

Users' values are converted, and checked against an op's AttrDef. Python forms: string -> bytes, int
-> int, float -> float (a float32's value), bool -> bool, type -> DType, shape -> TensorShape,
tensor -> ndarray (read-only; object array of bytes for strings), func -> FuncRef, list(x) -> tuple,
a function's unset attr -> Unset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes, tensors
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape, as_shape, format_shape
from tfjit.framework.types.shape import fill_proto as fill_shape_proto
from tfjit.framework.types.shape import from_proto as shape_from_proto

if TYPE_CHECKING:
    from tfjit.framework.op_defs.op_def import AttrDef


@dataclass(frozen=True, slots=True)
class FuncRef:
    """A function of the graph's library, with values for its attrs."""

    name: str
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Unset:
    """An attr of a body's node, set by the function's attr `name`."""

    name: str


class _Absent:
    """An AttrValue in which no field is set.

    An op's attr with that value counts as missing.
    """

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()

_LIST_FIELDS = ("s", "i", "f", "b", "type", "shape", "tensor", "func")


def from_proto(value: Any) -> Any:
    """Return the Python form of an AttrValue of any package.

    ABSENT when the message is empty. Raises InvalidArgumentError for a tensor whose content does
    not fit its shape.
    """
    kind = value.WhichOneof("value")
    if kind == "type":
        return _dtype(value.type)
    if kind == "s" or kind == "i" or kind == "b" or kind == "f":
        return getattr(value, kind)
    if kind == "shape":
        return TensorShape._of(shape_from_proto(value.shape))
    if kind == "tensor":
        return tensors.from_proto(value.tensor)
    if kind == "list":
        return _list_from_proto(value.list)
    if kind == "func":
        return func_from_proto(value.func)
    if kind == "placeholder":
        return Unset(value.placeholder)
    return ABSENT


def _dtype(number: int) -> DType:
    try:
        return dtypes.as_dtype(number)
    except TypeError:
        raise InvalidArgumentError(
            None, None, f"Type number {number} is not a known DataType"
        ) from None


def _list_from_proto(values: Any) -> tuple[Any, ...]:
    if values.i:
        return tuple(values.i)
    if values.type:
        return tuple(_dtype(t) for t in values.type)
    if values.shape:
        return tuple(TensorShape._of(shape_from_proto(s)) for s in values.shape)
    if values.s:
        return tuple(values.s)
    if values.f:
        return tuple(values.f)
    if values.b:
        return tuple(values.b)
    if values.tensor:
        return tuple(tensors.from_proto(t) for t in values.tensor)
    return tuple(func_from_proto(f) for f in values.func)


def func_from_proto(proto: Any) -> FuncRef:
    """Return the FuncRef of a NameAttrList."""
    return FuncRef(proto.name, {name: from_proto(value) for name, value in proto.attr.items()})


def kind_of_proto(value: Any) -> str:
    """Return the attr type of an AttrValue, as an OpDef spells it.

    Examples are "type", "list(int)"; "" when unset, "list(any)" for an empty list.
    """
    kind = value.WhichOneof("value")
    if kind == "list":
        for name in _LIST_FIELDS:
            if getattr(value.list, name):
                return f"list({'string' if name == 's' else _SCALAR_KIND[name]})"
        return "list(any)"
    return _SCALAR_KIND.get(kind or "", kind or "")


_SCALAR_KIND = {
    "s": "string",
    "i": "int",
    "f": "float",
    "b": "bool",
    "type": "type",
    "shape": "shape",
    "tensor": "tensor",
    "func": "func",
}


def to_proto(value: Any) -> Any:
    """Return a tfjit AttrValue of a Python form."""
    from tfjit.protos import attr_value_pb2

    proto = attr_value_pb2.AttrValue()
    fill_proto(proto, value)
    return proto


# Fields of AttrValue and its lists for the exact types of most attrs; most other types are tried in
# turn, and a subclass last.
_FIELDS: Final = {bool: "b", int: "i", bytes: "s", float: "f"}


def fill_proto(proto: Any, value: Any) -> None:
    """Write a Python form into an empty AttrValue.

    Raises TypeError for a value of no attr type.
    """
    field = _FIELDS.get(type(value))
    if field is not None:
        setattr(proto, field, value)
    elif isinstance(value, DType):
        proto.type = value.as_datatype_enum
    elif isinstance(value, TensorShape):
        proto.shape.SetInParent()
        fill_shape_proto(proto.shape, value.dims_tuple)
    elif isinstance(value, (tuple, list)):
        proto.list.SetInParent()
        for item in value:
            _append(proto.list, item)
    elif isinstance(value, np.ndarray):
        tensors.fill_proto(proto.tensor, value)
    elif isinstance(value, tensors.OpaqueTensor):
        proto.tensor.MergeFromString(value.serialized)
    elif isinstance(value, FuncRef):
        fill_func_proto(proto.func, value)
    elif isinstance(value, Unset):
        proto.placeholder = value.name
    elif isinstance(value, tuple(_FIELDS)):
        setattr(proto, _field_of_base(value), value)
    elif value is not ABSENT:
        raise TypeError(f"{value!r} of {type(value)} is no attr value")


def _append(values: Any, item: Any) -> None:
    field = _FIELDS.get(type(item))
    if field is not None:
        getattr(values, field).append(item)
    elif isinstance(item, DType):
        values.type.append(item.as_datatype_enum)
    elif isinstance(item, TensorShape):
        fill_shape_proto(values.shape.add(), item.dims_tuple)
    elif isinstance(item, np.ndarray):
        tensors.fill_proto(values.tensor.add(), item)
    elif isinstance(item, tensors.OpaqueTensor):
        values.tensor.add().MergeFromString(item.serialized)
    elif isinstance(item, FuncRef):
        fill_func_proto(values.func.add(), item)
    elif isinstance(item, tuple(_FIELDS)):
        getattr(values, _field_of_base(item)).append(item)
    else:
        raise TypeError(f"{item!r} of {type(item)} is no element of a list attr")


def _field_of_base(value: object) -> str:
    return next(field for kind, field in _FIELDS.items() if isinstance(value, kind))


def fill_func_proto(proto: Any, value: FuncRef) -> None:
    """Write a FuncRef into an empty NameAttrList."""
    proto.SetInParent()
    proto.name = value.name
    for name, attr in value.attrs.items():
        fill_proto(proto.attr[name], attr)


def convert(value: Any, attr_type: str, name: str, op_type: str = "") -> Any:
    """Return the Python form of a user's value for attr `name`.

    attr_type: "int", "list(shape)", ... Raises TypeError with TensorFlow's words for a value of
    another kind.
    """
    if attr_type.startswith("list("):
        if isinstance(value, (str, bytes, TensorShape)) or not hasattr(value, "__iter__"):
            raise TypeError(
                f"Expected list for '{name}' argument to '{_snake(op_type)}' Op, not {value!r}."
            )
        element = attr_type[5:-1]
        return tuple(_convert(item, element, name) for item in value)
    return _convert(value, attr_type, name)


def _snake(op_type: str) -> str:
    """Return the Python function's name of an op: conv2d of Conv2D.

    TensorFlow names them so.
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", op_type).lower()


def _convert(value: Any, kind: str, name: str) -> Any:
    if isinstance(value, Unset):
        return value
    converter = _CONVERTERS.get(kind)
    if converter is None:
        raise TypeError(f"Unrecognized type {kind!r} of attr '{name}'")
    return converter(value, name)


def _to_type(value: Any, name: str) -> DType:
    if isinstance(value, DType):
        return value.base_dtype
    try:
        return dtypes.as_dtype(value).base_dtype
    except TypeError:
        raise TypeError(f"Expected DataType for argument '{name}' not {value!r}.") from None


def _to_string(value: Any, name: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"Expected string for argument '{name}' not {value!r}.")


def _to_int(value: Any, name: str) -> int:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"Expected int for argument '{name}' not {value!r}.")
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise TypeError(f"Expected int for argument '{name}' not {value!r}.") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"Value {number} of argument '{name}' does not fit 64 bits")
    return number


def _to_float(value: Any, name: str) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"Expected float for argument '{name}' not {value!r}.")
    try:
        return float(np.float32(value))
    except (TypeError, ValueError):
        raise TypeError(f"Expected float for argument '{name}' not {value!r}.") from None


def _to_bool(value: Any, name: str) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(f"Expected bool for argument '{name}' not {value!r}.")


def _to_shape(value: Any, name: str) -> TensorShape:
    if isinstance(value, TensorShape):
        return value
    try:
        return TensorShape._of(as_shape(value))
    except (TypeError, ValueError) as error:
        kind = type(error)
        raise kind(
            f"Error converting {value!r} (argument name '{name}') to a TensorShape: {error}"
        ) from None


def _to_tensor(value: Any, name: str) -> Any:
    if isinstance(value, tensors.OpaqueTensor):
        return value
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.full_name.endswith("TensorProto"):
        return tensors.from_proto(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return tensors.frozen(np.asarray(value))
    raise TypeError(f"Don't know how to convert {value!r} to a TensorProto for argument '{name}'")


def _to_func(value: Any, name: str) -> FuncRef:
    if isinstance(value, FuncRef):
        return value
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.full_name.endswith("NameAttrList"):
        return func_from_proto(value)
    if isinstance(value, str):
        return FuncRef(value)
    if isinstance(value, bytes):
        return FuncRef(value.decode())
    if hasattr(value, "name") and isinstance(value.name, str):
        return FuncRef(value.name)
    raise TypeError(f"Expected func for argument '{name}' not {value!r}.")


_CONVERTERS: dict[str, Any] = {
    "type": _to_type,
    "string": _to_string,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "shape": _to_shape,
    "tensor": _to_tensor,
    "func": _to_func,
}


def guess(value: Any) -> Any:
    """Return the Python form of a value by its own type.

    For an attr that no OpDef declares, such as `_class`.
    """
    if isinstance(
        value, (bytes, bool, int, DType, TensorShape, FuncRef, Unset, tensors.OpaqueTensor)
    ):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, (list, tuple)):
        return tuple(guess(item) for item in value)
    if isinstance(value, np.ndarray):
        return tensors.frozen(value)
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(np.float32(value))
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.full_name.endswith("AttrValue"):
        return from_proto(value)
    if hasattr(value, "as_datatype_enum"):
        return dtypes.as_dtype(value)
    raise TypeError(f"{value!r} of {type(value)} is no attr value")


def matches_kind(value: Any, attr_type: str) -> bool:
    """Return whether a Python form is of the attr type."""
    if isinstance(value, Unset):
        return True
    if attr_type.startswith("list("):
        if not isinstance(value, tuple):
            return False
        element = attr_type[5:-1]
        return not value or all(matches_kind(item, element) for item in value)
    return kind_of(value) == attr_type


def kind_of(value: Any) -> str:
    """Return the attr type of a Python form."""
    if isinstance(value, DType):
        return "type"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, bytes):
        return "string"
    if isinstance(value, float):
        return "float"
    if isinstance(value, TensorShape):
        return "shape"
    if isinstance(value, (np.ndarray, tensors.OpaqueTensor)):
        return "tensor"
    if isinstance(value, FuncRef):
        return "func"
    if isinstance(value, Unset):
        return "placeholder"
    if isinstance(value, tuple):
        return f"list({kind_of(value[0])})" if value else "list(any)"
    return ""


def check(value: Any, attr: AttrDef) -> None:
    """Check that `value` fits `attr`: kind, minimum, allowed values.

    Raises InvalidArgumentError, worded as TensorFlow does.
    """
    # nearly every attr; the general way costs 2 us
    if type(value) is DType and attr.type == "type":
        if value.is_ref:
            raise InvalidArgumentError(
                None,
                None,
                f"AttrValue must not have reference type value of {dtypes.short_name(value)}\n\t "
                f"for attr '{attr.name}'",
            )
        for dtype in attr.allowed:
            if dtype is value:
                return
        if attr.allowed and value not in attr.allowed:
            _refuse(value, attr)
        return
    if isinstance(value, Unset):
        return
    if not matches_kind(value, attr.type):
        raise InvalidArgumentError(
            None,
            None,
            f"AttrValue had value with type '{kind_of(value)}' when '{attr.type}' expected\n\t for "
            f"attr '{attr.name}'",
        )
    if attr.minimum is not None:
        if isinstance(value, tuple):
            if len(value) < attr.minimum:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"Length for attr '{attr.name}' of {len(value)} must be at least minimum "
                    f"{attr.minimum}",
                )
        elif value < attr.minimum:
            raise InvalidArgumentError(
                None,
                None,
                f"Value for attr '{attr.name}' of {value} must be at least minimum {attr.minimum}",
            )
    if attr.type in ("type", "list(type)"):
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, DType) and item.is_ref:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"AttrValue must not have reference type value of {dtypes.short_name(item)}\n"
                    f"\t for attr '{attr.name}'",
                )
    if attr.allowed:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in attr.allowed:
                _refuse(item, attr)


def _refuse(item: Any, attr: AttrDef) -> None:
    def show(v: Any) -> str:
        return dtypes.short_name(v) if isinstance(v, DType) else summarize(v)

    allowed = ", ".join(show(a) for a in attr.allowed)
    raise InvalidArgumentError(
        None,
        None,
        f"Value for attr '{attr.name}' of {show(item)} is not in the list of allowed values: "
        f"{allowed}",
    )


def equal(a: Any, b: Any) -> bool:
    """Return whether two Python forms are the same value."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
            return False
        if a is b:
            return True
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return bool(np.array_equal(a, b)) if a.dtype == object else a.tobytes() == b.tobytes()
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return type(a) is type(b) and bool(a == b)


def summarize(value: Any) -> str:
    """Write a value as TensorFlow's runtime does in messages.

    Examples: DT_FLOAT, "SAME", [1, 2], [2,?].
    """
    if isinstance(value, DType):
        return dtypes.enum_name(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        text = escaped(value)
        if len(text) > 80:
            text = text[:10] + "..." + text[-10:]
        return f'"{text}"'
    if isinstance(value, TensorShape):
        return "<unknown>" if value.rank is None else format_shape(value.dims_tuple)
    if isinstance(value, np.ndarray):
        return tensors.summarize(value)
    if isinstance(value, FuncRef):
        inside = ", ".join(f"{k}={summarize(v)}" for k, v in sorted(value.attrs.items()))
        return f"{value.name}[{inside}]" if inside else f"{value.name}[]"
    if isinstance(value, tuple):
        items = [summarize(v) for v in value]
        if len(items) > 50:
            items = [*items[:5], "...", *items[-5:]]
        return "[" + ", ".join(items) + "]"
    if isinstance(value, Unset):
        return "$" + value.name
    return repr(value)


def escaped(value: bytes) -> str:
    """Return bytes as the inside of a string literal in C."""
    special = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(special.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in value)
