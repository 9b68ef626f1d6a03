"""The variables of a graph by name, for `get_variable`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from tfjit.client.variables.partitioned_variable import (
    PartitionedVariable,
    called_partitioner,
    slices,
)
from tfjit.client.variables.resource_default import resource_variables_enabled
from tfjit.client.variables.slice_info import PartitionInfo, SaveSliceInfo
from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import TensorShape, as_tensor_shape
from tfjit.ops.arrays.slicing import slice as slice_of
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        DTypeLike,
        InitializerLike,
        PartitionerLike,
        RegularizerLike,
        ShapeLike,
        Structure,
    )

# A collection with a name that is no string is not exported with the graph.
_STORE: Final = ("__variable_store",)


class _VariableStore:
    """Variables of one graph that `get_variable` made, by their full names."""

    def __init__(self) -> None:
        self.whole: dict[str, Variable] = {}  # slices, too
        self.partitioned: dict[str, PartitionedVariable] = {}


def variable_store() -> _VariableStore:
    """Return the store of the default graph."""
    held = get_default_graph().get_collection_ref(_STORE)
    if not held:
        held.append(_VariableStore())
    found: _VariableStore = held[0]
    return found


def stored_variable(
    name: str,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = dtypes.float32,
    initializer: InitializerLike | None = None,
    regularizer: RegularizerLike | None = None,
    reuse: object = None,
    trainable: bool | None = None,
    collections: Sequence[str] | None = None,
    caching_device: object = None,
    partitioner: PartitionerLike | None = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    constraint: object = None,
    synchronization: int = VariableSynchronization.AUTO,
    aggregation: int = VariableAggregation.NONE,
) -> Structure:
    """Return the graph's variable of the full `name`, or a new one.

    With a partitioner, and for a partitioned variable that is used again, it is a
    PartitionedVariable.
    """
    settings: Structure = {
        "regularizer": regularizer,
        "trainable": trainable,
        "collections": collections,
        "caching_device": caching_device,
        "validate_shape": validate_shape,
        "use_resource": use_resource,
        "constraint": constraint,
        "synchronization": synchronization,
        "aggregation": aggregation,
    }
    wanted = as_dtype(dtype)
    scalar = isinstance(shape, Sequence) and not shape
    if partitioner is not None and not scalar and not callable(partitioner):
        raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
    store = variable_store()
    if (partitioner is not None and not scalar) or (
        reuse is True and partitioner is None and name in store.partitioned
    ):
        known_shape = as_tensor_shape(shape)
        with name_scope(None):
            return stored_partitioned_variable(
                name, partitioner, known_shape, wanted, initializer, reuse, **settings
            )
    if f"{name}/part_0" in store.whole:
        raise ValueError(
            "No partitioner was provided, but a partitioned version of the variable was found: "
            f"{name}/part_0. Perhaps a variable of the same name was already created with "
            "partitioning?"
        )
    return _whole(name, shape, wanted, initializer, reuse, **settings)


def stored_partitioned_variable(
    name: str,
    partitioner: PartitionerLike | None,
    shape: TensorShape,
    dtype: DType,
    initializer: Any,
    reuse: object,
    **settings: Structure,
) -> PartitionedVariable:
    """Return the partitioned variable of a full name, or a new one."""
    store = variable_store()
    if name in store.whole:
        raise ValueError(
            "A partitioner was provided, but an unpartitioned version of the variable was found: "
            f"{name}.  Perhaps a variable of the same name was already created without "
            "partitioning?"
        )
    if isinstance(initializer, Tensor):
        shape = shape.merge_with(initializer.shape)
    counts = None
    if partitioner is not None:
        counts = called_partitioner(partitioner, shape, dtype)
    if name in store.partitioned:
        return _existing_partitioned(store.partitioned[name], name, shape, dtype, counts, reuse)
    if reuse is True or counts is None:
        raise ValueError(
            f"PartitionedVariable {name} does not exist, or was not created with "
            "tf.get_variable(). Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in "
            "VarScope?"
        )
    whole_shape: Structure = shape.as_list()
    places = list(slices(whole_shape, counts))
    _check_parts(store, name, len(places))
    if initializer is None:
        initializer = _default_initializer(name, dtype)
    parts = []
    for k, (offsets, sizes) in enumerate(places):
        part_name = f"{name}/part_{k}"
        initial: Structure = initializer
        part_shape: list[int] | None = sizes
        if not callable(initializer):
            with name_scope(f"{part_name}/PartitionedInitializer"):
                # A tensor has its own dtype.
                value = convert_to_tensor(
                    initializer, None if isinstance(initializer, Tensor) else dtype
                )
                initial, part_shape = slice_of(value, offsets, sizes), None
                dtype = value.dtype.base_dtype
        with name_scope(None):
            part = _whole(
                part_name,
                part_shape,
                dtype,
                initial,
                reuse,
                partition_info=PartitionInfo(whole_shape, offsets),
                **settings,
            )
        part._set_save_slice_info(SaveSliceInfo(name, whole_shape, offsets, sizes))
        parts.append(part)
    made = store.partitioned[name] = PartitionedVariable(name, shape, dtype, parts, counts)
    return made


def _existing_partitioned(
    found: PartitionedVariable,
    name: str,
    shape: TensorShape,
    dtype: DType,
    counts: Sequence[int] | None,
    reuse: object,
) -> PartitionedVariable:
    if reuse is False:
        raise ValueError(
            f"Partitioned variable with name {name} already exists. Did you mean to set "
            "reuse=True or reuse=tf.AUTO_REUSE in VarScope?"
        )
    differing = None
    if not shape.is_compatible_with(found.shape):
        differing = f"shape {shape} and found shape {found.shape}"
    elif not dtype.is_compatible_with(found.dtype):
        differing = f"dtype {dtype.name} and found dtype {found.dtype.name}"
    elif counts is not None and found._get_partitions() != counts:
        differing = f"partitions {counts} and found partitions {found._get_partitions()}"
    if differing:
        raise ValueError(f"Trying to reuse partitioned variable {name}, but specified {differing}.")
    return found


def _check_parts(store: _VariableStore, name: str, count: int) -> None:
    """Raise ValueError for another number of slices."""
    if f"{name}/part_0" not in store.whole:
        return
    start = (
        "Partitioner returned a different partitioning than what was already found.  Partitioner "
        f"returned {count} shards, and shard {name}/part_0 was found, but "
    )
    if f"{name}/part_{count - 1}" not in store.whole:
        raise ValueError(f"{start}{name}/part_{count - 1} was not.")
    if f"{name}/part_{count}" in store.whole:
        raise ValueError(f"{start}so was the extra shard {name}/part_{count}.")


def _whole(
    name: str,
    shape: object,
    wanted: DType,
    initializer: Any,
    reuse: object,
    regularizer: Any = None,
    use_resource: bool | None = None,
    partition_info: PartitionInfo | None = None,
    **settings: Any,
) -> Variable:
    """Return the variable of the full `name`, or a new one.

    partition_info: of the slice that it is, for the initializer.
    """
    from_value = initializer is not None and not callable(initializer)
    if shape is not None and from_value:
        raise ValueError("If initializer is a constant, do not specify shape.")
    known_shape = None if shape is None else as_tensor_shape(shape)
    known = variable_store().whole
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
    initial, initial_dtype = initializer, None
    if not from_value:
        if inspect.isclass(initializer):
            initializer = initializer()
        if known_shape is not None and known_shape.is_fully_defined():
            about: dict[str, object] = {"dtype": wanted}
            if "partition_info" in inspect.signature(initializer).parameters:
                about["partition_info"] = partition_info
            initial = functools.partial(initializer, known_shape.as_list(), **about)
            initial_dtype = wanted.base_dtype
        elif _is_nullary(initializer):
            initial = initializer
        else:
            raise ValueError(
                "The initializer passed is not valid. It should be a callable with no arguments "
                "and the shape should not be provided or "
                "an instance of `tf.initializers.*` and `shape` should be fully defined."
            )
    if use_resource is None:
        use_resource = resource_variables_enabled() or get_default_graph().building_function
    variable = Variable(
        initial, name=name, dtype=initial_dtype, use_resource=use_resource, **settings
    )
    known[name] = variable
    if regularizer is not None:
        graph = variable.graph
        with (
            graph.colocate_with(variable.op),
            graph.name_scope(name + "/Regularizer/"),
            graph.control_dependencies(None),
        ):
            loss = regularizer(variable)
        if loss is not None:
            graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


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
