"""ShapeContext: a node's view for shape functions, with their rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.types import shape as shapes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape, TensorShape, format_shape

Constant = Callable[[int], "np.ndarray | None"]
ConstantShape = Callable[[int], Shape]


def _fail(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(None, None, message)


_Rule = TypeVar("_Rule", bound=Callable[..., Any])
_EQUAL: set[Callable[..., Any]] = set()


def equal_shapes(rule: _Rule) -> _Rule:
    """Mark a shape function of elementwise ops.

    Of inputs that all have one known shape, the op's one output has that shape too.
    """
    _EQUAL.add(rule)
    return rule


def keeps_equal_shapes(rule: Callable[..., Any]) -> bool:
    """Return whether a shape function is marked so."""
    return rule in _EQUAL


class ShapeContext:
    """A node for its shape function, which returns the outputs' shapes.

    op, name: op type and node name. inputs: shapes; input_dtypes: dtypes; attrs: Python forms,
    defaults filled in. Its rules raise InvalidArgumentError with TensorFlow's words; the caller
    adds the node and its inputs to the message.
    """

    __slots__ = (
        "_constant",
        "_constant_as_shape",
        "_input_names",
        "_partial",
        "_used",
        "attrs",
        "input_dtypes",
        "inputs",
        "name",
        "num_outputs",
        "op",
    )

    def __init__(
        self,
        op: str,
        name: str,
        attrs: Mapping[str, Any],
        inputs: Sequence[Shape],
        input_dtypes: Sequence[DType] = (),
        num_outputs: int = 1,
        constant: Constant | None = None,
        constant_as_shape: ConstantShape | None = None,
        input_names: Callable[[], Sequence[str]] | Sequence[str] = (),
    ) -> None:
        self.op = op
        self.name = name
        self.attrs = attrs
        self.inputs = tuple(inputs)
        self.input_dtypes = tuple(input_dtypes)
        self.num_outputs = num_outputs
        self._constant = constant
        self._constant_as_shape = constant_as_shape
        self._input_names = input_names
        self._used: dict[int, np.ndarray] = {}
        self._partial: dict[int, Shape] = {}

    def attr(self, name: str) -> Any:
        """Return the value of an attr.

        Raises KeyError when the node has none of that name.
        """
        return self.attrs[name]

    def shape_attr(self, name: str) -> Shape:
        """Return a shape attr in the internal form."""
        value: TensorShape = self.attrs[name]
        return value.dims_tuple

    def constant(self, index: int) -> np.ndarray | None:
        """Return an input's value, if known while the graph is built."""
        if self._constant is None or index >= len(self.inputs):
            return None
        value = self._constant(index)
        if value is not None:
            self._used[index] = value
        return value

    def constant_as_shape(self, index: int) -> Shape:
        """Return an integer vector input as a shape.

        -1 and unknown elements are None; None when even its length is unknown.
        """
        value = self.constant(index)
        if value is not None:
            return self._read_shape(value)
        partial = self._constant_as_shape(index) if self._constant_as_shape is not None else None
        if partial is None:
            vector = self.inputs[index]
            if vector is not None and len(vector) == 1 and vector[0] is not None:
                partial = (None,) * vector[0]
        if partial is not None:
            self._partial[index] = partial
        return partial

    def _read_shape(self, value: np.ndarray) -> Shape:
        if value.ndim == 0:
            if int(value) == -1:
                return None  # a scalar -1 means unknown rank
            raise _fail(
                "Input must be scalar with value -1 or vector, but is scalar with value "
                f"{int(value)}"
            )
        if value.ndim != 1:
            raise _fail(f"Shape must be rank 1 but is rank {value.ndim}")
        out: list[int | None] = []
        for size in value.tolist():
            if size < -1:
                raise _fail(f"Dimension {size} must be >= -1")
            out.append(None if size == -1 else size)
        return tuple(out)

    def rank(self, shape: Shape) -> int | None:
        """Return the number of dimensions, or None."""
        return None if shape is None else len(shape)

    def dim(self, shape: Shape, index: int) -> int | None:
        """Return one size; None where it, or the rank, is unknown.

        Negative indices count from the end.
        """
        if shape is None:
            return None
        if not -len(shape) <= index < len(shape):
            raise _fail(
                f"Shape must be at least rank {index + 1 if index >= 0 else -index} but is rank "
                f"{len(shape)}"
            )
        return shape[index]

    def with_rank(self, shape: Shape | int, rank: int) -> tuple[int | None, ...]:
        """Return a shape of exactly this rank, or raise.

        shape: a shape, or the number of an input. All sizes are unknown when the rank was.
        """
        shape = self._shape(shape)
        if shape is None:
            return (None,) * rank
        if len(shape) != rank:
            raise _fail(f"Shape must be rank {rank} but is rank {len(shape)}")
        return shape

    def with_rank_at_least(self, shape: Shape | int, rank: int) -> Shape:
        """Return the shape if its rank is unknown or at least this."""
        shape = self._shape(shape)
        if shape is not None and len(shape) < rank:
            raise _fail(f"Shape must be at least rank {rank} but is rank {len(shape)}")
        return shape

    def with_rank_at_most(self, shape: Shape | int, rank: int) -> Shape:
        """Return the shape if its rank is unknown or at most this."""
        shape = self._shape(shape)
        if shape is not None and len(shape) > rank:
            raise _fail(f"Shape must be at most rank {rank} but is rank {len(shape)}")
        return shape

    def _shape(self, shape: Shape | int) -> Shape:
        return self.inputs[shape] if isinstance(shape, int) else shape

    def merge(self, a: Shape, b: Shape) -> Shape:
        """Return the shape that merges both."""
        try:
            return shapes.merge(a, b)
        except ValueError as error:
            raise _fail(str(error)) from None

    def merge_dim(self, x: int | None, y: int | None) -> int | None:
        """Return the size that merges both."""
        if x is None:
            return y
        if y is None or x == y:
            return x
        raise _fail(f"Dimensions must be equal, but are {x} and {y}")

    def with_value(self, size: int | None, value: int) -> int:
        """Return the size, which must be `value`."""
        if size is not None and size != value:
            raise _fail(f"Dimension must be {value} but is {size}")
        return value

    def broadcast(self, a: Shape, b: Shape) -> Shape:
        """Return the shape of an elementwise result of both."""
        try:
            return shapes.broadcast(a, b)
        except ValueError as error:
            raise _fail(str(error)) from None

    def subshape(self, shape: Shape, start: int, end: int | None = None) -> Shape:
        """Return sizes from `start` up to `end`; unknown for unknown rank.

        Negative indices count from the back.
        """
        if shape is None:
            return (None,) * (end - start) if end is not None and 0 <= start <= end else None
        rank = len(shape)
        first = start + rank if start < 0 else start
        last = rank if end is None else (end + rank if end < 0 else end)
        if not 0 <= first <= rank or not 0 <= last <= rank:
            raise _fail(
                f"Subshape start and end out of bounds: {start}:{end} of shape with rank {rank}"
            )
        if first > last:
            raise _fail(
                f"Subshape must have computed start <= end, but is {first} and {last} "
                f"(computed from start {start} and end {end} over shape with rank {rank})"
            )
        return shape[first:last]

    def concat(self, a: Shape, b: Shape) -> Shape:
        """Return the sizes of `a`, then of `b`."""
        return None if a is None or b is None else a + b

    def replace_dim(self, shape: Shape, index: int, size: int | None) -> Shape:
        """Return the shape with one size replaced."""
        if shape is None:
            return None
        self.dim(shape, index)
        out = list(shape)
        out[index] = size
        return tuple(out)

    def divide(self, size: int | None, by: int | None, evenly: bool = True) -> int | None:
        """Return size / by.

        Raises when it leaves a remainder and `evenly` is set.
        """
        if size is None or by is None:
            return None
        if by <= 0:
            raise _fail(f"Divisor must be positive but is {by}")
        if evenly and size % by:
            raise _fail(f"Dimension size must be evenly divisible by {by} but is {size}")
        return size // by

    def add(self, x: int | None, y: int | None) -> int | None:
        """Return x + y. Raises past 2**63."""
        return None if x is None or y is None else self._bounded(x + y, "adding", x, y)

    def subtract(self, x: int | None, y: int | None) -> int | None:
        """Return x - y. Raises when that is negative."""
        if x is None or y is None:
            return None
        if x < y:
            raise _fail(f"Negative dimension size caused by subtracting {y} from {x}")
        return x - y

    def multiply(self, x: int | None, y: int | None) -> int | None:
        """Return x * y, known to be 0 when either is.

        Raises past 2**63.
        """
        if x == 0 or y == 0:
            return 0
        return None if x is None or y is None else self._bounded(x * y, "multiplying", x, y)

    def _bounded(self, size: int, what: str, x: int, y: int) -> int:
        if size >= 2**63:
            verb = "multiplied" if what == "multiplying" else "added"
            raise _fail(f"Dimension size overflow when {x} is {verb} with {y}")
        return size

    def axis(self, value: int, rank: int) -> int:
        """Return a non-negative axis. Raises when it is outside [-rank, rank)."""
        if not -rank <= value < rank:
            raise _fail(f"Dimension must be in the range [{-rank}, {rank}), but got {value}")
        return value + rank if value < 0 else value

    def scalar(self) -> Shape:
        """Return the shape of a scalar."""
        return ()

    def vector(self, size: int | None = None) -> Shape:
        """Return the shape of a vector."""
        return (size,)

    def unknown(self, rank: int | None = None) -> Shape:
        """Return a shape of that rank, or none, with every size unknown."""
        return None if rank is None else (None,) * rank

    def num_elements(self, shape: Shape) -> int | None:
        """Return the product of the sizes, or None."""
        return shapes.num_elements(shape)

    def fully_defined(self, shape: Shape) -> bool:
        """Return whether rank and every size are known."""
        return shapes.is_fully_defined(shape)

    def all_constant_shape(self, index: int) -> tuple[int, ...] | None:
        """Return `constant_as_shape`, only when every size is known."""
        shape = self.constant_as_shape(index)
        return shape if shape is not None and None not in shape else None  # type: ignore[return-value]

    def where(self) -> str:
        """Return the end of a message: the node and its inputs.

        The node is as TensorFlow writes it; input shapes and the inspected values follow.
        """
        names = self._input_names() if callable(self._input_names) else self._input_names
        text = f" for '{summarize_node(self.name, self.op, self.attrs, names)}' with input shapes: "
        text += ", ".join(format_shape(s) for s in self.inputs)
        if self._used:
            values = ", ".join(
                f"input[{i}] = {_value_text(v)}" for i, v in sorted(self._used.items())
            )
            text += f" and with computed input tensors: {values}"
        if self._partial:
            values = ", ".join(
                f"input[{i}] = {format_shape(s)}" for i, s in sorted(self._partial.items())
            )
            text += f" and with input tensors computed as partial shapes: {values}"
        return text + "."


def _value_text(value: np.ndarray) -> str:
    flat = value.reshape(-1)
    if value.ndim == 0:
        return f"<{flat[0]}>"
    shown = " ".join(str(v) for v in flat[:6])
    return f"<{shown}{'...' if flat.size > 6 else ''}>"


def summarize_node(
    name: str, op: str, attrs: Mapping[str, Any], inputs: Sequence[str], device: str = ""
) -> str:
    """Return a node as TensorFlow writes it in messages.

    An example: "{{node y}} = Add[T=DT_FLOAT](a, b)".
    """
    items = [f"{key}={attr_values.summarize(value)}" for key, value in sorted(attrs.items())]
    if device:
        items.append(f'_device="{device}"')
    inside = f"[{', '.join(items)}]" if items else ""
    return f"{{{{node {name}}}}} = {op}{inside}({', '.join(inputs)})"
