"""Write the whole report on a signature as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.kernels.jit.store import store
from tfjit.passes.ir.region_path import node_path
from tfjit.passes.manager.pass_context import LOOP_PROGRAM

if TYPE_CHECKING:
    from tfjit.passes.pipeline import PipelineReport
    from tfjit.runtime.profiling.explain import ExplainedNode, Explanation, Measured


def details_text(told: Explanation) -> str:
    """Return the whole report: each pass, node, group and remark."""
    lines = [
        f"plan {told.signature}",
        f"run by {told.executor}",
        *told.devices_text,
        "",
        told.report.format(messages=False),
    ]
    lines.append(f"{'node':<44} {'op':<24} {'served by':<12} {'us':>8} {'kB':>9}  kernel")
    for node in told.nodes:
        if node.serving == "constant":
            continue
        kernel = "; ".join(node.kernels) or node.reason
        time = f"{node.predicted_us:8.1f}" if node.predicted_us else f"{'':8}"
        size = f"{node.bytes_moved / 1000:9.1f}" if node.bytes_moved else f"{'':9}"
        lines.append(
            (
                f"{node.name[-44:]:<44} {node.op:<24} {node.serving:<12} {time} {size}  {kernel}"
            ).rstrip()
        )
    if told.measured is not None:
        lines += ["", *_measured_lines(told.nodes, told.measured)]
    elif told.unmeasured:
        lines += ["", f"not measured: {told.unmeasured}"]
    groups = [node for node in told.nodes if node.group]
    if groups:
        lines += ["", f"{len(groups)} fused groups and loops:"]
        for node in groups:
            lines += [f"{node.name}:", *("  " + line for line in node.group.splitlines())]
    if told.writers:
        lines += ["", "kernels by the module that generates them:"]
        lines += [f"  {writer}: {', '.join(titles)}" for writer, titles in told.writers]
    if told.bundles:
        lines += ["", f"{len(told.bundles)} bundles, whose launches the threads share out:"]
        lines += [
            f"  {len(names)}: {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"
            for names in told.bundles
        ]
    for parts, divided in told.divisions:
        lines += [
            "",
            f"rows divided into {parts} parts, one a thread from beginning to end:",
            f"  {', '.join(divided)}",
        ]
    reasons = remarks(told.report)
    if reasons:
        lines += ["", "remarks of the passes:"]
        for where, text, names in reasons:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            # a remark about the whole graph names no node
            of = f"{', '.join(names[:3])}{more}: " if any(names) else ""
            lines.append(f"  {where}: {of}{text}")
    counts = Counter(node.serving for node in told.nodes)
    lines += [
        "",
        "served: " + ", ".join(f"{count} {how}" for how, count in counts.most_common()),
    ]
    lines.append(
        f"{told.kernel_count} compiled kernels, arena of {told.arena_bytes / 1000:.1f} kB; "
        f"with outputs of {told.output_bytes / 1000:.1f} kB and constants of "
        f"{told.constant_bytes / 1000:.1f} kB at most {told.peak_bytes / 1000:.1f} kB a run"
    )
    if told.calls is not None and told.calls.groups:
        calls = told.calls
        lines.append(
            f"of {calls.groups} groups {calls.shared} share another's kernel; "
            f"{calls.unfused} too small for a separate one run member by member"
        )
    lines.append(str(told.held))
    lines.append(
        f"this graph: built in {told.built_s:.2f} s; {told.compiled_here} of its kernels "
        f"compiled in {told.compile_s:.2f} s of the compiler's time"
    )
    counters = store.snapshot()
    lines.append(
        f"this process: {counters.hits} kernels loaded from disk in "
        f"{counters.load_ms / 1000:.2f} s, {counters.compiled} compiled in "
        f"{counters.compile_ms / 1000:.2f} s of the compiler's time"
    )
    for name, why in told.refused:
        lines.append(f"refused by the compiler: {name}: {why}")
    return "\n".join(lines) + "\n"


def _measured_lines(nodes: Sequence[ExplainedNode], measured: Measured) -> list[str]:
    """Return a table of the timed nodes, the longest first."""
    timed = sorted(
        (node for node in nodes if node.measured_us is not None),
        key=lambda node: -(node.measured_us or 0.0),
    )
    total = sum(node.measured_us or 0.0 for node in timed)
    lines = [
        f"measured over {measured.runs} runs on {measured.threads} threads; {measured.limits}",
        f"{'kernel of':<44} {'us':>9} {'predicted':>9} {'share':>6} {'chunks':>6} {'GB/s':>7} "
        f"{'GF/s':>7} {'of limit':>9}",
    ]
    for node in timed:
        us = max(node.measured_us or 0.0, 1e-3)
        least, what = node.limit_us(measured.limits, measured.threads)
        limit = f"{100 * least / us:3.0f}% {what}" if node.bytes_moved or node.flops else ""
        predicted = f"{node.predicted_us:9.1f}" if node.predicted_us else f"{'':9}"
        lines.append(
            f"{node.name[-44:]:<44} {us:9.1f} {predicted} {100 * us / max(total, 1e-3):5.1f}% "
            f"{node.chunks:6} "
            f"{node.bytes_moved / us / 1e3:7.1f} {node.flops / us / 1e3:7.1f} {limit:>9}"
        )
    lines.append(
        f"{'all kernels':<44} {total:9.1f} {sum(node.predicted_us for node in timed):9.1f}"
    )
    lines.append(f"{'a run of the step':<44} {measured.step_us:9.1f}")
    return lines


def remarks(report: PipelineReport) -> list[tuple[str, str, list[str]]]:
    """Return (pass, text, nodes it was said of), once for each text."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in report.passes:
        if LOOP_PROGRAM in entry.where:
            continue  # a trial on a copy; the pass itself reports the outcome
        region = "" if "/device:" in entry.where else entry.where
        for node, text in entry.messages:
            found.setdefault((entry.name, text), []).append(node_path(region, node))
    return [(name, text, nodes) for (name, text), nodes in found.items()]
