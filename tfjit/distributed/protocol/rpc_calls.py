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

Ended = Callable[[int, str, Any, "bytes | None"], None]
"""Takes (code, details, trailing metadata, the answer's bytes)."""

GIVEN_UP: Final = "The caller has given the call up."
"""The details of a call that this process has cancelled."""
_CANCELLED: Final = 1
_MESSAGE: Final = 4
_STATUS: Final = 5
"""The places of answer and status in a call's operations."""


class RpcCalls:
    """Start calls over a gRPC channel.

    channel: a grpc.Channel. Its reading thread waits for answers while calls are under way, and
    for calls otherwise.
    """

    def __init__(self, channel: Any) -> None:
        from grpc._cython import cygrpc

        self._core: Final = cygrpc
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

        wait_for_ready: wait until the task can be reached. `ended` runs on the reading thread. Returns a function that cancels the call. Raises
        ValueError for a closed channel.
        """
        core = self._core
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

        def over(event: Any) -> None:
            found = event.batch_operations
            status = found[_STATUS]
            code = int(status.code())
            details = status.details()
            if isinstance(details, bytes):
                details = details.decode(errors="replace")
            ended(code, details or "", status.trailing_metadata(), found[_MESSAGE].message())

        call = self._channel.integrated_call(
            core.PropagationConstants.GRPC_PROPAGATE_DEFAULTS,
            path,
            None,
            None if timeout_s is None else time.time() + timeout_s,
            None,
            None,
            ((operations, over),),
            None,
        )
        if not self._reads:
            self._start_thread()
        self._started.put(True)

        def cancel() -> None:
            call.cancel(_CANCELLED, GIVEN_UP)

        return cancel

    def _start_thread(self) -> None:
        with self._lock:
            if not self._reads:
                self._reads = True
                threading.Thread(target=self._read, name="tfjit-rpc-answers", daemon=True).start()

    def _read(self) -> None:
        timeout = self._core.CompletionType.queue_timeout
        while self._started.get():
            event = None
            while event is None or event.completion_type == timeout:
                event = self._channel.next_call_event()
            try:
                event.tag(event)
            except Exception:  # a fault in a callback, which must not end the others
                log.exception("the answer to a call could not be handled")
            event = None  # it has the answer: not while this thread waits

    def close(self) -> None:
        """End the thread. The channel is closed, so no call is under way."""
        self._started.put(False)


__all__ = ["GIVEN_UP", "RpcCalls"]
