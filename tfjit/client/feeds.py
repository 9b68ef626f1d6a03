"""Feeds: which tensor a key names, and a value as the array that tensor takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tfjit.client.fetches import feed_conversion
from tfjit.framework.dtypes import DType, as_dtype
from tfjit.framework.shape import Shape, TensorShape

_MAX_KNOWN_SHAPES = 1024


class FeedSlot:
    """One fed tensor: converts and checks values.

    name: "x:0". dtype: its base dtype. shape: as the graph knows it, internal form.
    """

    __slots__ = ("_known", "_static", "dtype", "is_object", "name", "np_dtype", "shape")

    def __init__(self, name: str, dtype: DType, shape: Shape) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.is_object = dtype.name in ("resource", "variant")
        self.np_dtype = np.dtype(object) if self.is_object else np.dtype(dtype.as_numpy_dtype)
        self._static = tuple(shape) if shape is not None and all(d is not None for d in shape) else None
        self._known: set[tuple[int, ...]] = set()

    def convert(self, value: Any) -> Any:
        """`value` as a C-contiguous array of the tensor's dtype; not copied when it is one already.

        Raises TypeError and ValueError with TensorFlow's texts.
        """
        if self.is_object:
            if isinstance(value, (bool, int, float, str, bytes, list, tuple, np.generic, np.ndarray)):
                raise TypeError(
                    f"Cannot feed {type(value).__name__} for Tensor {self.name} of dtype {self.dtype.name}: it takes a fetched handle"
                )
            return value
        if type(value) is np.ndarray and value.dtype is self.np_dtype:
            array = value
        else:
            array = self._to_array(value)
        shape = array.shape
        if shape != self._static and shape not in self._known:
            self._check_shape(shape)
        if not array.flags.c_contiguous:
            array = np.array(array, order="C")
        return array

    def _to_array(self, value: Any) -> np.ndarray:
        if hasattr(value, "op") and hasattr(value, "graph"):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python scalars, strings, lists, "
                f"numpy ndarrays, or TensorHandles. For reference, the tensor object was {value} which was passed to the feed with key "
                f"{self.name}."
            )
        if isinstance(value, int) and not isinstance(value, np.generic) and self.np_dtype.kind in "iub":
            self._check_int(value)
        if self.dtype.name == "string":
            return _to_strings(value, self.name)
        if (type(value) is float and self.np_dtype.kind == "f") or type(value) is int:
            return np.asarray(value, self.np_dtype)
        # numbers are converted as an array, as TensorFlow does: what does not fit wraps round or becomes infinite
        return np.asarray(np.asarray(value).astype(self.np_dtype, copy=False), order="C")

    def _check_int(self, value: int) -> None:
        try:
            with np.errstate(all="ignore"):
                same = bool(np.asarray(value).astype(self.np_dtype) == value)
        except OverflowError:
            same = False
        if not same:
            raise TypeError(
                f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {self.np_dtype.type}. "
                "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        want = self.shape
        fits = want is None or (len(want) == len(shape) and all(d is None or d == s for d, s in zip(want, shape, strict=True)))
        if not fits:
            raise ValueError(f"Cannot feed value of shape {shape} for Tensor {self.name}, which has shape {TensorShape(want)}")
        if len(self._known) < _MAX_KNOWN_SHAPES:
            self._known.add(shape)


def _to_strings(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return np.vectorize(lambda s: s.encode(), otypes=[object])(array) if array.size else array.astype(object)
    if array.dtype.kind == "S":
        return array.astype(object)
    array = np.asarray(value, object)

    def to_bytes(element: Any) -> bytes:
        if isinstance(element, bytes):
            return element
        if isinstance(element, str):
            return element.encode()
        raise TypeError(f"Unsupported object type {type(element).__name__} fed for string tensor {name}")

    flat = [to_bytes(e) for e in array.ravel()]
    result = np.empty(array.shape, object)
    result.reshape(-1)[:] = flat
    return result


def resolve_feeds(graph: Any, feed_dict: Any) -> list[tuple[FeedSlot, Callable[[Mapping[Any, Any]], Any], Any]]:
    """(slot, how to get its value from a feed_dict with the same keys, the tensor) for every fed tensor, in the feed_dict's order.

    Raises TypeError with TensorFlow's texts for keys that name no tensor of the graph, ValueError for tensors that cannot be fed.
    """
    resolved: dict[str, tuple[FeedSlot, Callable[[Mapping[Any, Any]], Any], Any]] = {}  # a tensor named twice takes its last value
    if not isinstance(feed_dict, Mapping):
        raise TypeError(f"Argument `feed_dict` must be a dictionary, got {type(feed_dict).__name__}")
    for key, value in feed_dict.items():
        conversion = feed_conversion(key)
        if conversion is not None:
            pairs = list(conversion(key, value))
            for i, (tensor, _) in enumerate(pairs):
                element = _fed_tensor(graph, tensor)
                resolved[element.name] = (feed_slot(element), _part_of(key, conversion, i), element)
            continue
        element = _fed_tensor(graph, key)
        resolved[element.name] = (feed_slot(element), _item(key), element)
    return list(resolved.values())


def _item(key: Any) -> Callable[[Mapping[Any, Any]], Any]:
    return lambda feed_dict: feed_dict[key]


def _part_of(key: Any, conversion: Callable[[Any, Any], Any], index: int) -> Callable[[Mapping[Any, Any]], Any]:
    return lambda feed_dict: list(conversion(key, feed_dict[key]))[index][1]


def _fed_tensor(graph: Any, key: Any) -> Any:
    try:
        element = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
    except Exception as e:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {e.args[0] if e.args else e}") from None
    if hasattr(graph, "is_feedable") and not graph.is_feedable(element):
        raise ValueError(f"Tensor {element} may not be fed.")
    return element


def feed_slot(tensor: Any) -> FeedSlot:
    """The slot of a tensor of a tfjit or TensorFlow graph."""
    dtype = as_dtype(tensor.dtype).base_dtype
    shape = tensor.shape
    dims: Shape = None if shape.rank is None else tuple(shape.as_list())
    return FeedSlot(tensor.name, dtype, dims)
