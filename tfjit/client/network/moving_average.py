"""Moving averages of a layer's statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.variables.assignments import assign_sub
from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def assign_moving_average(variable: Structure, value: Tensor, momentum: Structure) -> Structure:
    """Move a variable towards a value.

    It becomes variable * momentum + value * (1 - momentum). momentum: a number or a scalar tensor.
    Gives the variable's value afterwards.
    """
    graph = get_default_graph()
    with name_scope("AssignMovingAvg") as scope, graph.colocate_with(variable.op):
        dtype = variable.dtype.base_dtype
        if isinstance(momentum, Tensor):
            rest = 1.0 - cast(momentum, dtype)
        else:
            rest = convert_to_tensor(1.0 - momentum, dtype, name="decay")
        return assign_sub(variable, (variable - cast(value, dtype)) * rest, name=scope)
