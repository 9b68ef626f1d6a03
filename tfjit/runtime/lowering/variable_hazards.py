"""Order writes of a variable after uses of its old value.

The order matters only for pairs that the graph leaves unordered. Without it the step would have to
keep a copy of the value (a weight matrix that the gradient of its layer's input still needs).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

_SEARCH_LIMIT = 8
"""Limit of visited nodes in searches for writes' descendants.

The limit is a multiple of the graph's nodes, for all searches together.
"""


def sink_writes(
    graph: DataflowGraph,
    order: Sequence[str],
    is_read: Callable[[str], bool],
    is_view: Callable[[str], bool],
    variables: dict[str, str],
) -> list[str]:
    """Return a topological `order` with variable writes sunk below independent uses.

    A use is independent if it does not depend on the write. is_read: nodes that take a variable and
    give its value. is_view: nodes that share their input's memory. variables: the variable's name,
    for nodes that change or read one. Other nodes keep their places as far as possible. If two
    writes would have to wait for each other, the order stays unchanged.
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
    # write -> nodes that must come first, apart from its own inputs
    before: dict[str, set[str]] = {}
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
    """Return the reads of reference variables that share the variable's memory.

    Some use of such a read, or a fetch, comes after a write. In TensorFlow each such read shares
    the variable's memory. So all nodes that the graph orders after a write see the new value,
    wherever the read itself is: with `with control_dependencies([v.assign(5)]): y = v + 0`, y is 5.
    Arguments are those of `sink_writes`, which resolves all pairs that the graph leaves unordered
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
    source, output = graph.inputs(name)[0]
    # Snapshot copies a variable.
    return graph.node(source).output_dtypes[output].is_ref and graph.node(name).op != "Snapshot"


def _is_fetched(graph: DataflowGraph, name: str) -> bool:
    return any(graph.node(user).op == "_Retval" for user, _ in graph.consumers(name))


def _uses(graph: DataflowGraph, reads: Sequence[str], is_view: Callable[[str], bool]) -> set[str]:
    """Return the reads and all nodes that use their memory, through views.

    Fetches are left out: they read nothing before the step ends.
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
