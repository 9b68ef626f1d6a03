"""Partly known shapes: tuple form, merging, broadcasting, public TensorShape.

The internal form is `Shape`: a tuple of sizes with None for an unknown one, or None for an unknown
rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfjit.framework.types import dimension
from tfjit.framework.types.dimension import Dimension, as_size

Shape = tuple[int | None, ...] | None


def as_shape(value: Any) -> Shape:
    """Return the internal form of a shape.

    The source is a TensorShape, TensorShapeProto, sequence, int, None, or another library's
    TensorShape. Raises TypeError for sizes that are no integers, ValueError for negative ones.
    """
    if value is None:
        return None
    if isinstance(value, TensorShape):
        return value.dims_tuple
    if isinstance(value, tuple):
        for d in value:
            if (type(d) is not int and d is not None) or (d is not None and d < 0):
                return tuple(as_size(d) for d in value)
        return value
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.full_name.endswith("TensorShapeProto"):
        return from_proto(value)
    if hasattr(value, "as_list") and hasattr(value, "rank"):
        return None if value.rank is None else tuple(value.as_list())
    if hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0:
        return (as_size(value),)
    if isinstance(value, (str, bytes)):
        raise TypeError(f"A shape is a sequence of sizes, got {value!r}")
    return tuple(as_size(d) for d in value)


def from_proto(proto: Any) -> Shape:
    """Return the internal form of a TensorShapeProto; sizes of -1 are unknown.

    Raises ValueError for sizes below -1.
    """
    if proto.unknown_rank:
        return None
    sizes: list[int | None] = []
    for dim in proto.dim:
        size = dim.size
        if size < 0:
            if size != -1:
                raise ValueError(f"Shape {[d.size for d in proto.dim]} has negative dimensions")
            sizes.append(None)
        else:
            sizes.append(size)
    return tuple(sizes)


def to_proto(shape: Shape) -> Any:
    """Return a tfjit TensorShapeProto; unknown sizes are -1."""
    from tfjit.protos import tensor_shape_pb2

    proto = tensor_shape_pb2.TensorShapeProto()
    fill_proto(proto, shape)
    return proto


def fill_proto(proto: Any, shape: Shape) -> None:
    """Write `shape` into an empty TensorShapeProto."""
    if shape is None:
        proto.unknown_rank = True
        return
    for size in shape:
        proto.dim.add().size = -1 if size is None else size


def is_fully_defined(shape: Shape) -> bool:
    """Return whether rank and every size are known."""
    return shape is not None and None not in shape


def num_elements(shape: Shape) -> int | None:
    """Return the product of the sizes, or None for unknown sizes."""
    if shape is None:
        return None
    n = 1
    for d in shape:
        if d is None:
            return None
        n *= d
    return n


def is_compatible(a: Shape, b: Shape) -> bool:
    """Return whether some full shape fits both."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(
        x is None or y is None or x == y for x, y in zip(a, b, strict=True)
    )


def merge(a: Shape, b: Shape) -> Shape:
    """Return the shape that is both `a` and `b`.

    It has all known sizes. Raises ValueError, worded as the runtime does, when they differ.
    """
    if a is None or a is b:
        return b
    if b is None:
        return a
    if len(a) != len(b):
        raise ValueError(f"Shapes must be equal rank, but are {len(a)} and {len(b)}")
    merged = list(a)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        if x is None:
            merged[i] = y
        elif y is not None and x != y:
            raise ValueError(
                f"Dimension {i} in both shapes must be equal, but are {x} and {y}. Shapes are "
                f"{format_shape(a)} and {format_shape(b)}."
            )
    return tuple(merged)


