"""DType <-> NumPy <-> DataType numbers."""

from __future__ import annotations

import builtins
from typing import Any, Final

import numpy as np

_FLOATING, _INTEGER, _UNSIGNED, _COMPLEX, _QUANTIZED, _SMALL = 1, 2, 4, 8, 16, 32
_REF_OFFSET: Final = 100


class DType:
    """The type of a tensor's elements.

    Interned: one object a type, so `is` and `==` agree. size: bytes an element takes in memory (0
    for string, resource and variant).
    """

    __slots__ = (
        "_base",
        "_enum",
        "_flags",
        "_limits",
        "_name",
        "_numpy",
        "_ref",
        "size",
    )

    _base: DType
    _ref: DType

    def __init__(
        self, name: str, enum: int, size: int, flags: int, numpy_type: Any, limits: Any = None
    ) -> None:
        self._name = name
        self._enum = enum
        self.size = size
        self._flags = flags
        self._numpy = numpy_type
        self._limits = limits

    @property
    def name(self) -> str:
        """TensorFlow's name: "float32", "float32_ref"."""
        return self._name

    @property
    def as_datatype_enum(self) -> int:
        """Number in the DataType enum; reference types are 100 higher."""
        return self._enum

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar type.

        A structured dtype for quantised types, object for string. Raises KeyError for resource and
        variant, as TensorFlow does.
        """
        found = self._numpy
        if found is None:
            found = self._load_numpy()
        return found

    def _load_numpy(self) -> Any:
        if not self._flags & _SMALL:
            raise KeyError(self._base._enum)
        import ml_dtypes  # 50 ms: only for graphs that hold such a type

        self._numpy = self._base._numpy = getattr(ml_dtypes, self._base._name)
        return self._numpy

    @property
    def base_dtype(self) -> DType:
        """The type without reference."""
        return self._base

    @property
    def real_dtype(self) -> DType:
        """The type of the real part."""
        if self._base is complex64:
            return float32
        if self._base is complex128:
            return float64
        return self

    @property
    def is_ref(self) -> builtins.bool:
        """Return whether this is a reference type (TF1 variables)."""
        return self._enum > _REF_OFFSET

    _is_ref_dtype = is_ref

    @property
    def _as_ref(self) -> DType:
        return self._ref

    @property
    def as_ref(self) -> DType:
        """The reference type of this type."""
        return self._ref

    @property
    def is_numpy_compatible(self) -> builtins.bool:
        """Return whether arrays of this type exist (not resource, variant)."""
        return self._numpy is not None or builtins.bool(self._flags & _SMALL)

    @property
    def is_bool(self) -> builtins.bool:
        """Return whether this is bool."""
        return self._base is bool

    @property
    def is_integer(self) -> builtins.bool:
        """Return whether this is a (not quantised) integer type."""
        return builtins.bool(self._flags & _INTEGER)

    @property
    def is_unsigned(self) -> builtins.bool:
        """Return whether this is an unsigned integer type."""
        return builtins.bool(self._flags & _UNSIGNED)

    @property
    def is_floating(self) -> builtins.bool:
        """Return whether this is a (not quantised) real floating point type."""
        return builtins.bool(self._flags & _FLOATING)

    @property
    def is_complex(self) -> builtins.bool:
        """Return whether this is a complex type."""
        return builtins.bool(self._flags & _COMPLEX)

    @property
    def is_quantized(self) -> builtins.bool:
        """Return whether this is a quantised type."""
        return builtins.bool(self._flags & _QUANTIZED)

    @property
    def is_numeric(self) -> builtins.bool:
        """Return whether arithmetic is defined."""
        return builtins.bool(self._flags & (_FLOATING | _INTEGER | _COMPLEX))

    @property
    def min(self) -> Any:
        """Lowest finite value. Raises TypeError where there is none."""
        return self._bound("minimum", 0)

    @property
    def max(self) -> Any:
        """Highest finite value. Raises TypeError where there is none."""
        return self._bound("maximum", 1)

    def _bound(self, which: str, side: int) -> Any:
        if self.is_quantized:
            raise TypeError(
                f"Cannot find {which} value of {self} with quantized type {self.base_dtype}."
            )
        if self._limits is not None:
            return self._limits[side]
        if self._flags & _FLOATING:
            info = np.finfo(self.as_numpy_dtype)
            return info.max if side else info.min
        if self._flags & _INTEGER:
            limits = np.iinfo(self.as_numpy_dtype)
            return int(limits.max if side else limits.min)
        raise TypeError(f"Cannot find {which} value of {self} with type {self.base_dtype}.")

    @property
    def limits(self) -> tuple[Any, Any]:
        """(lowest, highest) intensity that images of this type have.

        Raises ValueError (KeyError for resource and variant) where none is defined.
        """
        base = self._base
        if base in (float32, float64):
            return 0, 1
        if base is bool:
            return 0, True
        if base in (int8, int16, int32, int64, uint8, uint16, uint32, uint64):
            return 0, self.max
        if not self.is_numpy_compatible:
            raise KeyError(base._enum)
        raise ValueError(f"{self} does not have defined limits.")

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Return whether a tensor of type `other` is accepted for this type."""
        other = as_dtype(other)
        return self._enum in (other._enum, other._base._enum)

    def __eq__(self, other: object) -> builtins.bool:
        if self is other:
            return True
        if other is None:
            return False
        if not isinstance(other, DType):
            try:
                other = as_dtype(other)
            except TypeError:
                return False
        # A type and its reference are equal, as in TensorFlow only where enum numbers agree.
        return self._enum == other._enum

    def __ne__(self, other: object) -> builtins.bool:
        return not self == other

    def __hash__(self) -> int:
        return self._enum

    def __repr__(self) -> str:
        return "tf." + self._name

    def __str__(self) -> str:
        return f"<dtype: {self._name!r}>"

    def __int__(self) -> int:
        return self._enum

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self._name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: Any) -> DType:
        return self


