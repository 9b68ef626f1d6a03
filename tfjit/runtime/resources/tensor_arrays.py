"""Tensor arrays, which TF1's loops read from and write to.

Each run of a TensorArray node makes a new one; a handle is the array itself, so it dies with the
step, and its gradient arrays with it. A compiled loop takes an array whole: `whole()` is one
ndarray [size, *element shape], `fill` makes one ndarray all of its elements. Both cost O(1).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import short_name
from tfjit.framework.types.shape import Shape, format_shape, is_compatible, is_fully_defined
from tfjit.runtime.resources.element_buffer import Elements, stack

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

_WRITTEN: Final = 1
_READ: Final = 2
_CLEARED: Final = 4
_numbers: Final = itertools.count()


def shape_text(shape: Shape) -> str:
    """Return a partly known shape in messages: "[?,2]", "<unknown>" for unknown rank."""
    return "<unknown>" if shape is None else format_shape(shape)


def merge_shapes(a: Shape, b: Shape) -> Shape:
    """Return the shape that merges both.

    Raises InvalidArgumentError in the words of TensorFlow's kernels.
    """
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise invalid(f"PartialTensorShape: Incompatible ranks during merge: {len(a)} vs. {len(b)}")
    if not is_compatible(a, b):
        raise invalid(
            f"PartialTensorShape: Incompatible shapes during merge: {format_shape(a)} vs. "
            f"{format_shape(b)}"
        )
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def invalid(text: str) -> errors.InvalidArgumentError:
    """Return an InvalidArgumentError without a node: the executor adds it."""
    return errors.InvalidArgumentError(None, None, text)


def array_dtype(dtype: DType) -> np.dtype | None:
    """Return the NumPy dtype of a numeric type.

    None for strings, resources and variants.
    """
    if not dtype.is_numpy_compatible:
        return None
    found = np.dtype(dtype.as_numpy_dtype)
    return None if found.hasobject else found


class TensorArray:
    """A tensor array.

    size: elements, -1 refused. element_shape: the known part of every element's shape; `identical`
    makes the first element's shape the shape of all. dynamic_size: writes may make it grow.
    clear_after_read: an element is read once. source: of a gradient array, its name; then writes
    add up, and unwritten elements are zeros. Thread-safe.
    """

    __slots__ = (
        "_closed",
        "_elements",
        "_lock",
        "_marks",
        "clear_after_read",
        "dtype",
        "dynamic_size",
        "element_shape",
        "gradients",
        "identical",
        "name",
        "source",
    )

    def __init__(
        self,
        name: str,
        dtype: DType,
        size: int,
        element_shape: Shape = None,
        *,
        identical: bool = False,
        dynamic_size: bool = False,
        clear_after_read: bool = True,
        source: str | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.element_shape = element_shape
        self.identical = identical
        self.dynamic_size = dynamic_size
        self.clear_after_read = clear_after_read
        self.source = source
        self.gradients: dict[str, TensorArray] = {}
        self._elements = Elements(array_dtype(dtype), size)
        self._marks = np.zeros(size, np.uint8)
        self._closed = False
        self._lock = threading.RLock()

    @classmethod
    def named(cls, name: str, *args: Any, **kw: Any) -> TensorArray:
        """Make an array with a name that is unique in this process."""
        return cls(f"{name}_{next(_numbers)}", *args, **kw)

    def handle(self) -> np.ndarray:
        """Return the handle in the form before resources: [container, name]."""
        container = b"_tensor_arrays" if self.source is None else b"_tensor_array_grads"
        return np.array([container, self.name.encode()], object)

    @property
    def size(self) -> int:
        """Elements. Raises InvalidArgumentError once it is closed."""
        with self._lock:
            self._check_open()
            return self._elements.length

    def close(self) -> None:
        """Free the elements; every later use but closing raises."""
        with self._lock:
            self._closed = True
            self._elements = Elements(self._elements.np_dtype)
            self._marks = np.zeros(0, np.uint8)

    def nbytes(self) -> int:
        """Return the memory that the elements hold."""
        return self._elements.nbytes()

    # Writing

    def write(self, index: int, value: Any) -> None:
        """Write an element, or add to it in a gradient array.

        Raises InvalidArgumentError in TensorFlow's words.
        """
        with self._lock:
            self._check_open()
            self._write(index, value)

    def write_many(self, indices: Sequence[int], values: Sequence[Any]) -> None:
        """Write elements in order, up to the first that does not fit."""
        with self._lock:
            self._check_open()
            for index, value in zip(indices, values, strict=True):
                self._write(int(index), value)

    def fill(self, value: np.ndarray) -> bool:
        """Make the rows of an array the elements, without a copy.

        value: [size, ...]. False, with no change, where an element has been written, the sizes
        differ, or the rows do not fit: then the caller writes them one by one.
        """
        with self._lock:
            self._check_open()
            elements = self._elements
            if (
                value.ndim == 0
                or value.shape[0] != elements.length
                or not elements.length
                or elements.np_dtype != value.dtype
                or self._marks.any()
                or not is_compatible(self.element_shape, value.shape[1:])
            ):
                return False
            self._elements = Elements.of_rows(value)
            self._marks[: value.shape[0]] = _WRITTEN
            self._learn_shape(value.shape[1:])
            return True

    def grow(self, size: int) -> None:
        """Make a dynamic array at least so long."""
        with self._lock:
            if self.dynamic_size and size > self._elements.length:
                self._resize(size)

    def _resize(self, size: int) -> None:
        self._elements.resize(size)
        if size > len(self._marks):
            marks = np.zeros(max(size, 2 * len(self._marks)), np.uint8)
            marks[: len(self._marks)] = self._marks
            self._marks = marks

    def _write(self, index: int, value: Any) -> None:
        elements = self._elements
        if index < 0 or index >= elements.length:
            if index < 0 or not self.dynamic_size:
                raise self._error(
                    f"Tried to write to index {index} but array is not resizeable and size is: "
                    f"{elements.length}"
                )
            self._resize(index + 1)
        shape = np.shape(value)
        if not is_compatible(self.element_shape, shape):
            raise self._error(
                f"Could not write to TensorArray index {index} because the value shape is "
                f"{format_shape(shape)} which is incompatible "
                f"with the TensorArray's inferred element shape: {shape_text(self.element_shape)} "
                "(consider setting infer_shape=False)."
            )
        self._learn_shape(shape)
        marks = self._marks[index]
        if marks & _READ:
            raise self._error(
                f"Could not write to TensorArray index {index} because it has already been read."
            )
        if not marks & _WRITTEN:
            elements.set(index, value)
            self._marks[index] = _WRITTEN
            return
        if self.source is None:
            raise self._error(
                f"Could not write to TensorArray index {index} because it has already been written "
                "to."
            )
        known = elements.shape(index)
        if known != shape:
            raise self._error(
                f"Could not aggregate to TensorArray index {index} because the existing shape is "
                f"{format_shape(known)} but the new "
                f"input shape is {format_shape(shape)}."
            )
        if elements.is_zero(index):
            elements.set(index, value)
        elif not self.dtype.is_numeric and not self.dtype.is_quantized:
            raise invalid(f"tensor_array::AddToTensor type not supported: {short_name(self.dtype)}")
        else:
            elements.add(index, value)

    def _learn_shape(self, shape: tuple[int, ...]) -> None:
        if self.identical and not is_fully_defined(self.element_shape):
            self.element_shape = shape

    # Reading

    def read(self, index: int) -> Any:
        """Return an element.

        Zeros for an unwritten one of a gradient array, and where the element shape is known.
        """
        with self._lock:
            self._check_open()
            return self._read(index)

    def read_many(self, indices: np.ndarray) -> tuple[np.ndarray | None, list[Any]]:
        """Return elements by index, in one array or separately.

        (all in one array, []) where they lie in one, else (None, one by one).
        """
        with self._lock:
            self._check_open()
            gathered = self._gathered_read(indices)
            return (
                (gathered, [])
                if gathered is not None
                else (None, [self._read(int(i)) for i in indices])
            )

    def whole(self) -> np.ndarray | None:
        """Return all elements as one array [size, *element shape].

        No caller may write to it. None where they do not lie in one, or one is not set or has been
        cleared. They are not marked as read.
        """
        with self._lock:
            self._check_open()
            size = self._elements.length
            if (self._marks[:size] & _CLEARED).any():
                return None
            return self._elements.block(0, size)

    def _gathered_read(self, indices: np.ndarray) -> np.ndarray | None:
        if (
            indices.size == 0
            or int(indices.min()) < 0
            or int(indices.max()) >= self._elements.length
        ):
            return None
        if (self._marks[indices] & (_WRITTEN | _CLEARED) != _WRITTEN).any():
            return None
        if self.clear_after_read and indices.size > 1 and len(np.unique(indices)) < indices.size:
            return None
        gathered = self._elements.take(indices)
        if gathered is not None:
            self._marks[indices] |= _READ | (_CLEARED if self.clear_after_read else 0)
        return gathered

    def _read(self, index: int) -> Any:
        elements = self._elements
        if index < 0 or (index >= elements.length and self.source is None):
            raise invalid(f"Tried to read from index {index} but array size is: {elements.length}")
        if index >= elements.length or not self._marks[index] & _WRITTEN:
            shape = self.element_shape
            if not is_fully_defined(shape):
                raise self._error(
                    f"Could not read from TensorArray index {index}.  Furthermore, the element "
                    "shape is not fully defined: "
                    f"{shape_text(shape)}.  It is possible you are working with a resizeable "
                    "TensorArray and stop_gradients is not "
                    "allowing the gradients to be written.  If you set the full element_shape "
                    "property on the forward TensorArray, "
                    "the proper all-zeros tensor will be returned instead of incurring this error."
                )
            # an unwritten gradient, of an element that a dynamic array had
            if index >= elements.length:
                self._resize(index + 1)
            elements.mark_zero(index, tuple(d for d in shape or () if d is not None))
            self._marks[index] = _WRITTEN
        if self._marks[index] & _CLEARED:
            raise self._error(
                f"Could not read index {index} twice because it was cleared after a previous read "
                "(perhaps try setting clear_after_read = false?)."
            )
        value = self._made(index)
        self._marks[index] |= _READ
        if self.clear_after_read:
            self._marks[index] |= _CLEARED
            elements.drop(index)
        return value

    def _made(self, index: int) -> Any:
        elements = self._elements
        if not elements.is_zero(index):
            return elements.get(index)
        if array_dtype(self.dtype) is None:
            raise invalid(
                f"tensor_array::TensorSetZero type not supported: {short_name(self.dtype)}"
            )
        return elements.make_zero(index, self.dtype)

    # Gradients

    def gradient(self, source: str, prepend: tuple[int, ...] = ()) -> TensorArray:
        """Return the gradient array of the name, made at the first call.

        It has this array's size and shapes; this array may not grow afterwards. prepend: sizes
        before the sizes of every element.
        """
        if self.source is not None:
            raise invalid(f"Wrong input container. _tensor_array_grads{self.name}")
        with self._lock:
            self._check_open()
            self.dynamic_size = False
            found = self.gradients.get(source)
            if found is None:
                found = self.gradients[source] = self._new_gradient(source, prepend)
            return found

    def _new_gradient(self, source: str, prepend: tuple[int, ...]) -> TensorArray:
        elements = self._elements
        size = elements.length
        shape = self.element_shape
        made = TensorArray(
            f"{self.name}@{source}",
            self.dtype,
            size,
            None if shape is None else (*prepend, *shape),
            identical=self.identical,
            source=source,
        )
        written = (self._marks[:size] & _WRITTEN).astype(bool)
        made._marks[written] = _WRITTEN
        uniform = elements.uniform_shape
        if uniform is not None:
            made._elements.zeros_of_rows((*prepend, *uniform), written)
        else:
            for i in np.flatnonzero(written):
                made._elements.mark_zero(int(i), (*prepend, *(elements.shape(int(i)) or ())))
        return made

    # Checks

    def merge_element_shape(self, shape: Shape) -> None:
        """Merge a shape into every element's shape."""
        with self._lock:
            self._check_open()
            self.element_shape = merge_shapes(self.element_shape, shape)

    def _check_open(self) -> None:
        if self._closed:
            raise invalid(f"TensorArray {self.name} has already been closed.")

    def _error(self, text: str) -> errors.InvalidArgumentError:
        return invalid(f"TensorArray {self.name}: {text}")


def stacked(array: TensorArray, values: list[Any]) -> np.ndarray:
    """Return values of one shape, read from an array, as [count, ...]."""
    return stack(array.dtype, values, np.shape(values[0]))
