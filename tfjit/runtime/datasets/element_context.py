"""State that all elements of one iterator share.

The state is cancellation, the step of functions, and random generators. A background stage has an
context within that of its consumer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.framework import errors
from tfjit.runtime.datasets.element import Value
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.rendezvous import LocalRendezvous
from tfjit.runtime.kernel_api.op_kernel import StepContext

if TYPE_CHECKING:
    from tfjit.runtime.plan.host import PlanHost


class ElementContext:
    """The surroundings of elements.

    host: the session. step: the step of functions; no run of the session ends it. cancellation:
    ends all waits, once. interrupted: waits of the present call end.
    """

    def __init__(
        self,
        host: PlanHost,
        parent: CancellationManager,
        step_id: int,
        shared: dict[Value, Value] | None = None,
    ) -> None:
        self.host = host
        self.cancellation = CancellationManager(parent)
        self._rendezvous = LocalRendezvous(host.logs_rendezvous)
        self.step = StepContext(
            step_id, self.cancellation, self._rendezvous, host=host, as_arrays=True
        )
        self.interrupted = False
        self._shared = {} if shared is None else shared
        self._lock = threading.Lock()
        self._wakers: set[Callable[[], None]] = set()
        self.cancellation.register(self._wake)

    def child(self) -> ElementContext:
        """Return a context for a background stage."""
        return ElementContext(self.host, self.cancellation, self.step.step_id, self._shared)

    def shared(self, key: Value, make: Callable[[], Value]) -> Value:
        """Return an object of the whole iterator, made on first use.

        An epoch begins where the generator of the one before has ended.
        """
        found = self._shared.get(key)
        if found is None:
            found = self._shared.setdefault(key, make())
        return found

    def add_waker(self, wake: Callable[[], None]) -> None:
        """Call `wake`, more than once perhaps, when waits should end."""
        with self._lock:
            self._wakers.add(wake)

    def remove_waker(self, wake: Callable[[], None]) -> None:
        """Forget a function of `add_waker`."""
        with self._lock:
            self._wakers.discard(wake)

    def interrupt(self) -> None:
        """End the waits of the present call."""
        self.interrupted = True
        self._wake()

    def check(self) -> None:
        """Raise CancelledError when waits should end."""
        if self.interrupted or self.cancellation.cancelled:
            raise errors.CancelledError(None, None, "Operation was cancelled")

    def close(self) -> None:
        """End all waits, for good."""
        self.cancellation.cancel()
        self.cancellation.release()
        self._rendezvous.close()

    def _wake(self) -> None:
        with self._lock:
            wakers = list(self._wakers)
        for wake in wakers:
            wake()


__all__ = ["ElementContext"]