_BY_ENUM: Final[dict[int, DType]] = {}
_BY_NAME: Final[dict[str, DType]] = {}
_BY_TYPE: Final[dict[type, DType]] = {}


def _define(
    name: str, enum: int, size: int, flags: int = 0, numpy_type: Any = None, limits: Any = None
) -> DType:
    base = DType(name, enum, size, flags, numpy_type, limits)
    ref = DType(name + "_ref", enum + _REF_OFFSET, size, flags, numpy_type, limits)
    base._base = ref._base = base
    base._ref = ref._ref = ref
    for dtype in (base, ref):
        _BY_ENUM[dtype._enum] = dtype
        _BY_NAME[dtype._name] = dtype
    if isinstance(numpy_type, type):
        _BY_TYPE[numpy_type] = base
    return base


float32 = _define("float32", 1, 4, _FLOATING, np.float32)
float64 = _define("float64", 2, 8, _FLOATING, np.float64)
int32 = _define("int32", 3, 4, _INTEGER, np.int32)
uint8 = _define("uint8", 4, 1, _INTEGER | _UNSIGNED, np.uint8)
int16 = _define("int16", 5, 2, _INTEGER, np.int16)
int8 = _define("int8", 6, 1, _INTEGER, np.int8)
string = _define("string", 7, 0, 0, object)
complex64 = _define("complex64", 8, 8, _COMPLEX, np.complex64)
int64 = _define("int64", 9, 8, _INTEGER, np.int64)
bool = _define("bool", 10, 1, 0, np.bool_)
qint8 = _define("qint8", 11, 1, _QUANTIZED, np.dtype([("qint8", np.int8)]))
quint8 = _define("quint8", 12, 1, _QUANTIZED, np.dtype([("quint8", np.uint8)]))
qint32 = _define("qint32", 13, 4, _QUANTIZED, np.dtype([("qint32", np.int32)]))
bfloat16 = _define(
    "bfloat16",
    14,
    2,
    _FLOATING | _SMALL,
    None,
    (float.fromhex("-0x1.FEp127"), float.fromhex("0x1.FEp127")),
)
qint16 = _define("qint16", 15, 2, _QUANTIZED, np.dtype([("qint16", np.int16)]))
quint16 = _define("quint16", 16, 2, _QUANTIZED, np.dtype([("quint16", np.uint16)]))
uint16 = _define("uint16", 17, 2, _INTEGER | _UNSIGNED, np.uint16)
complex128 = _define("complex128", 18, 16, _COMPLEX, np.complex128)
float16 = _define("float16", 19, 2, _FLOATING, np.float16)
resource = _define("resource", 20, 0)
variant = _define("variant", 21, 0)
uint32 = _define("uint32", 22, 4, _INTEGER | _UNSIGNED, np.uint32)
uint64 = _define("uint64", 23, 8, _INTEGER | _UNSIGNED, np.uint64)
float8_e5m2 = _define("float8_e5m2", 24, 1, _FLOATING | _SMALL, None, (-57344.0, 57344.0))
float8_e4m3fn = _define("float8_e4m3fn", 25, 1, _FLOATING | _SMALL, None, (-448.0, 448.0))
float8_e4m3fnuz = _define("float8_e4m3fnuz", 26, 1, _FLOATING | _SMALL, None, (-240.0, 240.0))
float8_e4m3b11fnuz = _define("float8_e4m3b11fnuz", 27, 1, _FLOATING | _SMALL, None, (-30.0, 30.0))
float8_e5m2fnuz = _define("float8_e5m2fnuz", 28, 1, _FLOATING | _SMALL, None, (-57344.0, 57344.0))
int4 = _define("int4", 29, 1, _INTEGER | _SMALL, None, (-8, 7))
uint4 = _define("uint4", 30, 1, _INTEGER | _UNSIGNED | _SMALL, None, (0, 15))
int2 = _define("int2", 31, 1, _INTEGER | _SMALL, None, (-2, 1))
uint2 = _define("uint2", 32, 1, _INTEGER | _UNSIGNED | _SMALL, None, (0, 3))
float4_e2m1fn = _define("float4_e2m1fn", 33, 1, _FLOATING | _SMALL, None, (-6.0, 6.0))
half = float16
double = float64

