"""Section 2.4: how inputs are written, and what an import refuses, in TensorFlow's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tfjit
from tests.contract.worlds import both, world

tf1 = tf.compat.v1


@both
def test_inputs_are_written(front: str) -> None:
    def build(api: Any) -> dict[str, Any]:
        x = api.placeholder(api.float32, [4, 2], name="x")
        parts = api.split(x, 2, name="parts")
        with api.control_dependencies([api.no_op(name="second"), api.no_op(name="first")]):
            return {"sum": api.add(parts[1], parts[0], name="sum")}

    graph_def = world(front, build).graph.as_graph_def()
    nodes = {n.name: list(n.input) for n in graph_def.node}
    assert nodes["sum"] == ["parts:1", "parts", "^first", "^second"]


def graph(*nodes: tuple[str, str, list[str]], **attrs: Any) -> Any:
    made = tf1.GraphDef()
    for name, op, inputs in nodes:
        node = made.node.add(name=name, op=op, input=inputs)
        if op in ("Neg", "Identity", "Add"):
            node.attr["T"].type = 1
        elif op == "Placeholder":
            node.attr["dtype"].type = 1
        elif op == "Merge":
            node.attr["T"].type = 1
            node.attr["N"].i = 2
    return made


def colocated(target: str) -> Any:
    made = graph(("a", "Placeholder", []))
    made.node[0].attr["_class"].list.s.append(f"loc:@{target}".encode())
    return made


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown input": (lambda: graph(("a", "Neg", ["b"])), "Node 'a': Unknown input node 'b'"),
    "unknown control input": (
        lambda: graph(("a", "NoOp", ["^b"])),
        "Node 'a': Unknown input node '^b'",
    ),
    "a name twice": (lambda: graph(("a", "NoOp", []), ("a", "NoOp", [])), "Node 'a' is not unique"),
    "no operation": (lambda: graph(("a", "", [])), "Node 'a' does not specify an operation"),
    "characters": (
        lambda: graph(("a b", "NoOp", [])),
        "Node 'a b': Node name contains invalid characters",
    ),
    "a cycle": (lambda: graph(("a", "Neg", ["b"]), ("b", "Neg", ["a"])), "2 nodes in a cycle"),
    "order of controls": (
        lambda: graph(("x", "Placeholder", []), ("a", "Neg", ["^x", "x"])),
        "Control dependencies must come after regular dependencies",
    ),
    "colocated with nothing": (
        lambda: colocated("b"),
        "Node 'a' expects to be colocated with unknown node 'b'",
    ),
    "slot out of range": (
        lambda: graph(("x", "Placeholder", []), ("a", "Neg", ["x:3"])),
        "output 3",
    ),
    "an unknown op": (lambda: graph(("a", "NoSuchOp", [])), "NoSuchOp"),
}


@both
@pytest.mark.parametrize("name", FAULTS)
def test_import_errors(front: str, name: str) -> None:
    make, text = FAULTS[name]
    api: Any = tfjit if front == "tfjit" else tf1
    with (
        api.Graph().as_default() as graph,
        pytest.raises(ValueError if name != "an unknown op" else Exception) as caught,
    ):
        api.import_graph_def(make(), name="")
    assert text in str(caught.value) or (front == "tf" and name == "slot out of range")
    assert not graph.get_operations()
    with (
        api.Graph().as_default(),
        pytest.raises(
            ValueError, match="Requested return_element 'x' not found|Requested return tensor 'x"
        ),
    ):
        api.import_graph_def(api.Graph().as_graph_def(), return_elements=["x:0"], name="")
