"""Find the nodes that a run or another node depends on."""

from __future__ import annotations

from collections.abc import Iterable

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import PLACEHOLDER
from tfjit.passes.ir.dataflow_graph import CONTROL, SOURCE, DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec, check_spec, parse_tensor_name


def extract(graph: DataflowGraph, spec: RunSpec) -> DataflowGraph:
    """Return a new graph of the nodes that a run needs.

    The nodes are copied from a session's whole graph, which stays unchanged. The cost depends on
    the number of needed nodes, not on the whole graph. The search stops at fed outputs: a node with
    only fed outputs needed is copied without its inputs, for `lower_feeds` to replace.
    Raises the errors of `feeds.check_spec`.
    """
    check_spec(graph, spec)
    needed, shields = needed_nodes(graph, spec)
    made = graph.copy_subset(in_id_order(graph, needed | shields))
    # additions of this run's passes are freed with the run's plan
    made.functions = graph.functions.child()
    made.extracted_for = spec
    made.shields = shields
    return made


def in_id_order(graph: DataflowGraph, names: set[str]) -> list[str]:
    """Return names of a session's graph in id order.

    The order of the graph itself is that order, since nodes are only appended.
    """
    if len(names) > len(graph) // 8:
        return [name for name in graph._node if name in names]
    return sorted(names, key=lambda name: graph.node(name).id)


def needed_nodes(graph: DataflowGraph, spec: RunSpec) -> tuple[set[str], set[str]]:
    """Return (nodes that fetches and targets depend on, shields).

    Shields are fed or cut nodes: the search does not go behind these.
    """
    fed = {parse_tensor_name(feed) for feed in spec.feeds}
    fed_nodes = {name for name, _ in fed}
    shielded = {
        name for name, output in fed if output == 0 and graph.node(name).has_trait(PLACEHOLDER)
    }
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
    # a feed that no node needs is still an argument of the run
    return seen, (shields | fed_nodes) - seen


def ancestors(graph: DataflowGraph, names: Iterable[str]) -> set[str]:
    """Return those nodes and all of their ancestors, loops included.

    Data and control edges count.
    """
    stack = list(names)
    seen = set(stack)
    while stack:
        yield_interpreter()
        for src in graph._pred[stack.pop()]:
            if src not in seen:
                seen.add(src)
                stack.append(src)
    return seen
