"""Sessions that measure their own steps, by GraphOptions and placement_period.

They build cost models and timelines, and place nodes by measured costs.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import settings
from tfjit.runtime.host.fork_safety import release_lock
from tfjit.runtime.profiling.cost_model import CostModel, is_due
from tfjit.runtime.profiling.placement_feedback import Replacement
from tfjit.runtime.profiling.step_stats import StepStatsCollector

if TYPE_CHECKING:
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant

log = logging.getLogger("tfjit.session")
COST_MODEL: Final = "cost model"
TIMELINE: Final = "timeline"
PLACEMENT: Final = "placement"
_NUMBERS: Final = itertools.count(1)


class StepObserver:
    """Choose the steps of a session to measure, and use the measurements.

    Its ConfigProto tells the uses.
    """

    def __init__(self, session: PlanHost) -> None:
        options = session.config.graph_options
        self._session = session
        self._every, self._after = options.build_cost_model, options.build_cost_model_after
        self._timeline_step = options.timeline_step
        self._steps = 0
        self._number = next(_NUMBERS)
        self._lock = threading.Lock()
        self.costs = CostModel()
        period, several = session.config.placement_period, len(session.devices.devices) > 1
        self.replacement = Replacement(session, period) if period > 0 and several else None

    @property
    def active(self) -> bool:
        """Return whether there is anything left to measure."""
        return (
            self._every > 0
            or self._timeline_step > 0
            or (self.replacement is not None and not self.replacement.stable)
        )

    @staticmethod
    def for_session(session: PlanHost) -> StepObserver | None:
        """Return the observer of a session, None if no step is measured."""
        config = session.config
        if config is None:
            return None
        observer = StepObserver(session)
        return observer if observer.active else None

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)
        self.costs.after_fork()

    def begin(self, plan: Plan) -> tuple[str, ...]:
        """Count a step of a plan and return the measurements due."""
        with self._lock:
            self._steps += 1
            step, plan.observed_steps = plan.observed_steps, plan.observed_steps + 1
            due = []
            if is_due(step, self._every, self._after):
                due.append(COST_MODEL)
            if self._timeline_step > 0 and self._steps % self._timeline_step == 0:
                due.append(TIMELINE)
            if self.replacement is not None and self.replacement.wants(plan):
                due.append(PLACEMENT)
            return tuple(due)

    def end(
        self,
        plan: Plan,
        variant: Variant,
        due: tuple[str, ...],
        collector: StepStatsCollector | None,
        elapsed_s: float,
        metadata: Any,
    ) -> None:
        """Take in a step that went well. metadata: its RunMetadata or None."""
        if COST_MODEL in due and collector is not None:
            self.costs.update(collector.records)
            if metadata is not None:
                self.costs.fill(metadata.cost_graph, variant.partitions)
        if TIMELINE in due and collector is not None:
            self._write_timeline(collector)
        if self.replacement is not None:
            records = collector.records if PLACEMENT in due and collector is not None else None
            with self._lock:
                # a measured step took longer than others
                if records is not None or collector is None:
                    self.replacement.step(variant, elapsed_s, records)
                if not self.active:
                    self._session.observer = None

    def _write_timeline(self, collector: StepStatsCollector) -> None:
        """Write `timeline_<session>_<step>.json`.

        The folder is TFJIT_DUMP, or one of the process under the folder for temporary files.
        """
        from tfjit.protos import RunMetadata
        from tfjit.runtime.profiling.timeline import trace_events

        metadata = RunMetadata()
        collector.fill(metadata)
        session = self._session
        with session.settings():
            folder = (
                settings.path("TFJIT_DUMP")
                or Path(tempfile.gettempdir()) / f"tfjit-timelines-{os.getpid()}"
            )
        path = folder / f"timeline_{session.handle or self._number}_{self._steps:06}.json"
        content = json.dumps(
            {"displayTimeUnit": "ns", "traceEvents": trace_events(metadata.step_stats)}
        )
        session.env.files.make_folders(str(folder))
        session.env.files.write(str(path), content.encode())
        log.info("timeline of step %d: %s", self._steps, path)
