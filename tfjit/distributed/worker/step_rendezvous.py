"""The rendezvous of a step on one task of a cluster."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tfjit.distributed.channels.remote_worker import request_id
from tfjit.distributed.protocol.interfaces import Cancel, WorkerInterface
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
            worker = self._worker(task)
            number = self._begin_call()
        except BaseException as error:
            done(error, None, False)
            return
        log, began_us = self.log, time.time_ns() // 1000

        def answered(error: BaseException | None, value: Any, is_dead: bool) -> None:
            if log is not None and error is None:
                _record(log, self.step_id, key, began_us, value)
            failure = self._end_call(number)
            done(failure if error is not None and failure is not None else error, value, is_dead)

        self._started(number, worker.receive_tensor(self.step_id, key, answered, request_id()))

    def receive_all(self, receives: Sequence[tuple[str, Received]]) -> None:
        """Call each `done` with its key's value when it comes; never waits.

        The tensors of another tfjit task are asked for together.
        """
        by_task: dict[str, list[tuple[str, Received]]] = {}
        for key, done in receives:
            by_task.setdefault(task_of(key.partition(";")[0]), []).append((key, done))
        for task, group in by_task.items():
            worker = None
            if task != self.task and len(group) > 1 and self.peers is not None:
                with contextlib.suppress(errors.OpError):  # each receive tells of it
                    worker = self.peers.worker(task)
            batch = [] if worker is None else [r for r in group if worker.sends_batches(r[0])]
            if worker is not None and len(batch) > 1:
                self._receive_batch(worker, batch)
                group = [receive for receive in group if receive not in batch]
            for key, done in group:
                self.receive(key, done)

    def _receive_batch(
        self, worker: WorkerInterface, group: Sequence[tuple[str, Received]]
    ) -> None:
        waiting = dict(enumerate(group))
        try:
            number = self._begin_call()
        except BaseException as error:
            for _, done in group:
                done(error, None, False)
            return
        log, began_us = self.log, time.time_ns() // 1000

        def answered(error: BaseException | None, found: Sequence[tuple[int, Any, bool]]) -> None:
            if error is not None:
                error = self._end_call(number) or error
                while waiting:
                    waiting.popitem()[1][1](error, None, False)
                return
            taken = [(waiting.pop(index, None), value, dead) for index, value, dead in found]
            if not waiting:
                self._end_call(number)
            for receive, value, is_dead in taken:
                if receive is None:  # given up meanwhile
                    continue
                if log is not None:
                    _record(log, self.step_id, receive[0], began_us, value)
                receive[1](None, value, is_dead)

        keys = [key for key, _ in group]
        cancel = worker.receive_tensors(self.step_id, keys, answered, request_id())
        self._started(number, cancel)

    def _worker(self, task: str) -> WorkerInterface:
        """Return a task's worker.

        Raises InternalError for an unknown one.
        """
        if self.peers is None:
            raise errors.InternalError(None, None, f"No worker known as {task}")
        return self.peers.worker(task)

    def _begin_call(self) -> int:
        """Return the number of a new call.

        Raises the error of an aborted step.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            self._numbers += 1
            self._calls[self._numbers] = _not_started
            return self._numbers

    def _started(self, number: int, cancel: Cancel) -> None:
        """Note how a call is cancelled, if it is still under way."""
        with self._lock:
            if number in self._calls:
                self._calls[number] = cancel
                return
        cancel()  # aborted while the call was made; or answered, which leaves nothing to cancel

    def _end_call(self, number: int) -> BaseException | None:
        """Forget a call; return the step's error, if it has one."""
        with self._lock:
            self._calls.pop(number, None)
            return self._error

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


def _record(log: StepLog, step_id: int, key: str, began_us: int, value: Any) -> None:
    size = value.nbytes if isinstance(value, np.ndarray) else 0
    log.record(step_id, parse_key(key), began_us, time.time_ns() // 1000, size)


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
