"""Time each kernel of a step in place.

Times are medians over whole runs with the table executor's trace on.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework.op_defs.op_traits import ASSIGN, ASSIGN_ADD, READS_STATE
from tfjit.kernels.executor import table_executor
from tfjit.runtime.lowering.lowering import SHARDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfjit.runtime.lowering.lowered import Instruction
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant
    from tfjit.runtime.resources.variables_and_resources import SessionState, Variable
    from tfjit.runtime.step.native_run import NativeRun

MEASURE_S: Final = 0.5
_MIN_RUNS, _MAX_RUNS = 5, 500
WARM_UP_RUNS: Final = 3
# Runtime kernels that are undone by restoring the variables.
_REVERSIBLE: Final = ASSIGN | ASSIGN_ADD | READS_STATE


@dataclass(slots=True)
class NodeTime:
    """One node's part of a step.

    us: median; of a bundle its predicted part, of a division the longest shard. chunks: of its
    largest launch.
    """

    us: float = 0.0
    chunks: int = 1


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The times of a step's kernels.

    by_node: path of the node -> time. step_us: a whole run without the trace. runs: number of
    timed runs.
    threads: intra-op.
    """

    by_node: dict[str, NodeTime]
    step_us: float
    runs: int
    threads: int


def sample_feed(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return a feed value to measure with.

    Uniform in [0.1, 1) for numbers with a fraction, zeros (valid indices) and empty strings else.
    """
    if dtype.kind == "O":
        return np.full(shape, b"", object)
    if dtype.kind in "iub":
        return np.zeros(shape, dtype)
    return np.random.default_rng(0).uniform(0.1, 1.0, shape).astype(dtype)


def unmeasurable(variant: Variant) -> str:
    """Return the reason against timing a static step, else ""."""
    assert variant.lowered is not None
    for instruction in variant.lowered.instructions:
        if instruction.serving == "runtime" and not instruction.node.has_trait(_REVERSIBLE):
            return (
                f"{instruction.node.name} ({instruction.node.op}) has effects that a "
                "measurement could not undo"
            )
    return ""


def measure_variant(plan: Plan, variant: Variant, feeds: Sequence[np.ndarray]) -> StepTimes:
    """Time the kernels of a static step.

    Variables and random streams are as before afterwards; runs at the same time see them change.
    feeds: in the plan's order. Needs: `unmeasurable` returns "". Raises the errors of a run.
    """
    step, lowered = variant.step, variant.lowered
    assert step is not None
    assert lowered is not None
    session = plan.session
    arrays = plan.check(feeds)
    variables = [
        value.variable
        for instruction in lowered.instructions
        for value in instruction.inputs
        if value.root.variable is not None and value.variable is not None
    ]
    names = {instruction.node.name for instruction in lowered.instructions}
    with restored(variables, names, session.state), session.step_context() as context:
        instance = step.instance()
        try:
            return _measure(step, instance, lambda: instance(arrays, context))
        finally:
            step.free.append(instance)


def run_count(run_s: float) -> int:
    """Return the number of runs to time, for runs of `run_s` seconds."""
    return int(min(_MAX_RUNS, max(_MIN_RUNS, MEASURE_S / 2 / max(run_s, 1e-6))))


def _measure(step: Any, instance: Callable[..., Any], run: Callable[[], Any]) -> StepTimes:
    for _ in range(WARM_UP_RUNS):
        run()
    start = time.perf_counter()
    run()
    count = run_count(time.perf_counter() - start)
    whole = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        whole.append(time.perf_counter() - start)
    layout, scope = step.layout, instance.__globals__
    ticks_per_us = table_executor.ticks_per_second() * 1e-6
    shards = [shard for _, shard in layout.table_words]
    tables = [scope[f"t{k}"] for k in range(len(layout.native_runs))] + [
        table.words for table in scope["parts"]
    ]
    native_runs = [*layout.native_runs, *(shard.native_run for shard in shards)]
    stamps = [np.zeros(1 + 2 * len(native_run.rows), np.int64) for native_run in native_runs]
    python_kernels = {
        f"k{position}": instruction for position, instruction in _python_segments(layout)
    }
    elapsed: dict[str, list[float]] = {name: [] for name in python_kernels}
    rows: list[list[np.ndarray]] = [[] for _ in stamps]
    kept = {name: scope[name] for name in python_kernels}
    try:
        for table, buffer in zip(tables, stamps, strict=True):
            table_executor.set_trace(table, buffer.ctypes.data)
        for name, kernel in kept.items():
            scope[name] = _timed(kernel, elapsed[name])
        for _ in range(count):
            for buffer in stamps:
                buffer[:] = 0
            for totals in elapsed.values():
                totals.append(0.0)
            run()
            for stamped, buffer in zip(rows, stamps, strict=True):
                stamped.append(buffer[1::2].copy())
    finally:
        for table in tables:
            table_executor.set_trace(table, 0)
        scope.update(kept)
    found: dict[str, NodeTime] = {}
    for native_run, stamped in zip(layout.native_runs, rows):
        _add_rows(found, native_run, np.median(np.array(stamped), axis=0) / ticks_per_us)
    for placed in layout.shards.values():
        longest: dict[str, NodeTime] = {}
        for shard in placed:
            times: dict[str, NodeTime] = {}
            stamped = rows[len(layout.native_runs) + shards.index(shard)]
            _add_rows(times, shard.native_run, np.median(np.array(stamped), axis=0) / ticks_per_us)
            for name, entry in times.items():
                longest[name] = max(longest.get(name, entry), entry, key=lambda e: e.us)
        for name, entry in longest.items():
            total = found.setdefault(name, NodeTime())
            total.us += entry.us
            total.chunks = max(total.chunks, len(placed))
    for name, instruction in python_kernels.items():
        found.setdefault(instruction.node_path, NodeTime()).us += (
            statistics.median(elapsed[name]) * 1e6
        )
    return StepTimes(found, statistics.median(whole) * 1e6, count, layout.env.threads)


def _add_rows(found: dict[str, NodeTime], native_run: NativeRun, elapsed_us: np.ndarray) -> None:
    """Add the time of each table row to its nodes.

    Nodes of a row that runs shards get the shards' own times.
    """
    for owned, us in zip(native_run.owners, elapsed_us.tolist(), strict=True):
        total = sum(one.launch.cost_ns for one in owned)
        for one in owned:
            if one.instruction.spec.op != SHARDS:
                entry = found.setdefault(one.instruction.node_path, NodeTime())
                entry.us += us * one.launch.cost_ns / total if len(owned) > 1 else us
                entry.chunks = max(entry.chunks, one.chunks)


def _python_segments(layout: Any) -> list[tuple[int, Instruction]]:
    """Return the Python kernels between native runs with their positions.

    The markers of loops and branches are left out.
    """
    return [
        segment
        for segment in layout.segments
        if isinstance(segment, tuple) and segment[1].role is None
    ]


def _timed(kernel: Callable[..., Any], elapsed: list[float]) -> Callable[..., Any]:
    """Return the kernel, adding its time to the current run's.

    A loop calls it often, an untaken branch never.
    """

    def timed(*args: Any) -> Any:
        start = time.perf_counter()
        result = kernel(*args)
        elapsed[-1] += time.perf_counter() - start
        return result

    return timed


@contextlib.contextmanager
def restored(
    variables: Iterable[Variable], names: Collection[str], state: SessionState
) -> Iterator[None]:
    """Put variables, and the random streams of the named nodes, back afterwards."""
    values = [
        (variable, variable.value, None if variable.value is None else variable.value.copy())
        for variable in {id(variable): variable for variable in variables}.values()
    ]
    streams = [(array, array.copy()) for name, array in state.node_states() if name in names]
    try:
        yield
    finally:
        for variable, array, copy in values:
            if array is not None and copy is not None:
                np.copyto(array, copy)
            variable.value = array
        for array, copy in streams:
            np.copyto(array, copy)
