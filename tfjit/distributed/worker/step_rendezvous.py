"""The rendezvous of a step on one task of a cluster."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any, Final

import numpy as np

from tfjit.distributed.protocol.interfaces import Cancel
from tfjit.distributed.protocol.remote_worker import request_id
from tfjit.distributed.protocol.task_names import task_of
from tfjit.distributed.worker.peers import Peers
from tfjit.distributed.worker.step_log import StepLog
from tfjit.framework import errors
from tfjit.runtime.host.rendezvous import LocalRendezvous, Received, parse_key

MAX_STEPS: Final = 10_000
"""Steps with kept values at one time."""


class StepRendezvous(LocalRendezvous):
    """The values that a step's nodes on one task send and receive.

    Those of other tasks are asked for at their worker; no thread waits. Arrays that may change
    later are copied when they are sent.
    """

    def __init__(self, step_id: int, task: str, logs: bool = False) -> None:
        super().__init__(logs)
        self.step_id = step_id
        self.task = task
        self.peers: Peers | None = None  # once a graph of the step runs here
        self.runs = 0  # running graphs, and partial runs that are not over
        self.session = ""
        self._calls: dict[int, Cancel] = {}
        self._numbers = 0
        self.log: StepLog | None = None
        self.partial: Any = None  # the step's PartialRun

    def send(self, key: str, value: Any, is_dead: bool = False) -> None:
        super().send(key, value.copy() if isinstance(value, np.ndarray) else value, is_dead)

    def give(self, key: str, value: Any, is_dead: bool = False) -> None:
        """Leave a value that nothing changes any more."""
        super().send(key, value, is_dead)

    def receive(self, key: str, done: Received) -> None:
        source, _, rest = key.partition(";")
        task = task_of(source)
        if task == self.task or task == task_of(rest.split(";")[1]):
            super().receive(key, done)
            return
        try:
            if self.peers is None:
                raise errors.InternalError(None, None, f"No worker known as {task}")
            worker = self.peers.worker(task)
        except errors.OpError as error:
            done(error, None, False)
            return
        with self._lock:
            if self._error is None:
                self._numbers += 1
                number = self._numbers
                self._calls[number] = _not_started
            failure = self._error
        if failure is not None:
            done(failure, None, False)
            return

        log, began_us = self.log, time.time_ns() // 1000

        def answered(error: BaseException | None, value: Any, is_dead: bool) -> None:
            if log is not None and error is None:
                size = value.nbytes if isinstance(value, np.ndarray) else 0
                now_us = time.time_ns() // 1000
                log.record(self.step_id, parse_key(key), began_us, now_us, size)
            with self._lock:
                self._calls.pop(number, None)
                failure = self._error
            done(failure if error is not None and failure is not None else error, value, is_dead)

        cancel = worker.receive_tensor(self.step_id, key, answered, request_id())
        with self._lock:
            if number in self._calls:
                self._calls[number] = cancel
                return
        cancel()  # aborted while the call was made; or answered, which leaves nothing to cancel

    def receive_here(self, key: str, done: Received) -> None:
        """Wait for a value of this task's nodes."""
        super().receive(key, done)

    def withdraw(self, key: str, done: Received) -> bool:
        """Give a local receive up; return whether it was waiting."""
        with self._lock:
            waiters = self._waiters.get(key)
            if waiters is None or done not in waiters:
                return False
            waiters.remove(done)
            if not waiters:
                del self._waiters[key]
            return True

    @property
    def is_idle(self) -> bool:
        """Return whether nothing runs or waits here, and nothing is kept."""
        with self._lock:
            return not (self.runs or self._waiters or self._values or self._error)

    def abort(self, error: BaseException) -> None:
        super().abort(error)
        with self._lock:
            calls, self._calls = list(self._calls.values()), {}
        for cancel in calls:
            cancel()


def _not_started() -> None:
    """Cancel nothing: the call is being made."""


class Steps:
    """The rendezvous of all steps of a task, by step id. Thread-safe.

    Other tasks may ask for a tensor before the step's graph runs here, so a rendezvous is made by
    whichever call comes first.
    """

    def __init__(self, task: str, logs: bool = False, limit: int = MAX_STEPS) -> None:
        self._task, self._logs, self._limit = task, logs, limit
        self._lock = threading.Lock()
        self._steps: OrderedDict[int, StepRendezvous] = OrderedDict()

    def __len__(self) -> int:
        return len(self._steps)

    def find(self, step_id: int) -> StepRendezvous:
        """Return the rendezvous of a step; make a missing one.

        Raises ResourceExhaustedError where too many steps run or are waited for.
        """
        dropped = None
        with self._lock:
            found = self._steps.get(step_id)
            if found is not None:
                return found
            if len(self._steps) >= self._limit:
                dropped = self._oldest_over()
            found = self._steps[step_id] = StepRendezvous(step_id, self._task, self._logs)
        if dropped is not None:
            dropped.abort(_cleaned(dropped.step_id))
        return found

    def _oldest_over(self) -> StepRendezvous:
        """Take a step out of the table that no graph runs in."""
        for step_id, step in self._steps.items():
            if not step.runs and not step._waiters:
                del self._steps[step_id]
                return step
        raise errors.ResourceExhaustedError(
            None, None, f"The task {self._task} has {len(self._steps)} steps at one time."
        )

    def begin(self, step_id: int, session: str, peers: Peers) -> StepRendezvous:
        """Return a step's rendezvous for a graph that starts to run."""
        step = self.find(step_id)
        with self._lock:
            step.runs += 1
            step.session = session
            step.peers = peers
        return step

    def end(self, step: StepRendezvous) -> None:
        """Count a graph of a step as over."""
        with self._lock:
            step.runs -= 1

    def forget_idle(self, step: StepRendezvous) -> None:
        """Drop a step without waiters in which no graph has run."""
        with self._lock:
            if step.is_idle and not step.session and self._steps.get(step.step_id) is step:
                del self._steps[step.step_id]

    def clean_up(self, step_id: int) -> None:
        """Drop a step's values; waiting receives get AbortedError."""
        with self._lock:
            step = self._steps.pop(step_id, None)
        if step is not None:
            step.abort(_cleaned(step_id))

    def drop_session(self, session: str, error: BaseException) -> None:
        """Drop all steps of a session."""
        with self._lock:
            doomed = [step for step in self._steps.values() if step.session == session]
            for step in doomed:
                del self._steps[step.step_id]
        for step in doomed:
            step.abort(error)

    def drop_all(self, error: BaseException) -> None:
        """Drop all steps."""
        with self._lock:
            doomed = list(self._steps.values())
            self._steps.clear()
        for step in doomed:
            step.abort(error)


def _cleaned(step_id: int) -> errors.AbortedError:
    return errors.AbortedError(None, None, f"Cleanup {step_id}")


__all__ = ["MAX_STEPS", "StepRendezvous", "Steps"]