def relax(a: Shape, b: Shape) -> Shape:
    """Return the most specific shape that both are cases of."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def broadcast(a: Shape, b: Shape) -> Shape:
    """Return the shape of an elementwise result.

    Raises ValueError when sizes can't broadcast.

    An unknown size meets a size above 1: the result has that size, since the unknown one must be 1
    or equal.
    """
    if a is None or b is None:
        return None
    if a == b and None not in a:
        return a
    if len(a) < len(b):
        a = (1,) * (len(b) - len(a)) + a
    elif len(b) < len(a):
        b = (1,) * (len(a) - len(b)) + b
    out: list[int | None] = []
    for x, y in zip(a, b, strict=True):
        if x == 1:
            out.append(y)
        elif y == 1:
            out.append(x)
        elif x is None:
            out.append(y)
        elif y is None or x == y:
            out.append(x)
        else:
            raise ValueError(f"Dimensions must be equal, but are {x} and {y}")
    return tuple(out)


def broadcast_all(*shapes: Shape) -> Shape:
    """Broadcast any number of shapes."""
    out: Shape = ()
    for shape in shapes:
        out = broadcast(out, shape)
    return out


def format_shape(shape: Shape) -> str:
    """Return the shape as in TensorFlow's messages.

    Examples: "[2,?]", "?" for unknown rank.
    """
    if shape is None:
        return "?"
    return "[" + ",".join("?" if d is None else str(d) for d in shape) + "]"


class TensorShape:
    """The static shape of a tensor: known or unknown sizes or rank.

    Sizes are int, or None for unknown. Immutable.
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Any = None) -> None:
        self._dims: Shape = as_shape(dims)

    @classmethod
    def _of(cls, dims: Shape) -> TensorShape:
        """Return the TensorShape of an internal form, unchecked."""
        self = object.__new__(cls)
        self._dims = dims
        return self

    @property
    def dims_tuple(self) -> Shape:
        """The internal form."""
        return self._dims

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    @property
    def dims(self) -> list[Dimension] | None:
        """The sizes as TF1's Dimension objects, or None for unknown rank."""
        return None if self._dims is None else [Dimension(d) for d in self._dims]

    def as_list(self) -> list[int | None]:
        """Return the sizes. Raises ValueError for unknown rank."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def as_proto(self) -> Any:
        """Return this shape as TensorShapeProto."""
        return to_proto(self._dims)

    def is_fully_defined(self) -> bool:
        """Return whether rank and every size are known."""
        return is_fully_defined(self._dims)

    def num_elements(self) -> int | None:
        """Return the product of the sizes, or None."""
        return num_elements(self._dims)

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether some full shape fits both."""
        return is_compatible(self._dims, as_shape(other))

    def is_subtype_of(self, other: Any) -> bool:
        """Return whether every full shape that fits this one fits `other`."""
        if not isinstance(other, TensorShape):  # as TensorFlow has it, for a list too
            return False
        theirs = other._dims
        if theirs is None:
            return True
        if self._dims is None or len(self._dims) != len(theirs):
            return False
        return all(y is None or x == y for x, y in zip(self._dims, theirs, strict=True))

    def merge_with(self, other: Any) -> TensorShape:
        """Return the shape that is both. Raises ValueError when they differ."""
        theirs = as_shape(other)
        if not is_compatible(self._dims, theirs):
            raise ValueError(f"Shapes {self} and {TensorShape(theirs)} are not compatible")
        return TensorShape._of(merge(self._dims, theirs))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the most specific shape that this and `other` are cases of."""
        return TensorShape._of(relax(self._dims, as_shape(other)))

    def concatenate(self, other: Any) -> TensorShape:
        """Return the sizes of this shape, then of `other`.

        The rank is unknown when either has unknown rank.
        """
        theirs = as_shape(other)
        return TensorShape._of(
            None if self._dims is None or theirs is None else self._dims + theirs
        )

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape with that rank. Raises ValueError when it has another."""
        try:
            return self.merge_with(unknown_shape(rank))
        except ValueError:
            raise ValueError(f"Shape {self} must have rank {rank}") from None

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return this shape. Raises ValueError when its rank is known and lower."""
        if self._dims is not None and len(self._dims) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return this shape. Raises ValueError when its rank is known and higher."""
        if self._dims is not None and len(self._dims) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError unless the rank can be `rank`."""
        if self.rank not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError when both ranks are known and differ."""
        theirs = TensorShape(other)
        if self.rank is not None and theirs.rank is not None and self.rank != theirs.rank:
            raise ValueError(f"Shapes {self} and {theirs} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError when no full shape fits both."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError when something is unknown."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __bool__(self) -> bool:
        return self._dims is not None

    def __iter__(self) -> Iterator[Any]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return map(dimension.public_size, self._dims)

    def __getitem__(self, key: Any) -> Any:
        if self._dims is not None:
            if isinstance(key, slice):
                return TensorShape._of(self._dims[key])
            return dimension.public_size(self._dims[key])
        if not isinstance(key, slice):
            return dimension.public_size(None)
        if key.step is not None:
            raise ValueError("Steps are not yet handled")
        start = 0 if key.start is None else key.start
        # Of an unknown rank only a slice with both ends on one side has a known length.
        if key.stop is None or start < 0 or key.stop < 0:
            return TensorShape._of(None)
        return TensorShape._of((None,) * max(0, key.stop - start))

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        try:
            return self._dims == as_shape(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"TensorShape({None if self._dims is None else list(self)})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        return str(self._dims).replace("None", dimension.unknown_text())

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)


def unknown_shape(rank: int | None = None) -> TensorShape:
    """Return a shape with all sizes unknown.

    Without `rank`, the rank is unknown too.
    """
    return TensorShape._of(None if rank is None else (None,) * rank)


def as_tensor_shape(value: Any) -> TensorShape:
    """Return `value` as TensorShape."""
    return value if isinstance(value, TensorShape) else TensorShape(value)


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Return one size as Dimension; unknown for an unknown rank."""
    return Dimension(None if shape._dims is None else shape._dims[index])
