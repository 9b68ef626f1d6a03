"""The way of a node through a history."""

from __future__ import annotations

import pytest

from tfjit.passes.history.history import History
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassOptions
from tfjit.passes.pipeline import build
from tfjit.passes.text.text_format import parse_graph


@pytest.fixture(scope="module")
def history() -> History:
    found = History()
    graph = parse_graph("""
        x = Placeholder(dtype=float32, shape=<2>)
        a = Identity(x)
        b = Tanh(a)
        c = Tanh(x)
        d = Mul(b, c)
        y = Relu(d)
        z = Abs(x)
    """)
    build(graph, RunSpec(("x:0",), ("y:0",), ()), PassOptions(history=found))
    return found


def test_a_node_goes_to_what_computes_it(history: History) -> None:
    assert history.fate_of("c").ends == ("y",)
    assert history.fate_of("y").ends == ("y",)
    dropped = history.fate_of("a")
    assert dropped.ends and [e.pass_name for e in dropped.events][-1] == "simplify"
    text = str(history.fate_of("c"))
    assert text.startswith("c goes to y\n") and "eliminate_common_subexpressions: c is 'b'" in text


def test_a_group_comes_from_the_users_nodes(history: History) -> None:
    found = history.origin_of("y")
    assert set(found.ends) == {"y", "d", "b", "c"}
    assert [e.pass_name for e in found.events if e.node == "y"] == ["fuse"]
    assert "<li>" in found._repr_html_()


def test_a_node_that_never_was(history: History) -> None:
    with pytest.raises(ValueError, match="the history has no node 'yy'; near are y"):
        history.fate_of("yy")