for _alias, _dtype in (("half", float16), ("float", float32), ("double", float64)):
    _BY_NAME[_alias] = _dtype
    _BY_NAME[_alias + "_ref"] = _dtype._ref
_BY_TYPE[builtins.float] = float32
_BY_TYPE[builtins.bool] = bool
_BY_TYPE[np.str_] = _BY_TYPE[np.bytes_] = _BY_TYPE[np.object_] = string
for _wide, _int_dtype in (
    (np.longlong, int64),
    (np.ulonglong, uint64),
    (np.intc, int32),
    (np.uintc, uint32),
):
    _BY_TYPE.setdefault(_wide, _int_dtype)  # C has two names for one width

# Short names as op definitions spell them.
ENUM_NAMES: Final[dict[int, str]] = {
    d._enum: "DT_"
    + {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}.get(d._name, d._name.upper())
    for d in list(_BY_ENUM.values())
    if not d.is_ref
}
ENUM_NAMES.update(
    {d._enum: ENUM_NAMES[d._base._enum] + "_REF" for d in list(_BY_ENUM.values()) if d.is_ref}
)
BY_ENUM_NAME: Final[dict[str, DType]] = {name: _BY_ENUM[enum] for enum, name in ENUM_NAMES.items()}

ALL: Final[tuple[DType, ...]] = tuple(_BY_ENUM[n] for n in range(1, 34))


def enum_name(dtype: DType) -> str:
    """Return the enum's own name, such as "DT_FLOAT"."""
    return ENUM_NAMES[dtype._enum]


def short_name(dtype: DType) -> str:
    """Return the type's name in TensorFlow's messages: "float", "half", "int32"."""
    base = ENUM_NAMES[dtype._base._enum][3:].lower()
    return base + "_ref" if dtype.is_ref else base


def as_dtype(type_value: Any) -> DType:
    """Return the DType of an enum number, name or type.

    Accepted are a DType, enum number, name, NumPy dtype or scalar type, Python type, or another
    library's DType. Raises TypeError for other values, as TensorFlow does for `int` and `str`.
    """
    if type(type_value) is int:  # the form in nearly every attr of a message
        found = _BY_ENUM.get(type_value)
        if found is not None:
            return found
    if isinstance(type_value, DType):
        return type_value
    found = None
    if isinstance(type_value, str):
        found = _BY_NAME.get(type_value) or BY_ENUM_NAME.get(type_value)
    elif isinstance(type_value, int):
        found = _BY_ENUM.get(int(type_value))
    elif isinstance(type_value, np.dtype):
        found = _from_numpy(type_value)
    elif isinstance(type_value, type):
        found = _BY_TYPE.get(type_value)
        if found is None and type_value.__module__ == "ml_dtypes":
            found = _BY_NAME.get(type_value.__name__)
    else:
        enum = getattr(type_value, "as_datatype_enum", None)
        if enum is not None:
            found = _BY_ENUM.get(int(enum))
        else:
            dtype = getattr(type_value, "dtype", None)
            if isinstance(dtype, (np.dtype, DType)):
                found = as_dtype(dtype)
    if found is None:
        raise TypeError(
            f"Cannot convert the argument `type_value`: {type_value!r} to a TensorFlow DType."
        )
    return found


def _from_numpy(dtype: np.dtype[Any]) -> DType | None:
    if dtype.names is not None:  # quantised types are one-field records named for the type
        return _BY_NAME.get(dtype.names[0]) if len(dtype.names) == 1 else None
    if dtype.type.__module__ == "ml_dtypes":
        return _BY_NAME.get(dtype.name)
    return _BY_TYPE.get(dtype.type)
