"""What ties sessions to a TensorFlow that the same process uses. Nothing here imports it: what is not loaded is left alone."""

from __future__ import annotations

import sys
from typing import Any

from tfjit.framework import errors
from tfjit.framework.graph import Graph


class SessionBase:
    """The base of sessions; a class above `object`, so that TensorFlow's interface can join it among a session's bases."""


def join_tensorflow(session_class: type) -> None:
    """Once TensorFlow is loaded: make `session_class` one of its SessionInterface, which Saver and queue runners test for, and every error
    class one of its errors of the same name, so that `except tf.errors.OutOfRangeError` catches what a session raises."""
    interface = getattr(sys.modules.get("tensorflow.python.client.session"), "SessionInterface", None)
    if interface is None or issubclass(session_class, interface):
        return
    session_class.__bases__ = (*session_class.__bases__, interface)
    theirs = sys.modules.get("tensorflow.python.framework.errors_impl")
    if theirs is None:
        return
    for name, ours in vars(errors).items():
        their_class = getattr(theirs, name, None)
        if isinstance(ours, type) and errors.OpError in ours.__bases__ and isinstance(their_class, type):
            ours.__bases__ = (*ours.__bases__, their_class)


def _default_sessions(session: Any) -> list[Any] | None:
    """This thread's stack of TensorFlow's default sessions, for a session over a TensorFlow graph."""
    if isinstance(session.graph, Graph):
        return None
    defaults = getattr(sys.modules.get("tensorflow.python.framework.stack"), "_default_session_stack", None)
    return getattr(defaults, "stack", None)


def places_softly(graph: Any) -> bool:
    """Whether TensorFlow's default config, which a session over its graph gets that is given none, has allow_soft_placement: while
    execution is eager, so never in a program that has switched to TensorFlow 1's behaviour, nor inside a graph's block."""
    context = getattr(sys.modules.get("tensorflow.python.eager.context"), "context", None)
    return context is not None and not isinstance(graph, Graph) and bool(context().config.allow_soft_placement)


def enter_default(session: Any) -> None:
    """Make the session the one that `eval` of TensorFlow's tensors takes."""
    stack = _default_sessions(session)
    if stack is not None:
        stack.append(session)


def leave_default(session: Any) -> None:
    """Undo the latest `enter_default` of the session."""
    stack = _default_sessions(session) or []
    for i in reversed(range(len(stack))):
        if stack[i] is session:
            del stack[i]
            return
