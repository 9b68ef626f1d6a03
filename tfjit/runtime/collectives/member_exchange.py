"""The exchange of one member of a collective with the others, on the thread that runs it."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.collectives.collective_params import CollectiveCall, Member, Resolved

if TYPE_CHECKING:
    from tfjit.runtime.collectives.step_collectives import StepCollectives


class MemberExchange:
    """Send and receive buffers; wait for the end of any of them.

    key: of the collective in the step, the same for all members. Used by one thread, whose sends
    and receives others end.
    """

    def __init__(
        self, step: StepCollectives, call: CollectiveCall, resolved: Resolved, key: str
    ) -> None:
        self.call, self.resolved, self.key = call, resolved, key
        self._step = step
        self._ended: SimpleQueue[tuple[Any, BaseException | None, np.ndarray | None]]
        self._ended = SimpleQueue()
        self._pending = 0

    def send(self, key: str, value: np.ndarray, tag: Any) -> None:
        """Leave elements for the member that asks for them. tag: returned by `wait`."""
        self._pending += 1
        self._step.buffers.give(key, value, lambda error: self._ended.put((tag, error, None)))

    def receive(self, key: str, rank: int, count: int, tag: Any) -> None:
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

    def wait(self) -> tuple[Any, np.ndarray | None]:
        """Return (tag, what was received or None) of the next that ends.

        Raises the error of the first that fails, behind the end of all others.
        """
        tag, error, value = self._ended.get()
        self._pending -= 1
        if error is None:
            return tag, value
        # the values of this member must not be asked for when its step is over
        failed = self._step.start_abort(error)
        while self._pending:
            self._ended.get()
            self._pending -= 1
        raise failed

    @property
    def is_over(self) -> bool:
        """Return whether nothing is under way."""
        return not self._pending

    def members(self) -> tuple[Member, ...]:
        """Return the members of the group by rank."""
        return self.resolved.group.members


__all__ = ["MemberExchange"]
