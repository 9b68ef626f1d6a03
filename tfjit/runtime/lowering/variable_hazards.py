"""The order of a static partition's nodes: a variable changes after the last use of what was read
of it, where the graph leaves that open.

Otherwise the step would have to keep a copy of what was read (a weight matrix that the gradient of
its layer's input still needs).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

_SEARCH_LIMIT = 8
"""The searches for what follows the writes together visit at most so many times the graph's nodes.
"""


def sink_writes(
    graph: DataflowGraph,
    order: Sequence[str],
    is_read: Callable[[str], bool],
    is_view: Callable[[str], bool],
    variables: dict[str, str],
) -> list[str]:
    """`order`, a topological order, with nodes that change a variable moved behind the uses of its
    value that do not depend on them.

    is_read: nodes that take a variable and give its value; is_view: nodes whose result shares their
    input's memory. variables: for the nodes that change a variable its name, and for nodes that
    read it. Nodes keep their places as far as that allows; where two writes would have to wait for
    each other the order stays as it was.
    """
    reads: dict[str, list[str]] = {}
    writes: list[str] = []
    for name in order:
        if name in variables:
            if is_read(name):
                reads.setdefault(variables[name], []).append(name)
            else:
                writes.append(name)
    budget = _SEARCH_LIMIT * len(order)
    before: dict[str, set[str]] = {}  # write -> what has to come first beyond its own inputs
    for write in writes:
        uses = _uses(graph, reads.get(variables[write], ()), is_view)
        if not uses:
            continue
        after = _descendants(graph, write, budget)
        budget -= len(after)
        if budget <= 0:
            return list(order)
        before[write] = uses - after - {write}
    return _sorted(graph, order, before)


def aliasing_reads(
    graph: DataflowGraph,
    order: Sequence[str],
    is_read: Callable[[str], bool],
    is_view: Callable[[str], bool],
    variables: dict[str, str],
) -> set[str]:
    """Reads of reference variables that give the variable's own memory: some use of them, or a
    fetch, comes after a write.

    In TensorFlow every such read shares the variable's memory, so what the graph orders behind a
    write sees it, wherever the read itself stands (`with control_dependencies([v.assign(5)]): y = v
    + 0` is 5). Arguments are those of `sink_writes`; what the graph leaves open is decided there,
    in favour of the old value.
    """
    reads: dict[str, list[str]] = {}
    writes: list[str] = []
    for name in order:
        if name in variables:
            if not is_read(name):
                writes.append(name)
            elif _has_reference_input(graph, name):
                reads.setdefault(variables[name], []).append(name)
    budget = _SEARCH_LIMIT * len(order)
    shared: set[str] = set()
    for write in writes:
        candidates = [read for read in reads.get(variables[write], ()) if read not in shared]
        if not candidates:
            continue
        after = _descendants(graph, write, budget)
        budget -= len(after)
        if budget <= 0:
            break
        for read in candidates:
            uses = _uses(graph, [read], is_view)
            if uses & after or any(
                _is_fetched(graph, name) for name in uses if name == read or is_view(name)
            ):
                shared.add(read)
    return shared


def _has_reference_input(graph: DataflowGraph, name: str) -> bool:
    source, slot = graph.inputs(name)[0]
    # the snapshot of a variable is a copy
    return graph.node(source).output_dtypes[slot].is_ref and graph.node(name).op != "Snapshot"


def _is_fetched(graph: DataflowGraph, name: str) -> bool:
    return any(graph.node(user).op == "_Retval" for user, _ in graph.consumers(name))


def _uses(graph: DataflowGraph, reads: Sequence[str], is_view: Callable[[str], bool]) -> set[str]:
    """Reads and all nodes that take their memory, through views; fetches, which take nothing before
    the step ends, left out.
    """
    found = set(reads)
    todo = list(reads)
    while todo:
        for name, _ in graph.consumers(todo.pop()):
            if name not in found and graph.node(name).op != "_Retval":
                found.add(name)
                if is_view(name):
                    todo.append(name)
    return found


def _descendants(graph: DataflowGraph, name: str, limit: int) -> set[str]:
    found = {name}
    todo = [name]
    while todo and len(found) <= limit:
        for follower in graph.successors(todo.pop()):
            if follower not in found:
                found.add(follower)
                todo.append(follower)
    return found


def _sorted(graph: DataflowGraph, order: Sequence[str], before: dict[str, set[str]]) -> list[str]:
    place = {name: i for i, name in enumerate(order)}
    if not any(
        place[use] > place[write] for write, uses in before.items() for use in uses if use in place
    ):
        return list(order)
    followers: dict[str, list[str]] = {}
    for write, uses in before.items():
        for use in uses:
            followers.setdefault(use, []).append(write)
    waiting = {
        name: sum(1 for source in graph.predecessors(name) if source in place) for name in order
    }
    for write, uses in before.items():
        waiting[write] += sum(1 for use in uses if use in place)
    ready = [place[name] for name in order if not waiting[name]]
    heapq.heapify(ready)
    found = []
    while ready:
        name = order[heapq.heappop(ready)]
        found.append(name)
        for follower in [*graph.successors(name), *followers.get(name, ())]:
            if follower in place:
                waiting[follower] -= 1
                if not waiting[follower]:
                    heapq.heappush(ready, place[follower])
    return found if len(found) == len(order) else list(order)
