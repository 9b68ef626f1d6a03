"""Remember the open sessions of the process and their names."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.runtime.session.direct_session import DirectSession

SessionName = str | tuple[str, int]
"""A handle, or name and version of metadata."""


class OpenSessions:
    """Hold the open sessions, by name if they have one. Thread-safe."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakSet[DirectSession] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._names: dict[SessionName, DirectSession] = {}

    def check(self, names: Sequence[SessionName]) -> None:
        """Check that no open session has one of the names.

        Raises AlreadyExistsError for a handle, InvalidArgumentError for metadata.
        """
        with self._lock:
            _check_names(names, self._names)

    def add(self, session: DirectSession, names: Sequence[SessionName]) -> None:
        """Add a session under its names; raise as `check` does."""
        with self._lock:
            _check_names(names, self._names)
            self._sessions.add(session)
            self._names.update(dict.fromkeys(names, session))

    def all(self) -> list[DirectSession]:
        """Return the open sessions, oldest first."""
        with self._lock:
            return sorted(self._sessions, key=lambda session: session.number)

    def take_all(self) -> list[DirectSession]:
        """Return all sessions and forget them."""
        with self._lock:
            sessions = list(self._sessions)
            self._sessions.clear()
        return sessions

    def forget(self, session: DirectSession) -> None:
        """Drop a closed session."""
        with self._lock:
            self._sessions.discard(session)
            for name in [name for name, owner in self._names.items() if owner is session]:
                del self._names[name]

    def find(self, handle: str) -> DirectSession:
        """Return the open session that its client named `handle`.

        Raises NotFoundError when there is none.
        """
        with self._lock:
            found = self._names.get(handle)
        if found is None:
            raise errors.NotFoundError(None, None, f"No session has the handle '{handle}'")
        return found


OPEN: Final = OpenSessions()
"""The open sessions of the process."""


def open_sessions() -> list[DirectSession]:
    """Return the open sessions of the process, oldest first."""
    return OPEN.all()


def session_names(config: Any) -> list[SessionName]:
    """Return the names of an open session of this config.

    They are its handle, and the (name, version) of its metadata. Raises InvalidArgumentError for a
    version below 0.
    """
    if config is None:
        return []
    names: list[SessionName] = [config.session_handle] if config.session_handle else []
    if config.experimental.HasField("session_metadata"):
        metadata = config.experimental.session_metadata
        if metadata.version < 0:
            raise errors.InvalidArgumentError(
                None, None, f"Session version shouldn't be negative: {_metadata_text(metadata)}"
            )
        names.append((metadata.name, metadata.version))
    return names


def _check_names(names: Sequence[SessionName], taken: Mapping[SessionName, object]) -> None:
    for name in names:
        if name not in taken:
            continue
        if isinstance(name, str):
            raise errors.AlreadyExistsError(
                None, None, f"A session with the handle '{name}' is open already"
            )
        text = f'name: "{name[0]}" version: {name[1]}'
        raise errors.InvalidArgumentError(
            None, None, f"A session with the same name and version has already been created: {text}"
        )


def _metadata_text(metadata: Any) -> str:
    return f'name: "{metadata.name}" version: {metadata.version}'
