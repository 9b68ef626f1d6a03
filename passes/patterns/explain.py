"""Explain how far a rule matched at a node, and its failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfjit.framework.errors import InvalidArgumentError, NotFoundError, OpError
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import near_names
from tfjit.passes.patterns.application import plan_match
from tfjit.passes.patterns.rewrite_rule import Rule
from tfjit.passes.patterns.steps import State, Step


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of one rule at one node.

    rewrites: the rule rewrites the node. matched: (op type of the pattern, node) of the parts that
    were found, root first. place: the part of the pattern that failed, "" where all of it matched.
    reason: for the failure, "" where the rule rewrites the node.
    """

    rule: str
    node: str
    rewrites: bool
    matched: tuple[tuple[str, str], ...]
    place: str
    reason: str

    def __str__(self) -> str:
        found = " <- ".join(f"{kind} '{name}'" for kind, name in self.matched)
        if self.rewrites:
            return f"{self.rule}: rewrites '{self.node}': matched {found}"
        if not self.place:
            return f"{self.rule}: matched {found}, but stays: {self.reason}"
        upto = f"matched {found} up to {self.place}" if found else f"no match at {self.place}"
        return f"{self.rule}: {upto}: {self.reason}"


class Explanations(tuple[Explanation, ...]):
    """The explanations of several rules; as text one a line."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def why_not(
    graph: object,
    rules: Rule | Iterable[Rule],
    node: str,
    *,
    fetches: Sequence[str] = (),
    ctx: PassContext | None = None,
) -> Explanations:
    """Return how far each rule matches at a node.

    graph: a DataflowGraph, which stays unchanged, or a GraphDef or Graph of either library; its
    shapes are inferred first. node: in the place of the pattern's root. fetches: of the run. ctx:
    of the pass that holds for a DataflowGraph; by default nothing but the graph is known.
    Raises NotFoundError for an unknown node.
    """
    listed = (rules,) if isinstance(rules, Rule) else tuple(rules)
    if not isinstance(graph, DataflowGraph):
        graph = working_graph(graph)
        ctx = PassContext(RunSpec(fetches=tuple(fetches)))
        infer_shapes(graph, ctx)
    elif ctx is None:
        ctx = PassContext(RunSpec(fetches=tuple(fetches)))
    name = node.partition(":")[0]
    if name not in graph:
        known = [other.name for other in graph.op_nodes()]
        raise NotFoundError(None, None, f"no node '{name}' in the graph{near_names(name, known)}")
    return Explanations(_explain(graph, ctx, one, name) for one in listed)


def working_graph(graph: object) -> DataflowGraph:
    """Return a working graph of a GraphDef or Graph of either library."""
    from tfjit.framework.graphs.graph import Graph

    if isinstance(graph, Graph):
        return DataflowGraph.from_graph(graph)
    if hasattr(graph, "as_graph_def"):
        graph = graph.as_graph_def()
    if not hasattr(graph, "node"):
        raise InvalidArgumentError(
            None, None, f"expected a DataflowGraph, a Graph or a GraphDef, got {graph!r}"
        )
    return DataflowGraph.from_graph_def(graph)


def _explain(graph: DataflowGraph, ctx: PassContext, rule: Rule, name: str) -> Explanation:
    node = graph.node(name)
    best: tuple[int, State, tuple[Step, ...]] | None = None
    refused: Explanation | None = None
    for state, program, held in rule.compiled.attempts(graph, ctx, node):
        if held == len(program):
            matched = _matched(rule, state, program)
            reason = _refusal(rule, state)
            if not reason:
                return Explanation(rule.name, name, True, matched, "", "")
            refused = refused or Explanation(rule.name, name, False, matched, "", reason)
        elif best is None or held > best[0]:
            best = held, state, program
    if refused is not None:
        return refused
    assert best is not None
    held, state, program = best
    step = program[held]
    reason = step.explain(state)
    if held == 0 and node.op not in rule.root_types:
        reason += _roots_near(graph, rule, name)
    return Explanation(
        rule.name, name, False, _matched(rule, state, program[:held]), step.place, reason
    )


def _matched(rule: Rule, state: State, steps: Sequence[Step]) -> tuple[tuple[str, str], ...]:
    kinds = {slot: str(value.kind) for value, slot in rule.compiled.nodes}
    return tuple(
        (kinds[step.slot], state.tensors[step.slot][0]) for step in steps if step.matches_node
    )


def _refusal(rule: Rule, state: State) -> str:
    """Return the reason against a rewrite, "" for none."""
    try:
        if plan_match(rule, state) is not None:
            return ""
    except Declined as reason:
        return str(reason)
    except OpError as error:
        return error.message
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "the guard declined" if rule.when is not None else "the replacement function declined"


def _roots_near(graph: DataflowGraph, rule: Rule, name: str) -> str:
    """Return a hint at users of a node that may be roots."""
    found, queue = [], [name]
    for _ in range(len(rule.compiled.nodes) - 1):
        queue = [user for here in queue for user in graph.successors(here) if user != SINK][:64]
        found += [user for user in queue if graph.node(user).op in rule.root_types]
    shown = ", ".join(f"'{user}'" for user in dict.fromkeys(found[:3]))
    return f"; the pattern's root may be {shown}, which uses it" if shown else ""
