"""Session creators for the chief and for other workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from tfjit.client.monitored.scaffold import Scaffold
from tfjit.client.monitored.session_manager import SessionManager
from tfjit.framework.graphs.default_graph import get_default_graph

if TYPE_CHECKING:
    from tfjit.client.session.session import Session
    from tfjit.framework.graphs.typing import Message

# Seconds between two looks of a worker at the model. TensorFlow's 30 let a worker that came first,
# or recovers, idle for most of them.
WORKER_WAIT_SECS: Final = 1


class SessionCreator(ABC):
    """Makes the sessions below a monitored session."""

    @abstractmethod
    def create_session(self) -> Session:
        """Return a session with a model that is ready."""
        raise NotImplementedError(f"create_session is not implemented for {self}.")


class _ScaffoldedCreator(SessionCreator):
    """A creator that has a Scaffold."""

    def __init__(self, scaffold: Scaffold | None, master: str, config: Message | None) -> None:
        self._scaffold = scaffold if scaffold is not None else Scaffold()
        self._master = master
        self._config = config
        self._manager: SessionManager | None = None

    def _session_manager(self, recovery_wait_secs: float) -> SessionManager:
        """Finalize the graph; return the manager, the same for all sessions."""
        scaffold = self._scaffold.finalize()
        if self._manager is None:
            self._manager = SessionManager(
                local_init_op=scaffold.local_init_op,
                ready_op=scaffold.ready_op,
                ready_for_local_init_op=scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
                recovery_wait_secs=recovery_wait_secs,
                local_init_feed_dict=scaffold.local_init_feed_dict,
            )
        return self._manager


class ChiefSessionCreator(_ScaffoldedCreator):
    """Makes sessions for the chief, which restores or initializes the model.

    checkpoint_dir: a folder, to restore its newest checkpoint. checkpoint_filename_with_path: a
    checkpoint, in its place.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Message | None = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_path = checkpoint_filename_with_path

    def create_session(self) -> Session:
        """Return a session with a restored or initialized model."""
        manager = self._session_manager(recovery_wait_secs=30)
        return manager.prepare_session(
            self._master,
            saver=self._scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_path,
            config=self._config,
            init_op=self._scaffold.init_op,
            init_feed_dict=self._scaffold.init_feed_dict,
            init_fn=self._scaffold.init_fn,
        )


class WorkerSessionCreator(_ScaffoldedCreator):
    """Makes sessions for a worker, which waits for the chief.

    max_wait_secs: DeadlineExceededError is raised when the model is not ready then.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Message | None = None,
        max_wait_secs: float | None = 30 * 60,
    ) -> None:
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self) -> Session:
        """Return a session once the model is ready."""
        manager = self._session_manager(recovery_wait_secs=WORKER_WAIT_SECS)
        return manager.wait_for_session(
            self._master, config=self._config, max_wait_secs=self._max_wait_secs
        )
