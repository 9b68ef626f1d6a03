"""Compare pipelines and other runtimes on one graph: outputs, times, causes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tfjit.lab.comparison import CandidateRow, Comparison
from tfjit.lab.measure.agreement import Mismatch, mismatches
from tfjit.lab.measure.candidates import Candidate, Tfjit, Work, named_candidates, open_candidate
from tfjit.lab.measure.feeds import feed_values
from tfjit.lab.measure.node_times import node_differences
from tfjit.lab.measure.ratio import CONFIDENCE, ratio_of
from tfjit.lab.measure.rounds import BLOCK_S, spread, time_rounds
from tfjit.lab.measure.signed_rank import fewest_values
from tfjit.lab.peers.presence import Absent

if TYPE_CHECKING:
    from tfjit.client.session.model_file import ModelFile
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.runtime.profiling.explain import Explanation

ROUNDS: Final = 20
SESSIONS: Final = 4

Report = Callable[[str], None]
# A file or SavedModel folder, a GraphDef or MetaGraphDef, its bytes, or a graph.
ModelLike: TypeAlias = "ModelFile | str | Path | bytes | Graph | Message"


def compare(
    model: ModelLike,
    candidates: Sequence[str | Pipeline] = ("default", "default without fuse"),
    *,
    fetches: Sequence[str],
    feeds: Mapping[str, object] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    setup: Sequence[str] = (),
    threads: int | None = None,
    rounds: int = ROUNDS,
    sessions: int = SESSIONS,
    block_s: float = BLOCK_S,
    tolerance: float | None = None,
    seed: int | None = None,
    optional: Sequence[str] = (),
    explain: bool = True,
    report: Report = lambda work: None,
) -> Comparison:
    """Check that candidates have the same outputs, then time them alternately.

    model: a file or SavedModel folder, a GraphDef or MetaGraphDef, its bytes, or a Graph.
    candidates: pipelines or their text, "tensorflow", "xla" or "onnxruntime"; ratios are to the
    first. fetches: names of tensors, and of operations, for their first output or to be run where
    there is none. feeds: values by tensor name. shapes: of made-up values, uniform or 0 and 1.
    setup: operations to run first, such as an initializer.
    threads: of every candidate; all cores by default. block_s: time of one candidate in a round.
    tolerance: of outputs, over their largest element. seed: of the order in rounds. optional: these
    candidates may be absent. explain: also measure the kernels. report: is called with the work
    under way. The method is that of `tfjit.lab.measure.ratio`. Raises ValueError for candidates and
    numbers that cannot be, InvalidArgumentError for feeds, RuntimeError for a missing candidate.
    """
    if len(candidates) < 2:
        raise ValueError("a comparison needs two candidates or more")
    if sessions < 1 or rounds * sessions < fewest_values(CONFIDENCE):
        raise ValueError(
            f"{rounds} rounds of {sessions} sessions allow no verdict: {fewest_values(CONFIDENCE)} "
            "blocks of each candidate are the fewest"
        )
    work = work_of(model, fetches, feeds or {}, shapes or {}, setup, threads)
    rng = np.random.default_rng(seed)
    found = Comparison(
        *(work.model.path.name, (*work.fetches, *work.targets)),
        {name: (str(value.dtype), value.shape) for name, value in work.feeds.items()},
        *(work.threads, rounds, sessions),
    )
    if not work.fetches:
        found.notes.append("no tensor is fetched, so no outputs were compared")
    labels = named_candidates(candidates)
    opened: dict[str, list[Candidate]] = {label: [] for label in labels}
    try:
        _open_all(opened, labels, work, sessions, rng, optional, found, report)
        firsts = {label: group[0].first for label, group in opened.items()}
        found.mismatches.extend(mismatches(work.fetches, firsts, "before timing", tolerance))
        if found.mismatches:
            return found
        report("timing")
        calls = {(label, k): c.run for label, group in opened.items() for k, c in enumerate(group)}
        times = time_rounds(calls, rounds, rng, block_s, lambda n: report(f"round {n}"))
        for label, group in opened.items():
            found.round_us[label] = [times[label, k] for k in range(len(group))]
        found.mismatches.extend(_after(opened, work, tolerance, found))
        explanations: dict[str, list[Explanation]] = {}
        for k in range(sessions if explain else 0):
            report(f"measuring kernels, session {k + 1}")
            for label, group in opened.items():
                candidate = group[k]
                if isinstance(candidate, Tfjit):
                    explanations.setdefault(label, []).append(candidate.explain())
        base = next(iter(opened))
        found.rows.extend(
            _row(label, group, found.round_us, explanations.get(label, ()), base)
            for label, group in opened.items()
        )
        for label, several in explanations.items():
            explanation = several[0]
            if explanation.unmeasured:
                found.notes.append(f"{label}: kernels not measured: {explanation.unmeasured}")
            slow = explanation.reference_nodes
            if slow:
                some = ", ".join(f"{node.name} ({node.op})" for node in slow[:3])
                found.notes.append(f"{label}: {len(slow)} nodes are not compiled: {some}")
            if label != base and base in explanations:
                found.differences.extend(node_differences(label, several, base, explanations[base]))
        return found
    finally:
        for group in opened.values():
            for candidate in group:
                candidate.close()


def work_of(
    model: ModelLike,
    fetches: Sequence[str],
    feeds: Mapping[str, object],
    shapes: Mapping[str, Sequence[int]],
    setup: Sequence[str] = (),
    threads: int | None = None,
) -> Work:
    """Return the run that is measured, with a value for each feed.

    Raises ValueError and InvalidArgumentError for names and feeds that do not fit.
    """
    from tfjit.runtime.host.thread_counts import cores

    file = model_file(model)
    if file.pack is not None:
        raise ValueError(f"{file.path} is a pack: compare the model that it was made of")
    if threads is not None and threads < 1:
        raise ValueError(f"{threads} threads: expected a positive number")
    if not fetches:
        raise ValueError("there is nothing to fetch: name a tensor or an operation")
    graph = graph_of(file)
    tensors: list[str] = []
    targets: list[str] = []
    for name in (*fetches, *setup):
        try:
            element = graph.as_graph_element(name)
        except KeyError as error:
            raise ValueError(f"{name}: {error.args[0]}") from None
        if name in setup and hasattr(element, "op"):
            raise ValueError(f"{name} is a tensor: set-up takes operations")
        if name in fetches and not hasattr(element, "op") and element.outputs:
            element = element.outputs[0]  # a value can be compared, a target cannot
        if name in fetches:
            (tensors if hasattr(element, "op") else targets).append(element.name)
    values = feed_values(graph, [*tensors, *targets], feeds, shapes)
    return Work(file, tuple(tensors), tuple(targets), values, tuple(setup), threads or cores())


def graph_of(model: ModelFile) -> Graph:
    """Return a tfjit Graph of a model."""
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.graph_def import import_graph_def

    graph = Graph()
    with graph.as_default():
        import_graph_def(model.graph_def, name="")
    return graph


def model_file(model: ModelLike) -> ModelFile:
    """Return the model in a file, message, bytes or Graph."""
    from tfjit.client.session.model_file import ModelFile, parse_model, read_model

    if isinstance(model, ModelFile):
        return model
    if isinstance(model, (str, Path)):
        return read_model(model)
    if hasattr(model, "as_graph_def"):
        model = model.as_graph_def()
    content = model if isinstance(model, bytes) else model.SerializeToString()
    kind, message = parse_model(content)
    return ModelFile(Path("graph"), kind, len(content), message)


def _open_all(
    opened: dict[str, list[Candidate]],
    candidates: Mapping[str, tuple[str, Pipeline | None]],
    work: Work,
    sessions: int,
    rng: np.random.Generator,
    optional: Sequence[str],
    found: Comparison,
    report: Report,
) -> None:
    """Open the sessions in random order.

    The first of a process may find better memory than the last.
    """
    labels = list(candidates)
    for number in range(sessions):
        for k in rng.permutation(len(labels)):
            label = labels[k]
            name, passes = candidates[label]
            if label in found.absent:
                continue
            report(f"opening {label}, session {number + 1}")
            try:
                opened[label].append(open_candidate(name, passes, work))
            except Absent as error:
                if name not in optional:
                    raise RuntimeError(str(error)) from None
                found.absent[label] = str(error)
    for label in found.absent:
        del opened[label]


def _after(
    opened: Mapping[str, Sequence[Candidate]],
    work: Work,
    tolerance: float | None,
    found: Comparison,
) -> list[Mismatch]:
    """Return the outputs that differ after timing.

    Where a run does not repeat its first outputs, since state has changed, nothing is compared.
    """
    later: dict[str, Sequence[object]] = {}
    for label, group in opened.items():
        for candidate in group:
            candidate.reset()
        later[label] = group[0].outputs()
    base = next(iter(opened))
    if mismatches(work.fetches, {"first": opened[base][0].first, "later": later[base]}, ""):
        found.notes.append(
            "outputs change from run to run, since the graph keeps state that no set-up operation "
            "resets: they were compared before timing only"
        )
        return []
    return mismatches(work.fetches, later, "after timing", tolerance)


def _row(
    label: str,
    group: Sequence[Candidate],
    round_us: Mapping[str, Sequence[Sequence[float]]],
    explanations: Sequence[Explanation],
    base: str,
) -> CandidateRow:
    times = [us for session in round_us[label] for us in session]
    row = CandidateRow(
        label,
        us=statistics.median(times),
        spread=spread(times),
        first_s=statistics.median(candidate.first_s for candidate in group),
    )
    if label != base:
        ratio = ratio_of(round_us[label], round_us[base])
        row = replace(
            row,
            ratio=ratio.ratio,
            low=ratio.low,
            high=ratio.high,
            noise=ratio.noise,
            verdict=ratio.verdict,
        )
    if explanations:
        nodes = explanations[0].nodes
        row = replace(
            row,
            kernels=explanations[0].kernel_count,
            launches=sum(node.launches for node in nodes),
            bytes_moved=sum(node.bytes_moved for node in nodes),
            arena_bytes=explanations[0].arena_bytes,
            plan_s=statistics.median(one.built_s for one in explanations),
            compile_s=max(one.compile_s for one in explanations),
        )
    return row


__all__ = ["ModelLike", "compare", "graph_of", "model_file", "work_of"]
