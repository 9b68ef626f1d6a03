"""Get variables of the current variable scope by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variable_scope import get_variable_scope
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        DeviceLike,
        DTypeLike,
        InitializerLike,
        PartitionerLike,
        RegularizerLike,
        ShapeLike,
        VariableGetter,
    )


def get_variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: InitializerLike | None = None,
    regularizer: RegularizerLike | None = None,
    trainable: bool | None = None,
    collections: Sequence[str] | None = None,
    caching_device: DeviceLike | None = None,
    partitioner: PartitionerLike | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: VariableGetter | None = None,
    constraint: ConstraintLike | None = None,
    synchronization: int = VariableSynchronization.AUTO,
    aggregation: int = VariableAggregation.NONE,
) -> Any:
    """Return the variable of this name in the current variable scope.

    It is an existing one where the scope reuses, else a new one.

    initializer: a tensor or values (then without shape), or a callable (shape, dtype) -> values; by
    default Glorot's uniform distribution for floats and zeros for the rest. regularizer: a function
    of the variable whose result joins REGULARIZATION_LOSSES. partitioner: a function of shape and
    dtype that returns the number of slices of each axis; the result then is a PartitionedVariable
    of variables "<name>/part_<k>", which are saved as one tensor. Raises ValueError when it exists
    and the scope doesn't reuse, when it doesn't and the scope does, and where shape or dtype differ
    from the existing one's.
    """
    return get_variable_scope().get_variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def get_local_variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    initializer: InitializerLike | None = None,
    regularizer: RegularizerLike | None = None,
    trainable: bool | None = False,
    collections: Sequence[str] | None = None,
    caching_device: DeviceLike | None = None,
    partitioner: PartitionerLike | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: VariableGetter | None = None,
    constraint: ConstraintLike | None = None,
    synchronization: int = VariableSynchronization.AUTO,
    aggregation: int = VariableAggregation.NONE,
) -> Any:
    """Do as `get_variable` for an untrained variable in LOCAL_VARIABLES.

    The variable is untrained for any value of `trainable`.
    """
    return get_variable(
        name,
        shape,
        dtype,
        initializer,
        regularizer,
        trainable=False,
        collections=[*(collections or ()), GraphKeys.LOCAL_VARIABLES],
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )
