"""The steps of a session that are fed and fetched in parts."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.distributed.master.client_graph import ClientGraph, fetched_values, signature_of
from tfjit.distributed.master.running_step import RunningStep, new_step_id, run_parts
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

if TYPE_CHECKING:
    from tfjit.distributed.master.master_session import MasterSession
    from tfjit.runtime.session.partial_run_names import PartialRunNames


class _PartialStep:
    """One step in parts. lock: held by the call that runs."""

    def __init__(self, step_id: int, graph: ClientGraph, names: PartialRunNames) -> None:
        self.id = step_id
        self.graph = graph
        self.names = names
        self.lock = threading.Lock()


class PartialSteps:
    """Steps by handle. A step is over when all is fed and fetched, or when a call fails."""

    def __init__(self, session: MasterSession) -> None:
        self._session = session
        self._steps: dict[str, _PartialStep] = {}
        self._handles = itertools.count()

    def set_up(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> str:
        """Return the handle of a new step."""
        session = self._session
        signature = signature_of(feeds, fetches, targets)
        step = session.begin(new_step_id(), None, session.timeout_s(None))
        try:
            graph = session.hold_graph(signature, step)
            made = _PartialStep(step.id, graph, session.partial_names(signature))
        finally:
            session.end(step)
        handle = str(next(self._handles))
        self._steps[handle] = made
        return handle

    def run(
        self,
        handle: str,
        feeds: dict[str, Any],
        fetches: Sequence[str],
        options: Any,
        client: CancellationManager | None,
    ) -> list[Any]:
        """Feed and fetch a part of a step; return the values of the fetches."""
        session = self._session
        found = self._steps.get(handle)
        if found is None:
            session.check_open()
            raise _unknown()
        with found.lock:
            if handle not in self._steps:
                raise _unknown()
            found.names.check(list(feeds), fetches)
            found.names.mark(list(feeds), fetches)
            step = session.begin(found.id, client, session.timeout_s(options))
            over = True
            try:
                values = self._run(found, step, feeds, fetches)
                over = found.names.over
            finally:
                if over:
                    self._end(handle)
                session.end(step)
            return values

    def _run(
        self, found: _PartialStep, step: RunningStep, feeds: dict[str, Any], fetches: Sequence[str]
    ) -> list[Any]:
        wanted = {found.graph.fetch_keys[name] for name in fetches}
        calls = []
        for part in found.graph.parts:
            call = self._session.call(part, step, feeds, None)
            call.fetches = tuple(key for key in call.fetches if key in wanted)
            call.is_partial = True
            call.is_last_partial_run = found.names.over
            calls.append((part, call))
        return fetched_values(found.graph, run_parts(step, calls), fetches)

    def _end(self, handle: str) -> None:
        ended = self._steps.pop(handle, None)
        if ended is not None:
            ended.graph.release()
            self._session.clean(ended.graph, ended.id)

    def close(self) -> None:
        """End all steps, which nobody will continue."""
        for handle in list(self._steps):
            self._end(handle)


def _unknown() -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        None, None, "Must run PartialRunSetup before performing partial runs"
    )


__all__ = ["PartialSteps"]
