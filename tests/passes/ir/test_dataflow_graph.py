"""The working graph: ids, counts, rewiring, the back-end view, verify()."""

from __future__ import annotations

import weakref

import networkx as nx
import numpy as np
import pytest

from tfjit.framework.errors import InternalError, InvalidArgumentError, NotFoundError
from tfjit.framework.graphs import graph as framework_graph
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import CONTROL, SINK, SOURCE, DataflowGraph, Edge
from tfjit.passes.text.text_format import parse_graph
from tfjit.protos import graph_pb2

DIAMOND = """
    x    = Placeholder(dtype=float32, shape=<2>)
    init = NoOp()
    a    = Square(x, ^init)
    b    = Neg(x)
    y    = AddV2(a, b)
"""


def test_source_and_sink_have_ids_0_and_1() -> None:
    graph = DataflowGraph()
    assert graph.node(SOURCE).id == 0 and graph.node(SINK).id == 1
    assert graph.node(SOURCE).op == graph.node(SINK).op == "NoOp"
    assert graph.num_nodes == 2 and graph.num_op_nodes == 0 and graph.num_edges == 1
    assert graph.edges_into(SINK) == [Edge(0, SOURCE, CONTROL, SINK, CONTROL)]
    graph.verify()


def test_op_nodes_are_numbered_from_2_and_tied_at_both_ends() -> None:
    graph = parse_graph(DIAMOND)
    assert [node.id for node in graph.op_nodes()] == [2, 3, 4, 5, 6]
    assert {edge.dst for edge in graph.edges_out_of(SOURCE)} == {SINK, "x", "init"}
    assert {edge.src for edge in graph.edges_into(SINK)} == {SOURCE, "y"}
    # x->a, init->a, x->b, a->y, b->y, two ties to the source, one to the sink, source->sink
    assert graph.num_edges == 9


def test_ids_are_never_used_again_and_counts_are_of_what_lives() -> None:
    graph = parse_graph(DIAMOND)
    edge_ids = {edge.id for edge in graph.all_edges()}
    graph.remove_op("b")
    assert graph.num_op_nodes == 4 and graph.num_edges == 7
    made = graph.add_node_op("b", "Neg", [("x", 0)])
    assert made.id == 7 and graph.num_node_ids == 8
    new = graph.add_data_edge("b", 0, "y", 1)
    assert new not in edge_ids and new == graph.num_edge_ids - 1
    assert graph.num_edges == 9
    graph.verify()


def test_inputs_are_ordered_by_slot_not_by_insertion() -> None:
    graph = parse_graph(DIAMOND)
    graph.replace_input("y", 0, "b", 0)
    assert graph.inputs("y") == [("b", 0), ("b", 0)]
    graph.replace_input("y", 0, "a", 0)
    assert graph.inputs("y") == [("a", 0), ("b", 0)]
    graph.verify()


def test_parallel_edges_and_control_edges_are_kept_apart() -> None:
    graph = parse_graph("""
        x = Placeholder()
        s = Split(c, x, num_split=2)
        c = Const(dtype=int32, value=int32<>[0])
        y = AddV2(s:1, s:1, ^s)
    """)
    assert [(edge.src_output, edge.dst_input) for edge in graph.node("y").in_edges] == [
        (1, 0),
        (1, 1),
        (CONTROL, CONTROL),
    ]
    assert graph.consumers("s", 1) == [("y", 0), ("y", 1)] and graph.consumers("s", 0) == []
    assert graph.control_consumers("s") == ["y"] and graph.control_inputs("y") == ["s"]
    assert graph.add_control_edge("s", "y") is None, (
        "a second control edge between the same nodes means nothing"
    )


