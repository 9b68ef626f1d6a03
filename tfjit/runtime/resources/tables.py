"""Lookup tables: keys to values.

A HashTable is filled once; the mutable ones change at will.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import enum_name
from tfjit.framework.types.shape import format_shape

if TYPE_CHECKING:
    from tfjit.framework.env import FileSystem
    from tfjit.framework.types.dtypes import DType

_FIRST_ROWS = 16


def type_name(dtype: DType) -> str:
    """Return a dtype as TensorFlow's messages name it: "float", "string_ref"."""
    name = enum_name(dtype.base_dtype)[3:].lower()
    return f"{name}_ref" if dtype.is_ref else name


class Table:
    """A dictionary from keys to rows of one array.

    key_shape, value_shape: of one key and value; a key that is no scalar stands in the dictionary
    as its bytes. values: rows by number, of which `used` have been given out; those in `_free` are
    no longer in use.
    """

    can_change = True
    default_for_each = True  # False: a default a key is accepted, and the first counts for all keys

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        key_shape: tuple[int, ...] = (),
        value_shape: tuple[int, ...] = (),
    ) -> None:
        self.name = name
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.key_shape = key_shape
        self.value_shape = value_shape
        self._lock = threading.Lock()
        self._rows: dict[Any, int] = {}
        self._values = np.empty((0, *value_shape), value_dtype.as_numpy_dtype)
        self._free: list[int] = []

    def size(self) -> int:
        """Return the number of keys."""
        return len(self._rows)

    def _keys(self, keys: np.ndarray) -> list[Any]:
        if not self.key_shape:
            flat: list[Any] = keys.reshape(-1).tolist()
            return flat
        rows = np.ascontiguousarray(keys).reshape(-1, *self.key_shape)
        return [row.tobytes() for row in rows]

    def _key_array(self, keys: Sequence[Any]) -> np.ndarray:
        dtype = np.dtype(self.key_dtype.as_numpy_dtype)
        if self.key_shape:
            return np.frombuffer(b"".join(keys), dtype).reshape(-1, *self.key_shape).copy()
        array = np.empty(len(keys), dtype)
        array[:] = keys
        return array

    def check_keys(self, keys: np.ndarray) -> None:
        """Check that the keys have the shape of the table's keys.

        Raises InvalidArgumentError for another shape.
        """
        rank = len(self.key_shape)
        if keys.ndim < rank or keys.shape[keys.ndim - rank :] != self.key_shape:
            shapes = format_shape(keys.shape), format_shape(self.key_shape)
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Input key shape {shapes[0]} must end with the table's key shape {shapes[1]}",
            )

    def _value_rows(self, keys: np.ndarray) -> tuple[int, ...]:
        return (*keys.shape[: keys.ndim - len(self.key_shape)], *self.value_shape)

    def find(self, keys: np.ndarray, default: np.ndarray) -> np.ndarray:
        """Return the values of keys, and `default` for missing keys.

        default: one value, or one a key. Raises InvalidArgumentError for shapes that do not fit.
        """
        self.check_keys(keys)
        shape = self._value_rows(keys)
        if default.shape not in (self.value_shape, shape):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Expected shape {format_shape(self.value_shape)} or {format_shape(shape)} for "
                "default value, "
                f"got {format_shape(default.shape)}",
            )
        return self._find(keys, default, shape)

    def _find(self, keys: np.ndarray, default: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        with self._lock:
            row_of = self._rows.get
            rows = np.array([row_of(key, -1) for key in self._keys(keys)], np.intp)
            found = rows >= 0
            if found.all():
                result = self._values[rows]
            else:
                result = np.empty((len(rows), *self.value_shape), self._values.dtype)
                each = default.reshape(-1, *self.value_shape)
                result[...] = each if self.default_for_each else each[:1]
                result[found] = self._values[rows[found]]
        return result.reshape(shape)

    def check_values(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Raise InvalidArgumentError for values that are not one a key."""
        self.check_keys(keys)
        expected = self._value_rows(keys)
        if values.shape != expected:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Expected shape {format_shape(expected)} for value, got "
                f"{format_shape(values.shape)}",
            )

    def insert(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Set the values of keys, new or known.

        Of a key that comes twice the last value counts.
        """
        self.check_values(keys, values)
        with self._lock:
            self._put(self._keys(keys), values.reshape(-1, *self.value_shape))

    def _put(self, keys: Sequence[Any], values: np.ndarray) -> None:
        rows = np.empty(len(keys), np.intp)
        for i, key in enumerate(keys):
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = self._free.pop() if self._free else len(self._rows)
            rows[i] = row
        needed = int(rows.max(initial=-1)) + 1
        if needed > len(self._values):
            grown = np.empty(
                (max(needed, 2 * len(self._values), _FIRST_ROWS), *self.value_shape),
                self._values.dtype,
            )
            grown[: len(self._values)] = self._values
            self._values = grown
        self._values[rows] = values

    def remove(self, keys: np.ndarray) -> None:
        """Drop keys; unknown ones are no error."""
        self.check_keys(keys)
        with self._lock:
            for key in self._keys(keys):
                row = self._rows.pop(key, None)
                if row is not None:
                    self._free.append(row)
            if not self._rows:
                self._free.clear()

    def import_values(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Set the whole contents."""
        self.check_values(keys, values)
        with self._lock:
            self._rows.clear()
            self._free.clear()
            self._put(self._keys(keys), values.reshape(-1, *self.value_shape))

    def export(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all keys and their values."""
        with self._lock:
            rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
            return self._key_array(list(self._rows)), self._values[rows]


class HashTable(Table):
    """A table that is filled once, as a whole."""

    can_change = False
    default_for_each = False

    def __init__(self, name: str, key_dtype: DType, value_dtype: DType) -> None:
        super().__init__(name, key_dtype, value_dtype)
        self.is_initialized = False

    def find(self, keys: np.ndarray, default: np.ndarray) -> np.ndarray:
        """Find values. Raises FailedPreconditionError before `initialize`."""
        if not self.is_initialized:
            raise errors.FailedPreconditionError(None, None, "Table not initialized.")
        return super().find(keys, default)

    def initialize(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Fill the table.

        A second time is no error when it has as many keys (TensorFlow compares no more).

        Raises FailedPreconditionError for another number of keys, and for a key that comes with two
        values; nothing is kept then.
        """
        with self._lock:
            if self.is_initialized:
                if len(keys) != len(self._rows):
                    raise errors.FailedPreconditionError(
                        None, None, "Table was already initialized with different data."
                    )
                return
            seen: dict[Any, Any] = {}
            for key, value in zip(self._keys(keys), values.tolist(), strict=True):
                known = seen.setdefault(key, value)
                if known != value:
                    raise errors.FailedPreconditionError(
                        None,
                        None,
                        f"HashTable has different value for same key. Key {_text(key)} has "
                        f"{_text(known)} and trying to add value "
                        f"{_text(value)}",
                    )
            self._put(list(seen), self._column(list(seen.values())))
            self.is_initialized = True

    def _column(self, values: list[Any]) -> np.ndarray:
        column = np.empty(len(values), self._values.dtype)
        column[:] = values
        return column

    def export(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all keys and their values. Raises AbortedError before `initialize`."""
        if not self.is_initialized:
            raise errors.AbortedError(None, None, "HashTable is not initialized.")
        return super().export()


class DenseTable(Table):
    """A mutable table with marker keys for empty and deleted places.

    Its exports hold the marker keys too.
    """

    default_for_each = False

    def __init__(
        self,
        name: str,
        key_dtype: DType,
        value_dtype: DType,
        value_shape: tuple[int, ...],
        marks: DenseMarks,
    ) -> None:
        super().__init__(name, key_dtype, value_dtype, marks.empty_key.shape, value_shape)
        self.marks = marks
        self._buckets = marks.buckets
        self._empty = self._keys(marks.empty_key)[0]
        self._deleted = self._keys(marks.deleted_key)[0] if marks.deleted_key is not None else None

    def check_keys(self, keys: np.ndarray) -> None:
        """Check shape and values of the keys.

        Raises InvalidArgumentError also for more than one dimension of keys, and for the table's
        marker keys.
        """
        super().check_keys(keys)
        expected = (*keys.shape[:1], *self.key_shape) if keys.ndim else ()
        if keys.ndim and keys.shape != expected:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Expected key shape {format_shape(expected)} got {format_shape(keys.shape)}",
            )
        given = self._keys(keys)
        for which, mark in (("empty", self._empty), ("deleted", self._deleted)):
            if mark is not None and mark in given:
                raise errors.InvalidArgumentError(
                    None, None, f"Using the {which}_key as a table key is not allowed"
                )

    def _put(self, keys: Sequence[Any], values: np.ndarray) -> None:
        super()._put(keys, values)
        while len(self._rows) > self.marks.max_load_factor * self._buckets:
            self._buckets *= 2

    def import_values(self, keys: np.ndarray, values: np.ndarray) -> None:
        """Set the whole contents from an `export`.

        Its empty and deleted places are left out.
        """
        given = self._keys(keys)
        used = [i for i, key in enumerate(given) if key != self._empty and key != self._deleted]
        width = keys.reshape(-1, *self.key_shape)[used]
        super().import_values(width, values.reshape(-1, *self.value_shape)[used])

    def export(self) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and values, with empty places.

        Keys are [buckets, size of a key], values [buckets, size of a value].
        """
        keys, values = super().export()
        all_keys = np.empty((self._buckets, *(self.key_shape or (1,))), keys.dtype)
        all_keys[:] = self.marks.empty_key
        all_keys[: len(keys)] = keys.reshape(-1, *(self.key_shape or (1,)))
        all_values = np.zeros((self._buckets, *(self.value_shape or (1,))), values.dtype)
        if values.dtype == object:
            all_values[:] = b""
        all_values[: len(values)] = values.reshape(-1, *(self.value_shape or (1,)))
        return all_keys, all_values


class DenseMarks:
    """The parameters of a dense table.

    Raises InvalidArgumentError for values that TensorFlow refuses.
    """

    def __init__(
        self,
        empty_key: np.ndarray,
        deleted_key: np.ndarray | None,
        buckets: int,
        max_load_factor: float,
    ) -> None:
        if deleted_key is not None:
            if deleted_key.shape != empty_key.shape:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    "Empty and deleted keys must have same shape, got shapes: "
                    f"{format_shape(empty_key.shape)} and "
                    f"{format_shape(deleted_key.shape)}",
                )
            if np.array_equal(empty_key, deleted_key):
                raise errors.InvalidArgumentError(
                    None, None, "Empty and deleted keys cannot be equal"
                )
        if buckets < 4 or buckets & (buckets - 1):
            raise errors.InvalidArgumentError(
                None, None, f"Number of buckets must be at least 4 and a power of 2, got: {buckets}"
            )
        if not 0 < max_load_factor < 1:
            raise errors.InvalidArgumentError(
                None, None, f"max_load_factor must be between 0 and 1, got: {max_load_factor:g}"
            )
        self.empty_key = empty_key.copy()
        self.deleted_key = deleted_key.copy() if deleted_key is not None else None
        self.buckets = buckets
        self.max_load_factor = max_load_factor


def _text(value: Any) -> str:
    return (
        value.decode(errors="replace")
        if isinstance(value, bytes)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def read_vocabulary(
    files: FileSystem,
    path: str,
    key_dtype: DType,
    value_dtype: DType,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: bytes,
    offset: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys and values from the lines of a text file.

    key_index, value_index: column of a line split at `delimiter`; -1 the line's number (plus
    `offset`), -2 the whole line. vocab_size: how many lines to read; -1 all. Raises NotFoundError
    without such a file, InvalidArgumentError for lines that do not fit.
    """
    for what, index, dtype in (("Key", key_index, key_dtype), ("Value", value_index, value_dtype)):
        if index == -1 and dtype.name != "int64":
            raise errors.InvalidArgumentError(
                None,
                None,
                f"{what} index for line number requires table {what.lower()} dtype of int64, got "
                f"{type_name(dtype)}",
            )
    content = files.read(path)
    if not content:
        raise errors.OutOfRangeError(None, None, "Read less bytes than requested")
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if vocab_size >= 0:
        if len(lines) < vocab_size:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Invalid vocab_size in {path}: expected {vocab_size} but got {len(lines)}",
            )
        lines = lines[:vocab_size]
    columns = max(key_index, value_index) + 1
    keys: list[Any] = []
    values: list[Any] = []
    parse_key, parse_value = _parser(key_dtype), _parser(value_dtype)
    position = 0
    for number, ended in enumerate(lines):
        position += len(ended) + 1
        line = ended.removesuffix(b"\r")
        if not line:
            raise errors.InvalidArgumentError(
                None, None, f"Invalid content in {path}: empty line found at position {position}."
            )
        tokens = line.split(delimiter) if columns > 0 else []
        if len(tokens) < columns:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Invalid number of columns in {path} line {number} ({_text(line)}) : expected at "
                f"least {columns} got {len(tokens)}",
            )
        for index, parse, found in (
            (key_index, parse_key, keys),
            (value_index, parse_value, values),
        ):
            found.append(
                number + offset
                if index == -1
                else parse(line if index == -2 else tokens[index], number)
            )
    return _array(keys, key_dtype), _array(values, value_dtype)


def _array(values: list[Any], dtype: DType) -> np.ndarray:
    array = np.empty(len(values), dtype.as_numpy_dtype)
    array[:] = values
    return array


def _parser(dtype: DType) -> Callable[[bytes, int], Any]:
    """Return a function of field and line number to the value.

    Raises InvalidArgumentError for a field of another type.
    """
    if dtype.name == "string":
        return lambda field, line: field
    bits = 8 * dtype.size
    whole = dtype.is_integer

    def parse(field: bytes, line: int) -> Any:
        try:
            number = int(field) if whole else float(field)
            if whole and not -(1 << bits - 1) <= number < 1 << bits - 1:
                raise ValueError
        except ValueError:
            text = f"Field {_text(field)} in line {line} is not a valid {type_name(dtype)}."
            raise errors.InvalidArgumentError(None, None, text) from None
        return number

    if not (whole or dtype.is_floating):
        raise errors.InvalidArgumentError(
            None, None, f"Data type {type_name(dtype)} not supported."
        )
    return parse
