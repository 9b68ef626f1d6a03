"""Calls of another tfjit task by streams of a parcel's parts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.message import DecodeError

from tfjit.distributed.channels.rpc_calls import GIVEN_UP, ChannelClosedError, RpcCalls
from tfjit.distributed.parcels.parcel_stream import Assembler, knows_parcels, split
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol import methods, status
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellableWait, CancellationManager

Answered = Callable[[errors.OpError | None, Any], None]
"""Takes (error, None) or (None, the parcel of the answer)."""
_CANCELLED: Final = 1


class ParcelCalls:
    """Exchange parcels over a gRPC channel. address: of the task."""

    def __init__(self, address: str, calls: RpcCalls) -> None:
        self._address = address
        self._calls = calls
        self.is_refused = False
        """True once a server without the service has taken the task's place."""

    def call(
        self,
        service: str,
        method: str,
        request: Parcel,
        timeout_s: float | None = None,
        cancellation: CancellationManager | None = None,
    ) -> Parcel:
        """Return the answer to a request, as `Channel.call` does."""
        outcome: list[Any] = []
        exchange = _Exchange(self, method, request, lambda *found: outcome.extend(found))
        try:
            call = self._calls.segregated(*exchange.beginning(timeout_s))
        except ChannelClosedError as error:
            raise _closed(method, error) from None
        exchange.started(call)
        with CancellableWait(cancellation, exchange.cancel):
            while not outcome:
                event = call.next_event()
                event.tag(event)
                event = None
        failure, answer = outcome
        if failure is not None:
            raise failure
        return answer

    def start(
        self,
        service: str,
        method: str,
        request: Parcel,
        done: Answered,
        timeout_s: float | None = None,
    ) -> Cancel:
        """Send a request.

        `done` gets the answer on a thread of the channel.
        """
        exchange = _Exchange(self, method, request, done)
        try:
            call = self._calls.integrated(*exchange.beginning(timeout_s))
        except ChannelClosedError as error:
            done(_closed(method, error), None)
            return _nothing
        exchange.started(call)
        return exchange.cancel

    @property
    def core(self) -> Any:
        """The module of gRPC's operations."""
        return self._calls.core

    @property
    def address(self) -> str:
        """The address of the task."""
        return self._address


class _Exchange:
    """A call under way, with the parts to send and to come."""

    def __init__(self, calls: ParcelCalls, method: str, request: Parcel, done: Answered) -> None:
        self._calls, self._method, self._done = calls, method, done
        self._core = calls.core
        self._first, self._chunks = split(request)
        self._next = None if self._chunks is None else next(self._chunks, None)
        self._answer = Assembler(methods.response_class(method))
        self._faulty: errors.OpError | None = None
        self._status: Any = None
        self._knows = False
        self._due = 0
        self._call: Any = None
        self._has_call = threading.Event()

    def beginning(self, timeout_s: float | None) -> tuple[bytes, float | None, Any]:
        """Return (path, deadline, the first operations with their tags)."""
        core = self._core
        send = [
            core.SendInitialMetadataOperation(None, 0),
            core.SendMessageOperation(self._first, 0),
        ]
        receive = [core.ReceiveInitialMetadataOperation(0), core.ReceiveMessageOperation(0)]
        status_operations = (core.ReceiveStatusOnClientOperation(0),), self._ended
        deadline_s = None if timeout_s is None else time.time() + timeout_s
        if self._next is None:
            batches: tuple[Any, ...] = (
                ((*send, core.SendCloseFromClientOperation(0), *receive), self._received),
                status_operations,
            )
        else:
            batches = (tuple(send), self._sent), (tuple(receive), self._received), status_operations
        self._due = len(batches)
        return methods.path(methods.PARCELS, self._method).encode(), deadline_s, batches

    def started(self, call: Any) -> None:
        """Take the call that the operations have begun."""
        self._call = call
        self._has_call.set()

    def cancel(self) -> None:
        """Give the call up."""
        self._call.cancel(_CANCELLED, GIVEN_UP)

    def _operate(self, operations: tuple[Any, ...], tag: Any) -> None:
        self._has_call.wait()  # an event may be faster than the thread that made the call
        if self._call.operate(operations, tag):
            self._due += 1

    def _sent(self, event: Any) -> bool:
        """Send the next chunk."""
        core = self._core
        if event.success and self._next is not None and self._chunks is not None:
            chunk, self._next = self._next, next(self._chunks, None)
            operations: list[Any] = [core.SendMessageOperation(chunk, 0)]
            if self._next is None:
                operations.append(core.SendCloseFromClientOperation(0))
            self._operate(tuple(operations), self._sent)
        return self._over()

    def _received(self, event: Any) -> bool:
        """Take a part of the answer, and ask for the next."""
        found = event.batch_operations
        if len(found) > 1:
            self._knows = knows_parcels(found[-2].initial_metadata())
        data = found[-1].message()
        if data is not None:
            try:
                self._answer.take(data)
            except (DecodeError, MemoryError) as error:
                self._faulty = self._not_parsed(error)
                self._call.cancel(_CANCELLED, GIVEN_UP)
            else:
                if not self._answer.is_whole:
                    self._operate((self._core.ReceiveMessageOperation(0),), self._received)
        return self._over()

    def _not_parsed(self, error: Exception) -> errors.OpError:
        if isinstance(error, MemoryError):
            return errors.ResourceExhaustedError(None, None, f"Out of memory: {error}")
        return errors.InternalError(
            None, None, f"Could not parse the answer to {self._method}: {error}"
        )

    def _ended(self, event: Any) -> bool:
        self._status = event.batch_operations[0]
        return self._over()

    def _over(self) -> bool:
        """Count an event; behind the last, pass the outcome on."""
        self._due -= 1
        if self._due:
            return False
        done, error = self._done, self._faulty or self._error()
        answer, self._answer = self._answer.parcel, Assembler(None)
        if error is not None:
            done(error, None)
        else:
            done(None, answer)
        return True

    def _error(self) -> errors.OpError | None:
        code, details = int(self._status.code()), self._status.details() or ""
        if isinstance(details, bytes):
            details = details.decode(errors="replace")
        address = self._calls.address
        if code == errors.CANCELLED and details == GIVEN_UP:
            return errors.CancelledError(None, None, f"{self._method} was cancelled.")
        if code == errors.UNIMPLEMENTED and not self._knows:
            self._calls.is_refused = True
            return another_kind(address)
        if code:
            return status.of_status(code, details, self._status.trailing_metadata(), address)
        if not self._answer.is_whole:
            return self._not_parsed(ValueError("it ends early"))
        return None


def another_kind(address: str) -> errors.UnavailableError:
    """Return the error of a task in whose place another is."""
    return errors.UnavailableError(
        None, None, f"The task at {address} was started again as one of another kind."
    )


def _closed(method: str, error: ChannelClosedError) -> errors.CancelledError:
    return errors.CancelledError(None, None, f"{method} was cancelled: {error}")


def _nothing() -> None:
    """Cancel a call that is over."""


__all__ = ["ParcelCalls", "another_kind"]
