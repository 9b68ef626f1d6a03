"""Tensor lists: values that seem copied at every change.

The elements belong to the newest version of a list. A change to it writes in place, hands the
elements to the version it makes, and leaves an undo record in the old one (H. Baker, "Shallow
binding makes functional arrays fast", 1991). So a loop that carries a list round changes it in
O(1), even while others hold an old version; versions that have no holder are garbage with their
undo records. An old version that is read far from the newest takes a copy for itself, and so does a
change after more changes than the list is long: then the holder of one version does not keep them
all.

A compiled loop takes a list whole: `whole()` is one ndarray [length, *element shape],
`TensorList.of_rows` makes a list of one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import Shape, format_shape, is_compatible
from tfjit.runtime.resources.element_buffer import UNSET, Elements, stack, zeros
from tfjit.runtime.resources.tensor_arrays import array_dtype, invalid, merge_shapes, shape_text

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

_NEAR: Final = 16  # versions to the newest from which one element is read without a copy
_MIN_CHANGES: Final = 64  # changes of a short list before it is copied


class TensorList:
    """One version of a list: a value on a graph's edge.

    The value is a scalar of dtype variant. element_shape: the known part of every element's shape.
    max_length: elements, negative for no limit. Thread-safe.
    """

    __slots__ = (
        "_changes",
        "_elements",
        "_lock",
        "_newer",
        "_undo",
        "element_dtype",
        "element_shape",
        "length",
        "max_length",
    )

    def __init__(
        self,
        element_dtype: DType,
        element_shape: Shape,
        elements: Elements,
        max_length: int = -1,
        lock: threading.Lock | None = None,
        changes: int = 0,
    ) -> None:
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.max_length = max_length
        self.length = elements.length
        self._elements: Elements | None = elements
        self._newer: TensorList | None = None
        # (index, old element; None for unset), of a version that a newer one replaced
        self._undo: tuple[int, Any] | None = None
        self._changes = changes  # since the elements were copied
        self._lock = lock if lock is not None else threading.Lock()

    @classmethod
    def unset(
        cls, element_dtype: DType, element_shape: Shape, length: int, max_length: int = -1
    ) -> TensorList:
        """Return a list of elements that are not set."""
        return cls(
            element_dtype, element_shape, Elements(array_dtype(element_dtype), length), max_length
        )

    @classmethod
    def of_rows(cls, element_dtype: DType, element_shape: Shape, array: np.ndarray) -> TensorList:
        """Make a list of the rows of an array; O(1) for numbers.

        array: [length, ...], not written by any thread from now on.
        """
        return cls(element_dtype, element_shape, Elements.of_rows(array))

    @classmethod
    def of_values(
        cls, element_dtype: DType, element_shape: Shape, values: list[Any], max_length: int = -1
    ) -> TensorList:
        """Return a list of values; None is unset."""
        return cls(
            element_dtype,
            element_shape,
            Elements.of_values(array_dtype(element_dtype), values),
            max_length,
        )

    # reading

    def get(self, index: int) -> Any:
        """Return an element, None where unset. index must be in range."""
        with self._lock:
            version = self
            for _ in range(_NEAR):
                if version._elements is not None:
                    return version._elements.get(index)
                undo = version._undo
                if undo is not None and undo[0] == index:
                    return undo[1]
                assert version._newer is not None
                version = version._newer
            return self._own().get(index)

    def values(self) -> list[Any]:
        """Return all elements, None where not set."""
        with self._lock:
            elements = self._own()
            return [elements.get(i) for i in range(self.length)]

    def whole(self) -> np.ndarray | None:
        """Return all elements as one array [length, *element shape].

        No caller may write to it. None where they do not lie in one, or one is not set.
        """
        with self._lock:
            return self._own().block(0, self.length)

    def take(self, indices: np.ndarray) -> np.ndarray | None:
        """Return the elements at `indices`, as `whole`."""
        with self._lock:
            return self._own().take(indices)

    def uniform_shape(self) -> tuple[Shape | str, bool]:
        """Return (shape of all set elements, True if some may be unset).

        The shape is None where they differ or a look-up would be expensive, "" where none is set.
        """
        with self._lock:
            version = self
            while version._elements is None:
                assert version._newer is not None
                version = version._newer
            elements = version._elements
            is_newest = version is self
            if elements.data is not None:
                return elements.data.shape[1:], not (
                    is_newest and bool((elements.flags[: elements.length] != UNSET).all())
                )
            return (None if elements.any_set(elements.length) else ""), not (
                is_newest and self.length == 0
            )

    def nbytes(self) -> int:
        """Return the memory that the elements hold."""
        with self._lock:
            return self._own().nbytes()

    def _own(self) -> Elements:
        """Return this version's elements, copied from the newest where needed."""
        if self._elements is not None:
            return self._elements
        versions = [self]
        while versions[-1]._elements is None:
            newer = versions[-1]._newer
            assert newer is not None
            versions.append(newer)
        newest = versions.pop()
        assert newest._elements is not None
        elements = newest._elements.copy(max(version.length for version in (newest, *versions)))
        for version in reversed(versions):
            if version._undo is not None:
                index, value = version._undo
                if value is None:
                    elements.clear(index)
                else:
                    elements.set(index, value)
        elements.resize(self.length)
        self._elements, self._newer, self._undo, self._changes = elements, None, None, 0
        return elements

    # changes

    def _changed(self, length: int, index: int, change: Callable[[Elements], None]) -> TensorList:
        """Return the next version, with `change` applied at `index`.

        length: number of elements of the new version.
        """
        with self._lock:
            elements = self._own()
            if self._changes > max(self.length, _MIN_CHANGES):
                made = self._next(elements.copy(), 0)
                elements = made._elements  # type: ignore[assignment]
            else:
                undo = None
                if index < self.length:
                    before = elements.get_copy(index) if index < length else elements.get(index)
                    undo = (index, before)
                made = self._next(elements, self._changes + 1)
                self._elements, self._newer, self._undo = None, made, undo
            if length > self.length:
                elements.resize(length)
                change(elements)
            else:
                change(elements)
                if length < self.length:
                    elements.resize(length)
            made.length = length
            return made

    def _next(self, elements: Elements, changes: int) -> TensorList:
        return TensorList(
            self.element_dtype, self.element_shape, elements, self.max_length, self._lock, changes
        )

    def set(self, index: int, value: Any) -> TensorList:
        """Return the list with another element at `index`.

        A list that was too short grows, with unset elements between.
        """
        return self._changed(
            max(self.length, index + 1), index, lambda elements: elements.set(index, value)
        )

    def push(self, value: Any) -> TensorList:
        """Return the list with one more element."""
        return self.set(self.length, value)

    def pop(self) -> tuple[TensorList, Any]:
        """Return the list without its last element, and that element.

        The element is None where it was not set.
        """
        last = self.length - 1
        value = self.get(last)
        return self._changed(last, last, lambda elements: elements.clear(last)), value

    def copy(self, length: int | None = None) -> TensorList:
        """Return the list cut or extended to a length, in other memory.

        Added elements are unset. O(length).
        """
        with self._lock:
            return TensorList(
                self.element_dtype, self.element_shape, self._own().copy(length), self.max_length
            )

    # shapes

    def merged_shape(self, shape: Shape) -> Shape:
        """Merge `shape` with the list's own and the set elements' shapes."""
        merged = merge_shapes(shape, self.element_shape)
        with self._lock:
            elements = self._own()
            uniform = elements.uniform_shape
            if uniform is not None:
                return merge_shapes(merged, uniform) if elements.any_set(self.length) else merged
            for i in range(self.length):
                found = elements.shape(i)
                if found is not None:
                    merged = merge_shapes(merged, found)
        return merged

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Return whether an element may have this shape."""
        return is_compatible(self.element_shape, shape)

    def __repr__(self) -> str:
        return (
            f"<TensorList of {self.length} "
            f"{self.element_dtype.name}{shape_text(self.element_shape)}>"
        )


def zero_element(dtype: DType, shape: Shape) -> Any:
    """Return the value that an unset element is read as.

    Variants have no zeros: None, as an unset variant is.
    """
    if not dtype.is_numpy_compatible:
        return None
    return zeros(dtype, tuple(d for d in shape or () if d is not None))


def stack_values(dtype: DType, values: Sequence[Any], shape: Shape) -> np.ndarray:
    """Stack elements along a new first dimension, zeros where None.

    shape: fully known.
    """
    full = tuple(d for d in shape or () if d is not None)
    if not dtype.is_numpy_compatible:
        return stack(dtype, list(values), full)
    empty: Any = None
    made = []
    for value in values:
        if value is None:
            value = empty = zeros(dtype, full) if empty is None else empty
        made.append(value)
    return stack(dtype, made, full)


def add_lists(a: TensorList, b: TensorList, add: Callable[[Any, Any], Any]) -> TensorList:
    """Return elementwise sums of two lists.

    An element that is set in one list only is taken from it. Raises InvalidArgumentError where the
    lists do not fit.
    """
    if a.element_dtype != b.element_dtype:
        one, other = short_name(a.element_dtype), short_name(b.element_dtype)
        raise invalid(
            f"Trying to add two lists of tensors of different dtypes. One is {one} and the other "
            f"is {other}"
        )
    if a.length != b.length:
        raise invalid(
            f"Trying to add two lists of tensors with different lengths. One is {a.length} and the "
            f"other is {b.length}"
        )
    if not is_compatible(a.element_shape, b.element_shape):
        one, other = shape_text(a.element_shape), shape_text(b.element_shape)
        raise invalid(
            f"Trying to add two lists of tensors with incompatible element shapes. One is {one} "
            f"and the other is {other}"
        )
    shape = merge_shapes(a.element_shape, b.element_shape)
    left, right = a.whole(), b.whole()
    if left is not None and right is not None and left.shape == right.shape:
        return TensorList.of_rows(a.element_dtype, shape, left + right)
    sums: list[Any] = []
    for x, y in zip(a.values(), b.values(), strict=True):
        if x is None or y is None:
            sums.append(y if x is None else x)
            continue
        if np.shape(x) != np.shape(y):
            raise invalid(
                "Trying to add two tensors with incompatible element shapes. One is "
                f"{format_shape(np.shape(x))} and the other is "
                f"{format_shape(np.shape(y))}"
            )
        sums.append(add(x, y))
    return TensorList.of_values(a.element_dtype, shape, sums)
