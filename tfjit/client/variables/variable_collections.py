"""The variables of a graph.

There are lists of them, operations that initialize them, and checks for uninitialized ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tfjit import ops
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import (
    device,
    get_collection,
    get_default_graph,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor


def global_variables(scope: str | None = None) -> list[Any]:
    """Return the shared variables.

    scope: only variables whose names match it from the start.
    """
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


all_variables = global_variables


def local_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of this process only, which are not saved."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables listed in MODEL_VARIABLES."""
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that optimizers update by default."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that moving averages are kept of."""
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Iterable[Any], name: str = "init") -> Operation:
    """Return one operation that sets the initial values of these variables."""
    variables = list(var_list)
    if not variables:
        return ops.group(name=name)
    return ops.group(*[v.initializer for v in variables], name=name)


initialize_variables = variables_initializer


def global_variables_initializer() -> Operation:
    """Return an operation that initializes the current global variables."""
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer() -> Operation:
    """Return an operation that initializes the current local variables."""
    return variables_initializer(local_variables())


initialize_local_variables = local_variables_initializer


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Return one operation that fills the lookup tables of the graph."""
    return ops.group(*get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


initialize_all_tables = tables_initializer


def is_variable_initialized(variable: Variable, name: str | None = None) -> Tensor:
    """Return whether the variable has a value, as a bool tensor."""
    return variable.is_initialized(name)


def assert_variables_initialized(var_list: Iterable[Any] | None = None) -> Tensor | None:
    """Return a tensor whose run checks that variables have values.

    The run raises FailedPreconditionError for a variable without value. None without variables.
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    if not variables:
        return None
    ranks = []
    for variable in variables:
        with get_default_graph().colocate_with(variable.op):
            ranks.append(tensor("Rank", input=variable))
    return ranks[0] if len(ranks) == 1 else ops.stack(ranks)


def report_uninitialized_variables(
    var_list: Iterable[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Return the names of the variables without value.

    The result is a vector of strings. var_list: global and local variables by default.
    """
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    with name_scope(name):
        flags = [variable.is_initialized() for variable in variables]
        with device("/cpu:0"):
            if not variables:
                return ops.constant(np.array([], dtype=object), dtype=dtypes.string)
            missing = tensor("LogicalNot", x=ops.stack(flags))
            return ops.boolean_mask(
                ops.constant([variable.op.name for variable in variables]), missing
            )
