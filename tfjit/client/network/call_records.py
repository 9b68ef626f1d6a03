"""The calls of a layer, with their losses and updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import nest

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_PLACES: Final = {"input": 0, "output": 1}


class CallRecords:
    """The calls of one layer in order."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: list[tuple[Structure, Structure]] = []
        self._inputs: Structure = None
        self._losses: list[tuple[Tensor, bool]] = []
        self._updates: list[tuple[Operation, Structure]] = []

    def begin(self, inputs: Structure) -> None:
        """Note the inputs of a call that begins."""
        self._inputs = inputs

    def end(self, outputs: Structure) -> None:
        """Note the outputs of the call that began last."""
        self._calls.append((self._inputs, outputs))

    def add_loss(self, loss: Tensor, conditional: bool) -> None:
        """Note a loss. conditional: it depends on the layer's inputs."""
        self._losses.append((loss, conditional))

    def add_update(self, update: Operation) -> None:
        """Note an update of the call that began last."""
        self._updates.append((update, self._inputs))

    @property
    def losses(self) -> list[Tensor]:
        """The losses of all calls."""
        return [loss for loss, _ in self._losses]

    @property
    def updates(self) -> list[Operation]:
        """The updates of all calls."""
        return [update for update, _ in self._updates]

    def losses_for(self, inputs: Structure) -> list[Tensor]:
        """Return the losses that the inputs reach; for None, the unconditional ones."""
        if inputs is None:
            return [loss for loss, conditional in self._losses if not conditional]
        return [loss for loss, conditional in self._losses if conditional and reaches(inputs, loss)]

    def updates_for(self, inputs: Structure) -> list[Operation]:
        """Return the updates that the inputs reach.

        For None, those that no input reaches.
        """
        if inputs is None:
            return [update for update, own in self._updates if not reaches(own, update)]
        return [update for update in self.updates if reaches(inputs, update)]

    def at(self, index: int, side: str) -> Structure:
        """Return one side of a call: "input" or "output".

        Raises RuntimeError without a call, ValueError beyond the last.
        """
        if not self._calls:
            raise RuntimeError(f"The layer has never been called and thus has no defined {side}.")
        if not index < len(self._calls):
            raise ValueError(
                f"Asked to get {side} at node {index}, but the layer has only {len(self._calls)} "
                "inbound nodes."
            )
        return self._calls[index][_PLACES[side]]

    def shape_at(self, index: int, side: str) -> Structure:
        """Return the shape of one side of a call.

        It is a tuple, or None for an unknown rank.
        """
        return nest.map_structure(_sizes, self.at(index, side))

    def only(self, side: str) -> Structure:
        """Return one side of the only call.

        Raises AttributeError for several or none.
        """
        if not self._calls:
            reason = (
                "is not connected, no input to return"
                if side == "input"
                else "has no inbound nodes"
            )
            raise AttributeError(f"Layer {self._name} {reason}.")
        if len(self._calls) > 1:
            raise AttributeError(
                f'Layer {self._name} has multiple inbound nodes, hence the notion of "layer {side}"'
                f" is ill-defined. Use `get_{side}_at(node_index)` instead."
            )
        return self.at(0, side)

    def only_shape(self, side: str) -> Structure:
        """Return the shape that one side has in all calls.

        Raises AttributeError where the calls differ or are none.
        """
        if not self._calls:
            raise AttributeError(
                f'The layer "{self._name}" has never been called and thus has no defined {side} '
                "shape."
            )
        shapes = [self.shape_at(i, side) for i in range(len(self._calls))]
        if any(shape != shapes[0] for shape in shapes):
            raise AttributeError(
                f'The layer "{self._name}" has multiple inbound nodes, with different {side} '
                f'shapes. Hence the notion of "{side} shape" is ill-defined for the layer. Use '
                f"`get_{side}_shape_at(node_index)` instead."
            )
        return shapes[0]


def _sizes(value: Tensor) -> tuple[int | None, ...] | None:
    return value.shape.dims_tuple


def reaches(inputs: Structure, value: Tensor | Operation) -> bool:
    """Return whether a tensor or operation depends on an input, by data."""
    sources = {id(getattr(source, "op", source)) for source in nest.flatten(inputs)}
    stack: list[Operation] = [value if isinstance(value, Operation) else value.op]
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if id(op) in sources:
            return True
        if id(op) not in seen:
            seen.add(id(op))
            stack.extend(source.op for source in op.inputs)
    return False
