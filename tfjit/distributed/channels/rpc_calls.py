"""gRPC calls with a callback, whose answers one thread reads.

grpcio starts a thread for the first of its calls under way, and ends it behind the last: for a step
that asks another task for one tensor, that takes longer than the call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

log: Final = logging.getLogger("tfjit.distributed")

Ended = Callable[[int, str, Any, "bytes | None", Any], None]
"""Takes (code, details, trailing metadata, the answer's bytes, initial metadata)."""

GIVEN_UP: Final = "The caller has given the call up."
"""The details of a call that this process has cancelled."""
_CANCELLED: Final = 1
_PROPAGATE: Final = 0xFFFF
"""gRPC's default."""
_METADATA: Final = 3
_MESSAGE: Final = 4
_STATUS: Final = 5
"""The places of metadata, answer and status in a call's operations."""


class ChannelClosedError(Exception):
    """A call of a channel that another thread has closed."""


class RpcCalls:
    """Start calls over a gRPC channel.

    channel: a grpc.Channel. Its reading thread waits for answers while calls are under way, and
    for calls otherwise.
    """

    def __init__(self, channel: Any) -> None:
        from grpc._cython import cygrpc

        self.core: Final = cygrpc
        self._channel = channel._channel
        self._lock = threading.Lock()
        self._started: SimpleQueue[bool] = SimpleQueue()  # True for a call, False for the end
        self._reads = False

    def start(
        self,
        path: bytes,
        data: bytes,
        ended: Ended,
        timeout_s: float | None,
        wait_for_ready: bool = False,
    ) -> Callable[[], None]:
        """Send a request.

        wait_for_ready: wait until the task can be reached. `ended` runs on the reading thread.
        Returns a function that cancels the call. Raises ChannelClosedError.
        """
        core = self.core
        flags = 0
        if wait_for_ready:
            known = core.InitialMetadataFlags
            flags = known.wait_for_ready | known.wait_for_ready_explicitly_set
        operations = (
            core.SendInitialMetadataOperation(None, flags),
            core.SendMessageOperation(data, 0),
            core.SendCloseFromClientOperation(0),
            core.ReceiveInitialMetadataOperation(0),
            core.ReceiveMessageOperation(0),
            core.ReceiveStatusOnClientOperation(0),
        )

        def over(event: Any) -> bool:
            found = event.batch_operations
            status = found[_STATUS]
            code = int(status.code())
            details = status.details()
            if isinstance(details, bytes):
                details = details.decode(errors="replace")
            answer, metadata = found[_MESSAGE].message(), found[_METADATA].initial_metadata()
            ended(code, details or "", status.trailing_metadata(), answer, metadata)
            return True

        deadline_s = None if timeout_s is None else time.time() + timeout_s
        call = self.integrated(path, deadline_s, ((operations, over),))

        def cancel() -> None:
            call.cancel(_CANCELLED, GIVEN_UP)

        return cancel

    def integrated(self, path: bytes, deadline_s: float | None, batches: Any) -> Any:
        """Begin a call whose events the reading thread handles; return it.

        batches: (operations, function of their event), which returns whether the call is over.
        Raises ChannelClosedError.
        """
        call = _open(self._channel.integrated_call, path, deadline_s, batches)
        if not self._reads:
            self._start_thread()
        self._started.put(True)
        return call

    def segregated(self, path: bytes, deadline_s: float | None, batches: Any) -> Any:
        """Begin a call whose events its caller reads; return it.

        Raises ChannelClosedError.
        """
        return _open(self._channel.segregated_call, path, deadline_s, batches)

    def _start_thread(self) -> None:
        with self._lock:
            if not self._reads:
                self._reads = True
                threading.Thread(target=self._read, name="tfjit-rpc-answers", daemon=True).start()

    def _read(self) -> None:
        while self._started.get():
            while not self._handle():
                pass

    def _handle(self) -> bool:
        """Handle an event; return whether it was the last of a call."""
        event = self._channel.next_call_event()
        if event.completion_type == self.core.CompletionType.queue_timeout:
            return False
        try:
            return bool(event.tag(event))
        except Exception:  # a fault in a callback, which must not end the others
            log.exception("the answer to a call could not be handled")
            return True

    def close(self) -> None:
        """End the thread; the closed channel has no calls."""
        self._started.put(False)


def _open(make: Any, path: bytes, deadline_s: float | None, batches: Any) -> Any:
    try:
        return make(_PROPAGATE, path, None, deadline_s, None, None, batches, None)
    except ValueError as error:
        if "channel" in str(error).lower():
            raise ChannelClosedError(str(error)) from None
        raise


__all__ = ["GIVEN_UP", "ChannelClosedError", "RpcCalls"]
