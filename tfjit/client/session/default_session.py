"""Keep the stack of default sessions of each thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tfjit.client.session.tensorflow_interop import enter_default, leave_default
from tfjit.framework.graphs.operation import set_default_session_getter

if TYPE_CHECKING:
    from tfjit.client.session.base_session import BaseSession


class _SessionStack(threading.local):
    def __init__(self) -> None:
        self.sessions: list[BaseSession] = []


_STACK = _SessionStack()


def get_default_session() -> BaseSession | None:
    """Return the innermost default session of this thread, or None."""
    return _STACK.sessions[-1] if _STACK.sessions else None


def push(session: BaseSession) -> None:
    """Make a session this thread's default, for TensorFlow's functions as well."""
    _STACK.sessions.append(session)
    enter_default(session)


def pop(session: BaseSession) -> None:
    """End a session's time as the default.

    Raises AssertionError when it is not the innermost one.
    """
    leave_default(session)
    if not _STACK.sessions or _STACK.sessions[-1] is not session:
        if session in _STACK.sessions:
            _STACK.sessions.remove(session)
        raise AssertionError(f"Nesting violated for default stack of {type(session)} objects")
    _STACK.sessions.pop()


class DefaultSession:
    """The context manager of `BaseSession.as_default`."""

    def __init__(self, session: BaseSession) -> None:
        self._session = session

    def __enter__(self) -> BaseSession:
        push(self._session)
        return self._session

    def __exit__(self, *exc: object) -> None:
        pop(self._session)


set_default_session_getter(get_default_session)
