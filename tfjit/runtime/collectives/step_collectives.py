"""The collectives of a step on one task."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.collectives.buffer_table import BufferTable, Taken
from tfjit.runtime.collectives.collective_params import (
    BROADCAST,
    GATHER,
    CollectiveCall,
    Member,
    Resolved,
)
from tfjit.runtime.collectives.member_exchange import MemberExchange
from tfjit.runtime.collectives.ring_run import gather_in_ring, reduce_in_ring
from tfjit.runtime.collectives.tree_run import broadcast_in_tree
from tfjit.runtime.host.cancellation import CancellationManager

if TYPE_CHECKING:
    from tfjit.runtime.collectives.collective_manager import CollectiveManager

Outcome = Callable[[BaseException | None, np.ndarray | None], None]
"""Takes (error, None) or (None, the result)."""

NodeKey = tuple[str, str]
"""The name of a node and its device."""

_PREFIX: Final = "Collective ops is aborted by: "
_SUFFIX: Final = "\nThe error could be from a previous operation. Restart your program to reset."


class StepCollectives:
    """The running collectives of a step. Thread-safe.

    An error of one aborts all of them, and so ends the exchange of the members of other tasks; the
    manager refuses groups and instances that are not known by then.
    """

    def __init__(self, manager: CollectiveManager, step_id: int) -> None:
        self.manager, self.step_id = manager, step_id
        self.buffers = BufferTable()
        self._lock = threading.Lock()
        self._error: errors.OpError | None = None
        self._calls: dict[int, Callable[[], None]] = {}
        self._number = 0

    def start_abort(self, error: BaseException) -> errors.OpError:
        """End all collectives of the step; return the first error."""
        found = _as_op_error(error)
        with self._lock:
            if self._error is not None:
                return self._error
            self._error = failed = found.restated(f"{_PREFIX}{found.message}{_SUFFIX}")
            calls, self._calls = list(self._calls.values()), {}
        self.manager.abort(failed)
        self.buffers.abort(failed)
        for cancel in calls:
            cancel()
        return failed

    def drop(self, error: errors.OpError) -> None:
        """End all waits in a step that is over."""
        with self._lock:
            if self._error is None:
                self._error = error
            calls, self._calls = list(self._calls.values()), {}
        self.buffers.abort(error)
        for cancel in calls:
            cancel()

    def receive(
        self, member: Member, key: str, size: int, device: str, done: Taken
    ) -> Callable[[], None]:
        """Take a buffer of `size` bytes from a member.

        device: that gets it. Returns a function that gives up.
        """
        if self.manager.is_local(member):
            self.buffers.take(key, done)
            return lambda: self.buffers.withdraw(key, done)
        with self._lock:
            self._number += 1
            number = self._number
            error = self._error
            if error is None:
                self._calls[number] = _not_started
        if error is not None:
            done(error, None)
            return _not_started

        def taken(failure: BaseException | None, value: np.ndarray | None) -> None:
            with self._lock:
                self._calls.pop(number, None)
                aborted = self._error
            done(aborted if failure is not None and aborted is not None else failure, value)

        cancel = self.manager.receive_remote(self.step_id, member, key, size, device, taken)
        with self._lock:
            if number in self._calls:
                self._calls[number] = cancel
                return cancel
        cancel()
        return cancel

    def run(
        self,
        call: CollectiveCall,
        frame: str,
        value: np.ndarray | None,
        known: dict[NodeKey, Resolved],
        known_as: NodeKey | None,
        cancellation: CancellationManager,
        done: Outcome,
    ) -> None:
        """Run a member's part; `done` gets the result on another thread.

        frame: of the node, "0:0" outside of loops. known: facts that members have learnt; it keeps
        this member's by `known_as`, unless that is None. cancellation: aborts the collectives.
        """
        _Run(self, call, frame, value, known, known_as, cancellation, done).resolve()


class _Run:
    """One member's part; `done` is called once, also by a timeout."""

    def __init__(
        self,
        step: StepCollectives,
        call: CollectiveCall,
        frame: str,
        value: np.ndarray | None,
        known: dict[NodeKey, Resolved],
        known_as: NodeKey | None,
        cancellation: CancellationManager,
        done: Outcome,
    ) -> None:
        self.step, self.call, self.value = step, call, value
        self.key = f"{call.group_key}:{call.instance_key}:{frame}"
        self.known, self.known_as = known, known_as
        self.cancellation = cancellation
        self.done: Outcome | None = done
        self.lock = threading.Lock()
        self.timer: threading.Timer | None = None
        self.token: int | None = None

    def resolve(self) -> None:
        """Find the other members, then exchange with them."""
        self.token = self.cancellation.register(self.cancel)
        if self.token is None:
            text = f"op cancelled {self.call.name}"
            self.end(errors.CancelledError(None, None, text), None)
            return
        found = None if self.known_as is None else self.known.get(self.known_as)
        if found is not None:
            self.start(found)
            return
        self.limit("Collective has timed out waiting for other workers.")
        self.step.manager.resolver.resolve(self.call, self.cancellation, self.resolved)

    def resolved(self, error: BaseException | None, found: Resolved | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if error is not None or found is None:
            self.fail(error or errors.InternalError(None, None, "the group is missing"))
            return
        if self.known_as is not None:
            self.known[self.known_as] = found
        self.start(found)

    def start(self, found: Resolved) -> None:
        """Exchange on a thread that may wait."""
        self.limit("Collective has timed out during execution.")
        try:
            self.step.manager.submit(lambda: self.exchange(found))
        except BaseException as error:
            self.fail(error)

    def exchange(self, found: Resolved) -> None:
        exchange = MemberExchange(self.step, self.call, found, self.key)
        try:
            if self.call.kind == BROADCAST:
                result = broadcast_in_tree(exchange, self.value)
            else:
                assert self.value is not None
                run = gather_in_ring if self.call.kind == GATHER else reduce_in_ring
                result = run(exchange, self.value)
        except BaseException as error:  # the node reports it
            self.fail(error)
            return
        finally:
            exchange.close()
        self.end(None, result)

    def limit(self, text: str) -> None:
        """Begin the time limit of a phase, if there is one."""
        if self.timer is not None:
            self.timer.cancel()
        if self.call.timeout_s > 0:
            error = errors.DeadlineExceededError(None, None, text)
            self.timer = threading.Timer(self.call.timeout_s, self.expire, (error,))
            self.timer.daemon = True
            self.timer.start()

    def expire(self, error: errors.OpError) -> None:
        with self.lock:
            is_over = self.done is None
        if not is_over:
            self.end(error, None, lambda: self.step.start_abort(error))

    def cancel(self) -> None:
        self.step.start_abort(_cancelled())

    def fail(self, error: BaseException) -> None:
        if self.cancellation.cancelled:  # that may have caused the error
            error = _cancelled()
        self.end(self.step.start_abort(error), None)

    def end(
        self,
        error: BaseException | None,
        result: np.ndarray | None,
        before: Callable[[], object] | None = None,
    ) -> None:
        """Report the end, unless that has been done. before: called first."""
        with self.lock:
            done, self.done = self.done, None
        if done is None:
            return
        self.cancellation.deregister(self.token)
        if self.timer is not None:
            self.timer.cancel()
        if before is not None:
            before()
        done(error, result)


def _cancelled() -> errors.CancelledError:
    return errors.CancelledError(None, None, "op cancelled")


def _as_op_error(error: BaseException) -> errors.OpError:
    if isinstance(error, errors.OpError):
        return error
    return errors.InternalError(None, None, f"{type(error).__name__}: {error}")


def _not_started() -> None:
    """Cancel nothing: the call is being made."""


__all__ = ["Outcome", "StepCollectives"]