def test_back_end_view_of_a_node() -> None:
    graph = parse_graph(DIAMOND)
    node = graph.node("a")
    definition = getattr(node, "def")
    assert type(definition).__name__ == "NodeDef"
    assert (definition.name, definition.op, list(definition.input)) == (
        "a",
        "Square",
        ["x", "^init"],
    )
    assert node.op_def is registry.lookup("Square")
    with pytest.raises((AttributeError, TypeError)):
        node.op_def.name = "Other"  # type: ignore[union-attr, misc]
    assert [edge.src for edge in node.in_edges] == ["x", "init"]
    assert [edge.dst for edge in node.out_edges] == ["y"]
    node.attrs["_note"] = b"changed"
    assert getattr(node, "def").attr["_note"].s == b"changed", (
        "made on demand from the node as it stands"
    )


def test_new_name_is_prefix_and_counter() -> None:
    graph = parse_graph(DIAMOND)
    assert graph.new_name("a") == "a/_0"
    graph.add_node_op("a/_1", "Neg", [("a", 0)])
    assert graph.new_name("a") == "a/_2" and graph.new_name("b") == "b/_3"


def test_add_node_op_fills_attrs_and_inherits() -> None:
    graph = parse_graph(DIAMOND)
    like = graph.node("a")
    like.device, like.assigned_device, like.origin = (
        "/device:CPU:1",
        "/job:localhost/replica:0/task:0/device:CPU:1",
        ("a", "z"),
    )
    made = graph.add_node_op(
        "c",
        "MatMul",
        [("a", 0), ("b", 0)],
        {"transpose_b": True},
        like=like,
        control_inputs=["init", "init"],
    )
    assert (
        made.attrs["T"] is dtypes.float32
        and made.attrs["transpose_a"] is False
        and made.attrs["transpose_b"] is True
    )
    assert (made.device, made.assigned_device, made.origin) == (
        like.device,
        like.assigned_device,
        ("a", "z"),
    )
    assert graph.control_inputs("c") == ["init"]
    with pytest.raises(InternalError, match="already in the graph"):
        graph.add_node_op("c", "NoOp")
    with pytest.raises(InternalError, match="unknown input node 'nope'"):
        graph.add_node_op("d", "Neg", [("nope", 0)])
    with pytest.raises(InternalError, match="'a' has no output 1"):
        graph.add_node_op("d", "Neg", [("a", 1)])
    with pytest.raises(NotFoundError, match="Op type not registered 'Nope'"):
        graph.add_node_op("d", "Nope")
    assert "d" not in graph


def test_bypass_keeps_what_was_waited_for() -> None:
    graph = parse_graph("""
        x    = Placeholder()
        init = NoOp()
        i    = Identity(x, ^init)
        y    = AddV2(i, i)
        n    = NoOp(^i)
    """)
    graph.bypass("i", "x", 0)
    assert graph.inputs("y") == [("x", 0), ("x", 0)]
    assert graph.control_inputs("y") == ["init"]
    assert sorted(graph.control_inputs("n")) == ["init", "x"]
    graph.verify()


def test_redirect_output_leaves_the_new_source_alone() -> None:
    graph = parse_graph("""
        x = Placeholder()
        y = Neg(x)
        z = Square(x)
    """)
    graph.redirect_output("x", 0, "y", 0)
    assert graph.inputs("y") == [("x", 0)] and graph.inputs("z") == [("y", 0)]


def test_change_op_keeps_name_id_and_consumers() -> None:
    graph = parse_graph(DIAMOND)
    node, id = graph.node("b"), graph.node("b").id
    graph.change_op("b", "Const", [], {"dtype": dtypes.float32, "value": np.zeros(2, np.float32)})
    assert graph.node("b") is node and node.id == id and node.op == "Const"
    assert graph.inputs("y") == [("a", 0), ("b", 0)] and graph.inputs("b") == []
    graph.tie_ends()
    graph.verify()


def test_topological_order_is_by_id_where_edges_leave_a_choice() -> None:
    graph = parse_graph(DIAMOND)
    assert graph.topological_order() == ["x", "init", "a", "b", "y"]
    graph.add_node_op("w", "NoOp")
    graph.add_control_edge("w", "x")
    assert graph.topological_order() == ["init", "w", "x", "a", "b", "y"]
    graph.remove_op("b")
    assert graph.topological_order() == ["init", "w", "x", "a", "y"]


