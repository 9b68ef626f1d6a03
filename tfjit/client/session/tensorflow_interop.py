"""Ties between sessions and a TensorFlow of the same process.

No function here imports it: modules that are not loaded are left alone.
"""

from __future__ import annotations

import copyreg
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.framework.graphs.graph import Graph

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


class SessionBase:
    """The base of sessions.

    TensorFlow's interface can join this class, since it is above `object`, among a session's bases.
    """


class _Initialisation(Exception):
    """A base of TensorFlow's error classes, before ours.

    It ends their chain of `__init__` calls: TensorFlow's OpError calls `super().__init__()` without
    arguments, which ours cannot take.
    """

    def __init__(self) -> None:
        Exception.__init__(self)


_joining: Final = threading.Lock()


def join_tensorflow(session_class: type) -> None:
    """Tie sessions and error classes to TensorFlow's, once it is loaded.

    `session_class` becomes a subclass of its SessionInterface, which Saver and queue runners test
    for. Errors are of TensorFlow's own classes from then on, since its programs compare classes
    exactly; these become subclasses of ours, so that either library's `except` clauses catch them.
    """
    interface = getattr(
        sys.modules.get("tensorflow.python.client.session"), "SessionInterface", None
    )
    if interface is None or issubclass(session_class, interface):
        return
    with _joining:  # threads that make their first sessions at once: each base is added once
        if issubclass(session_class, interface):
            return
        theirs = sys.modules.get("tensorflow.python.framework.errors_impl")
        if theirs is not None:
            _join_errors(theirs)
        session_class.__bases__ = (*session_class.__bases__, interface)


def _join_errors(theirs: ModuleType) -> None:
    """Make TensorFlow's error classes subclasses of ours.

    They are raised in the place of ours.
    """
    errors.InaccessibleTensorError.__bases__ = (theirs.InaccessibleTensorError,)
    for code in range(errors.CANCELLED, errors.UNAUTHENTICATED + 1):
        ours = errors.exception_type_from_error_code(code)
        their_class = getattr(theirs, ours.__name__)
        further = ours.__subclasses__()
        their_class.__bases__ = (*their_class.__bases__, _Initialisation, ours)
        errors.OpError._raised_as[ours] = their_class
        for subclass in further:
            subclass._derive_from_tensorflow()
        copyreg.pickle(their_class, _reduced)


def _reduced(error: errors.OpError) -> tuple[Any, ...]:
    """Pickle an error of TensorFlow's class.

    One that tfjit made is pickled without the Operation: it belongs to a graph of this process, and
    TensorFlow's cannot be pickled.
    """
    if error._raised_by_tfjit:
        return type(error), (None, None, error.message)
    return error.__reduce__()


def _default_sessions(session: Any) -> list[object] | None:
    """Return this thread's stack of TensorFlow's default sessions.

    For a session over a TensorFlow graph.
    """
    if isinstance(session.graph, Graph):
        return None
    defaults = getattr(
        sys.modules.get("tensorflow.python.framework.stack"), "_default_session_stack", None
    )
    return getattr(defaults, "stack", None)


def tensorflow_default_graph() -> Structure:
    """Return TensorFlow's default graph of this thread, or None.

    None for a graph without nodes, while execution is eager, when no code builds in it, and while a
    tf.function is traced, whose graph no session takes.
    """
    ops = sys.modules.get("tensorflow.python.framework.ops")
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "context", None)
    if context is None or not hasattr(ops, "get_default_graph") or context().executing_eagerly():
        return None
    graph: Any = ops.get_default_graph()  # type: ignore[union-attr]
    return graph if graph.version and not graph.building_function else None


def graph_hint(graph: Any, element: Any = None) -> str:
    """Return words on the other library's graph for an error, or "".

    "" where that is not in question. graph: the session's. element: the fetched or fed object; None
    for a session's empty graph.
    """
    if element is None:
        if isinstance(graph, Graph) and tensorflow_default_graph() is not None:
            return (
                " This session is over a graph of tfjit, and TensorFlow's default graph has "
                "operations: "
                "make the session with graph=tf.compat.v1.get_default_graph() to run those."
            )
        return ""
    theirs = getattr(element, "graph", None)
    if theirs is None or isinstance(theirs, Graph) == isinstance(graph, Graph):
        return ""
    names = ("tfjit", "TensorFlow") if isinstance(graph, Graph) else ("TensorFlow", "tfjit")
    return (
        f" This session is over a graph of {names[0]}, and {element.name} is of a graph of "
        f"{names[1]}: "
        "make the session with graph=tensor.graph."
    )


def places_softly(graph: object) -> bool:
    """Return whether TensorFlow's default config has allow_soft_placement.

    A session over its graph without a config gets the default config. It has the field while
    execution is eager, so never in a program that has switched to TensorFlow 1's behaviour, nor
    inside a graph's block.
    """
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "context", None)
    return (
        context is not None
        and not isinstance(graph, Graph)
        and bool(context().config.allow_soft_placement)
    )


def enter_default(session: object) -> None:
    """Make the session the one that `eval` of TensorFlow's tensors takes."""
    stack = _default_sessions(session)
    if stack is not None:
        stack.append(session)


def leave_default(session: object) -> None:
    """Undo the latest `enter_default` of the session."""
    stack = _default_sessions(session) or []
    for i in reversed(range(len(stack))):
        if stack[i] is session:
            del stack[i]
            return
