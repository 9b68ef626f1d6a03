"""`ExponentialMovingAverage`: averages of variables and tensors over the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.client.training.slots import create_slot, create_zeros_slot, initialized
from tfjit.client.variables.assignments import assign, assign_sub
from tfjit.client.variables.get_variable import get_variable
from tfjit.client.variables.initializers import Zeros
from tfjit.client.variables.variable_collections import (
    global_variables,
    moving_average_variables,
    trainable_variables,
)
from tfjit.client.variables.variable_scope import get_variable_scope, variable_scope
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import (
    add_to_collection,
    colocate_with,
    device,
    get_default_graph,
    get_name_scope,
    name_scope,
)
from tfjit.framework.graphs.function_graph import init_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.types import dtypes
from tfjit.ops.arithmetic.elementwise_functions import cast, minimum, pow
from tfjit.ops.control_flow.control_flow import group
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Operation, Tensor, TensorReference
    from tfjit.framework.graphs.typing import Structure, TensorLike

_FLOATS: Final = (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)
_VARIABLE_OPS: Final = ("Variable", "VariableV2", "VarHandleOp")


class ExponentialMovingAverage:
    """Keeps averages of variables and tensors in other variables.

    Each update is average -= (1 - decay) * (average - value). The average of a variable starts with
    the variable's value, that of a tensor with zeros. decay: a number or a tensor. num_updates: a
    number or variable that counts updates; decay then is at most (1 + num_updates) / (10 +
    num_updates), so that early averages follow fast. zero_debias: divide averages of tensors by the
    weight that their values have, as Kingma and Ba do ("Adam", 2015, section 3). name: of the
    averages within their variables' names, and of the operations.
    """

    def __init__(
        self,
        decay: TensorLike,
        num_updates: TensorLike | None = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[TensorReference, Variable] = {}

    @property
    def name(self) -> str:
        """The last part of the averages' names."""
        return self._name

    def apply(self, var_list: Sequence[Variable | Tensor] | None = None) -> Operation:
        """Return an operation that updates the averages of variables and tensors.

        Averages that there are none of yet are made here. var_list: the trainable variables by
        default. Raises TypeError for an element that has no floats.
        """
        values = trainable_variables() if var_list is None else var_list
        unbiased = set()  # tensors whose averages are made here
        for value in values:
            if value.dtype.base_dtype not in _FLOATS:
                raise TypeError(f"The variables must be half, float, or double: {value.name}")
            if value.ref() not in self._averages:
                with init_scope():
                    self._averages[value.ref()] = self._make(value)
                if self._zero_debias and not isinstance(value, Variable):
                    unbiased.add(value.ref())
        with name_scope(self._name) as scope:
            decay = convert_to_tensor(self._decay, dtype=dtypes.float32, name="decay")
            if self._num_updates is not None:
                updates = cast(self._num_updates, dtypes.float32, name="num_updates")
                decay = minimum(decay, (1.0 + updates) / (10.0 + updates))
            moves = [
                _move(self._averages[value.ref()], value, decay, value.ref() in unbiased)
                for value in values
            ]
            return group(*moves, name=scope)

    def _make(self, value: Variable | Tensor) -> Variable:
        """Return a new average."""
        if not isinstance(value, Variable):
            return create_zeros_slot(value, self._name, value.op.type in _VARIABLE_OPS)
        with device(value.device):
            initial = initialized(value)
        average = create_slot(value, initial, self._name, True)
        add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, value)
        return average

    def average(self, var: Variable | Tensor) -> Variable | None:
        """Return the average's variable; None before `apply`."""
        return self._averages.get(var.ref())

    def average_name(self, var: Variable | Tensor) -> str:
        """Return the name of the average's variable, also before `apply`.

        A Saver of {average_name(var): var} restores averages in the variables' place.
        """
        if var.ref() in self._averages:
            return self._averages[var.ref()].name.removesuffix(":0")
        name = f"{var.name.removesuffix(':0')}/{self._name}"
        return get_default_graph().unique_name(name, mark_as_used=False)

    def variables_to_restore(
        self, moving_avg_variables: Iterable[Variable] | None = None
    ) -> dict[str, Variable]:
        """Return the variables by the names to restore them from.

        moving_avg_variables: variables to restore from their averages, by default the trainable
        ones and those that have averages. All other global variables keep their names.
        """
        if moving_avg_variables is None:
            moving_avg_variables = [*trainable_variables(), *moving_average_variables()]
        averaged = dict.fromkeys(moving_avg_variables)
        names = {self.average_name(variable): variable for variable in averaged}
        averaged_names = {variable.name for variable in averaged}
        for variable in global_variables():
            if variable.name not in averaged_names:
                names.setdefault(variable.op.name, variable)
        return names


def _move(average: Structure, value: Structure, decay: Tensor, zero_debias: bool) -> Structure:
    """Move an average towards a value; return the average afterwards."""
    with name_scope("AssignMovingAvg") as scope:
        rest = cast(convert_to_tensor(1.0 - decay, name="decay"), average.dtype.base_dtype)
        if zero_debias:
            return _move_unbiased(average, value, rest)
        return assign_sub(average, (average - value) * rest, name=scope)


def _move_unbiased(average: Variable, value: Variable | Tensor, rest: Tensor) -> Structure:
    """Move an average that started with zeros.

    It is divided by the weight of its values. The sum with its bias and the number of updates stand
    in two variables beside it.
    """
    name = average.name.removesuffix(":0")
    settings: Structure = {
        "initializer": Zeros(),
        "dtype": average.dtype.base_dtype,
        "trainable": False,
    }
    with variable_scope(name, values=[average, value, rest]), colocate_with(average.op):
        biased = get_variable(_unused("biased"), shape=average.shape, **settings)
        count = get_variable(_unused("local_step"), shape=[], **settings)
    moved = assign_sub(biased, (biased - value) * rest)
    weight = 1 - pow(1.0 - rest, count.assign_add(1))
    return assign(average, moved / weight, name=get_name_scope() + "/")


def _unused(name: str) -> str:
    """Return a name that no global variable of the variable scope has.

    In a scope that reuses variables it is `name`.
    """
    scope = get_variable_scope()
    if scope.reuse:
        return name
    known = {variable.op.name for variable in scope.global_variables()}
    found, k = name, 0
    while f"{scope.name}/{found}" in known:
        k += 1
        found = f"{name}_{k}"
    return found
