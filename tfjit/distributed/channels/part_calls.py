"""Calls over gRPC whose answers come in parts.

Between two tasks of tfjit. Each part is a message; the status is behind the last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from tfjit.distributed.channels.rpc_calls import GIVEN_UP, RpcCalls

log: Final = logging.getLogger("tfjit.distributed")

Ended = Callable[[int, str, Any, Any], None]
"""Takes (code, details, trailing metadata, initial metadata)."""
_CANCELLED: Final = 1


def start(
    calls: RpcCalls, path: bytes, data: bytes, part: Callable[[bytes], None], ended: Ended
) -> Callable[[], None]:
    """Send a request; return a function that cancels the call.

    part: gets each part, in order, and `ended` the end; both run on the reading thread. Raises
    ChannelClosedError.
    """
    return _PartCall(calls, part, ended).start(path, data)


class _PartCall:
    def __init__(self, calls: RpcCalls, part: Callable[[bytes], None], ended: Ended) -> None:
        self._calls, self._part, self._ended = calls, part, ended
        self._core = calls.core
        self._call: Any = None
        self._has_call = threading.Event()
        self._due = 2
        self._metadata: Any = None
        self._status: Any = None

    def start(self, path: bytes, data: bytes) -> Callable[[], None]:
        core = self._core
        operations = (
            core.SendInitialMetadataOperation(None, 0),
            core.SendMessageOperation(data, 0),
            core.SendCloseFromClientOperation(0),
            core.ReceiveInitialMetadataOperation(0),
            core.ReceiveMessageOperation(0),
        )
        end = (core.ReceiveStatusOnClientOperation(0),)
        batches = (operations, self._received), (end, self._has_ended)
        call = self._call = self._calls.integrated(path, None, batches)
        self._has_call.set()
        return lambda: call.cancel(_CANCELLED, GIVEN_UP)

    def _received(self, event: Any) -> bool:
        """Take a part, and ask for the next."""
        found = event.batch_operations
        if len(found) > 1:
            self._metadata = found[-2].initial_metadata()
        data = found[-1].message()
        if data is not None:
            self._has_call.wait()  # an event may be faster than the thread that made the call
            if self._call.operate((self._core.ReceiveMessageOperation(0),), self._received):
                self._due += 1
            try:
                self._part(data)
            except Exception:  # a fault in a callback, which must not end other calls
                log.exception("a part of an answer could not be handled")
        return self._over()

    def _has_ended(self, event: Any) -> bool:
        self._status = event.batch_operations[0]
        return self._over()

    def _over(self) -> bool:
        """Count an event; behind the last, pass the end on."""
        self._due -= 1
        if self._due:
            return False
        status, details = self._status, self._status.details() or ""
        if isinstance(details, bytes):
            details = details.decode(errors="replace")
        self._call = None  # it knows this object
        self._ended(int(status.code()), details, status.trailing_metadata(), self._metadata)
        return True


__all__ = ["start"]
