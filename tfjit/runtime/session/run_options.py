"""A run with options or measurements.

It has RunOptions or RunMetadata, a time limit, or a session that measures its steps.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors
from tfjit.framework.env import Clock
from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds
from tfjit.runtime.host.inter_op_pool import ThreadPool, run_handler_pool
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.profiling.step_stats import StepStatsCollector

if TYPE_CHECKING:
    from tfjit.runtime.session.direct_session import DirectSession


def run_with_options(
    session: DirectSession,
    names: Sequence[str],
    values: Sequence[Any],
    fetches: Sequence[str],
    targets: Sequence[str],
    options: Any,
    metadata: Any,
    timeout_ms: int,
    connections: tuple[tuple[str, str], ...] = (),
    ends: DeviceEnds = ON_HOST,
) -> list[Any]:
    """Return one step under options; `metadata` is filled in.

    Raises DeadlineExceededError when the time is over (the step is cancelled and waited for),
    InvalidArgumentError for options that the session excludes, UnimplementedError for a debugger's
    watches.
    """
    session.check_open()
    pool, priority = _pool(session, options)
    check_run_options(session.config, options)
    plan: Plan = session.plan(names, fetches, targets, connections, ends)
    by_name = dict(zip(names, values, strict=True))
    ordered = [by_name[name] for name in plan.feeds]
    plan = plan.for_values(ordered)
    arrays = plan.check(ordered)
    observer = session.observer
    due = observer.begin(plan) if observer is not None else ()
    variant: Variant = plan.variant(tuple(getattr(a, "shape", ()) for a in arrays))
    trace = options is not None and options.trace_level > 0 and metadata is not None
    report = options is not None and options.report_tensor_allocations_upon_oom
    with session.step_context() as context, pool.working(priority):
        collector = None
        if trace or report or due:
            collector = context.collector = StepStatsCollector(session.env.clock)

        def step() -> list[Any]:
            try:
                return variant.run(arrays, context, pool)
            except errors.ResourceExhaustedError as error:
                if collector is None or not report:
                    raise
                raise error.restated(f"{error.message}\n{collector.memory_report()}") from None

        clock = session.env.clock
        began_ns = clock.monotonic_ns()
        results = _with_deadline(step, context, timeout_ms, clock) if timeout_ms > 0 else step()
        elapsed_s = (clock.monotonic_ns() - began_ns) / 1e9
    if observer is not None:
        observer.end(plan, variant, due, collector, elapsed_s, metadata)
    if metadata is not None:
        if collector is not None and (trace or "cost model" in due):
            collector.fill(metadata)
        if options is not None and options.output_partition_graphs:
            variant.show_passes()
            for partition in variant.partitions:
                metadata.partition_graphs.append(partition.graph.to_graph_def())
        if session.config is not None and session.config.experimental.HasField("session_metadata"):
            metadata.session_metadata.CopyFrom(session.config.experimental.session_metadata)
    return [results[plan.fetches.index(name)] for name in fetches]


def _pool(session: DirectSession, options: Any) -> tuple[ThreadPool, int]:
    """Return a run's pool and its priority there."""
    if options is None:
        return session.pool(), 0
    chosen = session.pool(options.inter_op_thread_pool)
    if options.experimental.use_run_handler_pool:
        return run_handler_pool(), options.experimental.run_handler_pool_options.priority
    return chosen, 0


def check_run_options(config: Any, options: Any) -> None:
    """Check that a session with this config allows the options.

    Raises InvalidArgumentError or UnimplementedError for others.
    """
    if options is None:
        return
    if (
        options.output_partition_graphs
        and config is not None
        and config.experimental.disable_output_partition_graphs
    ):
        raise errors.InvalidArgumentError(
            None,
            None,
            "RunOptions.output_partition_graphs() is not supported when "
            "disable_output_partition_graphs is true.",
        )
    if options.debug_options.debug_tensor_watch_opts:
        watched = options.debug_options.debug_tensor_watch_opts[0].node_name
        raise errors.UnimplementedError(
            None,
            None,
            f"RunOptions.debug_options: tfjit has no debugger to watch {watched!r} with. Fetch the "
            "tensor instead, or set TFJIT_DUMP for "
            "the graphs after each pass.",
        )


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
    thread.join()
    if failure:
        raise failure.pop()  # not kept: its traceback holds this frame
    return outcome