def test_loop_back_edges_do_not_count_as_cycles() -> None:
    graph = parse_graph("""
        x = Placeholder(shape=<>)
        e = Enter(x, frame_name=b'loop')
        m = Merge(e, n)
        c = LoopCond(l)
        l = Less(m, m)
        s = Switch(m, c)
        n = NextIteration(s:1)
        o = Exit(s)
    """)
    assert graph.topological_order()[:3] == ["x", "e", "m"]
    graph.verify()


def test_networkx_sees_an_ordinary_multigraph() -> None:
    graph = parse_graph(DIAMOND)
    assert nx.is_directed_acyclic_graph(graph)
    assert nx.ancestors(graph, "y") == {"a", "b", "x", "init", SOURCE}
    assert set(nx.topological_sort(graph)) == set(graph)
    key = graph.add_edge("x", "y")
    assert graph.edges["x", "y", key] == {"src_output": CONTROL, "dst_input": CONTROL}
    with pytest.raises(TypeError, match="weight"):
        graph.add_edge("x", "y", weight=1)


def test_copy_is_independent_and_keeps_ids() -> None:
    graph = parse_graph(DIAMOND)
    copy = graph.copy()
    assert sorted(copy.all_edges()) == sorted(graph.all_edges())
    copy.node("a").attrs["_x"] = 1
    copy.remove_op("b")
    assert "_x" not in graph.node("a").attrs and "b" in graph
    assert copy.add_node_op("z", "NoOp").id == 7
    graph.verify()
    copy.remove_op("y")
    copy.verify()


def test_copy_subset_materialises_only_those_nodes() -> None:
    graph = parse_graph(DIAMOND)
    part = graph.copy_subset(["x", "b"])
    assert [node.name for node in part.op_nodes()] == ["x", "b"]
    assert part.num_edges == 3 and part.node("b").id == graph.node("b").id
    part.verify()


# ---- verify names node and fault


def test_verify_wrong_arity() -> None:
    graph = parse_graph(DIAMOND)
    graph.remove_op("b")
    with pytest.raises(
        InternalError, match=r"Node 'y' \(AddV2\): it takes 2 inputs, but nothing feeds input \[1\]"
    ):
        graph.verify()


def test_verify_duplicate_slot() -> None:
    graph = parse_graph(DIAMOND)
    graph.add_data_edge("x", 0, "y", 1)
    with pytest.raises(
        InternalError, match=r"Node 'y' \(AddV2\): input slot 1 has two edges, from '.' and '.'"
    ):
        graph.verify()


def test_verify_slot_beyond_the_inputs() -> None:
    graph = parse_graph(DIAMOND)
    graph.add_data_edge("x", 0, "y", 2)
    with pytest.raises(InternalError, match="ends at input slot 2, but it takes 2 inputs"):
        graph.verify()


def test_verify_output_that_does_not_exist() -> None:
    graph = parse_graph(DIAMOND)
    graph.replace_input("y", 1, "b", 3)
    with pytest.raises(InternalError, match="input 1 is 'b:3', but 'b' has 1 outputs"):
        graph.verify()


def test_verify_dtype_mismatch() -> None:
    graph = parse_graph(DIAMOND)
    graph.add_node_op("k", "Cast", [("x", 0)], {"DstT": dtypes.int32})
    graph.replace_input("y", 1, "k", 0)
    with pytest.raises(
        InternalError, match=r"Node 'y' \(AddV2\): input 1 from 'k:0' is int32, expected float32"
    ):
        graph.verify()


def test_verify_control_edge_slots() -> None:
    graph = parse_graph(DIAMOND)
    graph.add_data_edge("x", 0, "y", CONTROL)
    with pytest.raises(InternalError, match="needs both slots -1, has 0 and -1"):
        graph.verify()


def test_verify_cycle() -> None:
    graph = parse_graph(DIAMOND)
    graph.replace_input("a", 0, "y", 0)
    with pytest.raises(InternalError, match="2 nodes in a cycle: (y -> a -> y|a -> y -> a)"):
        graph.verify()


