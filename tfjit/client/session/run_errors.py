"""Explain errors of a step by the user's operations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.framework.graphs.graph import Graph

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_CLIENT_NODE: Final = re.compile(r"_(?:arg|retval|recv|send)_(.+?)_\d+(?:_\d+)?")
_NODE_MARK: Final = re.compile(r"\{\{node ([^}]+)\}\}")


def explained(error: errors.OpError, graph: Structure, closed: bool) -> errors.OpError:
    """Return an error of the runtime as the client raises it.

    It has the user's operation, and the place that built it. graph: the session's. closed: the
    session is closed.
    """
    if closed and not isinstance(error, errors.CancelledError):
        # closed meanwhile: the closing took away the things that the step found missing
        return errors.CancelledError(None, None, "Session has been closed.")
    if not isinstance(graph, Graph):
        error = error.by_status()  # over TensorFlow's graph, exactly the class that it raises
    found = _NODE_MARK.search(error.message)
    if error.op is not None or error.message.startswith("Graph execution error:"):
        return error
    name = found.group(1) if found else ""
    ends = _CLIENT_NODE.fullmatch(name)
    # a node made for a feed or a fetch: the user's node is the fed or fetched one
    if found and ends is not None:
        name = ends.group(1)
        error = error.restated(error.message.replace(found.group(0), f"{{{{node {name}}}}}"))
    name, op = _operation_of(name, graph)
    lines = ["Graph execution error:", ""]
    if op is not None:
        where = getattr(op, "built_at", None)
        lines.append(f"Detected at node '{name}'" + (f" defined at {where}" if where else ""))
        lines.append(f"Node: '{name}'")
    lines.append(error.message)
    node_def = getattr(op, "node_def", None)
    return error.restated("\n".join(lines), op, node_def)


def _operation_of(name: str, graph: Structure) -> tuple[str, Any]:
    """Return the name and the operation of a node, or ("", None).

    A node of a function's body bears the name of the call before its own.
    """
    while name:
        try:
            return name, graph.get_operation_by_name(name)
        except (KeyError, ValueError):
            name = name.rpartition("/")[0]
    return "", None
