"""A connection that has several calls at once, and their answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tfjit.distributed.parcels.answer_frames import answer
from tfjit.distributed.parcels.frames import (
    CANCEL,
    PART,
    REQUEST,
    BrokenConnection,
    Connection,
    Frame,
)
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.distributed.protocol.deadlines import Deadlines
from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.framework import errors

Answered = Callable[[errors.OpError | None, Any], None]


class Once:
    """Pass the first answer on, or an error at the deadline."""

    def __init__(
        self,
        done: Answered,
        method: str,
        timeout_s: float | None,
        part: Callable[[Parcel], None] | None = None,
    ) -> None:
        self._done: Answered | None = done
        self._part = part
        self._lock = threading.Lock()
        self.method = method
        self._timeout_s = timeout_s
        self._deadlines: Deadlines | None = None
        self._deadline: int | None = None

    def __call__(self, error: errors.OpError | None, answer: Any) -> None:
        with self._lock:
            done, self._done = self._done, None
        if self._deadlines is not None and self._deadline is not None:
            self._deadlines.remove(self._deadline)
        if done is not None:
            done(error, answer)

    def take_part(self, answer: Parcel) -> None:
        """Pass a part of the answer on during the call."""
        if self._done is not None and self._part is not None:
            self._part(answer)

    def when_late(self, deadlines: Deadlines, cancel: Cancel) -> None:
        """Call `cancel` at the deadline, if there is one."""
        if self._timeout_s is None or self._done is None:
            return

        def late() -> None:
            cancel()
            self(errors.DeadlineExceededError(None, None, "Deadline Exceeded"), None)

        def expired() -> None:  # to send the cancellation may take a while
            threading.Thread(target=late, name="tfjit-late-call", daemon=True).start()

        self._deadline = deadlines.add(self._timeout_s, expired)
        self._deadlines = deadlines


class SharedConnection:
    """A connection of many calls, and its reading thread."""

    def __init__(
        self, connection: Connection, unavailable: Callable[[BaseException], errors.OpError]
    ) -> None:
        self._connection = connection
        self._unavailable = unavailable
        self._lock = threading.Lock()
        self._waiting: dict[int, Once] = {}
        self._retired = False
        self.broken = False
        threading.Thread(target=self._read, name="tfjit-answers", daemon=True).start()

    def start(
        self,
        number: int,
        call: int,
        request: Parcel,
        answered: Once,
        timeout_s: float | None,
    ) -> None:
        """Send a request. Raises BrokenConnection."""
        data = request.message.SerializeToString()
        with self._lock:
            if self.broken:
                raise BrokenConnection("the task has gone")
            self._waiting[call] = answered
        try:
            self._connection.send_soon(REQUEST, number, call, data, request.arrays, timeout_s)
        except BrokenConnection:
            with self._lock:
                self._waiting.pop(call, None)
            raise

    def cancel(self, number: int, call: int) -> None:
        """Tell the other end that nobody waits for a call."""
        with self._lock:
            if self._waiting.pop(call, None) is None or self.broken:
                return
        try:
            self._connection.send_soon(CANCEL, number, call)
        except BrokenConnection:
            return  # the reading thread sees it, too

    def _read(self) -> None:
        while True:
            try:
                frame = self._connection.receive()
            except BrokenConnection as error:
                self._end(error)
                return
            self._pass_on(frame)
            del frame  # and its arrays, while this thread waits

    def _pass_on(self, frame: Frame) -> None:
        is_part = frame.kind == PART
        with self._lock:
            if is_part:
                answered = self._waiting.get(frame.call)
            else:
                answered = self._waiting.pop(frame.call, None)
            is_last = self._retired and not self._waiting
        if is_last:
            self._connection.close()
        if answered is None:
            return
        try:
            found = answer(answered.method, frame)
        except errors.OpError as error:
            answered(error, None)
        else:
            if is_part:
                answered.take_part(found)
            else:
                answered(None, found)

    def _end(self, error: BaseException) -> None:
        with self._lock:
            self.broken = True
            waiting, self._waiting = list(self._waiting.values()), {}
        self._connection.close()
        for answered in waiting:
            answered(self._unavailable(error), None)

    def retire(self) -> None:
        """End the connection behind the last answer."""
        with self._lock:
            self._retired = True
            is_over = not self._waiting
        if is_over:
            self._connection.close()

    def close(self) -> None:
        """End the connection; waiting calls get an error."""
        self._connection.close()


__all__ = ["Answered", "Once", "SharedConnection"]
