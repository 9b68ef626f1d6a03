"""Collect the contents of a page as JSON's types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.kernels.executor.roofline import MachineLimits
    from tfjit.kernels.source import KernelSource
    from tfjit.lab.page.frames import NodeRecord, PassRun
    from tfjit.lab.page.history_runs import GraphStory
    from tfjit.runtime.plan.variant import Variant
    from tfjit.runtime.profiling.explain import ExplainedNode, Explanation


class Interned:
    """Number strings in the order in which they are first seen."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def values(self) -> list[object]:
        """Return the strings by number."""
        return list(self.numbers)


def page_data(
    explanation: Explanation, story: GraphStory, title: str, limits: MachineLimits | None
) -> dict[str, object]:
    """Return the contents of the page of an explanation.

    story: of the plan's passes. limits: of this machine, for the roofline.
    """
    variant = explanation.variant
    threads = explanation.measured.threads if explanation.measured is not None else 1
    names, ops, texts = Interned(), Interned(), Interned()
    sources = kernel_sources(variant)
    numbers = {source: k for k, source in enumerate(dict.fromkeys(_flat(sources.values())))}
    return {
        "title": title,
        "signature": explanation.signature,
        "executor": explanation.executor,
        "summary": explanation.summary(),
        "passes": [_run(run, names, ops, texts) for run in story.runs],
        "nodes": [
            entry | {"sources": [numbers[s] for s in dict.fromkeys(sources[node.name])]}
            if node.name in sources
            else entry
            for node in explanation.nodes
            for entry in (_explained(node, limits, threads, names, ops),)
        ],
        "groups": [
            [names(record.name), record.fused[0], [ops(op) for op in record.fused[1:]]]
            for record in story.final
            if record.fused
        ],
        "sources": [
            {"title": one.title or one.entries[0], "writer": one.writer, "text": one.text}
            for one in numbers
        ],
        "measured": _measured(explanation),
        "limits": _limits(limits),
        "threads": threads,
        "names": names.values(),
        "ops": ops.values(),
        "texts": texts.values(),
    }


def kernel_sources(variant: Variant | None) -> dict[str, list[KernelSource]]:
    """Return the compiled texts by the path of their node.

    There are none without a step.
    """
    if variant is None or variant.lowered is None or variant.step is None:
        return {}
    found: dict[str, list[KernelSource]] = {}
    for instruction in variant.lowered.instructions:
        serves = variant.step.serving(instruction) == "native"
        call = variant.step.call(instruction) or instruction.call
        if call is not None and instruction.role is None and serves:
            texts = dict.fromkeys(launch.source for launch in call.launches)
            found.setdefault(instruction.node_path, []).extend(texts)
    return found


def _flat(lists: Iterable[Sequence[KernelSource]]) -> Iterable[KernelSource]:
    return (source for one in lists for source in one)


def _run(run: PassRun, names: Interned, ops: Interned, texts: Interned) -> list[object]:
    def row(record: NodeRecord) -> list[object]:
        inputs = [part for name, output in record.inputs for part in (names(name), output)]
        controls = [names(name) for name in record.controls]
        return [names(record.name), ops(record.op), inputs, controls, texts(record.text)]

    def remark(node: str, text: str) -> list[object]:
        return [names(node) if node else -1, texts(text)]

    frames = [
        [
            *remark(frame.node, frame.reason),
            [row(record) for record in frame.added],
            [names(path) for path in frame.removed],
            [row(record) for record in frame.changed],
        ]
        for frame in run.frames
    ]
    remarks = [remark(node, text) for node, text in run.remarks]
    return [run.name, run.where, round(run.elapsed_us, 1), frames, remarks]


def _explained(
    node: ExplainedNode,
    limits: MachineLimits | None,
    threads: int,
    names: Interned,
    ops: Interned,
) -> dict[str, object]:
    """Return a node's entry, without empty fields."""
    entry: dict[str, object] = {"n": names(node.name), "o": ops(node.op), "how": node.serving}
    limit: tuple[float, str] | None = None
    if limits is not None and (node.bytes_moved or node.flops):
        limit = node.limit_us(limits, threads)
    rest: dict[str, object] = {
        "us": round(node.predicted_us, 3),
        "took": None if node.measured_us is None else round(node.measured_us, 3),
        "bytes": node.bytes_moved,
        "flops": node.flops,
        "chunks": node.chunks if node.chunks > 1 else 0,
        "limit": [round(limit[0], 3), limit[1]] if limit is not None else None,
        "kernels": list(node.kernels),
        "members": [names(name) for name in node.members if name != node.name],
        "reason": node.reason,
        "group": node.group,
    }
    return entry | {key: value for key, value in rest.items() if value}


def _measured(explanation: Explanation) -> dict[str, object] | None:
    measured = explanation.measured
    if measured is None:
        return None
    return {"step_us": round(measured.step_us, 2), "runs": measured.runs}


def _limits(limits: MachineLimits | None) -> dict[str, object] | None:
    if limits is None:
        return None
    return {
        "copy": [[size, round(rate, 2)] for size, rate in limits.copy_gbs],
        "fma": round(limits.fma_gfs, 2),
    }
