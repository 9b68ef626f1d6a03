"""A step on the workers: its parts, its end, its error."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Sequence
from typing import Final

from tfjit.distributed.master.client_graph import Part
from tfjit.distributed.protocol.interfaces import GraphCall, GraphDone, GraphResult
from tfjit.distributed.protocol.status import of_exception
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager, cancelled_step

# Of two errors of a step, that of the lower rank is the cause.
_FROM_OUTSIDE: Final = -1
_CAUSE: Final = 0
_PASSED_ON: Final = 1
_CANCELLED: Final = 2

# TensorFlow's range: the ids of two masters are not the same but by a rare chance
_STEP_IDS: Final = itertools.count(1 << 56 | random.SystemRandom().getrandbits(55))

_PATIENCE_S: Final = 0.2

_CODES: Final = {
    code: name for name, code in vars(errors).items() if name.isupper() and isinstance(code, int)
}
_RULE: Final = "=" * 21
_MAX_JOINED: Final = 8192
"""The characters of a text of several errors."""

_DERIVED: Final = "[_Derived_]"
"""TensorFlow's mark of an error that another one has caused."""
_REMOTE: Final = "Additional GRPC error information"
"""TensorFlow's mark of an error that a tensor's receiver got from its sender."""


def new_step_id() -> int:
    """Return an id that no other step of this process has."""
    return next(_STEP_IDS)


class RunningStep:
    """A step of a session, or a call of one in parts.

    id: of the step in all workers. cancellation: cancels the calls under way.
    """

    __slots__ = (
        *("_client", "_error", "_lock", "_rank", "_roots", "_session", "_timers", "_tokens"),
        *("cancellation", "id"),
    )

    def __init__(
        self,
        step_id: int,
        session: CancellationManager,
        client: CancellationManager | None = None,
        timeout_s: float = 0,
    ) -> None:
        """Begin a step.

        session, client: cancel it. timeout_s: its limit, 0 for none.
        """
        self.id = step_id
        self.cancellation = CancellationManager()
        self._error: errors.OpError | None = None
        self._rank = _CANCELLED + 1
        self._roots: list[errors.OpError] = []
        self._lock = threading.Lock()
        self._session, self._client = session, client
        self._timers: tuple[threading.Timer, ...] = ()
        token = session.register(self._closed)
        client_token = client.register(self._cancelled) if client is not None else None
        self._tokens = token, client_token
        if token is None:
            self._closed()
        elif client is not None and client_token is None:
            self._cancelled()
        elif timeout_s > 0:
            self._after(timeout_s, self._expired)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()
        self._timers += (timer,)

    def end(self) -> None:
        """Forget all that may stop the step."""
        self._session.deregister(self._tokens[0])
        if self._client is not None:
            self._client.deregister(self._tokens[1])
        for timer in self._timers:
            timer.cancel()

    def fail(self, error: errors.OpError) -> None:
        """Record the error of a part, and cancel the others.

        Where the error is the consequence of another, the part with the cause has time to answer.
        """
        rank = _rank(error)
        with self._lock:
            is_first = self._error is None
            if rank == _CAUSE and not any(_is_same(error, known) for known in self._roots):
                self._roots.append(error)
            if rank < self._rank:
                self._error, self._rank = error, rank
        if rank == _CAUSE:
            self.cancellation.cancel()
        elif is_first:
            self._after(_PATIENCE_S, self.cancellation.cancel)

    def check(self) -> None:
        """Raise the cause if the step was stopped or has failed.

        Several causes, of parts that failed before they could be cancelled, are one error.
        """
        if self._error is None:
            return
        text = self._error.message
        if self._rank == _CAUSE and len(self._roots) > 1:
            text = _joined(self._roots)
        raise self._error.restated(text)  # a copy: its traceback would hold this step

    def _stop(self, error: errors.OpError) -> None:
        """Cancel the parts from outside.

        A step that has failed keeps its error.
        """
        with self._lock:
            if self._error is None:
                self._error, self._rank = error, _FROM_OUTSIDE
        self.cancellation.cancel()

    def _closed(self) -> None:
        self._stop(cancelled_step())

    def _cancelled(self) -> None:
        self._stop(errors.CancelledError(None, None, "Step was cancelled."))

    def _expired(self) -> None:
        text = "Timed out waiting for notification"
        self._stop(errors.DeadlineExceededError(None, None, text))


def _is_same(error: errors.OpError, other: errors.OpError) -> bool:
    return (error.error_code, error.message) == (other.error_code, other.message)


def _joined(roots: Sequence[errors.OpError]) -> str:
    """Return the text of several errors in TensorFlow's form."""
    lines = [f"{_CODES.get(error.error_code, 'UNKNOWN')}: {error.message}" for error in roots]
    text = "\n".join(("", _RULE, *lines, _RULE, ""))
    return text if len(text) <= _MAX_JOINED else f"{text[:_MAX_JOINED]} ... [truncated]"


def _rank(error: errors.OpError) -> int:
    if isinstance(error, errors.CancelledError) or _DERIVED in error.message:
        return _CANCELLED
    return _PASSED_ON if _REMOTE in error.message else _CAUSE


def error_from(task: str, error: BaseException) -> errors.OpError:
    """Return a worker's error with its task, in TensorFlow's words."""
    found = of_exception(error)
    return found.restated(f"From {task}:\n{found.message}")


def run_parts(step: RunningStep, calls: Sequence[tuple[Part, GraphCall]]) -> list[GraphResult]:
    """Run the parts of a step; return their results in order.

    The last part runs on this thread if it is local. An error of a part cancels the others, and is
    raised when all have ended.
    """
    results: list[GraphResult | None] = [None] * len(calls)
    left = len(calls)
    lock = threading.Lock()
    over = threading.Event()

    def done_of(index: int, task: str) -> GraphDone:
        def done(error: BaseException | None, result: GraphResult | None) -> None:
            nonlocal left
            if error is not None:
                step.fail(error_from(task, error))
            results[index] = result
            with lock:
                left -= 1
                if left == 0:
                    over.set()

        return done

    here = calls[-1][0].is_local
    tokens: list[int | None] = []
    try:
        for index, (part, call) in enumerate(calls[:-1] if here else calls):
            done = done_of(index, part.task)
            try:
                cancel = part.worker.start_graph(call, done)
            except Exception as error:
                done(error, None)
                continue
            token = step.cancellation.register(cancel)
            tokens.append(token)
            if token is None:
                cancel()
        if here:
            part, call = calls[-1]
            call.cancellation = step.cancellation
            done = done_of(len(calls) - 1, part.task)
            try:
                result = part.worker.run_graph(call)
            except Exception as error:
                done(error, None)
            else:
                done(None, result)
        over.wait()
    except BaseException:  # an interrupt of this thread
        step.cancellation.cancel()
        raise
    finally:
        for token in tokens:
            step.cancellation.deregister(token)
    step.check()
    return [result for result in results if result is not None]


__all__ = ["RunningStep", "error_from", "new_step_id", "run_parts"]
