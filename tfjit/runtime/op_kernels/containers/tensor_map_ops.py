"""Tensor maps: variants that hold tensors by tensors.

A map is a value; inserting and erasing make new ones. Keys are compared by dtype, shape and
elements; TensorMapStackKeys gives them in the order they came (TensorFlow's order follows its hash
table and differs in each process).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.kernel_api.op_kernel import OpContext, runtime_kernel
from tfjit.runtime.op_kernels.containers.tensor_list_ops import seen
from tfjit.runtime.op_kernels.control_flow.control_flow_ops import summarize
from tfjit.runtime.resources.tensor_arrays import invalid
from tfjit.runtime.resources.variables_and_resources import Variable

_SHOWN: Final = 100  # elements of a key in messages

Key = tuple[str, tuple[int, ...], Any]


class TensorMap:
    """A map; entries: (key, value) by the key's comparable form.

    A map that others may hold is never changed.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[Key, tuple[np.ndarray, Any]] | None = None) -> None:
        self.entries: dict[Key, tuple[np.ndarray, Any]] = dict(entries or {})


def _as_map(value: Any) -> TensorMap:
    if isinstance(value, np.ndarray):
        raise invalid(f"Input map must be a scalar. Saw: {format_shape(value.shape)}")
    if not isinstance(value, TensorMap):
        raise invalid(f"Input handle is not a map. Saw: '{seen(value)}'")
    return value


def _own(value: Any) -> Any:
    if isinstance(value, Variable):
        value = value.initialized_value()
    return np.array(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _key(array: np.ndarray) -> Key:
    elements = tuple(array.reshape(-1).tolist()) if array.dtype == object else array.tobytes()
    return str(array.dtype), array.shape, elements


def _find(found: TensorMap, key: Any, doing: str) -> Key:
    array = _own(key)
    wanted = _key(array)
    if wanted not in found.entries:
        raise invalid(f'Trying to {doing}. Could not find key "{summarize(array, _SHOWN)}".')
    return wanted


@runtime_kernel("EmptyTensorMap")
def empty_tensor_map(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return a map without entries."""
    return (TensorMap(),)


@runtime_kernel("TensorMapSize")
def tensor_map_size(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the number of entries."""
    return (np.array(len(_as_map(inputs[0]).entries), np.int32),)


@runtime_kernel("TensorMapInsert")
def tensor_map_insert(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the map with a value for a key, new or replaced."""
    made = TensorMap(_as_map(inputs[0]).entries)
    key = _own(inputs[1])
    made.entries[_key(key)] = key, _own(inputs[2])
    return (made,)


@runtime_kernel("TensorMapLookup")
def tensor_map_lookup(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the value of a key.

    Raises InvalidArgumentError when there is none, InternalError when it is of another dtype.
    """
    found = _as_map(inputs[0])
    value = found.entries[_find(found, inputs[1], "lookup non-existent key")][1]
    wanted = ctx.attrs["value_dtype"]
    if isinstance(value, np.ndarray) and value.dtype != object and as_dtype(value.dtype) != wanted:
        names = [
            {"float32": "float", "float64": "double"}.get(d.name, d.name)
            for d in (as_dtype(value.dtype), wanted)
        ]
        raise errors.InternalError(
            None,
            None,
            f"Output 0 of type {names[0]} does not match declared output type {names[1]} for node "
            f"{{{{node {ctx.name}}}}}",
        )
    return (value,)


@runtime_kernel("TensorMapErase")
def tensor_map_erase(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the map without a key.

    Raises InvalidArgumentError when it has it not.
    """
    found = _as_map(inputs[0])
    key = _find(found, inputs[1], "erase non-existent item")
    return (TensorMap({k: entry for k, entry in found.entries.items() if k != key}),)


@runtime_kernel("TensorMapHasKey")
def tensor_map_has_key(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return whether there is a value for a key."""
    return (np.array(_key(_own(inputs[1])) in _as_map(inputs[0]).entries),)


@runtime_kernel("TensorMapStackKeys")
def tensor_map_stack_keys(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return all keys [size, *key shape].

    Raises InvalidArgumentError for an empty map and for keys of several dtypes or shapes.
    """
    keys = [key for key, _ in _as_map(inputs[0]).entries.values()]
    if not keys:
        raise invalid("TensorMapStackKeys cannot be called on empty map.")
    wanted = ctx.attrs["key_dtype"]
    if any(as_dtype(key.dtype) != wanted for key in keys):
        raise invalid("Key does not match requested dtype.")
    if any(key.shape != keys[0].shape for key in keys):
        raise invalid("Keys must all have the same shape.")
    return (np.stack(keys),)