def test_verify_dangling_edge() -> None:
    graph = parse_graph(DIAMOND)
    del graph._node["b"]
    with pytest.raises(InternalError, match="dangling edge"):
        graph.verify()


def test_verify_missing_op_def_and_stale_dtypes() -> None:
    graph = parse_graph(DIAMOND)
    graph.node("a").op_def = None
    with pytest.raises(InternalError, match=r"Node 'a' \(Square\): it has no op_def"):
        graph.verify()
    graph = parse_graph(DIAMOND)
    graph.node("a").attrs["T"] = dtypes.int32
    with pytest.raises(
        InternalError,
        match=r"Node 'a' \(Square\): its attrs say inputs \(int32\), the node says \(float32\)",
    ):
        graph.verify()


def test_source_and_sink_cannot_be_removed() -> None:
    graph = DataflowGraph()
    with pytest.raises(InternalError, match="_SOURCE cannot be removed"):
        graph.remove_op(SOURCE)


# ---- to and from GraphDef


def _graph_def(*nodes: tuple[str, str, list[str]]) -> graph_pb2.GraphDef:
    message = graph_pb2.GraphDef()
    for name, op, inputs in nodes:
        node = message.node.add(name=name, op=op, input=inputs)
        if op == "Placeholder":
            node.attr["dtype"].type = 1
        elif op != "NoOp":
            node.attr["T"].type = 1
    return message


def test_graph_def_round_trip() -> None:
    graph = parse_graph(DIAMOND)
    graph.node("a").device = "/device:CPU:1"
    message = graph.to_graph_def()
    assert [node.name for node in message.node] == ["x", "init", "a", "b", "y"]
    again = DataflowGraph.from_graph_def(message)
    assert again.to_graph_def().node == message.node
    again.verify()
    assert DataflowGraph.from_graph_def(message.SerializeToString()).num_op_nodes == 5


def test_extend_takes_inputs_from_what_is_there() -> None:
    graph = DataflowGraph.from_graph_def(
        _graph_def(("x", "Placeholder", []), ("y", "Square", ["x"]))
    )
    assert graph.extend(_graph_def(("z", "AddV2", ["y", "x:0", "^x"]), ("w", "Neg", ["z"]))) == [
        "z",
        "w",
    ]
    assert graph.inputs("z") == [("y", 0), ("x", 0)] and graph.control_inputs("z") == ["x"]
    assert {edge.src for edge in graph.edges_into(SINK)} == {SOURCE, "w"}, "y has a consumer now"
    graph.verify()


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([("y", "Square", ["nope"])], InvalidArgumentError, "Node 'y': Unknown input node 'nope'"),
        (
            [("y", "Square", ["x"]), ("y", "Neg", ["x"])],
            InvalidArgumentError,
            "Node 'y' is not unique",
        ),
        (
            [("x", "Neg", [])],
            InvalidArgumentError,
            "includes node 'x', which was created by a previous call to Create or Extend",
        ),
        ([("y", "", ["x"])], InvalidArgumentError, "Node 'y' does not specify an operation"),
        (
            [("?", "Neg", ["x"])],
            InvalidArgumentError,
            "Node '?': Node name contains invalid characters",
        ),
        ([("y", "NopeOp", ["x"])], NotFoundError, "Op type not registered 'NopeOp'"),
        ([("a", "Neg", ["b"]), ("b", "Neg", ["a"])], InvalidArgumentError, "2 nodes in a cycle"),
        ([("y", "AddV2", ["x"])], InvalidArgumentError, "do not match 1 inputs specified"),
        (
            [("y", "Square", ["x:1"])],
            InvalidArgumentError,
            "Node 'y': Connecting to invalid output 1 of source node x which has 1 outputs",
        ),
        (
            [("y", "Square", ["^x", "x"])],
            InvalidArgumentError,
            "Control dependencies must come after regular dependencies",
        ),
    ],
)
def test_bad_extension_adds_nothing(
    nodes: list[tuple[str, str, list[str]]], error: type[Exception], message: str
) -> None:
    graph = DataflowGraph.from_graph_def(_graph_def(("x", "Placeholder", [])))
    with pytest.raises(error) as caught:
        graph.extend(_graph_def(*nodes))
    assert message in str(caught.value)
    assert graph.num_op_nodes == 1
    graph.extend(_graph_def(("ok", "Neg", ["x"])))
    graph.verify()


