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
    """One step in parts.

    calls: those under way; several threads may feed and fetch parts at a time.
    """

    def __init__(self, step_id: int, graph: ClientGraph, names: PartialRunNames) -> None:
        self.id = step_id
        self.graph = graph
        self.names = names
        self.calls = 0
        self.is_over = False


class PartialSteps:
    """Steps by handle.

    A step is over when all is fed and fetched, or when a call fails.
    """

    def __init__(self, session: MasterSession) -> None:
        self._session = session
        self._lock = threading.Lock()  # never held while workers are called
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
            handle = str(next(self._handles))
            with self._lock:
                self._steps[handle] = made
        finally:
            session.end(step)  # last: `close` waits for it, and sees the step
        return handle

    def run(
        self,
        handle: str,
        feeds: dict[str, Any],
        fetches: Sequence[str],
        options: Any,
        client: CancellationManager | None,
    ) -> list[Any]:
        """Feed and fetch a part of a step; return the values."""
        session = self._session
        session.check_open()
        with self._lock:
            found = self._steps.get(handle)
            if found is None:
                raise errors.InvalidArgumentError(
                    None, None, "Must run PartialRunSetup before performing partial runs"
                )
            found.names.check(list(feeds), fetches)
            found.names.mark(list(feeds), fetches)
            found.calls += 1
            is_last = found.names.over
        has_failed = True
        try:
            step = session.begin(found.id, client, session.timeout_s(options))
            try:
                values = self._call(found, step, feeds, fetches, is_last)
            finally:
                session.end(step)
            has_failed = False
        finally:
            self._leave(handle, found, has_failed, is_last)
        return values

    def _call(
        self,
        found: _PartialStep,
        step: RunningStep,
        feeds: dict[str, Any],
        fetches: Sequence[str],
        is_last: bool,
    ) -> list[Any]:
        wanted = {found.graph.fetch_keys[name] for name in fetches}
        calls = []
        for part in found.graph.parts:
            call = self._session.call(part, step, feeds, None)
            call.fetches = tuple(key for key in call.fetches if key in wanted)
            call.is_partial = True
            call.is_last_partial_run = is_last
            calls.append((part, call))
        return fetched_values(found.graph, run_parts(step, calls), fetches)

    def _leave(self, handle: str, found: _PartialStep, has_failed: bool, is_last: bool) -> None:
        """Count a call as ended; clean up when the step is over."""
        with self._lock:
            found.calls -= 1
            if has_failed or is_last:
                found.is_over = True
                self._steps.pop(handle, None)
            is_left = found.is_over and found.calls == 0
        if is_left:
            found.graph.release()
        if has_failed or is_left:  # a failure ends the calls of other threads
            self._session.clean(found.graph, found.id)

    def close(self) -> None:
        """End all steps, which nobody will continue."""
        with self._lock:
            ended = list(self._steps.values())
            self._steps.clear()
            for found in ended:
                found.is_over = True
            idle = [found for found in ended if found.calls == 0]
        for found in idle:  # a call that is about to fail ends its step itself
            found.graph.release()
            self._session.clean(found.graph, found.id)


__all__ = ["PartialSteps"]
