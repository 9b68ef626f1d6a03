"""Stories of graphs, and pages of them without a plan."""

from __future__ import annotations

from tfjit.lab.page.frames import Frame, NodeRecord, PassRun
from tfjit.lab.page.history_runs import GraphStory
from tfjit.lab.page.page_data import page_data
from tfjit.lab.page.view import View
from tfjit.runtime.profiling.explain import ExplainedNode, Explanation, explain_nothing


def page_of_story(
    story: GraphStory, nodes: tuple[ExplainedNode, ...] = (), title: str = "page"
) -> View:
    """Return a page of nodes that no plan has."""
    empty = explain_nothing()
    told = Explanation(empty.signature, empty.report, nodes, 0, 0, empty.executor, ())
    return View(page_data(told, story, title, None))


def big_story(count: int) -> GraphStory:
    """Return `count` nodes in nested scopes, each of up to four inputs, of which a pass drops 100."""
    names = [f"block_{k // 500}/layer_{k // 20}/op_{k}" for k in range(count)]
    nodes = tuple(
        NodeRecord(
            names[k],
            ("MatMul", "Add", "Relu", "Const")[k % 4],
            tuple((names[k - back], 0) for back in (1, 2, 19, 501) if k >= back),
            text=f"-> float32<{k % 50},8>",
        )
        for k in range(count)
    )
    gone = tuple(names[-100:])
    runs = (
        PassRun("the given graph", (Frame(added=nodes),)),
        PassRun("prune", (Frame(reason="100 nodes dropped", removed=gone),)),
        PassRun("the graph that runs", (Frame(),)),
    )
    return GraphStory(runs, nodes[:-100])
