"""Run the ready nodes of a step's partitions on several threads.

The dataflow executor serves the runs that a straight-line step cannot: several partitions, control
flow, shapes known only at run time, blocking kernels. One thread at a time, the *dispatcher*,
propagates values and runs the cheap nodes, without a lock for a node. A node that is expensive, or
whose kernel calls the user's Python, runs outside of dispatching: on the inter-op pool if other
nodes are ready, else on the dispatcher's thread, while another thread may dispatch. A thread that
completes such a node dispatches next unless another thread does. As many threads as the pool has
work for a run at once, its caller included. A blocking kernel holds no thread. The first error
wins: the executor cancels the step and drains its remaining nodes.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.passes.ir.offloaded_graph import returns_device_tensor
from tfjit.runtime.executor.node_runner import Constant, make_runner
from tfjit.runtime.executor.propagator import FlowGraph, Propagator, Ready
from tfjit.runtime.executor.runner import NodeRunner, RunnerEnvironment
from tfjit.runtime.host.cancellation import cancelled_step
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.host.inter_op_pool import ThreadPool
from tfjit.runtime.kernel_api.kernel_errors import at_node, kernel_error
from tfjit.runtime.kernel_api.op_kernel import DEAD, NO_VALUE, StepContext
from tfjit.runtime.lowering.variable_reads import reads_that_share

if TYPE_CHECKING:
    from tfjit.passes.pipeline import Partition

log = logging.getLogger("tfjit.executor")

EXPENSIVE_NS: Final = 100_000.0  # handing a node to another thread costs tens of us
_MEASURED_RUNS: Final = 3  # the first runs of a plan measure all nodes
_MEASURE_EVERY: Final = 16  # so does each run of this number

# Kinds of nodes: run by the dispatcher; passing a live input on; calling back; slow, or waiting for
# other nodes; running when dead too.
_CHEAP, _MERGE, _BLOCKING, _EXPENSIVE, _TRANSFER = range(5)

_Outputs = Sequence[Any]  # a node's values in order


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
        self.returns_variant = any(
            node.input_dtypes[0].name == "variant" and not returns_device_tensor(node._graph, node)
            for node in results
        )
        self._num_results = len(results)
        self._runs = 0

    def measures(self) -> bool:
        """Count a run; return whether the run measures all nodes."""
        self._runs += 1
        return self._runs <= _MEASURED_RUNS or self._runs % _MEASURE_EVERY == 0

    def run(self, feeds: Sequence[Any], context: StepContext, pool: ThreadPool) -> list[Any]:
        """Run one step and return the fetched values by _Retval index.

        feeds: values by _Arg index.
        """
        context.call_frame = feeds
        context.return_values = [NO_VALUE] * self._num_results
        _Run(self, context, pool).run()
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
        run = _Run(self, context, pool)
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
        constants = {
            item.index: runner.value
            for item, runner in zip(
                self.flow.roots, (self.runners[i.index] for i in self.flow.roots)
            )
            if isinstance(runner, Constant)
        }
        self.flow.set_constants(constants)
        self.calls = [runner.run for runner in self.runners]
        self.kinds = [
            _MERGE
            if item.is_merge
            else _BLOCKING
            if runner.blocking
            else _EXPENSIVE
            if runner.expensive
            else _TRANSFER
            if item.is_transfer
            else _CHEAP
            for item, runner in zip(self.flow.items, self.runners, strict=True)
        ]
        self.cost_ns = [0.0] * len(self.runners)


class _Part:
    """Hold the state of one partition in one run."""

    __slots__ = ("executor", "propagator", "ready")

    def __init__(self, executor: _Executor) -> None:
        self.executor = executor
        self.propagator = Propagator(executor.flow)
        self.ready: deque[Ready] = deque(self.propagator.start())


class _Run:
    """Execute one step over all partitions.

    Only the dispatcher, the holder of `_dispatching`, uses `_parts` and `_in_flight`. All threads
    append to `_arrived` and then try to dispatch. If they fail, the dispatcher looks at `_arrived`
    again after releasing `_dispatching`.
    """

    def __init__(self, plan: DataflowPlan, context: StepContext, pool: ThreadPool) -> None:
        self.context = context
        self.error: BaseException | None = None
        self.finished = threading.Event()
        self._pool = pool
        self._now_ns = (
            time.perf_counter_ns if context.collector is None else context.collector.now_ns
        )
        self._measures = context.collector is not None or plan.measures()
        self._parts = [_Part(executor) for executor in plan.executors]
        self._dispatching = threading.Lock()
        # nodes that ended outside of dispatching, with their outputs; None for a failed one
        self._arrived: deque[tuple[_Part, Ready, _Outputs | None]] = deque()
        self._in_flight = 0  # nodes that run outside of dispatching, or will
        self._over = False
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()  # wake the caller
        self._caller_is_busy = False  # with a node outside of dispatching
        self._lock = threading.Lock()  # for `_handed`, `_helpers` and the first error
        self._handed: deque[tuple[_Part, Ready]] = deque()  # for any thread to run
        self._helpers = 0  # jobs of this run in the pool
        self._max_helpers = pool.num_threads - 1

    def run(self) -> None:
        """Run to the end on this thread and raise the first error."""
        context = self.context
        token = context.cancellation.register(self._cancelled)
        if token is None:
            self._fail(errors.CancelledError(None, None, "Run call was cancelled"))
        try:
            self._work()
        # An interrupt: the step's outstanding work must end before the step does.
        except BaseException as error:
            self._fail(error)
            self._work()
        finally:
            context.cancellation.deregister(token)
            self.finished.set()
        if self.error is not None:
            for part in self._parts:
                part.propagator.abandon()
            # The error is not kept in `self`: its traceback holds this frame, and the reference
            # cycle would keep the whole step alive until a garbage collection.
            failure, self.error = self.error, None
            try:
                raise failure
            finally:
                del failure
        if not all(part.propagator.done for part in self._parts):
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

    def _work(self) -> None:
        """Dispatch, run handed nodes and wait until the run is over."""
        while True:
            self._dispatch(of_caller=True)
            if self._over:
                return
            # The pool may not start a node that was handed to it: all of its threads may be waiting
            # for runs of bodies such as this one.
            handed = self._take_handed()
            if handed is not None:
                self._run_apart(*handed, of_caller=True)
                continue
            with self._pool.waiting():
                self._signals.get()

    def _dispatch(self, of_caller: bool = False) -> None:
        """Dispatch as long as there is work, unless another thread does."""
        while self._dispatching.acquire(blocking=False):
            try:
                apart = self._advance()
            finally:
                self._dispatching.release()
            if apart is not None:
                self._run_apart(*apart, of_caller)
            elif not self._arrived:
                return

    def _advance(self) -> tuple[_Part, Ready] | None:
        """Run cheap nodes until none is ready; return an expensive one."""
        arrived = self._arrived
        while True:
            while arrived:
                part, done, outputs = arrived.popleft()
                self._in_flight -= 1
                if outputs is not None and self.error is None:
                    part.propagator.finish(done, outputs, part.ready)
            idle = True
            for part in self._parts:
                if self.error is not None:
                    # The step computes and propagates nothing more; outstanding work runs out.
                    part.ready.clear()
                elif part.ready:
                    idle = False
                    apart = self._run_ready(part)
                    if apart is not None:
                        return part, apart
            if idle and not arrived:
                if not self._in_flight and not self._over:
                    self._over = True
                    self._signals.put(None)
                return None

    def _run_ready(self, part: _Part) -> Ready | None:
        """Run a partition's ready nodes; return an expensive one.

        The dispatcher also returns when another thread has completed a node.
        """
        executor, ready, arrived = part.executor, part.ready, self._arrived
        calls, kinds, costs = executor.calls, executor.kinds, executor.cost_ns
        context, finish, measures = self.context, part.propagator.finish, self._measures
        while ready and not arrived and self.error is None:
            entry = ready.popleft()
            item, state, is_dead, inputs = entry
            index = item.index
            kind = kinds[index]
            outputs: _Outputs
            if kind == _BLOCKING:
                if is_dead and not item.is_transfer:
                    finish(entry, (), ready)
                else:
                    self._start_blocking(part, entry, executor.runners[index])
                continue
            if is_dead and kind != _TRANSFER:
                outputs = (DEAD, DEAD)
            elif kind == _MERGE:
                outputs = (inputs[0], item_index(inputs[1]))
            elif kind == _EXPENSIVE or costs[index] > EXPENSIVE_NS:
                self._in_flight += 1
                if (ready or len(self._parts) > 1) and self._hand(part, entry):
                    continue
                return entry
            elif measures:
                computed = self._compute(part, entry)
                if computed is None:
                    return None
                outputs = computed
            else:
                try:
                    if is_dead:
                        # Only a send is called with dead inputs.
                        inputs = [DEAD] * len(inputs)
                    outputs = calls[index](context, inputs, state.name)
                except Exception as error:
                    self._fail(kernel_error(error, item.node.op, item.node.name, inputs))
                    return None
                except BaseException as error:  # an interrupt ends the step
                    self._fail(error)
                    return None
            finish(entry, outputs, ready)
        return None

    def _compute(self, part: _Part, entry: Ready) -> _Outputs | None:
        """Run a node, measure and record it; return None after an error."""
        item, state, is_dead, inputs = entry
        executor, index = part.executor, item.index
        try:
            start = self._now_ns()
            if is_dead:
                inputs = [DEAD] * len(inputs)
            outputs = executor.calls[index](self.context, inputs, state.name)
            elapsed = self._now_ns() - start
        except Exception as error:
            self._fail(kernel_error(error, item.node.op, item.node.name, inputs))
            return None
        except BaseException as error:  # an interrupt ends the step; `run` raises it again
            self._fail(error)
            return None
        # A first run may have imported a module, or met a busy machine.
        known = executor.cost_ns[index] or elapsed
        executor.cost_ns[index] = elapsed if elapsed < known else (3 * known + elapsed) / 4
        if self.context.collector is not None:
            self.context.collector.record(executor.device.name, item.node, start, elapsed, outputs)
        return outputs

    def _run_apart(self, part: _Part, entry: Ready, of_caller: bool = False) -> None:
        """Run a node outside of dispatching."""
        outputs = None
        try:
            if of_caller:
                self._caller_is_busy = True
            if self.error is None:
                outputs = self._compute(part, entry)
        finally:
            if of_caller:
                self._caller_is_busy = False
            self._arrived.append((part, entry, outputs))

    def _hand(self, part: _Part, entry: Ready) -> bool:
        """Hand a node to the pool, unless no thread is free."""
        if self._max_helpers < 1:
            return False
        with self._lock:
            helps = self._helpers < self._max_helpers
            if helps:
                self._helpers += 1
            self._handed.append((part, entry))
        if helps and not self._pool.offer(self._help):
            with self._lock:
                self._helpers -= 1
                if self._helpers:
                    return True
                # A helper that has ended since may have taken the node.
                if self._handed and self._handed[-1][1] is entry:
                    self._handed.pop()
                    return False
        self._signals.put(None)
        return True

    def _take_handed(self) -> tuple[_Part, Ready] | None:
        with self._lock:
            return self._handed.popleft() if self._handed else None

    def _help(self) -> None:
        """Run handed nodes on a pool thread, and dispatch their successors."""
        while True:
            self._dispatch()
            with self._lock:
                if not self._handed:
                    self._helpers -= 1
                    return
                handed = self._handed.popleft()
            self._run_apart(*handed)

    def _start_blocking(self, part: _Part, entry: Ready, runner: NodeRunner) -> None:
        item, state, is_dead, inputs = entry
        self._in_flight += 1
        called = False
        start = self._now_ns()

        def done(result: Sequence[Any] | BaseException) -> None:
            nonlocal called
            with self._lock:
                if called:
                    return
                called = True
            outputs = None
            try:
                if isinstance(result, BaseException):
                    if isinstance(result, errors.OpError):
                        result = at_node(result, item.node.name)
                    self._fail(result)
                else:
                    if self.context.collector is not None:
                        elapsed = self._now_ns() - start
                        self.context.collector.record(
                            part.executor.device.name, item.node, start, elapsed, result
                        )
                    outputs = result
            finally:
                self._arrived.append((part, entry, outputs))
                self._wake()

        try:
            runner.start(self.context, inputs, state.name, done, is_dead)
        except BaseException as error:
            done(error)

    def _wake(self) -> None:
        """Have a thread of this run dispatch.

        The current thread may belong to another run.
        """
        self._signals.put(None)
        if self._caller_is_busy and self._max_helpers > 0:
            with self._lock:
                if self._helpers >= self._max_helpers:
                    return  # a helper dispatches before it ends
                self._helpers += 1
            if not self._pool.offer(self._help):
                with self._lock:
                    self._helpers -= 1

    def _cancelled(self) -> None:
        self._fail(cancelled_step())

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self.error is not None:
                return
            self.error = error
        self._signals.put(None)
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
