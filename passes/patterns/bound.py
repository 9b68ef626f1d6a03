"""Give the parts of a match to guards and replacement functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape
from tfjit.passes.manager.rewriter import constant, tensor_dtype, tensor_shape
from tfjit.passes.patterns.expressions import AttrValue, OpType, Value
from tfjit.passes.patterns.matcher import CompiledPattern
from tfjit.passes.patterns.steps import State, uses_of


class Bound(Value):
    """A tensor of the graph in the place of a pattern's part.

    It may stand in a replacement. node, output: its place in the graph.
    """

    __slots__ = ("_state", "node", "output")

    def __init__(self, state: State, tensor: tuple[str, int]) -> None:
        self._state = state
        self.node, self.output = tensor

    @property
    def op(self) -> str:
        """Return the op type of the tensor's node."""
        return self._state.graph.node(self.node).op

    @property
    def attrs(self) -> Mapping[str, AttrValue]:
        """Return the attrs of the tensor's node, in Python form."""
        return self._state.graph.node(self.node).attrs

    @property
    def dtype(self) -> DType:
        """Return the dtype; a reference's is that of its variable."""
        return tensor_dtype(self._state.graph, self.node, self.output).base_dtype

    @property
    def shape(self) -> Shape:
        """Return the static shape: None, or sizes with None where unknown."""
        return tensor_shape(self._state.graph, self.node, self.output)

    @property
    def value(self) -> np.ndarray | None:
        """Return the static value, None where it is not known."""
        return constant(self._state.graph, self._state.ctx, self.node, self.output)

    @property
    def uses(self) -> int:
        """Return the number of uses of the tensor's node."""
        return len(uses_of(self._state.graph, self.node))

    def __getitem__(self, index: int) -> Bound:
        return Bound(self._state, (self.node, index))

    def __str__(self) -> str:
        return self.node if self.output == 0 else f"{self.node}:{self.output}"

    __repr__ = __str__


def call(
    function: Callable[..., object],
    names: tuple[str, ...],
    pattern: CompiledPattern,
    state: State,
) -> object:
    """Call a user's function with the parts that its parameters name."""
    return function(**{name: _bound(name, pattern, state) for name in names})


def _bound(name: str, pattern: CompiledPattern, state: State) -> object:
    slot = pattern.names.get(name)
    if slot is not None:
        return Bound(state, state.tensors[slot])
    if name in state.attrs:
        return state.attrs[name]
    if name in state.types:
        return OpType((state.types[name],))
    return state.sizes[name]
