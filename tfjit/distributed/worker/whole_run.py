"""Run a registered graph node by node.

Sends and receives meet at the step's rendezvous.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tfjit.distributed.protocol.interfaces import Cancel, GraphCall, GraphDone, GraphResult
from tfjit.distributed.worker.graph_run import GraphRun, fetched, given_up
from tfjit.framework import errors
from tfjit.runtime.executor.dataflow_executor import copy_out
from tfjit.runtime.plan.pipelined_plan import as_array
from tfjit.runtime.profiling.cost_model import CostModel
from tfjit.runtime.profiling.step_stats import StepStatsCollector


class WholeRun(GraphRun):
    """A run by the dataflow executor, on one thread."""

    def start(self) -> None:
        """Leave the client's feeds. Raises the errors of faulty feeds and fetches."""
        self.graph.check_fetches(self.call.fetches, self.call.step_id)
        self.graph.fed(self.call.feeds)
        self.feed(self.call.feeds)
        self._fetches: dict[str, Any] = {}

    def feed(self, values: Mapping[str, Any]) -> None:
        """Leave feeds of the client in the rendezvous."""
        known = {receive.key: receive for receive in self.graph.feeds}
        for key, value in values.items():
            if key in known:
                self.step.give(key, self.graph.checked(value, known[key]))

    def work(self) -> None:
        result = None
        try:
            result = self._run()
        except BaseException as error:  # the caller gets it, by `done`
            self.fail(error)
        self.finish(result)

    def _run(self) -> GraphResult:
        call, graph = self.call, self.graph
        options = call.options
        collector = None
        if options is not None and (
            options.record_timeline
            or options.record_costs
            or options.report_tensor_allocations_upon_oom
        ):
            collector = self.context.collector = StepStatsCollector(graph.session.env.clock)
        try:
            if graph.targets:
                graph.whole.run_in(self.context)
        except errors.ResourceExhaustedError as error:
            if collector is None or not options.report_tensor_allocations_upon_oom:
                raise
            raise error.restated(f"{error.message}\n{collector.memory_report()}") from None
        for key in call.fetches:
            self.step.receive_here(key, self._fetcher(key))
        result = GraphResult(
            {key: copy_out(fetched(self._fetches[key], key)) for key in call.fetches}
        )
        if options is not None:
            self._measured(result, options, collector)
        return result

    def _fetcher(self, key: str) -> Any:
        def received(error: BaseException | None, value: Any, is_dead: bool) -> None:
            if error is not None:
                raise error
            self._fetches[key] = value

        return received

    def _measured(
        self, result: GraphResult, options: Any, collector: StepStatsCollector | None
    ) -> None:
        """Fill in the measurements that the master has asked for."""
        from tfjit.protos import CostGraphDef, RunMetadata

        variant = self.graph.whole.variant(())
        if options.record_timeline and collector is not None:
            metadata = RunMetadata()
            collector.fill(metadata)
            result.step_stats = metadata.step_stats
        if options.record_costs and collector is not None:
            variant.show_passes()
            costs = CostModel()
            costs.update(collector.records)
            result.cost_graph = CostGraphDef()
            costs.fill(result.cost_graph, variant.partitions)
        if options.record_partition_graphs:
            variant.show_passes()
            result.partition_graphs = [part.to_graph_def() for part in variant.partitions]


class PartialRun:
    """A step that is fed and fetched in several calls.

    run: the whole graph, on a separate thread from the first call on. Thread-safe.
    """

    def __init__(self, run: WholeRun) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._over = False
        self._error: BaseException | None = None
        self._waiting: list[GraphDone] = []

    def ended(self, error: BaseException | None, result: GraphResult | None) -> None:
        """Take the end of the run."""
        with self._lock:
            self._over, self._error = True, error
            waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(error, None if error is not None else GraphResult({}))

    def when_over(self, done: GraphDone) -> None:
        """Call `done` when all nodes have run."""
        with self._lock:
            if not self._over:
                self._waiting.append(done)
                return
            error = self._error
        done(error, None if error is not None else GraphResult({}))

    def part(self, call: GraphCall, done: GraphDone) -> Cancel:
        """Feed and fetch a part.

        `done` gets the fetches, or the error of the step. Returns a function that cancels the step
        unless the part is over.
        """
        waits = True

        def over(error: BaseException | None, result: GraphResult | None) -> None:
            nonlocal waits
            waits = False
            done(error, result)

        def cancel() -> None:
            if waits:
                self.run.cancel(given_up())

        try:
            self._exchange(call, over if not call.is_last_partial_run else self._last(over))
        except BaseException as error:  # the caller gets it, by `done`
            self.run.fail(error)
            over(error, None)
        return cancel

    def _exchange(self, call: GraphCall, done: GraphDone) -> None:
        """Leave a part's feeds and ask for its fetches."""
        graph = self.run.graph
        graph.check_fetches(call.fetches, call.step_id)
        self.run.feed(call.feeds)
        parts = _Fetches(call.fetches, done)
        if not call.fetches:
            parts.over()
        for key in call.fetches:
            self.run.step.receive_here(key, parts.receiver(key))

    def _last(self, done: GraphDone) -> GraphDone:
        """Return a `done` that waits for the end of the run."""

        def fetched_all(error: BaseException | None, result: GraphResult | None) -> None:
            if error is not None:
                done(error, None)
                return
            self.when_over(lambda failure, _: done(failure, None if failure else result))

        return fetched_all


class _Fetches:
    """The fetches of one part, as they come."""

    def __init__(self, keys: Sequence[str], done: GraphDone) -> None:
        self._left = len(keys)
        self._values: dict[str, Any] = {}
        self._done: GraphDone | None = done
        self._lock = threading.Lock()

    def receiver(self, key: str) -> Any:
        """Return the callback of one receive."""

        def received(error: BaseException | None, value: Any, is_dead: bool) -> None:
            try:
                if error is not None:
                    raise error
                self._values[key] = as_array(fetched(value, key))
            except BaseException as failure:
                self._report(failure)
                return
            with self._lock:
                self._left -= 1
            if not self._left:
                self.over()

        return received

    def over(self) -> None:
        """Report the values."""
        self._report(None)

    def _report(self, error: BaseException | None) -> None:
        with self._lock:
            done, self._done = self._done, None
        if done is not None:
            done(error, None if error is not None else GraphResult(self._values))


__all__ = ["PartialRun", "WholeRun"]
