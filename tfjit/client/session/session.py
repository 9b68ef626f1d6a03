"""Define Session and InteractiveSession, which are default sessions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tfjit.client.session.base_session import BaseSession
from tfjit.client.session.default_session import pop, push
from tfjit.client.session.graph_sources import interactive_config
from tfjit.framework import errors
from tfjit.runtime.factory import SessionOptions

if TYPE_CHECKING:
    from tfjit.client.session.base_session import Passes

log = logging.getLogger("tfjit.session")


class Session(BaseSession):
    """A session as a context manager.

    Inside `with` it is the default session over its default graph, and it is closed at the end.
    """

    def __init__(
        self,
        target: str = "",
        graph: object = None,
        config: object = None,
        *,
        options: SessionOptions | None = None,
        passes: Passes = None,
    ) -> None:
        super().__init__(target, graph, config, options=options, passes=passes)
        self._graph_context: Any = None

    def __enter__(self) -> Session:
        if self._graph_context is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you "
                "want to enter a session multiple times."
            )
        self._graph_context = self._graph.as_default()
        self._graph_context.__enter__()
        push(self)
        return self

    def __exit__(self, kind: Any, value: object, traceback: Any) -> None:
        context, self._graph_context = self._graph_context, None
        try:
            pop(self)
        finally:
            context.__exit__(kind, value, traceback)
            try:
                self.close()
            except errors.OpError as error:
                # a server that is gone, which is not to hide the block's own error
                log.error("Session failed to close: %s", errors.status_text(error))


class InteractiveSession(BaseSession):
    """A session that is the default, with its graph, until closed.

    It takes the arguments of Session.
    """

    def __init__(
        self,
        target: str = "",
        graph: object = None,
        config: object = None,
        *,
        options: SessionOptions | None = None,
        passes: Passes = None,
    ) -> None:
        made = interactive_config(config, options)
        super().__init__(target, graph, made, options=options, passes=passes)
        self._graph_context: Any = None
        if graph is not None:
            self._graph_context = self._graph.as_default()
            self._graph_context.__enter__()
        push(self)
        self._stacked = True

    def close(self) -> None:
        """Leave the default stacks and close."""
        try:
            super().close()
        finally:
            self._leave()

    def _leave(self) -> None:
        if getattr(self, "_stacked", False):
            self._stacked = False
            context, self._graph_context = self._graph_context, None
            try:
                pop(self)
            finally:
                if context is not None:
                    context.__exit__(None, None, None)
