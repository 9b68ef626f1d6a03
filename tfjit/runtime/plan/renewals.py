"""Make a session's programs again once libraries can serve more of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from tfjit.runtime.plan.background import BACKGROUND, HURRIED_SHARE, SHARE

if TYPE_CHECKING:
    from tfjit.kernels.ir.library_opening import LibraryOpening
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.executor.requested_kernels import RequestedKernels


class Renewal(Protocol):
    """Replace one program by another."""

    def make(self) -> Sequence[KernelSource]:
        """Make the new program; return the kernels that it needs."""

    def replace(self) -> None:
        """Let runs take the new program, if there is one.

        Its kernels are loaded or refused.
        """


class Renewals:
    """The pending renewals of one session.

    A renewal is made on the background thread of upgrades when the first of its libraries has
    become usable; runs go on with the old program meanwhile. A library that is left out changes
    nothing. Thread-safe.
    """

    def __init__(
        self, kernels: RequestedKernels, settings: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Wait for nothing.

        kernels, settings: those of the session.
        """
        self._kernels = kernels
        # the session's own method, which would keep it alive
        self._settings = weakref.WeakMethod(settings)
        self._changed = threading.Condition(threading.Lock())
        self._pending: dict[Renewal, tuple[LibraryOpening, ...]] = {}
        self._waiting = 0

    def expect(
        self, renewal: Renewal, openings: Sequence[LibraryOpening], is_due: bool = False
    ) -> None:
        """Renew a program once one of these libraries is usable.

        is_due: renew it now, since an open library has routines to plan.
        """
        with self._changed:
            self._pending[renewal] = () if is_due else tuple(openings)
        if is_due:
            self._submit(renewal, self._make)
            return
        this = weakref.ref(self)

        def opened(opening: LibraryOpening) -> None:
            renewals = this()
            if renewals is not None:
                renewals._opened(renewal, opening)

        for opening in openings:
            opening.when_done(opened)

    def unfinished(self) -> int:
        """Return the number of programs with pending renewals."""
        return len(self._pending)

    def libraries(self) -> list[str]:
        """Return the libraries that are being opened for programs."""
        with self._changed:
            openings = [o for some in self._pending.values() for o in some if not o.is_done]
        return sorted({opening.library for opening in openings})

    def wait(self, timeout: float | None) -> bool:
        """Wait until no renewal is pending. timeout: seconds, None for no limit."""
        with self._changed:
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: not self._pending, timeout)
            finally:
                self._waiting -= 1

    def close(self) -> None:
        """Forget the pending renewals."""
        with self._changed:
            self._pending.clear()
            self._changed.notify_all()

    def after_fork(self) -> None:
        """Forget the pending renewals: a forked child opens no library."""
        self._changed = threading.Condition(threading.Lock())
        self._pending.clear()
        self._waiting = 0

    def _opened(self, renewal: Renewal, opening: LibraryOpening) -> None:
        with self._changed:
            openings = self._pending.get(renewal)
            # a usable one before this began the renewal
            if openings is None or opening not in openings:
                return
            left = () if opening.usable else tuple(o for o in openings if o is not opening)
            if left or opening.usable:
                self._pending[renewal] = left
        if opening.usable:
            self._submit(renewal, self._make)
        elif not left:
            self._end(renewal)

    def _submit(self, renewal: Renewal, work: Callable[[Renewal], None]) -> None:
        """Do a part of a pending renewal on the background thread."""

        def job() -> None:
            settings = self._settings()
            if settings is None or renewal not in self._pending:
                return
            try:
                with settings():
                    work(renewal)
            except BaseException:  # the thread's hook reports it, and no caller waits for ever
                self._end(renewal)
                raise

        BACKGROUND.submit(job, lambda: HURRIED_SHARE if self._waiting else SHARE)

    def _make(self, renewal: Renewal) -> None:
        sources = renewal.make()
        self._kernels.when_ready(sources, lambda: self._submit(renewal, self._replace))

    def _replace(self, renewal: Renewal) -> None:
        renewal.replace()
        self._end(renewal)

    def _end(self, renewal: Renewal) -> None:
        with self._changed:
            self._pending.pop(renewal, None)
            self._changed.notify_all()


__all__ = ["Renewal", "Renewals"]
