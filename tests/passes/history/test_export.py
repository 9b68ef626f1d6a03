"""TensorFlow runs the graph after every event, with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.lab.rewrites.planted import FEEDS, FETCHES, small_program
from tests.passes.small_programs import FEED, arrays, loops
from tfjit.framework.errors import UnimplementedError
from tfjit.lab import history as record
from tfjit.passes.history.export import ExportedGraph
from tfjit.passes.history.history import History
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import run_passes
from tfjit.passes.text.text_format import parse_graph

tf = pytest.importorskip("tensorflow")
tf1 = tf.compat.v1


def values(made: ExportedGraph, fetches: list[str], feeds: dict[str, Any]) -> list[Any]:
    with tf.Graph().as_default(), tf1.Session() as session:
        message = tf1.GraphDef.FromString(made.graph_def.SerializeToString())
        tf1.import_graph_def(message, name="")
        named = {made.feeds.get(name, name): value for name, value in feeds.items()}
        found: list[Any] = session.run([made.fetches.get(f, f) for f in fetches], named)
        return found


@pytest.mark.parametrize("program", [small_program, loops, arrays])
def test_tensorflow_runs_the_graph_after_an_event(program: Any) -> None:
    made = program()
    graph, fetches, feeds = (made, FETCHES, FEEDS) if program is small_program else (*made, FEED)
    history = record(graph, fetches, feeds)
    changing = [event.number for event in history if event.changes]
    right = values(history.graph_after(0), fetches, feeds)
    wanted = {*changing[:: max(1, len(changing) // 6)], len(history)}
    for number in sorted(wanted):
        found = values(history.at(number).graph_def(), fetches, feeds)
        for value, expected in zip(found, right, strict=True):
            np.testing.assert_allclose(
                value, expected, rtol=1e-5, atol=1e-5, err_msg=str(history[number])
            )


def test_feeds_and_fetches_have_their_names() -> None:
    made = record(small_program(), FETCHES, FEEDS).graph_after(20)
    assert made.feeds == {"x:0": "x:0"} and set(made.fetches) == set(FETCHES)
    assert not [node.name for node in made.graph_def.node if node.name.startswith("_")]


def test_an_op_that_tensorflow_lacks_is_named() -> None:
    def pad(graph: DataflowGraph, ctx: PassContext) -> None:
        attrs = {**graph.node("y").attrs, "limit": 0}
        graph.change_op("y", "_PaddedUnique", graph.inputs("y"), attrs)

    history = History()
    graph = parse_graph("""
        x = Placeholder(dtype=int32, shape=<4>)
        y = Unique(x)
    """)
    run_passes(graph, [pad], PassContext(options=PassOptions(history=history)))
    assert history.graph_after(0).graph_def.node[1].op == "Unique"
    with pytest.raises(UnimplementedError, match=r"no op for node 'y' \(_PaddedUnique\)"):
        history.graph_after(len(history))
