"""Supervisor: sessions, checkpoints and summaries of a training loop."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from tfjit.client.data.summary import FileWriter
from tfjit.client.monitored.session_manager import SessionManager
from tfjit.client.monitored.supervised_graph import USE_DEFAULT, SupervisedGraph
from tfjit.client.monitored.supervisor_threads import (
    CheckpointThread,
    StepCounterThread,
    SummaryThread,
)
from tfjit.client.saving.meta_graph import export_meta_graph
from tfjit.client.saving.saver import Saver
from tfjit.client.saving.write_graph import write_graph
from tfjit.client.training.coordinator import Coordinator, LooperThread
from tfjit.client.training.queue_runner import QueueRunner
from tfjit.client.variables.global_step import global_step as read_global_step
from tfjit.framework import errors
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.client.session.session import Session
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import FeedDict, Fetches, Message, SessionLike

_LOGGER = logging.getLogger("tensorflow")


class Supervisor(SupervisedGraph):
    """Prepares sessions, and saves checkpoints and summaries on threads of its own.

    Where an operation is left out, it is the first of its collection in the graph, made if missing;
    None means none. The graph is finalized. is_chief: initializes or restores the model, and has
    the services; another worker waits for it. logdir: of checkpoints and events; without one there
    are no services. save_summaries_secs, save_model_secs: the intervals, 0 for never. init_fn: is
    called with a session after init_op. The other arguments are those of SessionManager. Raises
    ValueError for a variable without a device, unless chief. MonitoredTrainingSession is its
    successor, which also recovers from lost servers.
    """

    USE_DEFAULT = USE_DEFAULT

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Fetches | None = USE_DEFAULT,
        ready_for_local_init_op: Fetches | None = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Fetches | None = USE_DEFAULT,
        init_feed_dict: FeedDict | None = None,
        local_init_op: Fetches | None = USE_DEFAULT,
        logdir: str | None = None,
        summary_op: Fetches | None = USE_DEFAULT,
        saver: Saver | None = USE_DEFAULT,
        global_step: Fetches | None = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: FileWriter | None = USE_DEFAULT,
        init_fn: Callable[[Session], object] | None = None,
        local_init_run_options: Message | None = None,
    ) -> None:
        super().__init__(
            graph,
            ready_op,
            ready_for_local_init_op,
            init_op,
            init_feed_dict,
            local_init_op,
            summary_op,
            saver,
            global_step,
        )
        self._init_fn = init_fn
        self._is_chief = is_chief
        self._coord = Coordinator()
        self._stop_grace_secs = stop_grace_secs
        self._logdir = logdir if is_chief else None
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self._graph_was_written = False
        self._session_manager = (
            session_manager
            if session_manager is not None
            else SessionManager(
                local_init_op=self._local_init_op,
                ready_op=self._ready_op,
                ready_for_local_init_op=self._ready_for_local_init_op,
                graph=self._graph,
                recovery_wait_secs=recovery_wait_secs,
                local_init_run_options=local_init_run_options,
            )
        )
        if not is_chief:
            self._check_devices()
        self._meta_graph = export_meta_graph(
            None,
            graph=self._graph,
            saver_def=self._saver.saver_def if self._saver is not None else None,
            collection_list=[],
        )
        self._summary_writer: FileWriter | None = None
        if is_chief:
            if summary_writer is not USE_DEFAULT:
                self._summary_writer = summary_writer
            elif self._logdir:
                self._summary_writer = FileWriter(self._logdir)
        self._graph.finalize()

    def _check_devices(self) -> None:
        for op in self._graph.get_operations():
            if op.type in ("Variable", "VariableV2") and not op.device:
                raise ValueError(
                    f"When using replicas, all Variables must have their device set: {op}"
                )

    @property
    def is_chief(self) -> bool:
        """True for the chief."""
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """The SessionManager."""
        return self._session_manager

    @property
    def coord(self) -> Coordinator:
        """The Coordinator of all threads."""
        return self._coord

    @property
    def summary_writer(self) -> FileWriter | None:
        """The FileWriter of the chief, or None."""
        return self._summary_writer

    @property
    def save_summaries_secs(self) -> float | None:
        """Seconds between summaries; None unless chief."""
        return self._save_summaries_secs

    @property
    def save_model_secs(self) -> float | None:
        """Seconds between checkpoints; None unless chief."""
        return self._save_model_secs

    @property
    def save_path(self) -> str | None:
        """The beginning of the checkpoints' paths, or None."""
        return self._save_path

    def start_standard_services(self, sess: SessionLike) -> list[LooperThread] | None:
        """Start the threads of summaries, steps per second and checkpoints.

        None without a logdir. Raises RuntimeError unless chief.
        """
        from tfjit.protos import SessionLog

        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief "
                "supervisors can write events."
            )
        if not self._logdir:
            _LOGGER.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if self._global_step is not None and self._summary_writer is not None:
            step = read_global_step(sess, self._global_step)
            self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)
        threads: list[LooperThread] = []
        if self._save_summaries_secs and self._summary_writer is not None:
            if self._summary_op is not None:
                threads.append(SummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(StepCounterThread(self, sess))
        if self._saver is not None and self._save_model_secs:
            threads.append(CheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Message | None = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """Return a session whose model is ready.

        The chief restores the newest checkpoint of logdir, or initializes; another worker waits
        for it. start_standard_services: start the services, and the graph's queue runners.
        """
        self._coord.clear_stop()
        if self._summary_writer is not None:
            self._summary_writer.reopen()
        if self._is_chief:
            session = self._session_manager.prepare_session(
                master,
                init_op=self._init_op,
                saver=self._saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            self._write_graph()
            if start_standard_services:
                _LOGGER.info("Starting standard services.")
                self.start_standard_services(session)
        else:
            session = self._session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs
            )
        if start_standard_services:
            _LOGGER.info("Starting queue runners.")
            self.start_queue_runners(session)
        return session

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._summary_writer is not None and not self._graph_was_written:
            self._summary_writer.add_graph(self._graph)
            self._summary_writer.add_meta_graph(self._meta_graph)
            self._graph_was_written = True

    def start_queue_runners(
        self, sess: SessionLike, queue_runners: Iterable[QueueRunner] | None = None
    ) -> list[threading.Thread]:
        """Start the threads of queue runners.

        By default, of all that the graph lists.
        """
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [
            thread
            for runner in queue_runners
            for thread in runner.create_threads(sess, coord=self._coord, daemon=True, start=True)
        ]

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., object],
        args: Iterable[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> LooperThread:
        """Start a thread that calls a function at intervals.

        timer_interval_secs: None for one call after the other.
        """
        looper = LooperThread(self._coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def stop(
        self,
        threads: Iterable[threading.Thread] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Stop all threads and wait for them, at most stop_grace_secs.

        Raises the exception that a thread has ended with, and RuntimeError for threads that still
        run, unless ignore_live_threads.
        """
        from tfjit.protos import SessionLog

        self._coord.request_stop()
        try:
            self._coord.join(
                threads,
                stop_grace_period_secs=self._stop_grace_secs,
                ignore_live_threads=ignore_live_threads,
            )
        finally:
            if close_summary_writer and self._summary_writer is not None:
                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()
                self._graph_was_written = False

    def request_stop(self, ex: object = None) -> None:
        """Ask all threads to stop, for an exception or without one."""
        self._coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Return whether the training loop should end."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """Return a block whose exceptions become a request to stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until a stop is asked for."""
        self._coord.wait_for_stop()

    def summary_computed(
        self, sess: SessionLike, summary: Message | bytes, global_step: int | None = None
    ) -> None:
        """Write a summary, at the session's global step by default.

        Raises RuntimeError without a summary writer.
        """
        if self._summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = read_global_step(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Message | None = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Session]:
        """Yield a session with all services, and end both.

        An exception of the block or of a thread is raised then; the end of the input is none.
        """
        session: Session | None = None
        try:
            session = self.prepare_or_wait_for_session(
                master, config, start_standard_services=start_standard_services
            )
            yield session
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                _close(session)

    # the names before TensorFlow 1.0
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


def _close(session: Session | None) -> None:
    """Close a session, even if its server is gone."""
    if session is None:
        return
    try:
        session.close()
    except errors.OpError as error:
        _LOGGER.info("A session could not be closed: %s", error)
