"""Cells around other cells: dropout, residual connections, devices."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit.client.rnn.rnn_cells import LSTMStateTuple, RNNCell, check_cell, with_batch
from tfjit.framework.graphs.default_graph import device, name_scope
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import nest
from tfjit.ops.arithmetic.elementwise_functions import floor
from tfjit.ops.control_flow.flow_tensor_array import TensorArray
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers.layer_functions import dropout
from tfjit.ops.random_values.stateful_random import random_uniform

if TYPE_CHECKING:
    from tfjit.client.variables.variable_scope import VariableScope
    from tfjit.framework.graphs.typing import DTypeLike, Structure, TensorLike


class _Wrapper(RNNCell):
    """A cell around another, in whose scope the other's variables stand.

    The variables' names are as without the wrapper.
    """

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_cell("cell", cell)
        self.cell = cell

    @property
    def wrapped_cell(self) -> Structure:
        """The other."""
        return self.cell

    @property
    def state_size(self) -> Structure:
        return self.cell.state_size

    @property
    def output_size(self) -> Structure:
        return self.cell.output_size

    @property
    def variables(self) -> list[Any]:
        return list(self.cell.variables)

    @property
    def trainable_variables(self) -> list[Any]:
        return list(self.cell.trainable_variables)

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Structure:
        with name_scope(None, type(self).__name__ + "ZeroState"):
            return self.cell.zero_state(batch_size, dtype)


def _default_filter(state: Structure) -> Structure:
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)  # the memory of the cell is left alone
    return not isinstance(state, TensorArray)


class DropoutWrapper(_Wrapper):
    """Dropout of a cell's inputs, outputs and new state.

    Each has its own probability to keep (a number or a scalar tensor).

    variational_recurrent: one mask for all steps of a run, for which input_size and dtype must be
    told. seed: of the masks. dropout_state_filter_visitor: chooses of a state, or of its parts,
    those to drop; without one all but an LSTM's c. Raises ValueError for a number that is no
    probability.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: object = 1.0,
        output_keep_prob: object = 1.0,
        state_keep_prob: object = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._filter = dropout_state_filter_visitor or _default_filter
        self._seed = seed
        with name_scope("DropoutWrapperInit"):
            given = {"input": input_keep_prob, "state": state_keep_prob, "output": output_keep_prob}
            self._keep = {what: self._probability(what, value) for what, value in given.items()}
            self._noise: dict[str, Any] = {}
            if variational_recurrent:
                if dtype is None:
                    raise ValueError("When variational_recurrent=True, dtype must be provided")
                if self._drops("input") and input_size is None:
                    raise ValueError(
                        "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, "
                        "input_size must be provided"
                    )
                sizes = {"input": input_size, "state": cell.state_size, "output": cell.output_size}
                self._noise = {
                    what: self._noises(what, size, dtype)
                    for what, size in sizes.items()
                    if size is not None
                }

    @staticmethod
    def _probability(what: str, value: object) -> Any:
        made = convert_to_tensor(value)
        known = constant_value(made)
        if known is None:
            return made
        if not 0 <= known <= 1:
            raise ValueError(f"Parameter {what}_keep_prob must be between 0 and 1: {int(known)}")
        return float(known)

    def _drops(self, what: str) -> bool:
        keep = self._keep[what]
        return not isinstance(keep, float) or keep < 1

    def _numbered_seed(self, what: str, i: int) -> int | None:
        """Return a different seed for each mask."""
        if self._seed is None:
            return None
        return (
            int(
                hashlib.md5(f"{self._seed}{what}_{i}".encode(), usedforsecurity=False).hexdigest()[
                    :8
                ],
                16,
            )
            & 0x7FFFFFFF
        )

    def _noises(self, what: str, sizes: object, dtype: DTypeLike) -> Any:
        numbers = iter(range(len(nest.flatten(sizes))))
        return nest.map_structure(
            lambda size: random_uniform(
                with_batch(1, size), seed=self._numbered_seed(what, next(numbers)), dtype=dtype
            ),
            sizes,
        )

    def _dropped(self, what: str, values: Structure, wanted: object = True) -> Structure:
        keep, noise = self._keep[what], self._noise.get(what)
        flat = nest.flatten(values)
        noises = [None] * len(flat) if noise is None else nest.flatten(noise)
        chosen = _spread(wanted, values)
        made = []
        for i, (value, mask, drop) in enumerate(zip(flat, noises, chosen, strict=True)):
            if not drop:
                made.append(value)
            elif mask is None:
                made.append(dropout(value, rate=1.0 - keep, seed=self._numbered_seed(what, i)))
            else:
                result = (value / keep) * floor(keep + mask)
                result.set_shape(value.shape)
                made.append(result)
        return nest.pack_sequence_as(values, made)

    def __call__(
        self, inputs: object, state: Structure, scope: VariableScope | str | None = None
    ) -> Structure:
        if self._drops("input"):
            inputs = self._dropped("input", inputs)
        output, new_state = self.cell(inputs, state, scope=scope)
        if self._drops("state"):
            new_state = self._dropped("state", new_state, self._wanted(new_state))
        if self._drops("output"):
            output = self._dropped("output", output)
        return output, new_state

    def _wanted(self, state: Structure) -> Structure:
        """Return the filter's answer for a state.

        It is asked part by part where it says yes to a structure.
        """
        chosen = self._filter(state)
        if not nest.is_nested(state) or chosen is False:
            return chosen
        parts = state.values() if isinstance(state, dict) else state
        says = nest.flatten(chosen) if nest.is_nested(chosen) else [chosen] * len(state)
        return [self._wanted(part) if say else False for part, say in zip(parts, says, strict=True)]


def _spread(wanted: object, values: Structure) -> list[bool]:
    """Return yes or no for each leaf of values.

    The structure of the answers may end above the leaves.
    """
    if not nest.is_nested(values):
        return [bool(wanted)]
    parts = list(values.values()) if isinstance(values, dict) else list(values)
    wishes = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted] * len(parts)
    return [leaf for wish, part in zip(wishes, parts, strict=True) for leaf in _spread(wish, part)]


class ResidualWrapper(_Wrapper):
    """Adds the inputs to the outputs, or combines them by a function.

    residual_fn: (inputs, outputs) -> the new outputs.
    """

    def __init__(
        self, cell: object, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: object
    ) -> None:
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def __call__(
        self, inputs: object, state: Structure, scope: VariableScope | str | None = None
    ) -> Structure:
        outputs, new_state = self.cell(inputs, state, scope=scope)
        add = self._residual_fn or (
            lambda before, after: nest.map_structure(lambda x, y: x + y, before, after)
        )
        return add(inputs, outputs), new_state


class DeviceWrapper(_Wrapper):
    """Runs a cell on a device."""

    def __init__(self, cell: object, device: object, **kwargs: object) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: TensorLike, dtype: DTypeLike) -> Structure:
        with device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(
        self, inputs: object, state: Structure, scope: VariableScope | str | None = None
    ) -> Structure:
        with device(self._device):
            return self.cell(inputs, state, scope=scope)
