"""Hooks that write event files: steps per second and summaries."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tfjit.client.data.file_writer_cache import FileWriterCache
from tfjit.client.monitored.hooks import required_step_read
from tfjit.client.monitored.scaffold import Scaffold
from tfjit.client.monitored.timers import SecondOrStepTimer
from tfjit.client.training.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from tfjit.client.variables.global_step import get_global_step

if TYPE_CHECKING:
    from tfjit.client.data.summary import FileWriter
    from tfjit.framework.graphs.typing import Fetches, SessionLike

_LOGGER = logging.getLogger("tensorflow")


class StepCounterHook(SessionRunHook):
    """Logs and writes global steps per second.

    every_n_steps, every_n_secs: exactly one. output_dir: of an event file, or summary_writer.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: FileWriter | None = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._output_dir = output_dir
        self._writer = summary_writer
        self._last_read: int | None = None
        self._warnings = 0

    def begin(self) -> None:
        """Open the event file, find the global step."""
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._step = required_step_read("StepCounterHook")
        self._tag = f"{get_global_step().op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the rate where its time has come."""
        read = int(run_values.results)
        if self._timer.should_trigger_for_step(read + 1):
            step = int(run_context.session.run(self._step))
            if self._timer.should_trigger_for_step(step):
                seconds, steps = self._timer.update_last_triggered_step(step)
                if seconds is not None and steps is not None:
                    self._record(steps / seconds, step)
        if read == self._last_read and self._warnings < 5:
            self._warnings += 1
            _LOGGER.warning(
                "The global step has not increased, it is still %s. Pass it to "
                "Optimizer.apply_gradients or Optimizer.minimize.",
                read,
            )
        self._last_read = read

    def _record(self, rate: float, step: int) -> None:
        from tfjit.protos import Summary

        if self._writer is not None:
            summary = Summary()
            summary.value.add(tag=self._tag, simple_value=rate)
            self._writer.add_summary(summary, step)
        _LOGGER.info("%s: %g", self._tag, rate)


class SummarySaverHook(SessionRunHook):
    """Writes summaries at intervals of steps or seconds.

    save_steps, save_secs: exactly one. output_dir: of an event file, or summary_writer. scaffold,
    summary_op: exactly one; gives a serialized Summary, or a list of them.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: FileWriter | None = None,
        scaffold: Scaffold | None = None,
        summary_op: Fetches | None = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op = summary_op
        self._scaffold = scaffold
        self._output_dir = output_dir
        self._writer = summary_writer
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def begin(self) -> None:
        """Open the event file, find the global step."""
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._next_step: int | None = None
        self._step = required_step_read("SummarySaverHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the global step, and the summaries when due."""
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        operation = self._summary_op
        if operation is None and self._scaffold is not None:
            operation = self._scaffold.summary_op
        if not self._due or operation is None:
            return SessionRunArgs([self._step])
        several = operation if isinstance(operation, list) else [operation]
        return SessionRunArgs([self._step, *several])

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the summaries that were asked for."""
        from tfjit.protos import SessionLog

        if self._writer is None:
            return
        read, *summaries = run_values.results
        step = int(read) + 1
        if self._due:
            step = int(run_context.session.run(self._step))
            if self._next_step is None:
                self._writer.add_session_log(SessionLog(status=SessionLog.START), step)
            self._timer.update_last_triggered_step(step)
            for summary in summaries:
                self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session: SessionLike | None = None) -> None:
        """Hand all events to the operating system."""
        if self._writer is not None:
            self._writer.flush()
