"""Storage for the elements of tensor arrays and tensor lists.

Elements of one shape lie in one array `data` [capacity, *element shape], a byte of `flags` beside
each: so a million scalars take four bytes each and not an object, a list made of a tensor is that
tensor, and stacking is a view. Compiled loops read and write the same two arrays. Elements of
different shapes, strings, variants and big ones are held by reference in `items`.

A value that was given out is never changed: a row of `data` that a caller may hold (`exported`) is
not written again, and where it would have to be, the elements move to `items` for good. Values that
come in are kept, not copied, so a caller whose memory will be used again passes a copy. Not
thread-safe: the owner of the elements has the lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

UNSET: Final = 0
SET: Final = 1
ZERO: Final = 2  # counts as set, to zeros that are not made yet
USED: Final = 4  # unset again, but the row may have been given out
# a larger element is cheaper kept by reference than copied into `data`
MAX_ROW_BYTES: Final = 1 << 16
_MIN_CAPACITY: Final = 8


class Zeros:
    """An element of zeros that has no memory yet."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class Elements:
    """A sequence of `length` elements, each set or not.

    np_dtype: of the elements; None for types that arrays of numbers do not hold. data, items:
    exactly one is in use once an element was set. flags: uint8 [capacity], UNSET, SET, ZERO or
    USED. exported: rows of `data` may be held outside.
    """

    __slots__ = ("data", "exported", "flags", "items", "length", "np_dtype")

    def __init__(self, np_dtype: np.dtype | None, length: int = 0) -> None:
        self.np_dtype = np_dtype
        self.length = length
        self.data: np.ndarray | None = None
        self.items: list[Any] | None = None if np_dtype is not None else [None] * length
        self.flags = np.zeros(max(length, _MIN_CAPACITY), np.uint8)
        self.exported = False

    @classmethod
    def of_rows(cls, array: np.ndarray) -> Elements:
        """Make elements of the rows of an array, all set.

        array: [length, ...], kept itself and never written.
        """
        made = cls(None if array.dtype == object else array.dtype)
        made.length = array.shape[0]
        made.flags = np.full(max(made.length, _MIN_CAPACITY), UNSET, np.uint8)
        made.flags[: made.length] = SET
        if made.np_dtype is None:
            made.items = [array[i, ...] for i in range(made.length)]
        else:
            made.data = array
            made.exported = True
        return made

    @classmethod
    def of_values(cls, np_dtype: np.dtype | None, values: list[Any]) -> Elements:
        """Return the elements held by reference; None is unset."""
        made = cls(np_dtype)
        made.length = len(values)
        made.items = values
        made.flags = np.zeros(max(len(values), _MIN_CAPACITY), np.uint8)
        made.flags[: len(values)] = [value is not None for value in values]
        return made

    def copy(self, length: int | None = None) -> Elements:
        """Copy the elements to other memory. O(length).

        length: of the copy; elements past the end are unset.
        """
        made = Elements(self.np_dtype)
        made.length = self.length if length is None else length
        kept = min(self.length, made.length)
        made.flags = np.zeros(max(made.length, _MIN_CAPACITY), np.uint8)
        made.flags[:kept] = self.flags[:kept] & (SET | ZERO)
        if self.data is not None:
            made.data = np.zeros((len(made.flags), *self.data.shape[1:]), self.data.dtype)
            rows = min(kept, len(self.data))  # an array from outside may end before the list does
            made.data[:rows] = self.data[:rows]
        elif self.items is not None:
            made.items = [*self.items[:kept], *[None] * (made.length - kept)]
        return made

    @property
    def uniform_shape(self) -> tuple[int, ...] | None:
        """The shape of all set elements, where they lie in `data`."""
        return self.data.shape[1:] if self.data is not None else None

    def is_set(self, index: int) -> bool:
        """Return whether an element has a value, unmade zeros included."""
        return bool(self.flags[index] & (SET | ZERO))

    def is_zero(self, index: int) -> bool:
        """Return whether an element is zeros that are not made yet."""
        return bool(self.flags[index] & ZERO)

    def shape(self, index: int) -> tuple[int, ...] | None:
        """Return the shape of an element; None where it is not set."""
        if not self.is_set(index):
            return None
        if self.data is not None:
            return self.data.shape[1:]
        item = self._item(index)
        return item.shape if isinstance(item, Zeros) else np.shape(item)

    def get(self, index: int) -> Any:
        """Return an element, or None where unset or unmade (`zeros`)."""
        if self.flags[index] != SET:
            return None
        data = self.data
        if data is None:
            return self._item(index)
        self.exported = True
        return data[index, ...]

    def get_copy(self, index: int) -> Any:
        """Return an element, safe from later changes of it."""
        value = self.get(index) if self.items is not None or self.exported else None
        if value is None and self.flags[index] == SET:
            assert self.data is not None
            value = np.array(self.data[index])
        return value

    def any_set(self, length: int) -> bool:
        """Return whether one of the first elements is set."""
        return bool((self.flags[:length] & (SET | ZERO)).any())

    def _item(self, index: int) -> Any:
        assert self.items is not None
        return self.items[index]

    def set(self, index: int, value: Any) -> None:
        """Give an element a value."""
        if self.items is None and not self._row(index, value):
            self._loosen()
        if self.items is not None:
            self.items[index] = value
        self.flags[index] = SET

    def _row(self, index: int, value: Any) -> bool:
        """Write the value into its row of `data`, if it belongs there."""
        value = np.asarray(value)
        data = self.data
        if data is None:
            if (
                value.nbytes > MAX_ROW_BYTES
                or value.dtype != self.np_dtype
                or self.flags[: self.length].any()
            ):
                return False
            data = self.data = np.zeros((len(self.flags), *value.shape), self.np_dtype)
        elif (
            value.shape != data.shape[1:]
            or value.dtype != data.dtype
            or (self.exported and self.flags[index] & (SET | USED))
        ):
            return False
        elif len(data) < self.length:  # rows of an array from outside that ends here
            data = self._grow(self.length)
        assert data is not None
        data[index] = value
        return True

    def add(self, index: int, value: np.ndarray) -> None:
        """Add to an element that is set and has a value."""
        if self.data is not None and not self.exported:
            np.add(self.data[index], value, out=self.data[index, ...])
        else:
            self.set(index, np.asarray(self.get(index)) + value)

    def _loosen(self) -> None:
        """Move every element to `items` for good. O(length)."""
        data = self.data
        self.items = [None] * self.length
        if data is not None:
            for i in np.flatnonzero(self.flags[: self.length]):
                self.items[i] = Zeros(data.shape[1:]) if self.flags[i] & ZERO else data[i, ...]
        self.data = None

    def clear(self, index: int) -> None:
        """Forget an element's value. Rows keep their memory."""
        self.flags[index] = USED
        if self.items is not None:
            self.items[index] = None

    def drop(self, index: int) -> None:
        """Let an element's memory go and keep its shape.

        Rows keep their memory.
        """
        if self.items is not None:
            self.items[index] = Zeros(np.shape(self.items[index]))

    def mark_zero(self, index: int, shape: tuple[int, ...]) -> None:
        """Make an element zeros of a shape."""
        if self.items is None and (
            self.data is None or self.data.shape[1:] != shape or self.flags[index]
        ):
            self._loosen()
        if self.items is not None:
            self.items[index] = Zeros(shape)
        self.flags[index] = ZERO

    def make_zero(self, index: int, dtype: DType) -> Any:
        """Make the element that `mark_zero` promised, zeros of a type."""
        if self.data is not None and index < len(self.data):
            self.flags[index] = SET
        else:
            self.set(index, zeros(dtype, self.shape(index) or ()))
        return self.get(index)

    def zeros_of_rows(self, shape: tuple[int, ...], flags: np.ndarray) -> None:
        """Make those elements zeros that `flags` [length] says, all of one shape.

        Nothing may have been set.
        """
        self.data = np.zeros((len(self.flags), *shape), self.np_dtype)
        self.flags[: self.length][flags] = ZERO

    def resize(self, length: int) -> None:
        """Change the length; new elements are unset.

        A growth by one costs O(1) over many of them.
        """
        if length > len(self.flags):
            self._grow(max(length, 2 * len(self.flags)))
        if self.items is not None:
            if length < self.length:
                del self.items[length:]
            else:
                self.items.extend([None] * (length - self.length))
        if length < self.length:
            self.flags[length : self.length] = USED if self.items is None else UNSET
        self.length = length

    def _grow(self, capacity: int) -> np.ndarray | None:
        """Make room; the new `data`."""
        if capacity > len(self.flags):
            flags = np.zeros(capacity, np.uint8)
            flags[: len(self.flags)] = self.flags
            self.flags = flags
        data = self.data
        if data is not None:
            grown = np.zeros((max(capacity, len(self.flags)), *data.shape[1:]), data.dtype)
            grown[: len(data)] = data
            self.data = grown
            self.exported = False
            # rows that were given out lie in the old array
            np.copyto(self.flags, UNSET, where=self.flags == USED)
        return self.data

    def block(self, start: int, count: int) -> np.ndarray | None:
        """Return elements as a view [count, ...] of `data`.

        The elements are start..start+count-1. None where they do not lie there or one is not set.
        """
        data = self.data
        if data is None or count == 0 or start + count > len(data):
            return None
        flags = self.flags[start : start + count]
        if not (flags & (SET | ZERO)).all():
            return None
        flags[flags == ZERO] = SET  # the rows are there, and nothing will be written over them
        self.exported = True
        return data[start : start + count]

    def take(self, indices: np.ndarray) -> np.ndarray | None:
        """Return the elements at `indices` in a new array.

        None where they do not lie in `data` or one is not set.
        """
        data = self.data
        if data is None or indices.size == 0:
            return None
        first, last = int(indices[0]), int(indices[-1])
        if last - first == indices.size - 1 and (np.diff(indices) == 1).all():
            return self.block(first, indices.size)
        if int(indices.max()) >= len(data) or not (self.flags[indices] & (SET | ZERO)).all():
            return None
        return data[indices]

    def nbytes(self) -> int:
        """Return the memory held, without memory that elements in `items` share."""
        if self.data is not None:
            return self.data.nbytes + self.flags.nbytes
        return self.flags.nbytes + sum(getattr(item, "nbytes", 0) for item in self.items or ())


def zeros(dtype: DType, shape: tuple[int, ...]) -> Any:
    """Return an element of zeros: empty strings, False, 0.

    dtype: a DType that arrays hold.
    """
    np_dtype = np.dtype(dtype.as_numpy_dtype)
    return np.full(shape, b"", object) if np_dtype.hasobject else np.zeros(shape, np_dtype)


def stack(dtype: DType, values: list[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Return elements of one shape as an array [count, *shape].

    Variants become an array of objects.
    """
    if not dtype.is_numpy_compatible or np.dtype(dtype.as_numpy_dtype).hasobject:
        result = np.empty((len(values), *shape), object)
        for i, value in enumerate(values):
            result[i] = value[()] if isinstance(value, np.ndarray) else value
        return result
    if not values:
        return np.zeros((0, *shape), dtype.as_numpy_dtype)
    result = np.empty((len(values), *shape), dtype.as_numpy_dtype)
    for i, value in enumerate(values):
        result[i] = value
    return result
