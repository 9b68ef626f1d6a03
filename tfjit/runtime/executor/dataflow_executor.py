"""Run the ready nodes of a step's partitions on several threads.

The dataflow executor serves the runs that a straight-line step cannot: several partitions, control
flow, shapes known only at run time, blocking kernels. The caller's thread takes ready nodes from
one queue. A node measured as expensive goes to the inter-op pool when the caller has other work. A
blocking kernel holds no thread. The first error wins: the executor cancels the step and drains its
remaining nodes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.runtime.executor.node_runner import NodeRunner, RunnerEnvironment, make_runner
from tfjit.runtime.executor.propagator import FlowGraph, Propagator, Tagged
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.host.inter_op_pool import ThreadPool
from tfjit.runtime.kernel_api.kernel_errors import at_node, kernel_error
from tfjit.runtime.kernel_api.op_kernel import DEAD, NO_VALUE, StepContext
from tfjit.runtime.lowering.lowering import reads_that_share

if TYPE_CHECKING:
    from tfjit.passes.pipeline import Partition

log = logging.getLogger("tfjit.executor")

EXPENSIVE_NS: Final = 100_000.0  # handing a node to another thread costs tens of us


class DataflowPlan:
    """Hold partitions ready for the executor; concurrent runs share a plan.

    Each partition has propagation tables and a runner for each node. returns_variant: one of the
    results is a variant, which only callers inside the runtime may receive.
    """

    def __init__(
        self, partitions: Sequence[Partition], devices: DeviceManager, env: RunnerEnvironment
    ) -> None:
        self.executors = [_Executor(partition, devices, env) for partition in partitions]
        results = [
            item.node for e in self.executors for item in e.flow.items if item.node.op == "_Retval"
        ]
        self.returns_variant = any(node.input_dtypes[0].name == "variant" for node in results)
        self._num_results = len(results)

    def run(self, feeds: Sequence[Any], context: StepContext, pool: ThreadPool) -> list[Any]:
        """Run one step and return the fetched values by _Retval index.

        feeds: values by _Arg index.
        """
        context.call_frame = feeds
        context.return_values = [NO_VALUE] * self._num_results
        _Run(self.executors, context, pool).run()
        for index, value in enumerate(context.return_values):
            if value is NO_VALUE:
                raise errors.InvalidArgumentError(
                    None, None, f"Retval[{index}] does not have value"
                )
        if context.as_arrays:
            return context.return_values
        return [copy_out(value) for value in context.return_values]

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        for executor in self.executors:
            for runner in executor.runners:
                runner.after_fork()

    def start(self, context: StepContext, pool: ThreadPool) -> _Run:
        """Start a partial run: a step fed through its rendezvous.

        Its fetches go through the rendezvous too. The caller waits on the returned run.
        """
        run = _Run(self.executors, context, pool)
        # The thread is not from the pool: a partial run waits for its caller between parts, and
        # abandoned partial runs would use up the pool.
        threading.Thread(target=run.run_quietly, name="tfjit-partial-run", daemon=True).start()
        return run


class _Executor:
    """Hold the device, propagation tables and node runners of one partition."""

    def __init__(
        self, partition: Partition, devices: DeviceManager, env: RunnerEnvironment
    ) -> None:
        self.device = devices.lookup(partition.device)
        self.flow = FlowGraph(partition.graph)
        graph = partition.graph
        shared = reads_that_share(graph)
        self.runners: list[NodeRunner] = [
            make_runner(graph, item.node, self.device, env, item.node.name in shared)
            for item in self.flow.items
        ]
        self.cost_ns = [0.0] * len(self.runners)


class _Run:
    """Execute one step over all partitions."""

    def __init__(
        self, executors: Sequence[_Executor], context: StepContext, pool: ThreadPool
    ) -> None:
        self.context = context
        self.error: BaseException | None = None
        self.finished = threading.Event()
        self._pool = pool
        self._now_ns = (
            time.perf_counter_ns if context.collector is None else context.collector.now_ns
        )
        self._executors = executors
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._ready: deque[tuple[_Executor, Propagator, Tagged]] = deque()
        # handed to the pool, but not started there
        self._handed: deque[tuple[_Executor, Propagator, Tagged]] = deque()
        self._in_flight = 0  # nodes handed to the pool or waiting in a blocking kernel
        self._propagators = [Propagator(executor.flow) for executor in executors]

    def run(self) -> None:
        """Run to the end on this thread and raise the first error."""
        context = self.context
        token = context.cancellation.register(self._cancelled)
        if token is None:
            self._fail(errors.CancelledError(None, None, "Run call was cancelled"))
        with self._lock:
            for executor, propagator in zip(self._executors, self._propagators, strict=True):
                self._ready.extend((executor, propagator, tagged) for tagged in propagator.start())
        try:
            while True:
                with self._lock:
                    handed = self._handed.popleft() if self._handed and not self._ready else None
                    idle = not self._ready and handed is None and self._in_flight
                if handed is not None:
                    # No pool thread has started this node. All of them may be waiting for runs of
                    # bodies such as this one.
                    self._process_handed(*handed)
                    continue
                if idle:
                    with self._pool.waiting(), self._lock:
                        while not self._ready and self._in_flight:
                            self._wake.wait()
                with self._lock:
                    if not self._ready:
                        if self._in_flight:
                            continue
                        break
                    executor, propagator, tagged = self._ready.popleft()
                    more = bool(self._ready)
                if (
                    more
                    and self._pool.num_threads > 1
                    and executor.cost_ns[tagged.item.index] > EXPENSIVE_NS
                ):
                    with self._lock:
                        self._in_flight += 1
                        self._handed.append((executor, propagator, tagged))
                    if not self._pool.offer(self._on_pool):
                        self._on_pool()
                    continue
                self._process(executor, propagator, tagged)
        # An interrupt during the wait: the step's outstanding work must end before the step does.
        except BaseException as error:
            self._fail(error)
            self._drain()
        finally:
            context.cancellation.deregister(token)
            self.finished.set()
        if self.error is not None:
            # The error is not kept in `self`: its traceback holds this frame, and the reference
            # cycle would keep the whole step alive until a garbage collection.
            failure, self.error = self.error, None
            try:
                raise failure
            finally:
                del failure
        if not all(propagator.done for propagator in self._propagators):
            raise errors.InternalError(
                None, None, "the step stopped with nodes that never became ready"
            )

    def run_quietly(self) -> None:
        """Call `run` on a separate thread; the error stays in `error`."""
        try:
            with self._pool.working():
                self.run()
        except BaseException as error:  # kept for the waiting caller
            self.error = error.with_traceback(None)

    def _drain(self) -> None:
        """Wait for a failed step's pool work and blocking kernels."""
        with self._lock:
            while self._in_flight:
                self._wake.wait()

    def _on_pool(self) -> None:
        """Run the first node handed to the pool, if any."""
        with self._lock:
            if not self._handed:
                return
            handed = self._handed.popleft()
        self._process_handed(*handed)

    def _process_handed(self, executor: _Executor, propagator: Propagator, tagged: Tagged) -> None:
        try:
            self._process(executor, propagator, tagged)
        finally:
            with self._lock:
                self._in_flight -= 1
                self._wake.notify()

    def _process(self, executor: _Executor, propagator: Propagator, tagged: Tagged) -> None:
        item = tagged.item
        if self.error is not None:
            # Draining: the step computes and propagates nothing more, so the outstanding work runs
            # out by itself.
            return
        if tagged.is_dead and not item.is_transfer and not item.is_merge:
            self._done(executor, propagator, tagged, [DEAD] * len(item.node.output_dtypes))
            return
        if item.is_merge:
            outputs: Sequence[Any] = (
                [DEAD, DEAD] if tagged.is_dead else [tagged.inputs[0], item_index(tagged.inputs[1])]
            )
            self._done(executor, propagator, tagged, outputs)
            return
        runner = executor.runners[item.index]
        try:
            if runner.blocking:
                self._start_blocking(executor, propagator, tagged, runner)
                return
            start = self._now_ns()
            # Only a send is called with dead inputs.
            inputs = [DEAD] * len(tagged.inputs) if tagged.is_dead else tagged.inputs
            outputs = runner.run(self.context, inputs, tagged.frame_iteration)
            elapsed = self._now_ns() - start
        except Exception as error:
            self._fail(kernel_error(error, item.node.op, item.node.name, tagged.inputs))
            return
        except BaseException as error:  # an interrupt ends the step; `run` raises it again
            self._fail(error)
            return
        costs = executor.cost_ns
        costs[item.index] = (
            elapsed if not costs[item.index] else (9 * costs[item.index] + elapsed) / 10
        )
        if self.context.collector is not None:
            self.context.collector.record(executor.device.name, item.node, start, elapsed, outputs)
        self._done(executor, propagator, tagged, outputs)

    def _start_blocking(
        self, executor: _Executor, propagator: Propagator, tagged: Tagged, runner: NodeRunner
    ) -> None:
        with self._lock:
            self._in_flight += 1
        called = False
        start = self._now_ns()

        def done(result: Sequence[Any] | BaseException) -> None:
            nonlocal called
            with self._lock:
                if called:
                    return
                called = True
            try:
                if isinstance(result, BaseException):
                    if isinstance(result, errors.OpError):
                        result = at_node(result, tagged.item.node.name)
                    self._fail(result)
                else:
                    if self.context.collector is not None:
                        elapsed = self._now_ns() - start
                        self.context.collector.record(
                            executor.device.name, tagged.item.node, start, elapsed, result
                        )
                    self._done(executor, propagator, tagged, result)
            finally:
                with self._lock:
                    self._in_flight -= 1
                    self._wake.notify()

        try:
            runner.start(self.context, tagged.inputs, tagged.frame_iteration, done, tagged.is_dead)
        except BaseException as error:
            done(error)

    def _done(
        self, executor: _Executor, propagator: Propagator, tagged: Tagged, outputs: Sequence[Any]
    ) -> None:
        with self._lock:
            if self.error is not None:
                return
            for ready in propagator.finish(tagged, outputs):
                self._ready.append((executor, propagator, ready))
            self._wake.notify()

    def _cancelled(self) -> None:
        self._fail(
            errors.CancelledError(
                None, None, "Step was cancelled by an explicit call to `Session::Close()`."
            )
        )

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            self._ready.clear()
            self._wake.notify_all()
        self.context.rendezvous.abort(error)
        self.context.cancellation.cancel()


def copy_out(value: Any) -> Any:
    """Return a fetched value as the caller's own copy.

    The step's value may share the memory of a fed array, a constant or a variable.
    """
    if isinstance(value, np.ndarray):
        return value[()] if value.shape == () else value.copy()
    return value


def item_index(index: int) -> Any:
    """Return Merge's second output: the input's index as int32 scalar."""
    return np.array(index, np.int32)
