"""A run with RunOptions or RunMetadata: time limit, pool, trace, partition graphs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors
from tfjit.framework.env import Clock
from tfjit.runtime.op_kernel import StepContext
from tfjit.runtime.plan import Plan, Variant
from tfjit.runtime.trace import StepStatsCollector

if TYPE_CHECKING:
    from tfjit.runtime.direct_session import DirectSession


def run_with_options(
    session: DirectSession,
    names: Sequence[str],
    values: Sequence[Any],
    fetches: Sequence[str],
    targets: Sequence[str],
    options: Any,
    metadata: Any,
    timeout_ms: int,
) -> list[Any]:
    """One step under options. Raises DeadlineExceededError when the time is over; the step is cancelled and waited for."""
    session.check_open()
    pool = session.pool(options.inter_op_thread_pool if options is not None else 0)
    plan: Plan = session.plan(names, fetches, targets)
    by_name = dict(zip(names, values, strict=True))
    arrays = plan.check([by_name[name] for name in plan.feeds])
    variant: Variant = plan.variant(tuple(getattr(a, "shape", ()) for a in arrays))
    trace = options is not None and options.trace_level > 0 and metadata is not None
    with session.step_context() as context:
        if trace:
            context.collector = StepStatsCollector(session.env.clock)

        def step() -> list[Any]:
            return variant.run(arrays, context, pool)

        results = _with_deadline(step, context, timeout_ms, session.env.clock) if timeout_ms else step()
        if trace:
            context.collector.fill(metadata)
    if metadata is not None and options is not None and options.output_partition_graphs:
        for partition in variant.partitions:
            metadata.partition_graphs.append(partition.graph.to_graph_def())
    return [results[plan.fetches.index(name)] for name in fetches]


def _with_deadline(step: Any, context: StepContext, timeout_ms: int, clock: Clock) -> list[Any]:
    outcome: list[Any] = []
    failure: list[BaseException] = []
    finished = threading.Event()

    def work() -> None:
        try:
            outcome.extend(step())
        except BaseException as error:  # handed to the waiting caller
            failure.append(error)
        finally:
            finished.set()

    thread = threading.Thread(target=work, name="tfjit-deadline", daemon=True)
    thread.start()
    try:
        late = not clock.wait(finished, timeout_ms / 1000)
    except BaseException:  # an interrupt: the step ends before the run does
        context.cancellation.cancel()
        thread.join()
        raise
    if late:
        context.cancellation.cancel()
        thread.join()
        failure.clear()
        raise errors.DeadlineExceededError(None, None, "Timed out waiting for notification")
    if failure:
        raise failure.pop()  # not kept: its traceback holds this frame
    return outcome
