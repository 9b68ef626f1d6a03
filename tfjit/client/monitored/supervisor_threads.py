"""The standard services of a Supervisor, a thread each."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from tfjit.client.training.coordinator import LooperThread
from tfjit.client.variables.global_step import global_step

if TYPE_CHECKING:
    from tfjit.client.monitored.supervisor import Supervisor
    from tfjit.framework.graphs.typing import SessionLike

_LOGGER = logging.getLogger("tensorflow")
_MOST_LOGGED: Final = 10


class SummaryThread(LooperThread):
    """Writes all summaries every `save_summaries_secs`."""

    def __init__(self, supervisor: Supervisor, session: SessionLike) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor = supervisor
        self._session = session

    def run_loop(self) -> None:
        """Compute the summaries and write them, beside the training."""
        supervisor = self._supervisor
        fetches = [supervisor.summary_op]
        if supervisor.global_step is not None:
            fetches.append(supervisor.global_step)
        values = self._session.run(fetches)
        step = int(values[1]) if len(values) > 1 else None
        if supervisor.summary_writer is not None:
            _LOGGER.info("Recording summary at step %s.", step)
            supervisor.summary_writer.add_summary(values[0], step)


class StepCounterThread(LooperThread):
    """Writes and logs the steps per second every `save_summaries_secs`."""

    def __init__(self, supervisor: Supervisor, session: SessionLike) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor = supervisor
        self._session = session
        self._tag = f"{supervisor.global_step.op.name}/sec"
        self._last_time_s = 0.0
        self._last_step = 0
        self._logged = 0

    def start_loop(self) -> None:
        """Count from here."""
        self._last_time_s = time.monotonic()
        self._last_step = global_step(self._session, self._supervisor.global_step)

    def run_loop(self) -> None:
        """Write the rate since the last time."""
        from tfjit.protos import Summary

        step, now = (
            global_step(self._session, self._supervisor.global_step),
            time.monotonic(),
        )
        steps, elapsed_s = step - self._last_step, now - self._last_time_s
        self._last_step, self._last_time_s = step, now
        rate = steps / elapsed_s if elapsed_s > 0 else float("inf")
        summary = Summary()
        summary.value.add(tag=self._tag, simple_value=rate)
        if self._supervisor.summary_writer is not None:
            self._supervisor.summary_writer.add_summary(summary, step)
        if self._logged < _MOST_LOGGED:
            self._logged += 1
            _LOGGER.info("%s: %g", self._tag, rate)


class CheckpointThread(LooperThread):
    """Writes a checkpoint every `save_model_secs`."""

    def __init__(self, supervisor: Supervisor, session: SessionLike) -> None:
        super().__init__(supervisor.coord, supervisor.save_model_secs)
        self._supervisor = supervisor
        self._session = session

    def run_loop(self) -> None:
        """Write a checkpoint, and note it in the event file."""
        from tfjit.protos import SessionLog

        supervisor = self._supervisor
        saver, path = supervisor.saver, supervisor.save_path
        assert saver is not None and path is not None  # there is no thread without them
        _LOGGER.info("Saving checkpoint to path %s", path)
        saver.save(self._session, path, global_step=supervisor.global_step)
        if supervisor.summary_writer is not None and supervisor.global_step is not None:
            log = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=path)
            step = global_step(self._session, supervisor.global_step)
            supervisor.summary_writer.add_session_log(log, step)