def test_from_framework_graph_equals_the_way_through_graph_def() -> None:
    graph = framework_graph.Graph()
    with graph.as_default():
        x = graph.create_op(
            "Placeholder", name="x", attrs={"dtype": dtypes.float32, "shape": [None, 3]}
        ).outputs[0]
        with graph.control_dependencies(
            [graph.create_op("NoOp", name="b"), graph.create_op("NoOp", name="a")]
        ):
            graph.create_op("Square", [x], name="y")
    direct = DataflowGraph.from_graph(graph)
    through = DataflowGraph.from_graph_def(graph.as_graph_def())
    assert direct.to_graph_def() == through.to_graph_def()
    assert sorted(direct.all_edges()) == sorted(through.all_edges())
    assert direct.node("y").output_shapes == ((None, 3),)


def test_op_types_are_those_of_the_nodes_that_live() -> None:
    graph = parse_graph("""
        x = Placeholder()
        a = Neg(x)
        b = Neg(a)
    """)
    assert set(graph.op_types) == {"Placeholder", "Neg"}
    graph.change_op("a", "Square", [("x", 0)], {})
    graph.bypass("b", "a", 0)
    assert set(graph.op_types) == {"Placeholder", "Square"}
    assert set(graph.copy_subset(["x"]).op_types) == {"Placeholder"}
    graph.node("a").op = "Abs"  # past the graph, which counts
    graph.node("a").op_def = registry.require("Abs")
    with pytest.raises(InternalError, match="counts the op types"):
        graph.verify()


def test_inputs_that_were_asked_for_follow_every_change() -> None:
    graph = parse_graph("""
        x = Placeholder()
        w = Placeholder()
        a = Neg(x, ^w)
        y = AddV2(a, x)
    """)
    assert graph.inputs("y") == [("a", 0), ("x", 0)]
    graph.inputs("y").clear()  # the caller's own
    assert graph.inputs("y") == [("a", 0), ("x", 0)]
    graph.replace_input("y", 1, "w", 0)
    assert graph.inputs("y") == [("a", 0), ("w", 0)]
    assert graph.control_inputs("a") == ["w"]
    graph.remove_control_edge("w", "a")
    assert graph.control_inputs("a") == []
    graph.redirect_output("a", 0, "x", 0)
    assert graph.inputs("y") == [("x", 0), ("w", 0)]
    graph.remove_op("w")
    assert graph.inputs("y") == [("x", 0)]


def test_an_edge_along_the_order_keeps_it_and_one_against_it_does_not() -> None:
    graph = parse_graph("""
        x = Placeholder()
        a = Neg(x)
        b = Abs(x)
    """)
    assert graph.topological_order() == ["x", "a", "b"]
    graph.add_control_edge("a", "b")
    assert graph.topological_order() == ["x", "a", "b"]
    graph.remove_control_edge("a", "b")
    graph.add_control_edge("b", "a")
    assert graph.topological_order() == ["x", "b", "a"]


@pytest.mark.usefixtures("usual_collections")
def test_no_callback_runs_when_a_copy_goes() -> None:
    """An interrupt while a graph is taken apart would be raised in it, and dropped there."""
    graph = parse_graph(DIAMOND)
    copy = graph.copy()
    assert all(reference.__callback__ is None for reference in weakref.getweakrefs(copy))
    for _ in range(1000):
        graph.copy()
    assert len(graph.functions._copies) < 200
    graph.functions.dissolve()
    assert not copy.op_types
