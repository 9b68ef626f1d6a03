"""Give a run its identity, rendezvous and cancellation."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.rendezvous import LocalRendezvous
from tfjit.runtime.kernel_api.op_kernel import StepContext

if TYPE_CHECKING:
    from tfjit.runtime.session.direct_session import DirectSession

_STEP_IDS: Final = itertools.count(1)


class RunningStep:
    """A `with` block around a run. Its value is the StepContext.

    The end waits for devices, unless an error leaves the block, and raises their errors.
    It is a class, as a generator would cost a microsecond: some programs run a step for each
    element of a queue.
    """

    __slots__ = ("_cancellation", "_number", "_rendezvous", "_session", "_unfinished", "_whole")

    def __init__(self, session: DirectSession, whole: StepContext | None = None) -> None:
        """Make the block. whole: the step around the run, or None."""
        self._session = session
        self._whole = whole

    def __enter__(self) -> StepContext:
        session = self._session
        whole = self._whole
        self._cancellation = CancellationManager(
            session.cancellation if whole is None else whole.cancellation
        )
        self._rendezvous = LocalRendezvous(session.logs_rendezvous)
        self._number = next(_STEP_IDS) if whole is None else whole.step_id
        self._unfinished: list[Callable[[], None]] = []
        context = StepContext(
            self._number,
            self._cancellation,
            self._rendezvous,
            host=session,
            unfinished=self._unfinished,
        )
        try:
            session.steps.begin(self, session.check_open)
        except BaseException:  # Ctrl-C behind the count, too
            self.__exit__()
            raise
        return context

    def __exit__(self, *raised: object) -> None:
        try:
            if not raised or raised[0] is None:
                for wait in self._unfinished:
                    wait()
        finally:
            session = self._session
            collectives = session.collectives.made
            if collectives is not None and self._whole is None:
                collectives.clean_up(self._number)
            session.steps.end(self)
            self._cancellation.release()
            self._rendezvous.close()


__all__ = ["RunningStep"]
