"""Remember variants and jobs that wait for the compiler; wait for them."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from tfjit.runtime.host import fork_safety

if TYPE_CHECKING:
    from tfjit.runtime.plan.generic_variant import GenericVariant
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant

_LOCK = threading.Lock()
fork_safety.hold(_LOCK, fork_safety.EXTENSION)


class Job:
    """Stand for a variant that a background job is going to make."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.compile_done = threading.Event()

    def upgrade(self) -> None:
        """Start nothing: the job is under way."""


_STARTED: weakref.WeakSet[Variant | Job] = weakref.WeakSet()
_DEFERRED: weakref.WeakSet[Variant | GenericVariant] = weakref.WeakSet()


def started(variant: Variant | Job) -> None:
    """Remember a variant from the start of its upgrade."""
    with _LOCK:
        _STARTED.add(variant)


def put_off(variant: Variant) -> None:
    """Forget a variant that is not upgraded for now."""
    with _LOCK:
        _STARTED.discard(variant)


def deferred(variant: Variant | GenericVariant) -> None:
    """Remember a variant with deferred kernels in place of its upgrade."""
    with _LOCK:
        _STARTED.discard(variant)  # type: ignore[arg-type]
        _DEFERRED.add(variant)


def unfinished(session: PlanHost) -> list[Variant | Job]:
    """Return the session's variants and jobs that have not ended.

    Variants of bodies of loops, branches and functions are among them.
    """
    with _LOCK:
        for variant in [v for v in _STARTED if v.compile_done.is_set()]:
            _STARTED.discard(variant)
        return [variant for variant in _STARTED if variant.plan.session is session]


def _compile_deferred(session: PlanHost) -> None:
    """Start to compile all deferred kernels of a session's variants."""
    with _LOCK:
        found = [variant for variant in _DEFERRED if variant.plan.session is session]
        for variant in found:
            _DEFERRED.discard(variant)
    for variant in found:
        variant.upgrade()
    session.node_kernels.request_deferred()


def wait_until_compiled(session: PlanHost, timeout: float | None) -> bool:
    """Wait until a session's plans have their fastest forms.

    Plans that have run count. timeout: seconds, None for no limit. Returns False when the time is
    over first. Raises CancelledError when the session is closed.
    """
    end = None if timeout is None else time.monotonic() + timeout

    def left() -> float | None:
        return None if end is None else max(0.0, end - time.monotonic())

    while True:
        session.check_open()
        _compile_deferred(session)
        waiting = unfinished(session)
        for variant in waiting:
            variant.upgrade()  # it defers no kernels
        if not (waiting or session.node_kernels.unfinished() or session.renewals.unfinished()):
            return True
        if not all(variant.compile_done.wait(left()) for variant in waiting):
            return False
        if not session.node_kernels.wait(left()) or not session.renewals.wait(left()):
            return False
