"""Fetch structures: from what the user passes to `run` to a flat list of names, and back to the same structure with values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# (type, fetch function, feed function, feed function for partial runs), looked up in order
_CONVERSIONS: list[tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]] = []


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[[Any], tuple[Sequence[Any], Callable[[Sequence[Any]], Any]]],
    feed_function: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None = None,
    feed_function_for_partial_run: Callable[[Any], Sequence[Any]] | None = None,
) -> None:
    """Teach `run` a type. fetch_function: object -> (elements to fetch, contraction of their values);
    feed_function: (object, value) -> pairs of (tensor, value). Raises ValueError when the type or a base of it is registered.
    """
    for known, *_ in _CONVERSIONS:
        if issubclass(tensor_type, known):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")

    def no_feed(*_: Any) -> Any:
        raise TypeError(f"{tensor_type.__name__} cannot be fed: it was registered without a feed function")

    _CONVERSIONS.insert(0, (tensor_type, fetch_function, feed_function or no_feed, feed_function_for_partial_run or no_feed))


def _conversions(x: Any) -> Iterator[tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]]:
    """Our conversions, and for an object of a TensorFlow type those that TensorFlow's own sessions use (SparseTensor, RaggedTensor ...)."""
    yield from _CONVERSIONS
    sessions = sys.modules.get("tensorflow.python.client.session")
    if sessions is not None and not isinstance(x, str):
        yield from (entry for entry in getattr(sessions, "_REGISTERED_EXPANSIONS", ()) if entry[0] is not object)


def is_converted(x: Any) -> bool:
    """Whether `run` takes the object apart by a registered conversion."""
    return any(isinstance(x, known) for known, *_ in _conversions(x))


def feed_conversion(key: Any) -> Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None:
    """The feed function of a registered type, or None."""
    for known, _, feed, _ in _conversions(key):
        if isinstance(key, known):
            return feed
    return None


@dataclass(frozen=True, slots=True)
class Leaf:
    """One fetched graph element. name: tensor name, or operation name when is_operation."""

    name: str
    is_operation: bool
    element: Any


Rebuild = Callable[[Sequence[Any]], Any]


class FetchMapper:
    """Flattens one fetch structure over a graph.

    leaves: the distinct graph elements, in order of appearance; `rebuild(values)` takes one value a leaf (None for operations) and returns
    the structure. Raises TypeError or ValueError with TensorFlow's texts for what cannot be fetched.
    """

    def __init__(self, graph: Any, fetches: Any) -> None:
        self._graph = graph
        self._index: dict[tuple[str, bool], int] = {}
        self.leaves: list[Leaf] = []
        self.rebuild: Rebuild = self._map(fetches)

    def _map(self, fetch: Any) -> Rebuild:
        if fetch is None:
            raise TypeError(f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}". Cannot be None')
        if isinstance(fetch, (list, tuple)):
            parts = [self._map(f) for f in fetch]
            make = _sequence_maker(fetch)
            return lambda values: make([part(values) for part in parts])
        if isinstance(fetch, Mapping):
            keys = list(fetch)
            parts = [self._map(fetch[k]) for k in keys]
            kind = type(fetch)
            if hasattr(fetch, "default_factory"):
                factory = fetch.default_factory
                return lambda values: kind(factory, zip(keys, [part(values) for part in parts], strict=True))  # type: ignore[call-arg]
            return lambda values: kind(zip(keys, [part(values) for part in parts], strict=True))  # type: ignore[call-arg]
        attributes = getattr(type(fetch), "__attrs_attrs__", None)
        if attributes is not None:
            names = [a.name for a in attributes]
            parts = [self._map(getattr(fetch, n)) for n in names]
            cls = type(fetch)
            return lambda values: cls(*[part(values) for part in parts])
        for known, fetch_function, _, _ in _conversions(fetch):
            if isinstance(fetch, known):
                elements, contract = fetch_function(fetch)
                parts = [self._map(e) for e in elements]
                return lambda values: contract([part(values) for part in parts])
        return self._leaf(fetch)

    def _leaf(self, fetch: Any) -> Rebuild:
        try:
            element = self._graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as e:
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}" must be a string or Tensor. ({e})'
            ) from None
        except ValueError as e:
            raise ValueError(f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({e})") from None
        except KeyError as e:
            raise ValueError(f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({e})") from None
        is_operation = not hasattr(element, "dtype")
        if hasattr(self._graph, "is_fetchable") and not self._graph.is_fetchable(element):
            raise ValueError(f"Operation '{element.name}' has been marked as not fetchable.")
        key = (element.name, is_operation)
        position = self._index.get(key)
        if position is None:
            position = self._index[key] = len(self.leaves)
            self.leaves.append(Leaf(element.name, is_operation, element))
        return lambda values: values[position]


def _sequence_maker(fetch: Sequence[Any]) -> Callable[[list[Any]], Any]:
    kind = type(fetch)
    if kind is list:
        return lambda values: values
    if hasattr(fetch, "_fields"):
        return lambda values: kind(*values)
    return lambda values: kind(values)  # type: ignore[call-arg]
