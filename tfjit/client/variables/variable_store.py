"""Find a graph's variables by name, and make those that are missing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from tfjit.client.variables.resource_default import resource_variables_enabled
from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variables import Variable
from tfjit.framework.errors import UnimplementedError
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape, as_tensor_shape

# A collection with a name that is no string is not exported with the graph.
_STORE: Final = ("__variable_store",)


def _variables_by_name() -> dict[str, Variable]:
    held = get_default_graph().get_collection_ref(_STORE)
    if not held:
        held.append({})
    return held[0]


def check_partitioner(partitioner: object) -> None:
    """Raise UnimplementedError for anything but None."""
    if partitioner is not None:
        raise UnimplementedError(
            None,
            None,
            "partitioner: partitioned variables are not supported yet; leave it out for one whole "
            "variable",
        )


def variable_of_name(
    name: str,
    shape: object = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: object = None,
    trainable: bool | None = None,
    collections: Sequence[str] | None = None,
    caching_device: object = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: Any = None,
    synchronization: int = VariableSynchronization.AUTO,
    aggregation: int = VariableAggregation.NONE,
) -> Any:
    """Return the graph's variable of the full `name`, or a new one."""
    check_partitioner(partitioner)
    wanted = as_dtype(dtype)
    from_value = initializer is not None and not callable(initializer)
    if shape is not None and from_value:
        raise ValueError("If initializer is a constant, do not specify shape.")
    known_shape = None if shape is None else as_tensor_shape(shape)
    known = _variables_by_name()
    if name in known:
        return _existing(known[name], name, known_shape, wanted, reuse)
    if reuse is True:
        raise ValueError(
            f"Variable {name} does not exist, or was not created with tf.get_variable(). "
            "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?"
        )
    if initializer is None:
        if known_shape is None:
            raise ValueError(
                f"Variable {name} did not get an initializer, so its `shape` argument must be "
                "specified."
            )
        initializer = _default_initializer(name, wanted)
    initial, initial_dtype = _initial_value(initializer, known_shape, wanted)
    variable = Variable(
        initial,
        name=name,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        dtype=initial_dtype,
        validate_shape=validate_shape,
        constraint=constraint,
        use_resource=(resource_variables_enabled() or get_default_graph().building_function)
        if use_resource is None
        else use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )
    known[name] = variable
    if regularizer is not None:
        _regularize(variable, name, regularizer)
    return variable


def _initial_value(
    initializer: Any, shape: TensorShape | None, dtype: DType
) -> tuple[Any, DType | None]:
    """Return the initial value, and the dtype to convert it to.

    The value may be a function that makes it. Raises ValueError for a function that needs a shape,
    if none is known.
    """
    if not callable(initializer):
        return initializer, None
    if inspect.isclass(initializer):
        initializer = initializer()
    if shape is not None and shape.is_fully_defined():
        made = functools.partial(initializer, shape.as_list(), dtype=dtype)
        return made, dtype.base_dtype
    if not _is_nullary(initializer):
        raise ValueError(
            "The initializer passed is not valid. It should be a callable with no arguments "
            "and the shape should not be provided or "
            "an instance of `tf.initializers.*` and `shape` should be fully defined."
        )
    return initializer, None


def _regularize(variable: Variable, name: str, regularizer: Callable[[Variable], object]) -> None:
    """Add the loss that a regularizer gives to the graph."""
    graph = variable.graph
    with (
        graph.colocate_with(variable.op),
        graph.name_scope(name + "/Regularizer/"),
        graph.control_dependencies(None),
    ):
        loss = regularizer(variable)
    if loss is not None:
        graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def _existing(
    found: Variable, name: str, shape: TensorShape | None, dtype: DType, reuse: object
) -> Variable:
    if reuse is False:
        message = (
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
        place = found.op.built_at
        raise ValueError(f"{message} Originally defined at: {place}" if place else message)
    if shape is not None and not shape.is_compatible_with(found.get_shape()):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {shape} and found shape "
            f"{found.get_shape()}."
        )
    if not dtype.is_compatible_with(found.dtype):
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
            f"{found.dtype.name}."
        )
    return found


def _default_initializer(name: str, dtype: DType) -> Callable[..., Any]:
    from tfjit.client.variables import initializers

    if dtype.is_floating:
        return initializers.glorot_uniform_initializer()
    if dtype.is_integer or dtype.is_unsigned or dtype.is_bool or dtype.base_dtype is dtypes.string:
        return initializers.zeros_initializer()
    raise ValueError(f"An initializer for variable {name} of {dtype.base_dtype} is required")


def _is_nullary(function: Callable[..., Any]) -> bool:
    empty = inspect.Parameter.empty
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(
        p.default is not empty or p.kind in kinds
        for p in inspect.signature(function).parameters.values()
    )
