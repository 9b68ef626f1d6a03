"""Send a growing graph to a runtime session."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfjit.client.session.critical_sections import uninterrupted, watch_for_forks
from tfjit.framework.graphs.graph import Graph
from tfjit.runtime.session_interface import SessionInterface

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class SentGraph:
    """The part of a graph that the runtime session has. Thread-safe.

    add_shapes: the messages have the shapes of the nodes.
    """

    def __init__(self, graph: Structure, session: SessionInterface, add_shapes: bool) -> None:
        self._graph = graph
        self._session = session
        self._add_shapes = add_shapes
        self._version = 0
        # of a TensorFlow graph's nodes, and of its functions with a "^" before them, since its
        # `as_graph_def` ignores `from_version`
        self._names: set[str] = set()
        self._lock = threading.Lock()
        watch_for_forks(self._lock, graph)

    def extend(self) -> None:
        """Send each new node of the graph once.

        An interrupt is raised when all is sent: a runtime session that had half of it would be of
        no more use.
        """
        if self._graph.version > self._version:
            uninterrupted(self._send_new)

    def _send_new(self) -> None:
        graph = self._graph
        # the graph's own, so that version and nodes belong together
        with self._lock, graph._lock:
            version = graph.version
            if version > self._version:
                if isinstance(graph, Graph):
                    self._send_own(graph)
                else:
                    self._send_tensorflows(graph)
                self._version = version

    def _send_own(self, graph: Graph) -> None:
        if self._add_shapes:
            message = graph.as_graph_def(from_version=self._version or None, add_shapes=True)
            self._session.extend(message)
        else:
            self._session.extend_from(graph, self._version)

    def _send_tensorflows(self, graph: Structure) -> None:
        graph_def = graph.as_graph_def(add_shapes=self._add_shapes)
        if self._names:
            new = type(graph_def)()
            new.library.function.extend(
                function
                for function in graph_def.library.function
                if f"^{function.signature.name}" not in self._names
            )
            new.library.gradient.extend(graph_def.library.gradient)
            new.versions.CopyFrom(graph_def.versions)
            new.node.extend(node for node in graph_def.node if node.name not in self._names)
            graph_def = new
        self._session.extend(graph_def)
        self._names.update(node.name for node in graph_def.node)
        self._names.update(f"^{function.signature.name}" for function in graph_def.library.function)
