"""Feeds: the tensor of a key, and the value as its array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.client.session.fetches import fed_parts, feed_conversion
from tfjit.client.session.tensorflow_interop import graph_hint
from tfjit.framework import errors
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.runtime.resources.device_arrays import is_of_device
from tfjit.runtime.resources.device_tensor import DeviceTensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import FeedDict, Structure
    from tfjit.runtime.session_interface import SessionInterface

_MAX_KNOWN_SHAPES = 1024
# Up to here an int is exact in every type of its kind, so that `_check_int` need not try.
_EXACT_FLOAT = {"float16": 2**11, "float32": 2**24, "float64": 2**53}
_HANDLES = ("resource", "variant")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement


class FeedSlot:
    """One fed tensor: converts and checks values.

    name: "x:0". dtype: its base dtype. shape: as the graph knows it, internal form. key: the user's
    key, for messages.
    """

    __slots__ = (
        "_exact",
        "_is_number",
        "_known",
        "_static",
        "dtype",
        "key",
        "name",
        "np_dtype",
        "received",
        "shape",
        "stored",
    )

    def __init__(self, name: str, dtype: DType, shape: Shape, key: object = None) -> None:
        self.name = name
        self.key = name if key is None else key
        self.dtype = dtype
        self.shape = shape
        self.np_dtype = (
            np.dtype(object) if dtype.name in _HANDLES else np.dtype(dtype.as_numpy_dtype)
        )
        self._static = (
            tuple(shape) if shape is not None and all(d is not None for d in shape) else None
        )
        self._known: set[tuple[int, ...]] = set()
        # false for bfloat16, float8 and int4
        self._is_number = np.issubdtype(self.np_dtype, np.number)
        self._exact = _exact_ints(self.np_dtype)
        # reads the tensor of a session handle
        self.stored: Callable[[Any], Any] | None = None
        # takes an array in device memory
        self.received: Callable[[object], object] | None = None

    def convert(self, value: object) -> Any:
        """Return `value` as a C-contiguous array of the tensor's dtype.

        An array in device memory becomes a device tensor. A host array is not copied when it is one
        already. Raises TypeError and ValueError with TensorFlow's texts.
        """
        if type(value) is np.ndarray and value.dtype is self.np_dtype:
            array = value
        else:
            array = self._to_array(value)
        shape = array.shape
        if shape != self._static and shape not in self._known:
            self.check_shape(shape)
        if isinstance(array, DeviceTensor):
            return array
        if not array.flags.c_contiguous:
            array = np.array(array, order="C")
        return array

    def _to_array(self, value: object) -> Any:
        kind = type(value)
        if kind is float and self.np_dtype.kind == "f":
            return np.asarray(value, self.np_dtype)
        if isinstance(value, int):
            low, high = self._exact
            if not low <= value <= high:
                self._check_int(value)
            elif kind is int:
                return np.asarray(value, self.np_dtype)
        elif (
            self.stored is not None
            and type(value).__name__ == "TensorHandle"
            and hasattr(value, "handle")
        ):
            return self.stored(value)
        elif hasattr(value, "op") and hasattr(value, "graph"):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include "
                "Python scalars, strings, lists, "
                f"numpy ndarrays, or TensorHandles. For reference, the tensor object was {value} "
                "which was passed to the argument "
                f"`feed_dict` with key {self.key}."
            )
        elif self.received is not None and is_of_device(value):
            return self.received(value)
        # As TensorFlow converts: numbers as an array, so that values that do not fit wrap round or
        # become infinite; the others by element.
        if self._is_number:
            return np.asarray(np.asarray(value).astype(self.np_dtype, copy=False))
        return np.asarray(value, self.np_dtype)

    def _check_int(self, value: int) -> None:
        """Check that the dtype holds an int.

        Raises TypeError for an int that it does not hold, OverflowError for one beyond 64 bits.
        """
        if self.np_dtype.fields is None and self.np_dtype.kind != "O":
            kind = self.np_dtype.type
            with np.errstate(all="ignore"):
                if kind(np.array(value).astype(kind)) == value:
                    return
        named: object = (
            object
            if self.np_dtype.kind == "O"
            else self.np_dtype.type
            if self.np_dtype.fields is None
            else self.dtype.name
        )
        raise TypeError(
            f"Type of feed value {value} with type {type(value)} is not compatible with Tensor "
            f"type {named}. "
            "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
        )

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ValueError for a shape that the tensor cannot have."""
        want = self.shape
        fits = want is None or (
            len(want) == len(shape)
            and all(d is None or d == s for d, s in zip(want, shape, strict=True))
        )
        if not fits:
            # a tensor of TensorFlow's writes unknown sizes as its own mode does
            known: object = TensorShape(want)
            if getattr(self.key, "name", None) == self.name:
                known = getattr(self.key, "shape", known)
            raise ValueError(
                f"Cannot feed value of shape {shape} for Tensor {self.name}, "
                f"which has shape {known}"
            )
        if len(self._known) < _MAX_KNOWN_SHAPES:
            self._known.add(shape)


