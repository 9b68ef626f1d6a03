"""The report on a signature: passes, fused groups, and each node's kernel."""

from __future__ import annotations

import html
import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.kernels.executor.roofline import MachineLimits, machine_limits
from tfjit.kernels.jit.store import store
from tfjit.passes.text.value_text import format_value
from tfjit.runtime.lowering.lowered import Instruction
from tfjit.runtime.profiling.dataflow_timing import dataflow_unmeasurable, measure_dataflow
from tfjit.runtime.profiling.explain_details import details_text, remarks
from tfjit.runtime.profiling.explain_summary import summary_text
from tfjit.runtime.profiling.kernel_timing import (
    StepTimes,
    measure_variant,
    sample_feed,
    unmeasurable,
)

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.pipeline import PipelineReport
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.plan.variant import Variant
    from tfjit.runtime.schedule.kernel_selection import CallReport
    from tfjit.runtime.step.step import Step

COMPILE_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """The execution of one node of the optimised graph.

    name: the node's path, unique among all regions. serving: native (compiled), reference (NumPy),
    runtime (with the session's state), view, constant, variable, feed, fetch ... kernels: titles
    of the compiled code it calls. members: user nodes it represents. reason: why it is not
    compiled. device: full name. launches: of its compiled code in a run.
    """

    name: str
    op: str
    serving: str
    kernels: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    bytes_moved: int = 0
    flops: int = 0
    predicted_us: float = 0.0
    reason: str = ""
    group: str = ""
    measured_us: float | None = None
    chunks: int = 1
    device: str = ""
    launches: int = 0

    def limit_us(self, limits: MachineLimits, threads: int) -> tuple[float, str]:
        """Return this machine's lower bound of the time, and its cause.

        The cause is "bytes" or "flops".
        """
        used = min(self.chunks, threads)
        by_bytes, by_flops = (
            limits.bytes_us(self.bytes_moved, used),
            limits.flops_us(self.flops, used),
        )
        return (by_bytes, "bytes") if by_bytes >= by_flops else (by_flops, "flops")


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of a measurement.

    step_us: a whole run, median of `runs`.
    """

    step_us: float
    runs: int
    threads: int
    limits: MachineLimits


@dataclass(frozen=True, slots=True)
class Held:
    """The memory of all plans of the session.

    bytes and limit_bytes: of variants; arenas are shared by all of them.
    """

    variants: int = 0
    bytes: int = 0
    limit_bytes: int = 0
    evicted: int = 0
    arenas: int = 0
    arena_bytes: int = 0

    def __str__(self) -> str:
        return (
            f"this session: {self.variants} variants of plans hold {self.bytes / 1e6:.1f} of "
            f"{self.limit_bytes / 1e6:.0f} MB, "
            f"{self.evicted} gave way; {self.arenas} shared arenas of {self.arena_bytes / 1e6:.1f} "
            "MB"
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Hold the whole report; `str()` is its summary, `details()` its text.

    nodes: in execution order. kernel_count: distinct compiled texts besides shared tile tables.
    output_bytes: fetched arrays that compiled code writes; constant_bytes: constants and packed
    weights that stay with the plan. unmeasured: the reason for missing times, if times were
    requested. bundles: paths of nodes with launches that run at the same time. divisions: (parts,
    nodes) of loops that the threads run part by part of their rows. devices: full name and backend
    of each partition's device. writers: (module path, titles of the kernels that it generated).
    built_s: processor time of this graph's passes, builders and layouts. compiled_here: those of
    its kernels that this process had compiled, compile_s: the compiler's seconds for them.
    plan, variant: those explained, for the page that shows them; None where nothing runs.
    """

    signature: str
    report: PipelineReport
    nodes: tuple[ExplainedNode, ...]
    kernel_count: int
    arena_bytes: int
    executor: str
    refused: tuple[tuple[str, str], ...]
    calls: CallReport | None = None
    measured: Measured | None = None
    output_bytes: int = 0
    constant_bytes: int = 0
    held: Held = Held()
    bundles: tuple[tuple[str, ...], ...] = ()
    divisions: tuple[tuple[int, tuple[str, ...]], ...] = ()
    unmeasured: str = ""
    devices: tuple[tuple[str, str], ...] = ()
    writers: tuple[tuple[str, tuple[str, ...]], ...] = ()
    built_s: float = 0.0
    compile_s: float = 0.0
    compiled_here: int = 0
    plan: Plan | None = field(default=None, repr=False, compare=False)
    variant: Variant | None = field(default=None, repr=False, compare=False)

    @property
    def peak_bytes(self) -> int:
        """Return the most memory that a run holds besides feeds and variables."""
        return self.arena_bytes + self.output_bytes + self.constant_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON's types."""
        nodes = []
        for node in self.nodes:
            entry = asdict(node)
            if self.measured is not None and node.measured_us is not None:
                entry["limit_us"], entry["limit"] = node.limit_us(
                    self.measured.limits, self.measured.threads
                )
            nodes.append(entry)
        return {
            "signature": self.signature,
            "executor": self.executor,
            "devices": [{"name": name, "backend": backend} for name, backend in self.devices],
            "passes": [
                {
                    "name": p.name,
                    "us": p.elapsed_us,
                    "ops_before": p.ops_before,
                    "ops_after": p.ops_after,
                }
                for p in self.report.passes
            ],
            "reasons": [
                {"pass": where, "text": text, "nodes": names}
                for where, text, names in remarks(self.report)
            ],
            "nodes": nodes,
            "bundles": [list(names) for names in self.bundles],
            "divisions": [
                {"parts": parts, "nodes": list(names)} for parts, names in self.divisions
            ],
            "kernel_count": self.kernel_count,
            "writers": {writer: list(titles) for writer, titles in self.writers},
            "arena_bytes": self.arena_bytes,
            "output_bytes": self.output_bytes,
            "constant_bytes": self.constant_bytes,
            "peak_bytes": self.peak_bytes,
            "built_s": self.built_s,
            "compiled_here": self.compiled_here,
            "compile_s": self.compile_s,
            "session": asdict(self.held),
            "refused": [{"node": name, "reason": why} for name, why in self.refused],
            "measured": asdict(self.measured) if self.measured is not None else None,
            "unmeasured": self.unmeasured,
        }

    @property
    def reference_nodes(self) -> tuple[ExplainedNode, ...]:
        """Return the nodes that NumPy serves in compiled plans."""
        return tuple(node for node in self.nodes if node.serving == "reference")

    @property
    def devices_text(self) -> list[str]:
        """Return a line for each partition: its device, nodes and backend."""
        counts = Counter(node.device for node in self.nodes)
        return [
            f"on {name}, {counts[name]} nodes by the {backend} backend"
            for name, backend in self.devices
        ]

    def summary(self) -> str:
        """Return a page on time, memory, and rewrites left undone."""
        return summary_text(self)

    def details(self) -> str:
        """Return the whole report: each pass, node, group and remark."""
        return details_text(self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Return the page of the plan, for notebooks.

        Once the session is closed, it is the summary.
        """
        page = importlib.import_module("tfjit.lab.page.view")  # of a layer above
        try:
            shown: str = page.page_of(self)._repr_html_()
        except errors.CancelledError:
            return f"<pre>{html.escape(self.summary())}</pre>"
        return shown


def explain_plan(
    plan: Plan,
    feed_shapes: tuple[Shape, ...],
    measure: bool = False,
    values: Mapping[str, np.ndarray] | None = None,
) -> Explanation:
    """Return the explanation of a plan for these feed shapes.

    Waits for its compilation. measure: time each kernel, with `values` by feed.
    """
    variant = plan.variant(tuple(feed_shapes))  # type: ignore[arg-type]
    variant.upgrade()
    variant.compile_done.wait(COMPILE_TIMEOUT_S)
    if variant.failure is not None:
        raise variant.failure
    variant.show_passes()
    times, unmeasured = None, ""
    if measure:
        times, unmeasured = _measure(plan, variant, feed_shapes, values or {})
    return _explain(plan, variant, times, unmeasured)


def explain_nothing(measure: bool = False) -> Explanation:
    """Return the explanation of a run with no computation.

    Such a run has no fetches and targets, or all its fetches are fed.
    """
    from tfjit.passes.pipeline import PipelineReport

    why = "there is nothing to compute"
    return Explanation(
        "->", PipelineReport(), (), 0, 0, f"nothing: {why}", (), unmeasured=why if measure else ""
    )


def _measure(
    plan: Plan, variant: Variant, feed_shapes: Sequence[Shape], given: Mapping[str, np.ndarray]
) -> tuple[StepTimes | None, str]:
    """Return (times, "") or (None, the reason for no times).

    Raises the errors of a run with the caller's values.
    """
    static = variant.step is not None and variant.lowered is not None
    reason = unmeasurable(variant) if static else dataflow_unmeasurable(variant)
    if reason:
        return None, reason
    made_up = [name for name in plan.feeds if name not in given]
    feeds = [
        given[name]
        if name in given
        else sample_feed(
            tuple(shape or ()),  # type: ignore[arg-type]
            dtype,  # type: ignore[arg-type]
        )
        for name, shape, dtype in zip(plan.feeds, feed_shapes, plan.np_dtypes, strict=True)
    ]
    try:
        if static:
            return measure_variant(plan, variant, feeds), ""
        return measure_dataflow(plan, variant, feeds, COMPILE_TIMEOUT_S), ""
    except errors.FailedPreconditionError as error:
        return None, f"a run fails: {error.message}"
    except errors.OpError as error:
        if not made_up:
            raise
        return (
            None,
            f"a run with made-up values fails, give those of {', '.join(made_up)} in feed_dict: "
            f"{error.message}",
        )


def explained_nodes(
    variant: Variant, step: Step, times: StepTimes | None = None
) -> list[ExplainedNode]:
    """Return each node's service by a step, in execution order."""
    assert variant.lowered is not None
    nodes: list[ExplainedNode] = []
    by_node: dict[str, Instruction] = {}
    for instruction in variant.lowered.instructions:
        if instruction.serving != "copy" and instruction.role in (None, "loop", "branch"):
            by_node[instruction.node_path] = instruction
    graph, device = variant.partitions[0].graph, variant.partitions[0].device
    kernel_kinds = dict(variant.lowered.kernel_kinds)
    # nodes in bodies, after the graph's own nodes
    for name, instruction in by_node.items():
        kernel_kinds.setdefault(name, (instruction.serving, instruction.reason))
    for name, (how, why) in kernel_kinds.items():
        owner = by_node.get(name)
        node = owner.node if owner is not None else graph.node(name)
        if owner is None:
            origin = tuple(node.origin)
            nodes.append(
                ExplainedNode(name, node.op, how, members=origin, reason=why, device=device)
            )
            continue
        serving = step.serving(owner)
        call = step.call(owner) or owner.call
        kernels: tuple[str, ...] = ()
        cost = 0.0
        if call is not None and serving == "native":
            kernels = tuple(
                dict.fromkeys(launch.source.title or launch.entry for launch in call.launches)
            )
            cost = sum(launch.cost_ns for launch in call.launches) / 1000
        timed = times.by_node.get(name) if times is not None else None
        nodes.append(
            ExplainedNode(
                name,
                node.op,
                serving,
                kernels,
                tuple(node.origin),
                call.bytes_moved if call is not None else 0,
                call.flops if call is not None else 0,
                cost,
                owner.reason,
                _group_text(node, owner.compute),
                timed.us if timed is not None else None,
                timed.chunks if timed is not None else 1,
                device,
                len(call.launches) if call is not None and serving == "native" else 0,
            )
        )
    return nodes


def _kernels(step: Step, instructions: Sequence[Instruction]) -> list[KernelSource]:
    """Return the distinct texts of a step's launches."""
    calls = [step.call(i) or i.call for i in instructions if step.serving(i) == "native"]
    return list(
        dict.fromkeys(
            launch.source for call in calls if call is not None for launch in call.launches
        )
    )


def _writers(kernels: Sequence[KernelSource]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the titles of kernels by their writer, in order."""
    found: dict[str, dict[str, None]] = {}
    for source in kernels:
        if source.writer:
            found.setdefault(source.writer, {})[source.title or source.entries[0]] = None
    return tuple((writer, tuple(titles)) for writer, titles in sorted(found.items()))


def _explain(plan: Plan, variant: Variant, times: StepTimes | None, unmeasured: str) -> Explanation:
    nodes: list[ExplainedNode] = []
    kernels: list[KernelSource] = []
    if variant.lowered is not None and variant.step is not None:
        nodes = explained_nodes(variant, variant.step, times)
        kernels = _kernels(
            variant.step,
            [i for i in variant.lowered.instructions if i.role is None and i.serving != "copy"],
        )
        executor = "a straight-line step on the caller's thread"
        arena = variant.step.arena_bytes
    else:
        for partition in variant.partitions:
            for node in partition.graph.op_nodes():
                group = next(
                    (
                        node.attrs[name]
                        for name in ("group", "program", "offloaded")
                        if name in node.attrs
                    ),
                    None,
                )
                timed = times.by_node.get(node.name) if times is not None else None
                nodes.append(
                    ExplainedNode(
                        node.name,
                        node.op,
                        "dataflow",
                        members=tuple(node.origin),
                        group=group.explain() if group is not None else "",
                        measured_us=timed.us if timed is not None else None,
                        device=partition.device,
                    )
                )
        executor = f"the dataflow executor: {variant.dynamic_reason}"
        arena = 0
    assert variant.report is not None  # the compilation is done
    step = variant.step if variant.lowered is not None else None
    compile_ms = [ms for ms in map(store.compile_ms, kernels) if ms is not None]
    return Explanation(
        plan.name,
        variant.report,
        tuple(nodes),
        len(kernels),
        arena,
        f"{executor} ({plan.note})" if plan.note else executor,
        tuple(variant.refused()),
        variant.calls,
        Measured(times.step_us, times.runs, times.threads, machine_limits())
        if times is not None
        else None,
        step.output_bytes if step is not None else 0,
        step.constant_bytes if step is not None else 0,
        _held(plan),
        tuple(tuple(i.node_path for i in members) for members in step.bundles)
        if step is not None
        else (),
        step.divisions if step is not None else (),
        unmeasured,
        tuple(
            (part.device, plan.session.devices.lookup(part.device).backend.name)
            for part in variant.partitions
        ),
        _writers(kernels),
        variant.built_ms / 1000,
        sum(compile_ms) / 1000,
        len(compile_ms),
        plan,
        variant,
    )


def _group_text(node: Node, compute: object) -> str:
    """Return a paragraph on a composed node; "" for other nodes.

    compute: its Python kernel; that of an offloaded graph knows the programs.
    """
    if "offloaded" in node.attrs:
        explain = getattr(compute, "explain", None) or node.attrs["offloaded"].explain
        return str(explain())
    group, program = node.attrs.get("group"), node.attrs.get("program")
    if program is not None:
        return f"{program.explain()}\n{format_value(program)}"
    return group.explain() if group is not None else ""


def _held(plan: Plan) -> Held:
    budget, arenas = plan.session.budget, plan.session.arenas
    return Held(
        len(budget),
        budget.held_bytes,
        budget.limit_bytes,
        budget.evicted,
        arenas.count,
        arenas.nbytes,
    )
