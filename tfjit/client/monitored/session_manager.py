"""SessionManager: sessions with initialized variables."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.client.monitored.scaffold import SAVED_MODEL_INITIALIZERS
from tfjit.client.saving.checkpoints import get_checkpoint_state
from tfjit.client.session.session import Session
from tfjit.client.training.readiness import missing_values
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import get_collection, get_default_graph

if TYPE_CHECKING:
    from tfjit.client.saving.saver import Saver
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import FeedDict, Fetches, Message

_LOGGER = logging.getLogger("tensorflow")


class SessionManager:
    """Makes sessions, and restores or initializes the variables of each.

    local_init_op: run in each session once ready_for_local_init_op is empty. ready_op: a vector
    with the names of variables without value. graph: the default one if None. recovery_wait_secs:
    between two looks for a checkpoint or a model that is ready. local_init_run_options,
    local_init_feed_dict: of the run of local_init_op.
    """

    def __init__(
        self,
        local_init_op: Fetches | None = None,
        ready_op: Fetches | None = None,
        ready_for_local_init_op: Fetches | None = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Message | None = None,
        local_init_feed_dict: FeedDict | None = None,
    ) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op , "
                f"ready_for_local_init_op [{ready_for_local_init_op}]"
            )
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph if graph is not None else get_default_graph()
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict

    def prepare_session(
        self,
        master: str,
        init_op: Fetches | None = None,
        saver: Saver | None = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Message | None = None,
        init_feed_dict: FeedDict | None = None,
        init_fn: Callable[[Session], object] | None = None,
    ) -> Session:
        """Return a session with a restored or initialized model.

        The variables come from the checkpoint, or else from init_op and init_fn. Raises
        RuntimeError when the model is not ready then.
        """
        session = Session(master, graph=self._graph, config=config)
        try:
            restored = self._restore(
                session,
                saver,
                checkpoint_dir,
                checkpoint_filename_with_path,
                wait_for_checkpoint,
                max_wait_secs,
            )
            if not restored:
                if init_op is None and not init_fn and self._local_init_op is None:
                    raise RuntimeError(
                        "Model is not initialized and no init_op or init_fn or local_init_op was "
                        "given"
                    )
                if init_op is not None:
                    session.run(init_op, feed_dict=init_feed_dict)
                if init_fn:
                    init_fn(session)
            missing = self._initialize_locally(session)
            if missing is not None:
                raise RuntimeError(
                    "Init operations did not make model ready for local_init.  Init op: "
                    f"{_name(init_op)}, init fn: {init_fn}, error: {missing}"
                )
            missing = missing_values(self._ready_op, session, "Model not ready")
            if missing is not None:
                raise RuntimeError(
                    f"Init operations did not make model ready.  Init op: {_name(init_op)}, init "
                    f"fn: {init_fn}, local_init_op: {self._local_init_op}, error: {missing}"
                )
        except BaseException:
            _close(session)
            raise
        return session

    def recover_session(
        self,
        master: str,
        saver: Saver | None = None,
        checkpoint_dir: str | None = None,
        checkpoint_filename_with_path: str | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Message | None = None,
    ) -> tuple[Session, bool]:
        """Return a session, and whether a checkpoint made its model ready."""
        session = Session(master, graph=self._graph, config=config)
        try:
            restored = self._restore(
                session,
                saver,
                checkpoint_dir,
                checkpoint_filename_with_path,
                wait_for_checkpoint,
                max_wait_secs,
            )
            missing = self._initialize_locally(session)
            if not restored:
                return session, False
            source = checkpoint_dir or checkpoint_filename_with_path
            if missing is not None:
                _LOGGER.info(
                    "Restoring model from %s did not make model ready for local init: %s",
                    source,
                    missing,
                )
                return session, False
            missing = missing_values(self._ready_op, session, "Model not ready")
            if missing is not None:
                _LOGGER.info(
                    "Restoring model from %s did not make model ready: %s", source, missing
                )
                return session, False
        except BaseException:
            _close(session)
            raise
        _LOGGER.info("Restored model from %s", source)
        return session, True

    def wait_for_session(
        self, master: str, config: Message | None = None, max_wait_secs: float | None = float("inf")
    ) -> Session:
        """Return a session once another process has made the model ready.

        Raises DeadlineExceededError when it is not ready after max_wait_secs.
        """
        limit = float("inf") if max_wait_secs is None else max_wait_secs
        deadline = time.monotonic() + limit
        while True:
            session = Session(master, graph=self._graph, config=config)
            try:
                missing_locally = self._initialize_locally(session)
                missing = None
                if missing_locally is None:
                    missing = missing_values(self._ready_op, session, "Model not ready")
                    if missing is None:
                        return session
            except BaseException:
                _close(session)
                raise
            _close(session)
            if deadline - time.monotonic() < self._recovery_wait_secs:
                raise errors.DeadlineExceededError(
                    None, None, f"Session was not ready after waiting {limit:.0f} secs."
                )
            _LOGGER.info(
                "Waiting for model to be ready.  Ready_for_local_init_op:  %s, ready: %s",
                missing_locally,
                missing,
            )
            time.sleep(self._recovery_wait_secs)

    def _restore(
        self,
        session: Session,
        saver: Saver | None,
        folder: str | None,
        path: str | None,
        wait_for_checkpoint: bool,
        max_wait_secs: float,
    ) -> bool:
        """Restore a checkpoint; return whether there was one."""
        if folder and path:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path."
            )
        if not saver or not (folder or path):
            return False
        kept = None
        if not path:
            assert folder is not None
            state = get_checkpoint_state(folder)
            waited = 0.0
            while state is None:
                if not wait_for_checkpoint or waited >= max_wait_secs:
                    return False
                _LOGGER.info("Waiting for checkpoint to be available.")
                time.sleep(self._recovery_wait_secs)
                waited += self._recovery_wait_secs
                state = get_checkpoint_state(folder)
            path, kept = state.model_checkpoint_path, state.all_model_checkpoint_paths
        assert path is not None
        initializers = get_collection(SAVED_MODEL_INITIALIZERS)
        if initializers:
            session.run(initializers)
        saver.restore(session, path)
        if kept is not None:
            saver.recover_last_checkpoints(kept)
        return True

    def _initialize_locally(self, session: Session) -> str | None:
        """Run local_init_op; return the reason where the model is not ready."""
        if self._local_init_op is None:
            return None
        missing = missing_values(
            self._ready_for_local_init_op, session, "Model not ready for local init"
        )
        if missing is None:
            _LOGGER.info("Running local_init_op.")
            session.run(
                self._local_init_op,
                feed_dict=self._local_init_feed_dict,
                options=self._local_init_run_options,
            )
            _LOGGER.info("Done running local_init_op.")
        return missing


def _close(session: Session) -> None:
    """Close a session, even if its server is gone."""
    try:
        session.close()
    except errors.OpError as error:
        _LOGGER.info("A session could not be closed: %s", error)


def _name(op: object) -> str:
    if isinstance(op, (list, tuple)):
        return ", ".join(_name(one) for one in op)
    return str(getattr(op, "name", f"<no name for {type(op)}>"))
