"""The events of a plan, what changed, and the graph at any moment."""

from __future__ import annotations

from typing import Any

import pytest

from tfjit.passes import Pipeline
from tfjit.passes.history.events import PASS
from tfjit.passes.history.history import History
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import build, run_passes
from tfjit.passes.text.text_format import parse_graph, print_graph

TEXT = """
    x = Placeholder(dtype=float32, shape=<2>)
    a = Identity(x)
    b = Square(a)
    c = Square(x)
    y = Add(b, c)
"""


@pytest.fixture
def recorded() -> tuple[History, DataflowGraph]:
    history, graph = History(), parse_graph(TEXT)
    passes = ["simplify", "eliminate_common_subexpressions", "prune"]
    ctx = PassContext(options=PassOptions(history=history))
    run_passes(graph, passes, ctx)
    return history, graph


def test_each_rewrite_and_each_pass_is_an_event(recorded: tuple[History, Any]) -> None:
    history, _ = recorded
    assert [str(event) for event in history] == [
        "1: simplify (identity): a Identity: dropped for 'x', 5 -> 4 nodes",
        "2: simplify: end, no further change",
        "3: eliminate_common_subexpressions: c is 'b', 4 -> 3 nodes",
        "4: eliminate_common_subexpressions: end, no further change",
        "5: prune: end, no further change",
    ]
    assert [event.number for event in history.rewrites] == [1, 3]
    assert history.counted(2) is history[3] and history[5].kind == PASS
    assert set(history[3].nodes) == {"b", "c", "y"}


def test_the_diff_has_changed_lines_alone(recorded: tuple[History, Any]) -> None:
    history, _ = recorded
    assert history.diff(1).splitlines()[1:] == [
        "  - a = Identity(x) -> float32<*>",
        "  - b = Square(a) -> float32<*>",
        "  + b = Square(x) -> float32<*>",
    ]
    assert history.diff("simplify") == history.diff(1)
    both = history.diff(1, 3)
    assert both.startswith("events 1 to 3\n") and "- c = Square(x)" in both
    assert "+ y = Add(b, b)" in both and "Placeholder" not in both
    assert history.diff(2) == "2: simplify: end, no further change\n"


def test_stepping_back_and_forth_gives_each_graph(recorded: tuple[History, Any]) -> None:
    history, graph = recorded
    moment = history.at(0)
    assert moment.event is None and "a = Identity(x)" in moment.as_text()
    seen = [len(moment.nodes)]
    while moment.next() != moment:
        moment = moment.next()
        seen.append(len(moment.nodes))
    assert seen == [5, 4, 4, 3, 3, 3]
    assert moment.as_text() == print_graph(graph)
    assert moment.previous().number == 4 and history.at(0).previous() == history.at(0)


def test_a_history_as_html_escapes_the_text(recorded: tuple[History, Any]) -> None:
    page = recorded[0]._repr_html_()
    assert "<td>simplify</td>" in page and "float32&lt;" in page and "5 events" in page


def test_changes_in_place_belong_to_the_pass() -> None:
    def mark(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.node("y").attrs["_mark"] = 1
        graph.node("b").assigned_device = "/device:CPU:0"

    history, graph = History(), parse_graph(TEXT)
    run_passes(graph, [mark], PassContext(options=PassOptions(history=history)))
    assert history[1].nodes == ("b", "y")
    assert "_mark=1" in history.diff(1)


def test_without_a_history_the_graph_keeps_its_class() -> None:
    graph = parse_graph(TEXT)
    run_passes(graph, ["simplify"], PassContext())
    assert type(graph) is DataflowGraph


def test_a_built_plan_is_recorded_and_let_go() -> None:
    history, graph = History(), parse_graph(TEXT)
    spec = RunSpec(("x:0",), ("y:0",), ())
    partitions, _ = build(graph, spec, PassOptions(history=history))
    assert type(partitions[0].graph) is DataflowGraph
    assert type(graph) is DataflowGraph and len(graph) == 7
    fused = next(event for event in history.rewrites if event.pass_name == "fuse")
    assert fused.where.endswith("CPU:0") and "+ y = _Fused" in history.diff(fused.number)
    last = len(history)
    assert history.text_after(last).endswith(print_graph(partitions[0].graph))


def test_numbers_and_names_that_are_not_there(recorded: tuple[History, Any]) -> None:
    history, _ = recorded
    with pytest.raises(ValueError, match="event 9: the history has events 1 to 5"):
        history.diff(9)
    with pytest.raises(ValueError, match="event 0: the history has events 1 to 5"):
        history[0]
    with pytest.raises(ValueError, match="pass 'fuse' did not run; these did: simplify"):
        history.diff("fuse")
    with pytest.raises(ValueError, match="optional rewrite 7"):
        history.counted(7)


def test_a_failed_pass_of_the_users_leaves_the_graph_before_it() -> None:
    def fail(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.remove_op("y")
        raise RuntimeError("no")

    history = History()
    pipeline = Pipeline.default().then(fail)
    options = PassOptions(history=history, pipeline=pipeline, fail_on_errors=False)
    build(parse_graph(TEXT), RunSpec(("x:0",), ("y:0",), ()), options)
    fused = next(event for event in history.rewrites if event.pass_name == "fuse")
    assert (fused.depth, history[len(history)].depth) == (1, 0)
    assert set(history.nodes_after(fused.number - 1)) >= {"b", "y", "_retval_y_0_0"}
    assert "fail" not in {event.pass_name for event in history}
