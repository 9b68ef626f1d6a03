"""A registered graph in stages, each with a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tfjit.distributed.worker.graph_session import GraphSession
from tfjit.framework.op_defs.op_traits import RECV, RUNS_FUNCTIONS
from tfjit.framework.types.dtypes import DType
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.run_spec import parse_tensor_name
from tfjit.passes.partitioning.split_receives import ReceiveStage, split_by_receives
from tfjit.passes.partitioning.split_stages import Stage
from tfjit.runtime.kernel_api.op_kernel import starts_stage
from tfjit.runtime.plan.pipelined_plan import StagePlan

_MAX_LIVE_PLANS: Final = 16
_SHORT_S: Final = 3e-4
_MAX_SHORT_STAGES: Final = 4


@dataclass(frozen=True, slots=True)
class Receive:
    """A receive of a registered graph.

    tensor: "x:0". key: of the rendezvous.
    """

    node: str
    tensor: str
    key: str
    dtype: DType


class StageCheck:
    """Nodes of a stage to run beside it for their errors alone.

    feeds: tensors that they need. after: numbers of the stages that they need.
    """

    def __init__(self, plan: StagePlan, of: ReceiveStage) -> None:
        self.plan, self.feeds, self.after = plan, of.feeds, of.after


class GraphStage:
    """One stage of a registered graph.

    sends: (tensor, key) for other tasks. pending: number of receives and stages that it waits for.
    users: numbers of the stages that wait for it. checks: run where it starts late.
    """

    def __init__(
        self,
        session: GraphSession,
        number: int,
        of: ReceiveStage,
        remote: Mapping[str, Receive],
        send_keys: Mapping[str, str],
    ) -> None:
        self.number = number
        self.of = of
        self.users: list[int] = []
        self.receives = tuple(feed for feed in of.feeds if feed in remote)
        self.pending = len(self.receives) + len(of.after)
        self.sends = [(tensor, send_keys[n], n) for n, tensor in of.sends if n in send_keys]
        self._session = session
        self.plan = None if of.stage is None else self._make_plan(of.stage, "")
        self.checks = [
            StageCheck(self._make_plan(check.stage, ", nodes that may fail"), check)
            for check in of.checks
            if check.stage is not None
        ]
        self.copies = of.stage is not None and of.stage.by_node
        self.estimate_s = math.inf
        self._live: dict[frozenset[str], tuple[StagePlan | None, frozenset[str]]] = {}

    def _make_plan(self, stage: Stage, note: str) -> StagePlan:
        graph = self._session.graph
        assert graph is not None
        tensors = [(graph.node(node), slot) for node, slot in map(parse_tensor_name, stage.feeds)]
        return StagePlan(
            self._session,
            stage,
            [node.output_dtypes[slot].base_dtype for node, slot in tensors],
            tuple(node.output_shapes[slot] for node, slot in tensors),
            f"stage {self.number + 1} of a partition{note}",
        )

    def without(self, dead: frozenset[str]) -> tuple[StagePlan | None, frozenset[str]]:
        """Return (the plan of the nodes that still run, all dead nodes).

        dead: receives and nodes before the stage that have no value in this step.
        """
        graph = self._session.graph
        assert graph is not None
        stage = self.of.stage
        members = stage.members if stage is not None else set()
        sends = {name for name, _ in self.of.sends}
        stack = list(dead)
        found: set[str] = set()
        while stack:
            for edge in graph.edges_out_of(stack.pop()):
                if edge.dst not in found and (edge.dst in members or edge.dst in sends):
                    found.add(edge.dst)
                    stack.append(edge.dst)
        gone = frozenset(found)
        if not gone or stage is None:
            return self.plan, gone
        known = self._live.get(gone)
        if known is None:
            known = self._live_plan(graph, stage, gone), gone
            if len(self._live) < _MAX_LIVE_PLANS:
                self._live[gone] = known
        return known

    def _live_plan(
        self, graph: DataflowGraph, stage: Stage, gone: frozenset[str]
    ) -> StagePlan | None:
        live = stage.members - gone
        fetches = tuple(f for f in stage.fetches if parse_tensor_name(f)[0] not in gone)
        if not live and not fetches:
            return None
        inputs = {
            f"{edge.src}:{edge.src_output}" for name in live for edge in graph.edges_into(name)
        }
        ends = {name for name in live if not any(e.dst in live for e in graph.edges_out_of(name))}
        part = replace(
            stage,
            members=live,
            feeds=tuple(feed for feed in stage.feeds if feed in inputs),
            fetches=fetches,
            targets=tuple(sorted(ends)),
        )
        return self._make_plan(part, ", some of its nodes dead")

    def took(self, elapsed_s: float) -> None:
        """Note the time of a run.

        The thread may have waited for the interpreter, so one long run does not count in full.
        """
        self.estimate_s = min(elapsed_s, 2 * self.estimate_s)

    def plans(self) -> list[StagePlan]:
        """Return all plans of the stage."""
        made = [plan for plan, _ in list(self._live.values()) if plan is not None]
        made += [check.plan for check in self.checks]
        return made if self.plan is None else [self.plan, *made]


class StagedGraph:
    """The stages of a registered graph.

    starts: numbers of those that wait for nothing. checked: those with checks. may_wait: some node
    may, for another step.
    """

    def __init__(
        self,
        session: GraphSession,
        stages: Sequence[ReceiveStage],
        receives: Sequence[Receive],
        send_keys: Mapping[str, str],
        may_wait: bool,
    ) -> None:
        remote = {receive.tensor: receive for receive in receives}
        self.stages = [
            GraphStage(session, i, stage, remote, send_keys) for i, stage in enumerate(stages)
        ]
        for stage in self.stages:
            for earlier in stage.of.after:
                self.stages[earlier].users.append(stage.number)
        self.waiting: dict[str, list[int]] = {}
        for stage in self.stages:
            for tensor in stage.receives:
                self.waiting.setdefault(tensor, []).append(stage.number)
        self.receives = [receive for receive in receives if receive.tensor in self.waiting]
        self.starts = [stage.number for stage in self.stages if not stage.pending]
        self.checked = [stage for stage in self.stages if stage.checks]
        # few: where tasks share a process, stages may run within the sends of others
        self._may_be_short = not may_wait and len(self.stages) <= _MAX_SHORT_STAGES

    @property
    def is_short(self) -> bool:
        """Return whether no stage ever waits, and all took little time lately."""
        return self._may_be_short and sum(stage.estimate_s for stage in self.stages) < _SHORT_S

    def drop_plans(self) -> None:
        """Drop all compiled code; it is made again when it is used."""
        for stage in self.stages:
            for plan in stage.plans():
                plan.drop_all()


def split(session: GraphSession) -> tuple[list[ReceiveStage], str, bool]:
    """Return a session graph's stages.

    The result is (stages, or none and the reason; whether a node may wait).
    """
    graph = session.graph
    assert graph is not None
    functions = graph.functions
    ops = {node.op for function in functions.definitions.values() for node in function.node_def}
    functions_wait = any(map(starts_stage, ops))

    def waits(node: Node) -> bool:
        if starts_stage(node.op):
            return True
        return functions_wait and (
            node.has_trait(RUNS_FUNCTIONS) or functions.called(node) is not None
        )

    stages, why = split_by_receives(graph, waits)
    may_wait = any(waits(node) for node in graph.op_nodes() if not node.has_trait(RECV))
    return stages, why, may_wait


__all__ = ["GraphStage", "Receive", "StagedGraph", "split"]
