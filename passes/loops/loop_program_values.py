"""Hold the values and steps of a loop program under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.kernels.ir.loop_program import FILL, Step
from tfjit.kernels.registry import TensorSpec, Unsupported
from tfjit.passes.ir.constant_value import constant_value

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node

MAX_STEPS: Final = 400
"""A longer program takes seconds to compile."""
_MAX_KNOWN: Final = 64
"""Most elements of a constant argument that a body is simplified for.

Axes and shapes are such arguments.
"""


@dataclass(frozen=True, slots=True)
class Outer:
    """A tensor of the graph around the loop.

    The tensor is an output of a node there, or of a node that is still to be made (`Hoisted`,
    output 0), or a constant.
    """

    node: str = ""
    output: int = 0
    hoisted: int = -1
    constant: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A node to be made before the loop.

    attrs: of the op. shape: of its output.
    """

    name: str
    op: str
    inputs: tuple[Outer, ...]
    attrs: Mapping[str, Any]
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as the program sees it.

    value: number of the tensor; for a splat (an array of equal elements) the number of the element.
    shape: of the tensor. outer: the same tensor in the graph around the loop, if there is one.
    packed: the scalars of a vector made by Pack, for use as an index; such a vector has no value
    itself.
    """

    value: int
    dtype: DType
    shape: tuple[int, ...]
    splat: bool = False
    outer: Outer | None = None
    packed: tuple[Operand, ...] = ()

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)


@dataclass(slots=True)
class Scope:
    """Steps of the block that is being written."""

    steps: list[Step] = field(default_factory=list)
    fills: dict[tuple[int, int], int] = field(default_factory=dict)  # (element, size) -> array


class ProgramWriter:
    """Writes a program's values, and the steps of its open blocks.

    Raises Unsupported with the reason where the program would not qualify. values: the spec of each
    value, by number. constants: numbers of the literals, and their arrays. inputs: the tensors
    outside that the program reads, and their numbers. hoisted: nodes to make before the loop.
    scopes: the open blocks, the innermost last.
    """

    def __init__(self, graph: DataflowGraph) -> None:
        self.graph = graph
        self.values: list[TensorSpec] = []
        self.constants: dict[tuple[str, bytes, tuple[int, ...]], int] = {}
        self.constant_values: dict[int, np.ndarray] = {}
        self.inputs: list[Outer] = []
        self.input_values: dict[Any, int] = {}
        self.input_order: list[int] = []
        self.hoisted: list[Hoisted] = []
        self.hoisted_by: dict[Any, int] = {}
        self.scopes = [Scope()]
        self.count = 0

    def new(self, dtype: DType, shape: Sequence[int]) -> int:
        """Add a value, and return its number."""
        self.values.append(TensorSpec(dtype.base_dtype, tuple(shape)))
        return len(self.values) - 1

    def outside(self, src: str, output: int) -> Operand:
        """Return a tensor of the graph around the loop."""
        node = self.graph.node(src)
        value = constant_value(self.graph, src, output)
        if value is not None:
            return self.constant(np.asarray(value), Outer(src, output))
        return self.outer(
            Outer(src, output), node.output_dtypes[output].base_dtype, static_shape(node, output)
        )

    def outer(self, outer: Outer, dtype: DType, shape: tuple[int, ...]) -> Operand:
        """Return a tensor outside the loop as an input of the program."""
        key = (
            outer.node,
            outer.output,
            outer.hoisted,
            id(outer.constant) if outer.constant is not None else 0,
        )
        if key not in self.input_values:
            value = self.new(dtype, shape)
            self.input_values[key] = value
            self.inputs.append(outer)
            self.input_order.append(value)
        return Operand(self.input_values[key], dtype.base_dtype, shape, outer=outer)

    def constant(self, array: np.ndarray, outer: Outer | None = None) -> Operand:
        """Return a constant as an operand.

        The operand is a literal where all elements are equal, else a tensor outside.
        """
        dtype = as_dtype(array.dtype)
        shape = array.shape
        outer = outer or Outer(constant=array)
        flat = array.reshape(-1)
        if flat.size and (flat.size == 1 or flat.tobytes() == flat[:1].tobytes() * flat.size):
            return Operand(self.literal(flat[0], dtype), dtype, shape, flat.size > 1, outer)
        return self.outer(outer, dtype, shape)

    def literal(self, value: Any, dtype: DType) -> int:
        """Return the number of a scalar constant."""
        array = np.asarray(value, dtype.as_numpy_dtype)
        key = (dtype.name, array.tobytes(), ())
        if key not in self.constants:
            made = self.new(dtype, ())
            self.constants[key] = made
            self.constant_values[made] = array
        return self.constants[key]

    def in_memory(self, operand: Operand) -> int:
        """Return the number of a value with the operand's elements.

        A splat becomes an array.
        """
        if operand.packed:
            raise Unsupported("scalars packed into a vector are used as one")
        if not operand.splat:
            return operand.value
        scope = self.scopes[-1]
        key = (operand.value, operand.size)
        if key not in scope.fills:
            result = self.new(operand.dtype, operand.shape)
            self.add(Step(FILL, (operand.value,), (result,)))
            scope.fills[key] = result
        return scope.fills[key]

    def add(self, step: Step) -> None:
        """Append a step to the innermost open block."""
        self.count += 1
        if self.count > MAX_STEPS:
            raise Unsupported(f"more than {MAX_STEPS} operations")
        self.scopes[-1].steps.append(step)

    def hoist(self, node: Node, inputs: Sequence[Operand]) -> Outer | None:
        """Hoist a node before the loop, and return its output.

        None unless all of its inputs are outside the loop and the node may run early.
        """
        op = node.op
        if (
            not node.is_speculatable
            or len(node.output_dtypes) != 1
            or any(x.outer is None for x in inputs)
        ):
            return None
        sources = tuple(x.outer for x in inputs if x.outer is not None)
        attrs = {name: value for name, value in node.attrs.items() if not name.startswith("_")}
        dtype = node.output_dtypes[0].base_dtype
        return self.hoisted_output(
            Hoisted(node.name, op, sources, attrs, dtype, static_shape(node, 0))
        )

    def hoisted_output(self, node: Hoisted) -> Outer:
        """Return the output of a node before the loop.

        Equal nodes are made once.
        """
        attrs = sorted(node.attrs.items(), key=lambda item: item[0])
        key = (node.op, tuple(_outer_key(o) for o in node.inputs), repr(attrs), node.shape)
        if key not in self.hoisted_by:
            self.hoisted_by[key] = len(self.hoisted)
            self.hoisted.append(node)
        return Outer(hoisted=self.hoisted_by[key])

    def known(self, operand: Operand) -> np.ndarray | None:
        """Return the constant value of an operand.

        None where it has none, or a large one.
        """
        if operand.packed:
            return None
        found = self.constant_values.get(operand.value)
        if found is not None:
            return np.full(operand.shape, found)
        if operand.outer is None or operand.size > _MAX_KNOWN:
            return None
        if operand.outer.node:
            return constant_value(self.graph, operand.outer.node, operand.outer.output)
        return operand.outer.constant


def _outer_key(outer: Outer) -> Any:
    return (
        outer.node,
        outer.output,
        outer.hoisted,
        None
        if outer.constant is None
        else (outer.constant.dtype.str, outer.constant.shape, outer.constant.tobytes()),
    )


def static_shape(node: Node, output: int) -> tuple[int, ...]:
    """Return the shape of a node's output.

    Raises Unsupported where the shape is not known.
    """
    shape = node.output_shapes[output]
    if shape is None or any(size is None for size in shape):
        raise Unsupported(
            f"the shape of {node.name}:{output} ({node.op}) is not known before it runs"
        )
    return tuple(int(size) for size in shape if size is not None)
