"""Reachability: the nodes that a run or another node depends on."""

from __future__ import annotations

from collections.abc import Iterable

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import PLACEHOLDER
from tfjit.passes.ir.dataflow_graph import CONTROL, SOURCE, DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec, check_spec, parse_tensor_name


def extract(graph: DataflowGraph, spec: RunSpec) -> DataflowGraph:
    """A new graph of the nodes that a run needs, copied from a session's whole graph, which is not
    changed.

    The cost follows the nodes needed, not the whole graph. Fed outputs are not looked behind: a
    node that only its fed outputs are needed of is copied without its inputs, for `lower_feeds` to
    replace. Raises what `feeds.check_spec` raises.
    """
    check_spec(graph, spec)
    needed, shields = needed_nodes(graph, spec)
    made = graph.copy_subset(in_id_order(graph, needed | shields))
    # what this run's passes add to it goes with the run's plan
    made.functions = graph.functions.child()
    made.extracted_for = spec
    made.shields = shields
    return made


def in_id_order(graph: DataflowGraph, names: set[str]) -> list[str]:
    """Names of a session's graph in the order of their ids, which is that of the graph itself:
    nothing is ever put in between.
    """
    if len(names) > len(graph) // 8:
        return [name for name in graph._node if name in names]
    return sorted(names, key=lambda name: graph.node(name).id)


def needed_nodes(graph: DataflowGraph, spec: RunSpec) -> tuple[set[str], set[str]]:
    """(nodes that fetches and targets depend on; fed or cut nodes, which stand before what they
    would else depend on).
    """
    fed = {parse_tensor_name(feed) for feed in spec.feeds}
    fed_nodes = {name for name, _ in fed}
    shielded = {name for name, slot in fed if slot == 0 and graph.node(name).has_trait(PLACEHOLDER)}
    stack = [parse_tensor_name(fetch)[0] for fetch in spec.fetches]
    stack += spec.targets
    seen = set(stack)
    shields: set[str] = set()
    while stack:
        yield_interpreter()
        for src, keyed in graph._pred[stack.pop()].items():
            if src in seen or src == SOURCE:
                continue
            if src in spec.cut:
                shields.add(src)
                continue
            if src in fed_nodes and all(
                (src, data["src_output"]) in fed
                or (data["src_output"] == CONTROL and src in shielded)
                for data in keyed.values()
            ):
                shields.add(src)
                continue
            seen.add(src)
            stack.append(src)
    # a feed that nothing needs is still an argument of the run
    return seen, (shields | fed_nodes) - seen


def ancestors(graph: DataflowGraph, names: Iterable[str]) -> set[str]:
    """Those nodes and everything they depend on by data or control edges, loops included."""
    stack = list(names)
    seen = set(stack)
    while stack:
        yield_interpreter()
        for src in graph._pred[stack.pop()]:
            if src not in seen:
                seen.add(src)
                stack.append(src)
    return seen