class StringSlot(FeedSlot):
    """A fed string tensor: text becomes bytes."""

    __slots__ = ()

    def convert(self, value: object) -> Any:
        """Return `value` as an object array of bytes.

        Raises InternalError, as TensorFlow does, where an element is neither text nor bytes.
        """
        return _as_bytes(super().convert(value))


class HandleSlot(FeedSlot):
    """A fed resource or variant.

    The only source of one is an earlier fetch, whose result is an object of the runtime.
    """

    __slots__ = ()

    def convert(self, value: object) -> Any:
        """Return `value` itself. Raises TypeError for a value that is no handle."""
        if self.stored is not None and type(value).__name__ == "TensorHandle":
            return self.stored(value)
        if type(value).__module__.partition(".")[0] != "tfjit":
            raise TypeError(
                f"Cannot feed {type(value).__name__} for Tensor {self.name} of dtype "
                f"{self.dtype.name}: it takes a fetched handle"
            )
        return value


def _exact_ints(dtype: np.dtype) -> tuple[int, int]:
    """Return the bounds of ints that arrays of the dtype certainly hold.

    Both bounds are inclusive.
    """
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    if dtype.kind == "b":
        return 0, 1
    bound = _EXACT_FLOAT.get(dtype.name, -1)
    return -bound, bound


def _as_bytes(array: np.ndarray) -> np.ndarray:
    """Return an object array as one of bytes.

    It is returned itself when it is one already. Raises InternalError, as TensorFlow does, for
    other objects.
    """
    elements = array.ravel().tolist()
    if set(map(type, elements)) <= {bytes}:
        return array
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = [_element_as_bytes(e) for e in elements]
    return result


def _element_as_bytes(element: object) -> bytes:
    if isinstance(element, str):
        return element.encode()
    if isinstance(element, bytes):
        return bytes(element)
    kind = type(element)
    plain = kind.__flags__ & _HEAP_TYPE or kind.__module__ == "builtins"
    raise errors.InternalError(
        None,
        None,
        "Unsupported object type "
        f"{kind.__name__ if plain else f'{kind.__module__}.{kind.__name__}'}",
    )


ResolvedFeeds = list[tuple[FeedSlot, Callable[[Mapping[Any, Any]], Any], Any]]
"""The slot of each fed tensor, the getter of its value, and the tensor."""


def resolve_feeds(graph: object, feed_dict: object) -> ResolvedFeeds:
    """Return (slot, getter, tensor) for every fed tensor.

    They have the feed_dict's order; the getter gets the value from a feed_dict with the same keys.
    Raises TypeError with TensorFlow's texts for keys that name no tensor of the graph, ValueError
    for tensors that cannot be fed.
    """
    if not feed_dict:
        return []  # any empty value feeds nothing
    if not isinstance(feed_dict, Mapping):
        raise TypeError(
            "Argument `feed_dict` must be a dictionary or another Mapping, not a "
            f"'{type(feed_dict).__name__}'."
        )
    # a tensor named twice takes its last value
    resolved: dict[str, tuple[FeedSlot, Callable[[Mapping[Any, Any]], Any], Any]] = {}
    nested = any(is_nested(key) for key in feed_dict)
    seen: set[Any] = set()
    for outer, outer_value in feed_dict.items():
        for path, key, value in (
            _flattened(outer, outer_value) if nested else [((), outer, outer_value)]
        ):
            if nested and key in seen:
                raise ValueError(f"Cannot flatten dict because this key is not unique: {key}")
            seen.add(key)
            get = _path(outer, path) if path else _item(outer)
            conversion = feed_conversion(key)
            if conversion is None:
                element = _fed_tensor(graph, key)
                resolved[element.name] = (feed_slot(element, key), get, element)
                continue
            for i, (tensor, _) in enumerate(list(conversion(key, value))):
                element = _fed_tensor(graph, tensor)
                resolved[element.name] = (
                    feed_slot(element, key),
                    _part_of(key, get, conversion, i),
                    element,
                )
    return list(resolved.values())


