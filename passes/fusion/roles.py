"""Find the role that a node can have in a fused group."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import IDENTITY, REDUCTION, RESHAPE
from tfjit.framework.scalar import elementwise
from tfjit.kernels.ir.op_forms import (
    BIAS,
    MOVING,
    PARAMETERS,
    ROW_OPS,
    SLICING,
)
from tfjit.kernels.registry import NodeSpec, TensorSpec
from tfjit.passes.ir.constant_value import constant_value

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import FusionRules
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.manager.pass_context import PassContext

MAX_PARTS: Final = 8
"""A node that splits its input into more parts stays unfused."""


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a node in a group.

    kind: of the group that the node alone would make. space: the iteration shape, or a name where
    the shape is unknown. axes: reduced dims.
    """

    kind: str
    space: Any
    axes: tuple[int, ...] = ()


class RoleFinder:
    """Roles of a graph's nodes, by the device's fusion rules."""

    def __init__(self, graph: DataflowGraph, ctx: PassContext, rules: FusionRules) -> None:
        self.graph = graph
        self.ctx = ctx
        self.rules = rules
        self.anchor_kinds = frozenset(rules.anchors.values())
        self._symbols: dict[tuple[str, int], Any] = {}
        self._roles: dict[str, Role | None] = {}

    def shape(self, name: str, output: int) -> tuple[int, ...] | None:
        """Return the static shape of a tensor, None if partly unknown."""
        found: tuple[int, ...] | None = self.graph.node(name).output_shapes[output]
        return None if found is None or None in found else found

    def space(self, name: str, output: int) -> Any:
        """Return the static shape of a tensor, or else a name.

        Tensors share a name only if their unknown shapes agree.
        """
        shape = self.shape(name, output)
        return shape if shape is not None else self._symbols.get((name, output), f"{name}:{output}")

    def elements(self, space: Any) -> int | None:
        """Return the number of elements, None when unknown."""
        return prod(space) if isinstance(space, tuple) else None

    def value(self, name: str, output: int) -> np.ndarray | None:
        """Return the static value of a tensor."""
        found = constant_value(self.graph, name, output)
        return found if found is not None else self.ctx.values.get((name, output))

    def is_view(self, name: str) -> bool:
        """Return whether a node computes nothing: an identity, a reshape, a transpose."""
        node = self.graph.node(name)
        return node.has_trait(IDENTITY | RESHAPE) or node.op in MOVING

    def is_loops_own(self, name: str) -> bool:
        """Return whether only loops read through a node.

        Such nodes are slices, and transposes that move the inner dim and need tiles.
        """
        node = self.graph.node(name)
        if node.op != "Transpose":
            return node.op in SLICING
        order = self.value(*self.graph.inputs(name)[1])
        return order is None or not len(order) or int(order[-1]) % len(order) != len(order) - 1

    def is_free(self, name: str) -> bool:
        """Return whether a node's output is its input's buffer: no cost."""
        return self.graph.node(name).has_trait(IDENTITY | RESHAPE)

    def is_cheap(self, name: str) -> bool:
        """Return whether computing the node's elements again costs less than storing them."""
        return self.is_view(name) or self.rules.is_cheap(self.graph.node(name).op)

    def find(self, node: Node) -> Role | None:
        """Return the node's role, None for a node that no group includes.

        The role is found once, in the graph of the first call.
        """
        try:
            return self._roles[node.name]
        except KeyError:
            role = self._find(node)
            if role is not None and self.rules.template_of(role.kind) is None:
                role = None
            self._roles[node.name] = role
            return role

    def _find(self, node: Node) -> Role | None:
        op = node.op
        if not node.output_dtypes or any(t.is_ref for t in node.input_dtypes):
            return None
        row = elementwise.lookup(op)
        if row is not None or op in BIAS or op == "AccumulateNV2":
            return self._elementwise(node)
        if node.has_trait(IDENTITY | RESHAPE) or op in MOVING:
            return self._view(node)
        if op in self.rules.anchors:
            return self._anchor(node)
        if node.has_trait(REDUCTION) or op in ("BiasAddGrad", "L2Loss"):
            return self._reduction(node)
        if op in ROW_OPS:
            shape = self.shape(node.name, len(node.output_dtypes) - 1)
            if shape is None or not node.input_dtypes[0].is_floating or prod(shape) == 0:
                return None
            return Role("rows", shape, (len(shape) - 1,))
        return None

    def _elementwise(self, node: Node) -> Role | None:
        if not all(self.rules.holds(t) for t in (*node.input_dtypes, *node.output_dtypes)):
            return None
        shape = self.shape(node.name, 0)
        if shape is not None:
            # an operand of unknown shape may have any number of dims
            known = all(
                self.shape(src, output) is not None for src, output in self.graph.inputs(node.name)
            )
            return Role("loop", shape) if known and 0 not in shape else None
        spaces = {self.space(src, output) for src, output in self.graph.inputs(node.name)}
        spaces.discard(())
        if node.op == "Select" or node.op in BIAS:
            return None  # the operands of these do not broadcast by NumPy's rules
        symbol: Any = f"{node.name}:0"
        if len(spaces) == 1:
            (symbol,) = spaces
        self._symbols[node.name, 0] = symbol
        return Role("loop", symbol)

    def _view(self, node: Node) -> Role | None:
        shape = self.shape(node.name, 0)
        if shape is None or not prod(shape) or not self.rules.holds(node.output_dtypes[0]):
            return None
        sources = self.graph.inputs(node.name)
        if self.shape(*sources[1 if node.op == "Split" else 0]) is None:
            return None
        if node.op == "Reshape" and self.value(*sources[1]) is None:
            return None  # a shape from run time is checked there
        if node.op in MOVING:
            if any(self.value(*sources[index]) is None for index in PARAMETERS.get(node.op, ())):
                return None
            others = [self.shape(node.name, k) for k in range(len(node.output_dtypes))]
            if others.count(shape) != len(others) or len(others) > MAX_PARTS:
                return None
        return Role("loop", shape)

    def _anchor(self, node: Node) -> Role | None:
        shape = self.shape(node.name, 0)
        if shape is None or not prod(shape):
            return None
        sources = self.graph.inputs(node.name)
        values = {index: self.value(*source) for index, source in enumerate(sources)}
        constants = {index: value for index, value in values.items() if value is not None}
        result = TensorSpec(node.output_dtypes[0]._base, shape)
        spec = NodeSpec(node.name, node.op, node.attrs, (), (result,), constants)
        return Role(self.rules.anchors[node.op], shape) if self.rules.accepts_anchor(spec) else None

    def _reduction(self, node: Node) -> Role | None:
        sources = self.graph.inputs(node.name)
        shape = self.shape(*sources[0])
        if shape is None or not prod(shape) or not self.rules.holds(node.input_dtypes[0]):
            return None
        if node.op == "BiasAddGrad":
            channel = 1 if node.attrs.get("data_format") in (b"NCHW", "NCHW") else len(shape) - 1
            return Role("reduce", shape, tuple(d for d in range(len(shape)) if d != channel))
        if node.op == "L2Loss":
            return (
                Role("reduce", shape, tuple(range(len(shape))))
                if node.input_dtypes[0].is_floating
                else None
            )
        axes = self.value(*sources[1])
        if axes is None:
            return None
        reduced = reduced_axes(axes, len(shape))
        if not reduced or not self.rules.reduces_by_rows(shape, reduced):
            return Role("reduce", shape, reduced) if reduced else None
        return Role("rows", shape, reduced)


def reduced_axes(axes: np.ndarray, rank: int) -> tuple[int, ...]:
    """Return the distinct reduced dims, in order."""
    return tuple(sorted({int(a) % rank for a in np.asarray(axes).reshape(-1)})) if rank else ()
