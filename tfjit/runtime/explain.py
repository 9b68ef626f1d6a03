"""What became of a signature: passes, fused groups, and which kernel serves each node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.kernels.store import store
from tfjit.runtime.lowering import Instruction

if TYPE_CHECKING:
    from tfjit.framework.shape import Shape
    from tfjit.passes.pipeline import PipelineReport
    from tfjit.runtime.calls import CallReport
    from tfjit.runtime.plan import Plan, Variant

COMPILE_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ServedNode:
    """How one node of the optimised graph runs.

    serving: native (compiled), reference (NumPy), runtime (with the session's state), view, constant, variable, feed, fetch ...
    kernels: titles of the compiled code it calls. members: user nodes it stands for. reason: why it is not compiled.
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """`str()` is the whole text. nodes: in execution order. kernel_count: distinct compiled texts besides shared tile tables."""

    signature: str
    report: PipelineReport
    nodes: tuple[ServedNode, ...]
    kernel_count: int
    arena_bytes: int
    executor: str
    refused: tuple[tuple[str, str], ...]
    calls: CallReport | None = None

    @property
    def reference_nodes(self) -> tuple[ServedNode, ...]:
        """Nodes that NumPy serves though everything is compiled."""
        return tuple(node for node in self.nodes if node.serving == "reference")

    def __str__(self) -> str:
        lines = [f"plan {self.signature}", f"run by {self.executor}", "", self.report.format(messages=False)]
        lines.append(f"{'node':<44} {'op':<24} {'served by':<12} {'us':>8} {'kB':>9}  kernel")
        for node in self.nodes:
            if node.serving == "constant":
                continue
            kernel = "; ".join(node.kernels) or node.reason
            time = f"{node.predicted_us:8.1f}" if node.predicted_us else f"{'':8}"
            size = f"{node.bytes_moved / 1000:9.1f}" if node.bytes_moved else f"{'':9}"
            lines.append(f"{node.name[-44:]:<44} {node.op:<24} {node.serving:<12} {time} {size}  {kernel}".rstrip())
        groups = [node for node in self.nodes if node.group]
        if groups:
            lines += ["", f"{len(groups)} fused groups:"]
            for node in groups:
                lines += [f"{node.name}:", *("  " + line for line in node.group.splitlines())]
        counts = Counter(node.serving for node in self.nodes)
        lines += ["", "served: " + ", ".join(f"{count} {how}" for how, count in counts.most_common())]
        lines.append(f"{self.kernel_count} compiled kernels, arena of {self.arena_bytes / 1000:.1f} kB")
        if self.calls is not None and self.calls.groups:
            calls = self.calls
            lines.append(
                f"of {calls.groups} groups {calls.shared} share another's kernel; "
                f"{calls.one_by_one} too small for one of their own run member by member"
            )
        counters = store.snapshot()
        lines.append(
            f"this process: {counters.hits} kernels loaded from disk in {counters.load_ms / 1000:.2f} s, "
            f"{counters.compiled} compiled in {counters.compile_ms / 1000:.2f} s of the compiler's"
        )
        for name, why in self.refused:
            lines.append(f"refused by the compiler: {name}: {why}")
        return "\n".join(lines) + "\n"


def explain_plan(plan: Plan, feed_shapes: tuple[Shape, ...]) -> Explanation:
    """The explanation of a plan for these feed shapes; waits for its compilation."""
    variant = plan.variant(tuple(feed_shapes))  # type: ignore[arg-type]
    variant.upgrade()
    variant.compile_done.wait(COMPILE_TIMEOUT_S)
    if variant.failure is not None:
        raise variant.failure
    return _explain(plan, variant)


def _explain(plan: Plan, variant: Variant) -> Explanation:
    nodes: list[ServedNode] = []
    titles: set[str] = set()
    if variant.lowered is not None and variant.step is not None:
        by_node: dict[str, Instruction] = {}
        for instruction in variant.lowered.instructions:
            if instruction.serving != "copy":
                by_node[instruction.node.name] = instruction
        graph = variant.partitions[0].graph
        for name, (how, why) in variant.lowered.served.items():
            node = graph.node(name)
            at = by_node.get(name)
            if at is None:
                nodes.append(ServedNode(name, node.op, how, members=tuple(node.origin), reason=why))
                continue
            serving = variant.step.serving(at)
            call = variant.step.call(at) or at.call
            kernels: tuple[str, ...] = ()
            cost = 0.0
            if call is not None and serving == "native":
                kernels = tuple(dict.fromkeys(launch.source.title or launch.entry for launch in call.launches))
                cost = sum(launch.cost_ns for launch in call.launches) / 1000
                titles.update(launch.source.digest for launch in call.launches)
            group = node.attrs.get("group")
            nodes.append(
                ServedNode(
                    name,
                    node.op,
                    serving,
                    kernels,
                    tuple(node.origin),
                    call.bytes_moved if call is not None else 0,
                    call.flops if call is not None else 0,
                    cost,
                    at.reason,
                    group.explain() if group is not None else "",
                )
            )
        executor = "a straight-line step on the caller's thread"
        arena = variant.step.arena_bytes
    else:
        for partition in variant.partitions:
            for node in partition.graph.op_nodes():
                nodes.append(ServedNode(node.name, node.op, "dataflow", members=tuple(node.origin)))
        executor = f"the dataflow executor: {variant.dynamic_reason}"
        arena = 0
    assert variant.report is not None  # the compilation is done
    return Explanation(plan.name, variant.report, tuple(nodes), len(titles), arena, executor, tuple(variant.refused()), variant.calls)
