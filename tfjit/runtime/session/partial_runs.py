"""Keep the partial runs of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.runtime.session.direct_session import DirectSession
    from tfjit.runtime.session.partial_run import PartialRun


class PartialRuns:
    """Hold the partial runs that are not over, by handle."""

    def __init__(self) -> None:
        self._runs: dict[str, PartialRun] = {}

    def start(
        self,
        session: DirectSession,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
    ) -> str:
        """Start a partial run of a session and return its handle."""
        from tfjit.runtime.session.partial_run import PartialRun

        run = PartialRun(session, feeds, fetches, targets)
        self._runs[run.handle] = run
        return run.handle

    def step(
        self, handle: str, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> list[Any]:
        """Feed and fetch a part of a run.

        One that is over or has failed is forgotten. Raises InvalidArgumentError for an unknown
        handle, or names that are not the run's.
        """
        run = self._runs.get(handle)
        if run is None:
            raise errors.InvalidArgumentError(
                None, None, "Must run 'setup' before performing partial runs!"
            )
        run.names.check([name for name, _ in feeds], fetches)
        done = True
        try:
            results, done = run.step(feeds, fetches)
        finally:
            if done:
                self._runs.pop(handle, None)
        return results

    def end_all(self) -> None:
        """End the runs, which no caller will continue."""
        for run in list(self._runs.values()):
            run.end()

    def clear(self) -> None:
        """Forget the runs."""
        self._runs.clear()
