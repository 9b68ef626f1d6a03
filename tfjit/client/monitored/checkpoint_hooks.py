"""CheckpointSaverHook: checkpoints while a model is trained."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from tfjit.client.data.file_writer_cache import FileWriterCache
from tfjit.client.monitored.hooks import required_step_read
from tfjit.client.monitored.scaffold import Scaffold
from tfjit.client.monitored.timers import SecondOrStepTimer
from tfjit.client.saving.meta_graph import export_meta_graph
from tfjit.client.saving.write_graph import write_graph
from tfjit.client.training.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tfjit.framework.graphs.default_graph import get_collection, get_default_graph
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.client.saving.saver import Saver
    from tfjit.client.training.coordinator import Coordinator
    from tfjit.framework.graphs.typing import SessionLike

_LOGGER = logging.getLogger("tensorflow")
_MOST_UPDATES: Final = 1_000_000  # of a run


class CheckpointSaverListener:
    """Base of listeners to a CheckpointSaverHook; each method does nothing."""

    def begin(self) -> None:
        """Prepare, before the graph is finalized."""

    def before_save(self, session: SessionLike, global_step_value: int) -> None:
        """Act before a checkpoint is written."""

    def after_save(self, session: SessionLike, global_step_value: int) -> bool | None:
        """Act on a new checkpoint; a true result ends the training."""
        return None

    def end(self, session: SessionLike, global_step_value: int) -> None:
        """Finish, after the last checkpoint."""


class CheckpointSaverHook(SessionRunHook):
    """Writes checkpoints at intervals of steps or seconds.

    One is written at the beginning of each session and one at the end. save_secs, save_steps:
    exactly
    one. saver, scaffold: at most one; else the Saver that the graph lists. listeners: called around
    each checkpoint. save_graph_def: also write graph.pbtxt, and a MetaGraphDef with each
    checkpoint.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Scaffold | None = None,
        listeners: Iterable[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        _LOGGER.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._scaffold = scaffold
        self._folder = checkpoint_dir
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners = list(listeners or ())
        self._save_graph_def = save_graph_def

    def begin(self) -> None:
        """Open the event file, find the global step."""
        self._writer = FileWriterCache.get(self._folder)
        self._step = required_step_read("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Write the graph and the first checkpoint."""
        step = self._read(session)
        graph = get_default_graph()
        if self._save_graph_def:
            write_graph(graph.as_graph_def(add_shapes=True), self._folder, "graph.pbtxt")
        self._writer.add_graph(graph)
        meta_graph = export_meta_graph(
            None, graph=graph, saver_def=self._get_saver().saver_def, collection_list=[]
        )
        self._writer.add_meta_graph(meta_graph)
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write a checkpoint where its time has come."""
        # The value read beside the training may be old by any number of updates of other workers.
        if not self._timer.should_trigger_for_step(int(run_values.results) + _MOST_UPDATES):
            return
        step = self._read(run_context.session)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: SessionLike) -> None:
        """Write the last checkpoint, unless it is written."""
        step = self._read(session)
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _read(self, session: SessionLike) -> int:
        return int(session.run(self._step))

    def _save(self, session: SessionLike, step: int) -> bool:
        """Write a checkpoint; return whether a listener asked for the end."""
        from tfjit.protos import SessionLog

        _LOGGER.info("Calling checkpoint listeners before saving checkpoint %d...", step)
        for listener in self._listeners:
            listener.before_save(session, step)
        _LOGGER.info("Saving checkpoints for %d into %s.", step, self._path)
        self._get_saver().save(
            session, self._path, global_step=step, write_meta_graph=self._save_graph_def
        )
        log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._path)
        self._writer.add_session_log(log, step)
        _LOGGER.info("Calling checkpoint listeners after saving checkpoint %d...", step)
        stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                _LOGGER.info("A listener asked for the end of the training: %s", listener)
                stop = True
        return stop

    def _get_saver(self) -> Saver:
        if self._saver is None and self._scaffold is not None:
            found: Saver = self._scaffold.saver
            return found
        if self._saver is None:
            savers = get_collection(GraphKeys.SAVERS)
            if not savers:
                raise RuntimeError(
                    f"No items in collection {GraphKeys.SAVERS}. Please add a saver to the "
                    "collection or provide a saver or scaffold."
                )
            if len(savers) > 1:
                raise RuntimeError(
                    f"More than one item in collection {GraphKeys.SAVERS}. Please indicate which "
                    "one to use by passing it to the constructor."
                )
            self._saver = savers[0]
        return self._saver
