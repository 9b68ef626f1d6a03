"""Fetch structures: flat lists of names from `run`'s argument.

Values are put back into the same structure.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tfjit.client.session.tensorflow_interop import graph_hint
from tfjit.framework.errors import InaccessibleTensorError
from tfjit.framework.graphs.indexed_slices import IndexedSlices, IndexedSlicesValue

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Fetches, Structure

# (type, fetch function, feed function, feed function for partial runs), looked up in order
_CONVERSIONS: list[
    tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]
] = []


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Callable[[Any], tuple[Sequence[Any], Callable[[Sequence[Any]], Any]]],
    feed_function: Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None = None,
    feed_function_for_partial_run: Callable[[Any], Sequence[Any]] | None = None,
) -> None:
    """Teach `run` a type.

    fetch_function: object -> (elements to fetch, contraction of their values); feed_function:
    (object, value) -> pairs of (tensor, value); feed_function_for_partial_run: object -> tensors to
    be fed. The latest registered type that an object is an instance of counts. Raises ValueError
    when the type or a subclass of it is registered, which would hide it.
    """
    for known in (object, *(entry[0] for entry in _CONVERSIONS)):
        if issubclass(known, tensor_type):
            raise ValueError(f"{tensor_type} has already been registered so ignore it.")

    def no_feed(*_: Any) -> Any:
        raise TypeError(
            f"{tensor_type.__name__} cannot be fed: it was registered without a feed function"
        )

    _CONVERSIONS.insert(
        0,
        (
            tensor_type,
            fetch_function,
            feed_function or no_feed,
            feed_function_for_partial_run or no_feed,
        ),
    )


def _conversions(
    x: Any,
) -> Iterator[tuple[type, Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]]:
    """Yield our conversions and, for TensorFlow's types, TensorFlow's.

    The latter are the conversions of TensorFlow's own sessions (SparseTensor, RaggedTensor ...).
    """
    yield from _CONVERSIONS
    sessions = sys.modules.get("tensorflow.python.client.session")
    if sessions is not None and not isinstance(x, str):
        yield from (
            entry
            for entry in getattr(sessions, "_REGISTERED_EXPANSIONS", ())
            if entry[0] is not object
        )


def is_converted(x: Any) -> bool:
    """Return whether `run` takes the object apart by a registered conversion."""
    return any(isinstance(x, known) for known, *_ in _conversions(x))


def is_sparse_tensor(x: Any) -> bool:
    """Return whether an object is a SparseTensor of tfjit or TensorFlow.

    It always has the same three tensors.
    """
    kind = type(x)
    return kind.__name__ == "SparseTensor" and kind.__module__.partition(".")[0] in (
        "tensorflow",
        "tfjit",
    )


def feed_conversion(key: Any) -> Callable[[Any, Any], Sequence[tuple[Any, Any]]] | None:
    """Return the feed function of a registered type, or None."""
    for known, _, feed, _ in _conversions(key):
        if isinstance(key, known):
            return feed
    return None


def fed_parts(key: Any) -> Sequence[Any]:
    """Return the tensors of a partial run's key."""
    for known, _, _, feed in _conversions(key):
        if isinstance(key, known):
            return feed(key)
    return [key]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One fetched graph element. name: tensor name, or operation name when is_operation."""

    name: str
    is_operation: bool
    element: Any


Rebuild = Callable[[Sequence[Any]], Any]


class FetchMapper:
    """Flattens one fetch structure over a graph.

    leaves: the distinct graph elements, in order of appearance; `rebuild(values)` takes one value a
    leaf (None for operations) and returns the structure. Raises TypeError or ValueError with
    TensorFlow's texts for values that cannot be fetched.
    """

    def __init__(self, graph: Any, fetches: Fetches) -> None:
        self._graph = graph
        self._index: dict[tuple[str, bool], int] = {}
        self.leaves: list[Leaf] = []
        self.rebuild: Rebuild = self._map(fetches)

    def tensors(self, fed: Container[str] = ()) -> list[str]:
        """Return the names of the fetched tensors, without those in `fed`."""
        return [leaf.name for leaf in self.leaves if not leaf.is_operation and leaf.name not in fed]

    def targets(self) -> list[str]:
        """Return the names of the fetched operations."""
        return [leaf.name for leaf in self.leaves if leaf.is_operation]

    def _map(self, fetch: Any) -> Rebuild:
        if fetch is None:
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}". Cannot be '
                "None"
            )
        if isinstance(fetch, (list, tuple)):
            parts = [self._map(f) for f in fetch]
            make = _sequence_maker(_class_of(fetch))
            return lambda values: make([part(values) for part in parts])
        if isinstance(fetch, Mapping):
            keys = list(fetch)
            parts = [self._map(fetch[k]) for k in keys]
            kind: Any = _class_of(fetch)
            if isinstance(fetch, defaultdict):
                kind = partial(defaultdict, fetch.default_factory)
            return lambda values: kind(
                (key, part(values)) for key, part in zip(keys, parts, strict=True)
            )
        attributes = getattr(type(fetch), "__attrs_attrs__", None)
        if attributes is not None:
            parts = [self._map(getattr(fetch, a.name)) for a in attributes]
            cls = type(fetch)
            return lambda values: cls(*[part(values) for part in parts])
        for known, fetch_function, _, _ in _conversions(fetch):
            if isinstance(fetch, known):
                elements, contract = fetch_function(fetch)
                parts = [self._leaf(e) for e in elements]
                return lambda values: contract([part(values) for part in parts]) if parts else None
        return self._leaf(fetch)

    def _leaf(self, fetch: Any) -> Rebuild:
        try:
            element = self._graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
        except TypeError as e:
            raise TypeError(
                f'Argument `fetch` = {fetch} has invalid type "{type(fetch).__name__}" must be a '
                f"string or Tensor. ({e})" + graph_hint(self._graph, fetch)
            ) from None
        except ValueError as e:
            raise ValueError(
                f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({e})"
            ) from None
        except KeyError as e:
            raise ValueError(
                f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({e})"
            ) from None
        is_operation = not hasattr(element, "dtype")
        op = element if is_operation else element.op
        if not self._graph.is_fetchable(op):
            raise InaccessibleTensorError(
                f"Operation {op.name} has been marked as not fetchable. Typically this happens "
                "when it is defined in another function or "
                "code block. Use return values, explicit Python locals or TensorFlow collections "
                "to access it."
            )
        key = (element.name, is_operation)
        position = self._index.get(key)
        if position is None:
            position = self._index[key] = len(self.leaves)
            self.leaves.append(Leaf(element.name, is_operation, element))
        return lambda values: values[position]


def is_leaf(x: Any) -> bool:
    """Return whether an object always means the same graph element.

    It does so for as long as it lives.
    """
    if isinstance(x, (str, bytes)):
        return True
    return (
        hasattr(x, "graph")
        and hasattr(x, "name")
        and not isinstance(x, (list, tuple, dict))
        and not is_converted(x)
    )


def is_flat(fetches: Any) -> bool:
    """Return whether fetches are a leaf or a sequence of leaves.

    The sequence is a list or tuple.
    """
    return all(is_leaf(f) for f in fetches) if type(fetches) in (list, tuple) else is_leaf(fetches)


def _class_of(structure: Structure) -> Any:
    """Return the class of a fetched structure.

    Behind a `wrapt.ObjectProxy`, as of TensorFlow's trackable lists, it is the wrapped object's.
    """
    kind = type(structure)
    return (
        kind
        if issubclass(kind, (list, tuple, Mapping))
        else type(getattr(structure, "__wrapped__", structure))
    )


def _sequence_maker(kind: Any) -> Callable[[list[Any]], Any]:
    if issubclass(kind, list):
        return lambda values: values
    if kind is tuple:
        return tuple
    return lambda values: kind(*values)  # a namedtuple


def _slices_parts(slices: IndexedSlices) -> list[Any]:
    return [
        part for part in (slices.values, slices.indices, slices.dense_shape) if part is not None
    ]


def _fetched_slices(slices: IndexedSlices) -> tuple[Sequence[Any], Callable[[Sequence[Any]], Any]]:
    return _slices_parts(slices), lambda values: IndexedSlicesValue(
        *values, *[None] * (3 - len(values))
    )


def _fed_slices(slices: IndexedSlices, value: Any) -> Sequence[tuple[Any, Any]]:
    return [
        pair
        for pair in zip((slices.values, slices.indices, slices.dense_shape), value, strict=False)
        if pair[0] is not None
    ]


register_session_run_conversion_functions(
    IndexedSlices, _fetched_slices, _fed_slices, _slices_parts
)