def is_nested(key: object) -> bool:
    """Return whether a key of a feed_dict is a structure of keys.

    Its value has the same layout.
    """
    return isinstance(key, (tuple, list)) and not isinstance(key, str)


def _flattened(key: Any, value: object) -> Iterator[tuple[tuple[int, ...], object, object]]:
    """Yield (path, key, value) for every tensor of a structure of keys."""
    if not is_nested(key):
        yield (), key, value
        return
    keys, values = list(_leaves(key)), list(_leaves(value))
    if len(keys) != len(values):
        raise ValueError(
            f"Could not flatten dictionary. Key had {len(keys)} elements, but value had "
            f"{len(values)} elements. "
            f"Key: {[k for _, k in keys]}, value: {[v for _, v in values]}."
        )
    for (path, one), (other, part) in zip(keys, values, strict=True):
        if path != other:
            raise ValueError(
                f"Could not flatten dictionary: key {key} and value {value} do not have the same "
                "structure."
            )
        yield path, one, part


def _leaves(
    structure: Structure, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], object]]:
    if not is_nested(structure):
        yield path, structure
        return
    for i, part in enumerate(structure):
        yield from _leaves(part, (*path, i))


def _item(key: object) -> Callable[[Mapping[object, object]], object]:
    return lambda feed_dict: feed_dict[key]


def _path(key: object, path: tuple[int, ...]) -> Callable[[Mapping[object, object]], object]:
    def get(feed_dict: FeedDict) -> Any:
        return next(value for found, _, value in _flattened(key, feed_dict[key]) if found == path)

    return get


def _part_of(
    key: Any,
    get: Callable[[Mapping[Any, Any]], Any],
    conversion: Callable[[Any, Any], Any],
    index: int,
) -> Structure:
    return lambda feed_dict: list(conversion(key, get(feed_dict)))[index][1]


def _fed_tensor(graph: Any, key: Any) -> Structure:
    try:
        element = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except Exception as e:
        hint = graph_hint(graph, key)
        raise TypeError(
            f"Cannot interpret feed_dict key as Tensor: {e.args[0] if e.args else e}{hint}"
        ) from None
    if not graph.is_feedable(element):
        raise ValueError(f"Tensor {element.name} may not be fed.")
    return element


def partial_feeds(graph: Any, feeds: object) -> list[FeedSlot]:
    """Return the slots of a partial run.

    feeds: a key, a list of them, or None. Raises TypeError for a key that names no tensor of the
    graph.
    """
    slots = []
    for feed in feeds if isinstance(feeds, (list, tuple)) else () if feeds is None else (feeds,):
        for part in fed_parts(feed):
            try:
                element = graph.as_graph_element(part, allow_tensor=True, allow_operation=False)
            except Exception as e:
                raise TypeError(
                    f"Cannot interpret argument `feed` key as Tensor: {e.args[0] if e.args else e}"
                ) from None
            slots.append(feed_slot(element))
    return slots


def feed_slot(tensor: Any, key: Any = None) -> FeedSlot:
    """Return the slot of a tensor of a tfjit or TensorFlow graph.

    key: the user's key, where it is not the tensor.
    """
    dtype = as_dtype(tensor.dtype).base_dtype
    shape = tensor.shape
    dims: Shape = None if shape.rank is None else tuple(shape.as_list())
    slot = (
        HandleSlot if dtype.name in _HANDLES else StringSlot if dtype.name == "string" else FeedSlot
    )
    return slot(tensor.name, dtype, dims, tensor if key is None else key)


def receiver(backend: SessionInterface, slot: FeedSlot) -> Callable[[object], object]:
    """Return the function that takes arrays in device memory for a feed."""
    receive, dtype, name = backend.receive, slot.dtype, slot.name
    return lambda value: receive(value, dtype, name)


def placeholders_behind(elements: Sequence[Any], fed: set[str]) -> list[Any]:
    """The placeholders that fetched elements depend on, not looking behind fed tensors."""
    stack = [getattr(e, "op", e) for e in elements]
    seen = {op.name for op in stack}
    found = []
    while stack:
        op = stack.pop()
        if op.type in ("Placeholder", "PlaceholderV2") and f"{op.name}:0" not in fed:
            found.append(op.outputs[0])
        before = [tensor.op for tensor in op.inputs if tensor.name not in fed]
        for source in (*before, *op.control_inputs):
            if source.name not in seen:
                seen.add(source.name)
                stack.append(source)
    return found
