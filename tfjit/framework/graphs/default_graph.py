"""The stack of default graphs, one a thread, and its functions."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.operation import Operation, Tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph


class _Stack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        # this thread's own default graph, made at the first request
        self.bottom: Graph | None = None


_stack = _Stack()


def push(graph: Graph) -> None:
    """Make `graph` the thread's default."""
    _stack.graphs.append(graph)


def pop(graph: Graph) -> None:
    """Undo `push`. Raises AssertionError when another graph was pushed since."""
    if not _stack.graphs or _stack.graphs[-1] is not graph:
        raise AssertionError(f"Nesting violated for default stack of {type(graph)} objects")
    _stack.graphs.pop()


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the default inside the block."""
    push(graph)
    try:
        yield graph
    finally:
        pop(graph)


def get_default_graph() -> Graph:
    """Return this thread's default graph."""
    if _stack.graphs:
        return _stack.graphs[-1]
    if _stack.bottom is None:
        from tfjit.framework.graphs.graph import Graph

        _stack.bottom = Graph()
    return _stack.bottom


def is_unused() -> bool:
    """Return whether this thread has built and entered no graph."""
    return not _stack.graphs and (_stack.bottom is None or _stack.bottom.version == 0)


def reset_default_graph() -> None:
    """Give this thread a new, empty default graph. Raises AssertionError inside `as_default`."""
    if _stack.graphs:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. "
            "If you need a cleared graph, exit the nesting and create a new graph."
        )
    _stack.bottom = None


def leave_all_graphs() -> None:
    """Forget this thread's `as_default` blocks, which an error may have left open."""
    _stack.graphs.clear()


def graph_of(values: Sequence[Any] | None) -> Graph:
    """Return the graph of the first tensor or operation among `values`.

    Without one, the default graph. While a body is built, the body, which captures others. Raises
    ValueError when two graphs meet.
    """
    current = get_default_graph()
    if current.building_function:
        return current
    found: Any = None
    for value in values or ():
        element = value
        if not isinstance(element, (Tensor, Operation)) and hasattr(element, "_as_graph_element"):
            element = element._as_graph_element()
        if not isinstance(element, (Tensor, Operation)):
            continue
        if found is None:
            found = element
        elif element.graph is not found.graph:
            raise ValueError(
                f"{element} must be from the same graph as {found} (graphs are {element.graph} and "
                f"{found.graph})."
            )
    return found.graph if found is not None else current


class name_scope:
    """Scope for the names of operations made inside.

    The scope is `name`, or `default_name` where that is None. Enters the graph of `values`.
    """

    def __init__(
        self, name: Any, default_name: str | None = None, values: Sequence[Any] | None = None
    ) -> None:
        if not (default_name is None or isinstance(default_name, str)):
            raise TypeError(
                f"`default_name` type ({type(default_name)}) is not a string type. You likely "
                "meant to pass this into the `values` kwarg."
            )
        self._name = default_name if name is None else name
        if name is None and values is not None and default_name is None:
            raise ValueError(
                f"At least one of name ({name}) and default_name ({default_name}) must be provided."
            )
        self._values = values
        self._contexts: list[AbstractContextManager[Any]] = []

    @property
    def name(self) -> Any:
        """The name asked for."""
        return self._name

    def __enter__(self) -> str:
        graph = graph_of(self._values)
        outer: AbstractContextManager[Any] = (
            nullcontext() if graph is get_default_graph() else graph.as_default()
        )
        outer.__enter__()
        inner = graph.name_scope(self._name)
        try:
            scope = inner.__enter__()
        except BaseException:
            outer.__exit__(None, None, None)
            raise
        self._contexts += [inner, outer]
        return scope

    def __exit__(self, *exc_info: Any) -> None:
        outer = self._contexts.pop()
        inner = self._contexts.pop()
        inner.__exit__(*exc_info)
        outer.__exit__(*exc_info)


def op_scope(
    values: Sequence[object] | None, name: str | None, default_name: str | None = None
) -> name_scope:
    """Return a `name_scope` by its old name and order of arguments."""
    return name_scope(name, default_name, values)


def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    """Call `Graph.device` of the default graph."""
    return get_default_graph().device(device_name_or_function)


def container(container_name: str) -> AbstractContextManager[str]:
    """Call `Graph.container` of the default graph."""
    return get_default_graph().container(container_name)


def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """Call `Graph.colocate_with` of the default graph."""
    return get_default_graph().colocate_with(op, ignore_existing)


def control_dependencies(control_inputs: Any) -> AbstractContextManager[None]:
    """Call `Graph.control_dependencies` of the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


def add_to_collection(name: Any, value: Any) -> None:
    """Call `Graph.add_to_collection` of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    """Call `Graph.add_to_collections` of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """Call `Graph.get_collection` of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: Any) -> list[Any]:
    """Call `Graph.get_collection_ref` of the default graph."""
    return get_default_graph().get_collection_ref(key)


def get_all_collection_keys() -> list[Any]:
    """Call `Graph.get_all_collection_keys` of the default graph."""
    return get_default_graph().get_all_collection_keys()


def get_name_scope() -> str:
    """Return the default graph's current scope, without a trailing slash."""
    return get_default_graph().get_name_scope()
