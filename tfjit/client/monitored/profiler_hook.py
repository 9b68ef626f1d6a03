"""ProfilerHook: timelines of steps while a model is trained."""

from __future__ import annotations

import logging
import os

from tfjit.client.data.file_writer_cache import FileWriterCache
from tfjit.client.monitored.hooks import required_step_read
from tfjit.client.monitored.timers import SecondOrStepTimer
from tfjit.client.training.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

_LOGGER = logging.getLogger("tensorflow")


class ProfilerHook(SessionRunHook):
    """Writes timelines of steps at intervals of steps or seconds.

    save_steps, save_secs: exactly one. output_dir: of the files "timeline-<step>.json", which
    chrome://tracing and Perfetto open, and of an event file with the RunMetadata. show_dataflow:
    arrows from values to their users on other threads. show_memory: sizes and lives of values.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._output_dir = output_dir
        self._writer = FileWriterCache.get(output_dir)
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def begin(self) -> None:
        """Find the global step."""
        self._next_step: int | None = None
        self._step = required_step_read("ProfilerHook")

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the global step, and for a trace when due.

        The first run is never traced.
        """
        from tfjit.protos import RunOptions

        self._due = self._next_step is not None and self._timer.should_trigger_for_step(
            self._next_step
        )
        options = RunOptions(trace_level=RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs(self._step, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the trace that was asked for."""
        from tfjit.runtime.profiling.timeline import write_timeline

        read = int(run_values.results)
        if self._next_step is None:
            self._timer.update_last_triggered_step(read)
        step = read + 1
        if self._due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            path = os.path.join(self._output_dir, f"timeline-{step}.json")
            _LOGGER.info("Saving timeline for %d into '%s'.", step, path)
            metadata = run_values.run_metadata
            write_timeline(metadata.step_stats, path, self._show_dataflow, self._show_memory)
            self._writer.add_run_metadata(metadata, f"step_{step}")
        self._next_step = step + 1
