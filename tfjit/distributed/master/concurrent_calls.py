"""Calls to several workers at a time, which a cancellation gives up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager

T = TypeVar("T")


@dataclass(slots=True)
class Outcome(Generic[T]):
    """The end of one call: an error or a value."""

    error: BaseException | None = None
    value: T | None = None


class GivenUp(threading.Event):
    """An event that a cancellation sets, too."""

    def __init__(self, cancellation: CancellationManager | None) -> None:
        super().__init__()
        self._cancellation = cancellation
        self._token: int | None = None
        if cancellation is not None:
            self._token = cancellation.register(self.set)
            if self._token is None:
                self.set()

    def release(self) -> None:
        """Forget the cancellation."""
        if self._cancellation is not None:
            self._cancellation.deregister(self._token)


def call_all(
    calls: Mapping[str, Callable[[], T]],
    here: str = "",
    cancellation: CancellationManager | None = None,
) -> dict[str, Outcome[T]]:
    """Run blocking calls at the same time; return outcomes by task.

    here: the task whose call runs on this thread. A call that has not come back when `cancellation`
    is cancelled has CancelledError as its outcome; its thread is left to end by itself.
    """
    outcomes: dict[str, Outcome[T]] = {}
    over = GivenUp(cancellation)
    away = [task for task in calls if task != here]
    lock = threading.Lock()
    left = len(away)

    def run(task: str) -> None:
        nonlocal left
        outcome = _outcome(calls[task])
        with lock:
            outcomes.setdefault(task, outcome)
            left -= 1
            if left == 0:
                over.set()

    try:
        for task in away:
            name = f"tfjit-call-{task}"
            threading.Thread(target=run, args=(task,), name=name, daemon=True).start()
        own = {here: _outcome(calls[here])} if here in calls else {}
        if away:
            over.wait()
    finally:
        over.release()
    with lock:
        for task in away:
            outcomes.setdefault(
                task,
                Outcome(errors.CancelledError(None, None, f"The call of {task} was given up.")),
            )
    return {**outcomes, **own}


def _outcome(call: Callable[[], Any]) -> Outcome[Any]:
    try:
        return Outcome(None, call())
    except Exception as error:
        return Outcome(error.with_traceback(None))


def first_error(outcomes: Mapping[str, Outcome[Any]]) -> BaseException | None:
    """Return an error among outcomes, preferably of a call that came back."""
    found = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
    return min(found, key=lambda error: isinstance(error, errors.CancelledError), default=None)


__all__ = ["GivenUp", "Outcome", "call_all", "first_error"]
