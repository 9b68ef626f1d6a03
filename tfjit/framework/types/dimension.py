"""One size of a shape in programs: Size, Dimension, or None.

The package itself computes with plain ints and None (`shape.Shape`); these are made when a program
asks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def as_size(value: Any) -> int | None:
    """Return the plain int, or None, of a size of any kind.

    Raises TypeError for sizes that are no integers, ValueError for negative ones.
    """
    if value is None:
        return None
    size = getattr(value, "value", value)  # a Dimension, of another library too
    if size is None:
        return None
    try:
        size = operator.index(size)
    except (TypeError, AttributeError):
        raise TypeError(
            "Dimension value must be integer or None or have an __index__ method, got value "
            f"'{value!r}' with type '{type(value)!r}'"
        ) from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    return size


def dimension_value(dimension: Any) -> int | None:
    """Return a shape entry of any library as int or None."""
    return getattr(dimension, "value", dimension)


def _int_operator(compute: Callable[[int, Any], Any]) -> Callable[[Size, Any], Any]:
    """Make an operator of ints that keeps its results Sizes."""

    def apply(self: Size, other: Any) -> Any:
        result = compute(self, other)
        return Size(result) if type(result) is int else result

    return apply


class Size(int):
    """A known size: TensorFlow 2's int with TensorFlow 1's `value`.

    Sums, products and quotients of Sizes and ints are Sizes, so that `(x.shape[1] *
    x.shape[2]).value` is found too.
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        """The size as a plain int."""
        return int(self)

    __add__, __radd__ = _int_operator(int.__add__), _int_operator(int.__radd__)
    __sub__, __rsub__ = _int_operator(int.__sub__), _int_operator(int.__rsub__)
    __mul__, __rmul__ = _int_operator(int.__mul__), _int_operator(int.__rmul__)
    __floordiv__, __rfloordiv__ = _int_operator(int.__floordiv__), _int_operator(int.__rfloordiv__)
    __mod__, __rmod__ = _int_operator(int.__mod__), _int_operator(int.__rmod__)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with the plain int, which NumPy promotes weakly.

        So float32 times a size is float32.
        """
        plain = (int(x) if isinstance(x, Size) else x for x in inputs)
        return getattr(ufunc, method)(*plain, **options)

    def merge_with(self, other: Any) -> Dimension:
        """Return the size that both are. Raises ValueError when they differ."""
        return Dimension(self).merge_with(other)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether both can be the same size."""
        return Dimension(self).is_compatible_with(other)

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError when the sizes differ."""
        Dimension(self).assert_is_compatible_with(other)

    def __copy__(self) -> Size:
        return self

    def __deepcopy__(self, memo: Any) -> Size:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)  # pickled sizes can be read without tfjit


def _arithmetic(
    compute: Callable[[int, int], int],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Make an operator of Dimensions and its reflection.

    The result is unknown where either side is.
    """

    def forward(self: Dimension, other: Any, swapped: bool = False) -> Any:
        try:
            size = as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        if self.value is None or size is None:
            return Dimension(None)
        return Dimension(compute(size, self.value) if swapped else compute(self.value, size))

    return forward, lambda self, other: forward(self, other, True)


def _comparison(compute: Callable[[int, int], bool]) -> Callable[..., Any]:
    """Make an order of Dimensions: None where either side is unknown."""

    def compare(self: Dimension, other: Any) -> Any:
        size = as_size(other)
        return None if self.value is None or size is None else compute(self.value, size)

    return compare


class Dimension:
    """A size of TensorFlow 1, known or unknown; equal to its int.

    `TensorShape.dims` holds these.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = as_size(value)

    def __index__(self) -> int:
        if self.value is None:
            raise TypeError("An unknown Dimension is no integer")
        return self.value

    __int__ = __index__

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> Any:
        try:
            known = as_size(other)
        except (TypeError, ValueError):
            return NotImplemented
        return None if self.value is None or known is None else self.value == known

    def __ne__(self, other: object) -> Any:
        same = self.__eq__(other)
        return same if same is NotImplemented or same is None else not same

    __hash__ = None  # type: ignore[assignment]  # an unknown one equals nothing, not even itself

    __add__, __radd__ = _arithmetic(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv)
    __mod__, __rmod__ = _arithmetic(operator.mod)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)

    def __truediv__(self, other: Any) -> Any:
        raise _division_error("Dimension", type(other).__name__)

    def __rtruediv__(self, other: Any) -> Any:
        raise _division_error(type(other).__name__, "Dimension")

    def merge_with(self, other: Any) -> Dimension:
        """Return the size that both are. Raises ValueError when they differ."""
        self.assert_is_compatible_with(other)
        return Dimension(other) if self.value is None else Dimension(self.value)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether both can be the same size."""
        known = as_size(other)
        return self.value is None or known is None or self.value == known

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError when the sizes differ."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def __repr__(self) -> str:
        return f"Dimension({self.value})"

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dimension, (self.value,)


def _division_error(left: str, right: str) -> TypeError:
    return TypeError(
        f"unsupported operand type(s) for /: '{left}' and '{right}', please use // instead"
    )


class _Mode:
    """The type of sizes that TensorShapes give, in the whole process.

    It concerns indexing and iterating.
    """

    dimensions = False


def set_v2_tensorshape(enabled: bool) -> None:
    """Choose the sizes of a TensorShape: Size and None, or Dimension."""
    _Mode.dimensions = not enabled


def public_size(size: int | None) -> Size | Dimension | None:
    """Return one size as indexing and iterating a TensorShape gives it."""
    if _Mode.dimensions:
        return Dimension(size)
    return None if size is None else Size(size)


def unknown_text() -> str:
    """Return an unknown size as the text of a TensorShape has it."""
    return "?" if _Mode.dimensions else "None"
