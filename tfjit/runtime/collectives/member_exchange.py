"""The exchange of one member of a collective with the others."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.collectives.collective_params import CollectiveCall, Resolved

if TYPE_CHECKING:
    from tfjit.runtime.collectives.step_collectives import StepCollectives


PATIENCE_S: Final = 1.0
"""The wait before a member asks for failures of the others."""

_WATCH: Final = -1
_ENDED: Final = ("is over.", "non-empty hook table", "Operation was cancelled")
"""Parts of the errors of members that have ended, also TensorFlow's."""


class MemberExchange:
    """Send and receive buffers; wait for the end of any of them.

    key: of the collective in the step, the same for all members. One thread uses it; others
    end its sends and receives.
    """

    def __init__(
        self, step: StepCollectives, call: CollectiveCall, resolved: Resolved, key: str
    ) -> None:
        self.call, self.resolved, self.key = call, resolved, key
        self._step = step
        self._ended: SimpleQueue[tuple[int, BaseException | None, np.ndarray | None]]
        self._ended = SimpleQueue()
        self._pending = 0
        self._watches: list[Callable[[], None]] | None = None

    def send(self, key: str, value: np.ndarray, tag: int) -> None:
        """Leave elements for a member. tag: returned by `wait`."""
        self._pending += 1
        self._step.buffers.give(key, value, lambda error: self._ended.put((tag, error, None)))

    def receive(self, key: str, rank: int, count: int, tag: int) -> None:
        """Ask a member for `count` elements. tag: returned by `wait`."""
        self._pending += 1
        dtype = np.dtype(self.call.dtype.as_numpy_dtype)

        def taken(error: BaseException | None, value: np.ndarray | None) -> None:
            if error is None and value is not None:
                if value.nbytes == count * dtype.itemsize:
                    value = value.view(dtype)
                else:
                    error = errors.InternalError(
                        None,
                        None,
                        f"RecvBufResponse returned {value.nbytes} bytes where to_tensor expected "
                        f"{count * dtype.itemsize}",
                    )
            self._ended.put((tag, error, value))

        member = self.resolved.group.members[rank]
        self._step.receive(member, key, count * dtype.itemsize, self.call.device, taken)

    def wait(self) -> tuple[int, np.ndarray | None]:
        """Return (tag, received elements or None) of the next end.

        Raises the error of the first that fails, behind the end of all others.
        """
        tag, error, value = self._next()
        if tag != _WATCH:
            self._pending -= 1
        if error is None:
            return tag, value
        # the values of this member must not be asked for when its step is over
        failed = self._step.start_abort(error)
        while self._pending:
            if self._ended.get()[0] != _WATCH:
                self._pending -= 1
        raise failed

    def _next(self) -> tuple[int, BaseException | None, np.ndarray | None]:
        if self._watches is None:
            try:
                return self._ended.get(timeout=PATIENCE_S)
            except Empty:
                self._watch()
        return self._ended.get()

    def _watch(self) -> None:
        """Ask the other tasks for a buffer that none gives.

        A buffer goes to the member that asks for it: one with a failed step, or of a
        lost task, does not ask any more, and would say nothing by itself.
        """
        self._watches = []
        asked = set()
        for member in self.resolved.group.members:
            if member.task in asked or self._step.manager.is_local(member):
                continue
            asked.add(member.task)
            key = f"{self.key}:watch:{self.resolved.rank}"
            self._watches.append(
                self._step.receive(member, key, 0, self.call.device, self._watched)
            )

    def _watched(self, error: BaseException | None, value: np.ndarray | None) -> None:
        if error is not None and not any(part in str(error) for part in _ENDED):
            self._ended.put((_WATCH, error, None))

    def close(self) -> None:
        """End the questions to other tasks."""
        for cancel in self._watches or ():
            cancel()

    @property
    def is_over(self) -> bool:
        """Return whether nothing is under way."""
        return not self._pending


__all__ = ["MemberExchange"]
