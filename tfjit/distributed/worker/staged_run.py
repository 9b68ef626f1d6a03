"""Run a registered graph in stages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import numpy as np

from tfjit.distributed.protocol.interfaces import GraphCall, GraphDone, GraphResult
from tfjit.distributed.worker.graph_run import GraphRun, Submit, fetched, sent
from tfjit.distributed.worker.graph_session import part_of
from tfjit.distributed.worker.registered_graph import RegisteredGraph
from tfjit.distributed.worker.staged_graph import GraphStage, Receive, StageCheck, StagedGraph
from tfjit.distributed.worker.step_rendezvous import StepRendezvous
from tfjit.distributed.worker.tensor_batch import one_batch, send_waiting
from tfjit.framework import errors
from tfjit.runtime.host.cancellation import CancellationManager, cancelled_step
from tfjit.runtime.kernel_api.op_kernel import DEAD

_OVER: Final = -1
"""The count of a stage that has run."""


class StagedRun(GraphRun):
    """A run in stages, which start when their tensors have come.

    All receives are asked for at once. A thread runs stages as long as one is ready; that which
    completes the last one ends the run. Where tensors are late, the nodes that may fail without
    them run by themselves: their error ends the step, which other tasks may wait for.
    """

    def __init__(
        self,
        graph: RegisteredGraph,
        call: GraphCall,
        step: StepRendezvous,
        parent: CancellationManager,
        done: GraphDone,
        submit: Submit,
    ) -> None:
        super().__init__(graph, call, step, parent, done, submit)
        self._running = 1  # threads, from now on that which calls `start` and `work`
        self._left = 0
        self._token: int | None = None
        self._dead: set[str] = set()
        self._checked: set[StageCheck] = set()

    @property
    def has_checks(self) -> bool:
        staged = self.graph.staged
        return staged is not None and bool(staged.checked)

    @property
    def is_short(self) -> bool:
        staged = self.graph.staged
        return staged is not None and staged.is_short

    def start(self) -> None:
        """Ask for the tensors of other tasks. Call `work` behind it.

        Raises the errors of faulty feeds and fetches.
        """
        graph, call = self.graph, self.call
        staged = graph.staged
        assert staged is not None
        graph.check_fetches(call.fetches, call.step_id)
        self._known: dict[str, Any] = graph.fed(call.feeds)
        self._staged: StagedGraph = staged
        self._pending = [stage.pending for stage in staged.stages]
        self._left = len(staged.stages)
        self._ready = list(reversed(staged.starts))
        self._starts = True  # the stages that are ready wait for `work`
        self._token = self.cancellation.register(self._stopped)
        if self._token is None:
            self.fail(cancelled_step())
        self.step.receive_all(
            [(receive.key, partial(self._arrived, receive)) for receive in staged.receives]
        )
        with self._lock:
            self._starts = False

    def cancel(self, error: errors.OpError) -> None:
        self.fail(error)
        self._end_unless_busy()

    def _stopped(self) -> None:
        self.cancel(cancelled_step())

    def _arrived(
        self, receive: Receive, error: BaseException | None, value: Any, is_dead: bool
    ) -> None:
        """Take a tensor, and start the stages that waited for nothing else."""
        try:
            if error is not None:
                raise error
            if not is_dead:
                value = self.graph.checked(value, receive)
        except BaseException as failure:  # the run reports it
            self.fail(failure)
            self._end_unless_busy()
            return
        with self._lock:
            if self._done is None or self.error is not None:
                return
            self._known[receive.tensor] = DEAD if is_dead else value
            if is_dead:
                self._dead.add(receive.node)
            before = len(self._ready)
            self._count_down(self._staged.waiting[receive.tensor])
            if len(self._ready) == before or self._starts:
                return
            self._running += 1
        self._hand_over()

    def _count_down(self, numbers: list[int]) -> None:
        """Note the stages that wait no longer, with the lock held."""
        for number in numbers:
            self._pending[number] -= 1
            if not self._pending[number]:
                self._ready.append(number)

    def _hand_over(self) -> None:
        try:
            self.submit(self.work)
        except BaseException as error:  # no thread: the run ends
            self.fail(error)
            self._leave()

    def work(self) -> None:
        while True:
            with self._lock:
                if self.error is not None or not self._ready:
                    break
                number = self._ready.pop()
                others = bool(self._ready)
                if others:
                    self._running += 1
            if others:
                self._hand_over()
            stage = self._staged.stages[number]
            began_s = time.perf_counter()
            try:
                self._run_stage(stage)
                stage.took(time.perf_counter() - began_s)
            except BaseException as error:  # the caller gets it, by `done`
                self.fail(error)
                break
            with self._lock:
                self._left -= 1
                self._pending[number] = _OVER
                self._count_down(stage.users)
        self._leave()

    def check(self) -> None:
        with self._lock:
            if self._token is None or self._done is None or self.error is not None:
                return
            known, pending = self._known, self._pending
            due = [
                check
                for stage in self._staged.checked
                if pending[stage.number] > 0
                for check in stage.checks
                if check not in self._checked
                and all(known.get(feed, DEAD) is not DEAD for feed in check.feeds)
                and all(pending[number] == _OVER for number in check.after)
            ]
            if not due:
                return
            self._checked.update(due)
            self._running += 1
        try:
            self.submit(partial(self._run_checks, due))
        except BaseException as error:  # no thread: the run ends
            self.fail(error)
            self._leave()

    def _run_checks(self, due: Sequence[StageCheck]) -> None:
        try:
            for check in due:
                with part_of(self.context):
                    check.plan.run_stage([self._known[name] for name in check.plan.feeds], None)
        except BaseException as error:  # the caller gets it, by `done`
            self.fail(error)
        self._leave()

    def _run_stage(self, stage: GraphStage) -> None:
        send_waiting()  # this stage may run within the sends of another one
        known, plan = self._known, stage.plan
        gone: frozenset[str] = frozenset()
        if self._dead:
            with self._lock:
                dead = frozenset(self._dead)
            plan, gone = stage.without(dead)
        results: dict[str, Any] = {}
        if plan is not None:
            with part_of(self.context):
                values = plan.run_stage([known[name] for name in plan.feeds], None)
            results = dict(zip(plan.fetches, values, strict=True))
            if stage.copies:  # by the dataflow executor, with arrays that may be variables'
                results = {
                    name: value.copy() if isinstance(value, np.ndarray) else value
                    for name, value in results.items()
                }
        if gone and stage.of.stage is not None:
            results.update(dict.fromkeys(set(stage.of.stage.fetches) - set(results), DEAD))
        with self._lock:
            known.update(results)
            self._dead |= gone
        with one_batch() if len(stage.sends) > 1 else nullcontext():
            for tensor, key, name in stage.sends:
                value = known[tensor]
                is_dead = value is DEAD or name in gone
                self.step.give(key, DEAD if is_dead else sent(value, copies=False), is_dead)
        send_waiting()  # a single one, within the sends of another stage

    def _leave(self) -> None:
        """Count this thread as gone; the last one ends the run."""
        with self._lock:
            self._running -= 1
        self._end_unless_busy()

    def _end_unless_busy(self) -> None:
        with self._lock:
            if self._running or (self.error is None and self._left):
                return
        self.cancellation.deregister(self._token)
        result = None
        if self.error is None:
            try:
                fetches = self.graph.fetches
                result = GraphResult(
                    {key: fetched(self._known[fetches[key]], key) for key in self.call.fetches}
                )
            except BaseException as error:
                self.fail(error)
        self.finish(result)


__all__ = ["StagedRun"]
