"""Write a page on a signature: time, memory, rewrites left undone."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from tfjit.passes.manager.pass_registry import PASSES
from tfjit.runtime.profiling.explain_details import remarks

if TYPE_CHECKING:
    from tfjit.runtime.profiling.explain import ExplainedNode, Explanation

_TOP: Final = 12  # kernels with a line of their own
_GROUPS: Final = 4
_CAUSES: Final = 8  # causes with a line of their own
_NAME_COLUMNS: Final = 46
# the heads of remarks that say why a rewrite was left undone; the cause follows
_UNDONE: Final = re.compile(
    r"(?:stays\b[^:]*|group given up|no attention): (?P<cause>.*)|(?P<whole>stays .*|.* fuses "
    r"nothing)",
    re.DOTALL,
)
_FUSION: Final = frozenset({"fuse", "compile_loops"})


def summary_text(told: Explanation) -> str:
    """Return the page."""
    parts = [
        [f"plan {told.signature}", f"run by {told.executor}", *told.devices_text],
        _time_lines(told),
        _group_lines(told),
        _undone_lines(told),
        _uncompiled_lines(told),
        _own_pass_lines(told),
        _memory_lines(told),
        _pass_lines(told),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _time_of(node: ExplainedNode) -> float:
    return node.predicted_us if node.measured_us is None else node.measured_us


def _time_lines(told: Explanation) -> list[str]:
    """Return the longest kernels, and the sums by kind of kernel."""
    measured = told.measured
    timed = [
        node
        for node in told.nodes
        if (node.predicted_us if measured is None else node.measured_us or 0.0) > 0
    ]
    if not timed:
        return [f"not measured: {told.unmeasured}"] if told.unmeasured else []
    timed.sort(key=lambda node: -_time_of(node))
    total = sum(map(_time_of, timed))
    if measured is None:
        lines = [f"where the time goes: {total:.1f} us predicted for one thread"]
        if told.unmeasured:
            lines.append(f"not measured: {told.unmeasured}")
    else:
        lines = [
            f"where the time goes: a run of the step takes {measured.step_us:.1f} us, its kernels "
            f"{total:.1f} us, on {measured.threads} threads (median of {measured.runs} runs)"
        ]
    head = "" if measured is None else f" {'predicted  of limit':<19}"
    lines.append(f"  {'share':>6} {'us':>9}{head} kernel of")
    for node in timed[:_TOP]:
        lines.append(_kernel_line(told, node, total))
    rest = timed[_TOP:]
    if rest:
        left = sum(map(_time_of, rest))
        gap = " " * len(head)
        lines.append(f"  {100 * left / total:5.1f}% {left:9.1f}{gap} {len(rest)} other kernels")
    kinds: defaultdict[str, list[float]] = defaultdict(list)
    for node in timed:
        kinds[_kind(node)].append(_time_of(node))
    shares = sorted(((sum(times), kind, len(times)) for kind, times in kinds.items()), reverse=True)
    text = ", ".join(f"{kind} {100 * us / total:.0f}% ({n})" for us, kind, n in shares[:6])
    lines.append(f"  by kind: {text}{', ...' if len(shares) > 6 else ''}")
    return lines


def _kernel_line(told: Explanation, node: ExplainedNode, total: float) -> str:
    us, beside = _time_of(node), ""
    if told.measured is not None:
        beside = f"{node.predicted_us:9.1f}" if node.predicted_us else ""
        if node.bytes_moved or node.flops:
            least, cause = node.limit_us(told.measured.limits, told.measured.threads)
            beside = f"{beside:<9} {100 * least / max(us, 1e-3):3.0f}% {cause}"
        beside = f" {beside:<19}"
    kind = _kind(node)
    return f"  {100 * us / total:5.1f}% {us:9.1f}{beside} {_short(node.name)} ({kind})"


def _kind(node: ExplainedNode) -> str:
    """Return the kind of a fused group, or else the op type."""
    first = node.group.partition("\n")[0]
    found = re.match(r"(\w+) group of \d+ nodes", first)
    return f"{found[1]} group" if found else node.op


def _short(name: str) -> str:
    return name if len(name) <= _NAME_COLUMNS else f"...{name[3 - _NAME_COLUMNS :]}"


def _group_lines(told: Explanation) -> list[str]:
    groups = [node for node in told.nodes if node.group]
    if not groups:
        return []
    members = sum(max(len(node.members), 1) for node in groups)
    compiled = sum(node.serving == "native" for node in told.nodes)
    lines = [
        f"fused: {len(groups)} groups and loops of {members} nodes; {compiled} nodes are compiled, "
        f"by {told.kernel_count} distinct kernels"
    ]
    if told.calls is not None and told.calls.unfused:
        lines.append(
            f"  {told.calls.unfused} groups, too small for a kernel of theirs, run member by member"
        )
    saved = [(_saved_bytes(node), node) for node in groups]
    if any(nbytes for nbytes, _ in saved):
        total = sum(nbytes for nbytes, _ in saved)
        lines.append(f"  they move {total / 1e3:.1f} kB less than unfused, of these")
    for nbytes, node in sorted(saved, key=lambda pair: -pair[0])[:_GROUPS]:
        if nbytes:
            reason = _without_names(node.group.partition("\n")[0].partition(": ")[2])
            lines.append(f"  {nbytes / 1e3:9.1f} kB  {_short(node.name)}: {reason}")
    return lines


def _saved_bytes(node: ExplainedNode) -> int:
    """Return the bytes that a group moves less than its members alone."""
    found = re.search(r"\((-?\d+) fewer than unfused\)", node.group)
    return int(found[1]) if found else 0


def _undone_lines(told: Explanation) -> list[str]:
    """Return the causes of rewrites left undone, fusion first, with their counts."""
    found: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for name, text, nodes in remarks(told.report):
        match = _UNDONE.match(text)
        if match:
            cause = match["cause"] or match["whole"]
            key = name, _without_names(cause)
            found[key] += len(nodes)
            example.setdefault(key, nodes[0])
    lines: list[str] = []
    for title, fusion in (("not fused, and why:", True), ("other rewrites left undone:", False)):
        causes = [(n, key) for key, n in found.most_common() if (key[0] in _FUSION) == fusion]
        if not causes:
            continue
        lines.append(title)
        for n, key in causes[:_CAUSES]:
            where = "" if fusion else f"{key[0]}: "
            of = f" (as {_short(example[key])})" if example[key] else ""
            lines.append(f"  {n:5}  {where}{key[1]}{of}")
        rest = causes[_CAUSES:]
        if rest:
            lines.append(f"  {sum(n for n, _ in rest):5}  for {len(rest)} other causes")
    return lines


def _without_names(text: str) -> str:
    """Return a cause without names, so that equal ones are counted."""
    text = re.sub(r"'[^']*'", "'...'", text)
    text = re.sub(r"\S+/\S+", "...", text)
    return text if len(text) <= 110 else f"{text[:107]}..."


def _uncompiled_lines(told: Explanation) -> list[str]:
    """Return the nodes without compiled code, by op type and reason."""
    lines: list[str] = []
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node in told.nodes:
        if node.serving in ("reference", "runtime"):
            found[node.serving, node.reason].append(node.op)
    if found:
        lines.append("not compiled:")
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    for (serving, reason), ops in ordered[:_CAUSES]:
        counts = Counter(ops).most_common()
        names = ", ".join(f"{op} ({n})" if n > 1 else op for op, n in counts[:4])
        more = ", ..." if len(counts) > 4 else ""
        how = "NumPy" if serving == "reference" else "the runtime"
        why = f": {_without_names(reason)}" if reason else ""
        lines.append(f"  {len(ops):5}  by {how}: {names}{more}{why}")
    if len(ordered) > _CAUSES:
        rest = sum(len(ops) for _, ops in ordered[_CAUSES:])
        lines.append(f"  {rest:5}  for {len(ordered) - _CAUSES} other reasons")
    for name, why in told.refused[:_CAUSES]:
        lines.append(f"refused by the compiler: {name}: {why}")
    if len(told.refused) > _CAUSES:
        lines.append(f"and {len(told.refused) - _CAUSES} more refused")
    return lines


def _own_pass_lines(told: Explanation) -> list[str]:
    """Return the remarks of the user's own passes."""
    found = [entry for entry in remarks(told.report) if entry[0] not in PASSES]
    if not found:
        return []
    lines = ["remarks of your passes:"]
    for name, text, nodes in found[:_CAUSES]:
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        of = f"{nodes[0]}{more}: " if nodes[0] else ""
        lines.append(f"  {name}: {of}{text}")
    if len(found) > _CAUSES:
        lines.append(f"  and {len(found) - _CAUSES} more")
    return lines


def _memory_lines(told: Explanation) -> list[str]:
    return [
        f"memory: at most {told.peak_bytes / 1e3:.1f} kB a run: arena "
        f"{told.arena_bytes / 1e3:.1f}, outputs {told.output_bytes / 1e3:.1f}, constants "
        f"{told.constant_bytes / 1e3:.1f} kB",
        str(told.held),
    ]


def _pass_lines(told: Explanation) -> list[str]:
    own = [entry for entry in told.report.passes if entry.depth == 0]
    if not own:
        return []
    longest = sorted(own, key=lambda entry: -entry.elapsed_us)[:5]
    names = ", ".join(f"{entry.name} {entry.elapsed_us / 1e3:.1f}" for entry in longest)
    nodes = len([node for node in told.nodes if node.serving != "constant"])
    return [
        f"passes: {own[0].ops_after} nodes of this run became {nodes} besides constants in "
        f"{told.report.elapsed_us / 1e3:.1f} ms; the longest, in ms: {names}",
        f"this graph: built in {told.built_s:.2f} s; {told.compiled_here} of its kernels compiled "
        f"in {told.compile_s:.2f} s of the compiler's time",
    ]


__all__ = ["summary_text"]
