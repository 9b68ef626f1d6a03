"""Split a run into stages at its blocking nodes and Python functions.

Queues and readers may block. The nodes behind them can be compiled, for the shapes that arrive. A
graph that dequeues its batch would be run node by node as a whole, because one of its nodes may
block. Cut behind that node, the rest is a run with a fed batch: a straight-line step for the shapes
of the batch. So is the rest of a graph behind a Python function with a result of unknown shape.
Python functions that do not depend on each other share a stage, in which they overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.op_defs.op_traits import (
    CALLS_PYTHON,
    CANNOT_FAIL,
    COLLECTIVE,
    CONTROL_FLOW,
    PLACEHOLDER,
    READS_STATE,
)
from tfjit.passes.analysis.constant_evaluation import NotEvaluated, can_evaluate, evaluate
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, SOURCE, DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.run_spec import RunSpec, parse_tensor_name
from tfjit.passes.ir.subgraph import needed_nodes

MIN_BETWEEN: Final = 8
"""Fewest nodes for a stage of their own between two blocking stages.

Fewer nodes run with a blocking stage. Two runs cost some 40 us more than one.
"""

_MAX_FOLDED: Final = 1 << 16
"""Elements of a value that is computed while splitting."""
_MAX_DEPTH: Final = 50
"""Nodes between such a value and its constants, at most."""
_REPLICABLE: Final = frozenset({"Const", "NoOp"})


@dataclass(slots=True)
class Stage:
    """One of the runs that make up a run, in order.

    feeds, fetches: tensor names. targets: node names. cut: nodes of earlier stages, which are not
    looked at again. by_node: some nodes are blocking, or have outputs of unknown sizes; the other
    nodes of the stage were too few for a separate stage.
    varies: sizes of its feeds may differ in each run, since they depend on values.
    """

    by_node: bool
    members: set[str] = field(default_factory=set)
    feeds: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    cut: frozenset[str] = frozenset()
    varies: bool = False

    def spec(self, whole: RunSpec) -> RunSpec:
        """Return the spec of the stage. whole: that of the run."""
        return replace(
            whole, feeds=self.feeds, fetches=self.fetches, targets=self.targets, cut=self.cut
        )


def split_stages(
    graph: DataflowGraph, spec: RunSpec, waits: Callable[[Node], bool], overlaps: bool = False
) -> tuple[list[Stage], str]:
    """Return (stages, ""), or ([], why the run is not cut).

    waits: returns whether a node may wait for the effect of another step. overlaps: Python
    functions may run at the same time. Python functions are blocking nodes too where the shape of
    a result is unknown, or where two functions may overlap. A single stage may result in the
    second case.

    Keeps: each needed node runs in one stage, after all of its dependencies. Constants and nodes
    that make handles run in every stage that needs them. Blocking nodes run as early as possible,
    all others as late as possible. No node waits for the effect of a later stage, and Python
    functions that do not depend on each other can meet.
    Needs: the whole graph of a session, in which the names of the spec exist.

    A run is left whole where nodes of two stages use one resource that the first one waits for,
    where stages would order collectives, where Python functions with unknown effects run, where a
    blocking node is in v1 control flow, and where a value between stages is no array. A node that
    may fail, and does not depend on a blocking node, runs before: its error does not wait.
    """
    try:
        return Splitter(graph, spec, waits, overlaps).stages(), ""
    except Declined as why:
        return [], str(why)


class Splitter:
    """Assign the needed nodes of a run to stages."""

    def __init__(
        self,
        graph: DataflowGraph,
        spec: RunSpec,
        waits: Callable[[Node], bool],
        overlaps: bool,
    ) -> None:
        self.graph, self.spec = graph, spec
        self.needed = needed_nodes(graph, spec)[0]
        self.fed = {parse_tensor_name(feed) for feed in spec.feeds}
        self._known: dict[str, list[np.ndarray] | None] = {}  # values that follow from constants
        self.blocking = {name for name in self.needed if waits(graph.node(name))}
        python = {name for name in self.needed if graph.node(name).has_trait(CALLS_PYTHON)}
        self.overlapping = overlaps and self._independent(python)
        self.waiting = self.blocking
        if self.overlapping or any(_has_unknown_shape(graph.node(name)) for name in python):
            self.waiting = self.blocking | python

    def _independent(self, names: set[str]) -> bool:
        """Return whether two of the nodes do not depend on each other."""
        # In a chain of n nodes, their numbers of ancestors among them are 0 to n - 1.
        depths = {len(self._ancestors(name) & names) for name in names}
        return len(depths) < len(names)

    def stages(self) -> list[Stage]:
        if not self.waiting:
            raise Declined("no node is blocking")
        before = self._before_waiting()
        self.plain = self._plain()
        levels = self._levels(before)
        self._run_failures_first(levels, before)
        stages = self._merged(levels)
        if len(stages) < 2 and not self.overlapping:
            raise Declined("there are too few nodes beside the blocking ones")
        stage_of = {name: i for i, stage in enumerate(stages) for name in stage.members}
        self._check_resources(stages, stage_of)
        self._check_python(stage_of)
        self._check_collectives(stage_of)
        self._connect(stages, stage_of)
        return stages

    def _sources(self, name: str) -> Iterable[tuple[str, int]]:
        """Yield (node, output) of each dependency of a needed node.

        The output of a control edge is CONTROL.
        """
        for edge in self.graph.edges_into(name):
            if (
                edge.src != SOURCE
                and edge.src in self.needed
                and (edge.src, edge.src_output) not in self.fed
            ):
                yield edge.src, edge.src_output

    def _targets(self, name: str) -> Iterable[tuple[str, int]]:
        """Yield (dependent node, output) for each use of a node."""
        for edge in self.graph.edges_out_of(name):
            if (
                edge.dst != SINK
                and edge.dst in self.needed
                and (name, edge.src_output) not in self.fed
            ):
                yield edge.dst, edge.src_output

    def _before_waiting(self) -> list[str]:
        """Return the blocking nodes and their ancestors, in topological order."""
        order: list[str] = []
        state: dict[str, bool] = {}  # seen; True when the node is in `order`
        stack = [(name, False) for name in sorted(self.waiting)]
        while stack:
            name, done = stack.pop()
            if done:
                state[name] = True
                order.append(name)
                continue
            if name in state:
                continue
            if self.graph.node(name).has_trait(CONTROL_FLOW):
                raise Declined(f"{name} precedes a blocking node inside a loop or conditional")
            state[name] = False
            stack.append((name, True))
            stack.extend(
                (source, False) for source, _ in self._sources(name) if source not in state
            )
        return order

    def _plain(self) -> set[str]:
        """Return the nodes that may run once in each stage.

        These are constants, and nodes without inputs that make handles.
        """
        found = set()
        for name in self.needed:
            node = self.graph.node(name)
            makes_handle = bool(node.output_dtypes) and all(
                d.name.startswith("resource") or d.is_ref or _is_old_handle(node)
                for d in node.output_dtypes
            )
            if (
                (node.op in _REPLICABLE or makes_handle)
                and name not in self.waiting
                and not any(True for _ in self._sources(name))
            ):
                found.add(name)
        return found

    def _levels(self, before: list[str]) -> dict[str, int]:
        """Return odd levels for blocking nodes, even levels for the others.

        Odd levels are as low as possible, even ones as high as possible.
        """
        lowest: dict[str, int] = {}
        for name in before:
            wait = name in self.waiting
            level = 1 if wait else 0
            for source, _ in self._sources(name):
                if source not in self.plain:
                    level = max(level, lowest[source] + (wait != (source in self.waiting)))
            lowest[name] = level
        last = 1 + max(lowest[name] for name in self.waiting)
        levels = {name: lowest[name] for name in self.waiting}
        for name in reversed(before):
            if name not in self.waiting and name not in self.plain:
                known = [
                    levels.get(target, last) - (target in self.waiting)
                    for target, _ in self._targets(name)
                ]
                levels[name] = min(known, default=last)
        for name in self.needed:
            if name not in self.plain:
                levels.setdefault(name, last)
        return levels

    def _merged(self, levels: dict[str, int]) -> list[Stage]:
        """Return the stages; small levels join the blocking nodes beside them."""
        stages: list[Stage] = []
        last = max(levels.values())
        by_level: dict[int, set[str]] = {}
        for name, level in levels.items():
            by_level.setdefault(level, set()).add(name)
        for level in sorted(by_level):
            members = by_level[level]
            waits = level % 2 == 1
            small = (
                not waits and (level != last or not self.blocking) and len(members) < MIN_BETWEEN
            )
            if waits or small:
                if not stages or not stages[-1].by_node:
                    stages.append(Stage(True))
                stages[-1].members |= members
            else:
                stages.append(Stage(False, set(members)))
        return stages

    def _handle(self, source: str) -> tuple[str, str] | None:
        """Return (container, name) of the resource behind a handle.

        None where the handle does not come from a plain node.
        """
        while source not in self.plain:
            node = self.graph.node(source)
            if node.op not in ("Identity", "RefIdentity"):
                return None
            source = self.graph.inputs(source)[0][0]
        node = self.graph.node(source)
        shared = node.attrs.get("shared_name") or b""
        return (node.attrs.get("container") or b"").decode(), shared.decode() or source

    def _handles(self, name: str) -> list[tuple[str, str] | None]:
        """Return the resources that a node uses.

        They are the resources of its handles, or for staging areas the node's own name.
        """
        found: list[tuple[str, str] | None] = []
        attrs = self.graph.node(name).attrs
        if "shared_name" in attrs and name not in self.plain:
            found.append(
                (
                    (attrs.get("container") or b"").decode(),
                    (attrs["shared_name"] or b"").decode() or name,
                )
            )
        for source, output in self.graph.inputs(name):
            node = self.graph.node(source)
            dtype = node.output_dtypes[output]
            if dtype.name.startswith("resource") or dtype.is_ref or _is_old_handle(node):
                found.append(self._handle(source))
        return found

    def _check_resources(self, stages: list[Stage], stage_of: dict[str, int]) -> None:
        waited: dict[tuple[str, str], int] = {}
        for name in self.blocking:
            for handle in self._handles(name):
                if handle is None:
                    raise Declined(f"{name} waits for a resource that another node chooses")
                waited[handle] = min(waited.get(handle, len(stages)), stage_of[name])
        for name, stage in stage_of.items():
            if self.graph.node(name).has_trait(READS_STATE):
                continue
            for handle in self._handles(name):
                if handle is not None and waited.get(handle, stage) < stage:
                    raise Declined(f"{name} may unblock an earlier stage, by {handle[1]}")

    def _check_python(self, stage_of: dict[str, int]) -> None:
        for name, stage in stage_of.items():
            if not self.graph.node(name).has_trait(CALLS_PYTHON):
                continue
            earlier = {other for other in self.waiting if stage_of[other] < stage}
            if not earlier <= self._ancestors(name):
                raise Declined(f"the Python function of {name} may unblock an earlier stage")

    def _check_collectives(self, stage_of: dict[str, int]) -> None:
        """Check that stages put no order between collectives and blocking nodes.

        Only dependences may: the members in other processes might need the opposite order.
        """
        collective = {n for n in self.waiting if self.graph.node(n).has_trait(COLLECTIVE)}
        if not collective:
            return
        for name in sorted(self.waiting):
            others = self.waiting if name in collective else collective
            earlier = {other for other in others if stage_of[other] < stage_of[name]}
            if not earlier <= self._ancestors(name):
                raise Declined(f"{name} may have to run before a node of an earlier stage does")

    def _run_failures_first(self, levels: dict[str, int], before: Iterable[str]) -> None:
        """Give level 0 to nodes that may fail, and to their ancestors.

        Only nodes that depend on no blocking node: their errors would wait for one. Values that
        follow from constants have no error.
        """
        if not self.blocking:
            return
        dependent = self.blocking | self._descendants(self.blocking)
        for name in sorted(set(levels) - dependent - set(before)):
            node = self.graph.node(name)
            if node.has_trait(CALLS_PYTHON | CANNOT_FAIL | CONTROL_FLOW) or node.is_speculatable:
                continue
            if self._constants(name) is not None:
                continue  # the passes fold the node, as they could not behind a stage
            first = self._ancestors(name) - self.plain
            if first & self.waiting or any(
                self.graph.node(source).has_trait(CALLS_PYTHON | CONTROL_FLOW) for source in first
            ):
                raise Declined(f"{name} ({node.op}) may fail while another node waits")
            levels.update(dict.fromkeys(first, 0))

    def _constants(self, name: str, depth: int = 0) -> list[np.ndarray] | None:
        """Return a node's outputs if these follow from small constants.

        depth: number of nodes between the node and the one that is asked for.
        """
        if name not in self._known:
            self._known[name] = None  # a loop has no constants
            node = self.graph.node(name)
            if node.op == "Const":
                value = constant_value(self.graph, name)
                if value is not None and value.size <= _MAX_FOLDED:
                    self._known[name] = [value]
            elif node.input_dtypes and depth < _MAX_DEPTH and can_evaluate(node):
                self._known[name] = self._evaluated(node, depth)
        return self._known[name]

    def _evaluated(self, node: Node, depth: int) -> list[np.ndarray] | None:
        inputs: list[np.ndarray] = []
        for source, output in self.graph.inputs(node.name):
            is_fed = (source, output) in self.fed
            found = None if is_fed else self._constants(source, depth + 1)
            if found is None:
                return None
            inputs.append(found[output])
        for shape in node.output_shapes:
            if shape is None or None in shape or prod(shape) > _MAX_FOLDED:
                return None
        try:
            return evaluate(node, inputs)
        except NotEvaluated:
            return None

    def _descendants(self, names: Iterable[str]) -> set[str]:
        """Return the nodes that depend on some of these."""
        seen: set[str] = set()
        stack = list(names)
        while stack:
            for target, _ in self._targets(stack.pop()):
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return seen

    def _ancestors(self, name: str) -> set[str]:
        seen, stack = {name}, [name]
        while stack:
            for source, _ in self._sources(stack.pop()):
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        return seen

    def _connect(self, stages: list[Stage], stage_of: dict[str, int]) -> None:
        """Fill in the feeds, fetches and targets of the stages."""
        last = len(stages) - 1
        fetches: list[dict[str, None]] = [{} for _ in stages]
        targets: list[dict[str, None]] = [{} for _ in stages]
        taken: list[dict[str, None]] = [{} for _ in stages]
        cuts: list[set[str]] = [set() for _ in stages]
        for fetch in self.spec.fetches:
            fetches[stage_of.get(parse_tensor_name(fetch)[0], last)][fetch] = None
        for target in self.spec.targets:
            targets[stage_of.get(target, last)][target] = None
        for name in sorted(stage_of):
            own_stage = stage_of[name]
            for source, output in self._sources(name):
                made = stage_of.get(source, own_stage)
                if made == own_stage:
                    continue
                cuts[own_stage].add(source)
                if output == CONTROL:
                    targets[made][source] = None
                    continue
                dtype = self.graph.node(source).output_dtypes[output]
                if dtype.is_ref or not dtype.is_numpy_compatible:
                    raise Declined(f"the value from {source} to {name} is not an array")
                fetches[made][f"{source}:{output}"] = None
                taken[own_stage][f"{source}:{output}"] = None
        for i, stage in enumerate(stages):
            stage.fetches, stage.targets, stage.cut = (
                tuple(fetches[i]),
                tuple(targets[i]),
                frozenset(cuts[i]),
            )
            stage.feeds = (*self.spec.feeds, *taken[i])
            stage.feeds = tuple(
                feed for feed in stage.feeds if feed in taken[i] or self._uses(stage, feed)
            )

    def _uses(self, stage: Stage, feed: str) -> bool:
        """Return whether a stage depends on a feed of the run."""
        node, output = parse_tensor_name(feed)
        seen = needed_nodes(
            self.graph,
            stage.spec(self.spec),
        )[0]
        shielded = output == 0 and self.graph.node(node).has_trait(PLACEHOLDER)
        edges = self.graph.edges_out_of(node)
        return node in seen or any(
            e.dst in seen and (e.src_output == output or (e.is_control and shielded)) for e in edges
        )


def _has_unknown_shape(node: Node) -> bool:
    """Return whether the graph leaves the shape of an output open."""
    return any(shape is None or any(d is None for d in shape) for shape in node.output_shapes)


def _is_old_handle(node: Node) -> bool:
    """Return whether a node's output is a string reference as handle."""
    return (
        bool(node.output_dtypes)
        and node.output_dtypes[0].is_ref
        and node.output_dtypes[0].base_dtype.name == "string"
    )
