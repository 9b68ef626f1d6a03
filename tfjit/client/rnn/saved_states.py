"""Recurrent networks over lists of inputs that keep their states between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tfjit import ops
from tfjit.client.rnn.rnn import static_rnn
from tfjit.client.rnn.rnn_cells import RNNCell
from tfjit.framework.graphs.default_graph import control_dependencies
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import nest

if TYPE_CHECKING:
    from tfjit.client.variables.variable_scope import VariableScope
    from tfjit.framework.graphs.typing import Structure


class StateSaver(Protocol):
    """Keeper of named states."""

    def state(self, state_name: str) -> Tensor:
        """Return a state."""

    def save_state(self, state_name: str, value: Tensor) -> Operation:
        """Return the operation that keeps a state's new value."""


def static_state_saving_rnn(
    cell: RNNCell,
    inputs: list[Tensor],
    state_saver: StateSaver,
    state_name: str | tuple[str, ...],
    sequence_length: object = None,
    scope: VariableScope | str | None = None,
) -> tuple[list[Structure], Structure]:
    """Run a cell from kept states on, and keep the new ones.

    The rest is as in `static_rnn`. state_name: names in the structure of the cell's state. The new
    states are kept before the last output and the last state are read. Raises ValueError for names
    of another structure.
    """
    if nest.is_nested(cell.state_size) != nest.is_nested(state_name):
        raise ValueError(
            "Argument `state_name` should be the same type as `cell.state_size`. Received: "
            f"state_name={state_name!s}, cell.state_size={cell.state_size!s}."
        )
    names, sizes = nest.flatten(state_name), nest.flatten(cell.state_size)
    if len(names) != len(sizes):
        raise ValueError(
            "Number of elements in argument `state_name` and `cell.state_size` are mismatched. "
            f"Received state_name={state_name} with {len(names)} elements and "
            f"cell.state_size={cell.state_size} with {len(sizes)} elements."
        )
    initial = nest.pack_sequence_as(cell.state_size, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(
        cell, inputs, initial_state=initial, sequence_length=sequence_length, scope=scope
    )
    states = nest.flatten(state)
    kept = [state_saver.save_state(name, part) for name, part in zip(names, states, strict=True)]
    with control_dependencies(kept):
        outputs[-1], state = (
            nest.pack_sequence_as(value, [ops.identity(part) for part in nest.flatten(value)])
            for value in (outputs[-1], state)
        )
    return outputs, state
