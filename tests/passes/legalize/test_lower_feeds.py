"""Lowering of feeds and fetches, extraction and pruning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tfjit.framework.errors import InvalidArgumentError, NotFoundError
from tfjit.framework.types import dtypes
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE
from tfjit.passes.ir.run_spec import RunSpec, check_spec, parse_tensor_name
from tfjit.passes.ir.subgraph import extract
from tfjit.passes.legalize.lower_feeds import lower_feeds
from tfjit.passes.manager.pass_context import ClientRendezvous, PassContext, PassOptions
from tfjit.passes.text.text_format import parse_graph

GRAPH = """
    x    = Placeholder(dtype=float32, shape=<?,2>)
    axis = Const(dtype=int32, value=int32<>[1])
    n    = NoOp(^x)
    s    = Split(axis, x, num_split=2)
    a    = Square(s)
    b    = Neg(s:1, ^n)
    y    = AddV2(a, b)
    z    = Exp(y)
"""


def _ops(graph: object) -> set[str]:
    return {name for name in graph if name not in (SOURCE, SINK)}  # type: ignore[attr-defined]


def test_feed_and_fetch_become_nodes() -> None:
    graph = parse_graph(GRAPH)
    ctx = PassContext(RunSpec(("x:0",), ("y:0", "b:0"), ("n",), {"x:0": (dtypes.float32, (4, 2))}))
    lower_feeds(graph, ctx)
    graph.verify()
    arg = graph.node("_arg_x_0_0")
    assert (
        arg.op == "_Arg"
        and arg.attrs["index"] == 0
        and arg.attrs["T"] is dtypes.float32
        and arg.output_shapes == ((4, 2),)
    )
    assert arg.origin == ("x",) and arg.assigned_device == ctx.options.client_device
    assert graph.inputs("s") == [("axis", 0), ("_arg_x_0_0", 0)]
    assert graph.control_inputs("n") == ["_arg_x_0_0"], (
        "what waits for a fed placeholder waits for the feed"
    )
    assert graph.inputs("_retval_y_0_0") == [("y", 0)] and graph.inputs("_retval_b_0_1") == [
        ("b", 0)
    ]
    assert {edge.src for edge in graph.edges_into(SINK)} == {
        SOURCE,
        "_retval_y_0_0",
        "_retval_b_0_1",
        "n",
    }


def test_a_fed_output_shields_what_feeds_it_and_other_outputs_do_not() -> None:
    graph = parse_graph(GRAPH)
    lower_feeds(graph, PassContext(RunSpec(("s:1",), ("y:0",))))
    ctx = PassContext(RunSpec(("s:1",), ("y:0",)))
    prune(graph, ctx)
    graph.verify()
    assert _ops(graph) == {"x", "axis", "n", "s", "a", "b", "y", "_arg_s_1_0", "_retval_y_0_0"}
    graph = parse_graph(GRAPH)
    ctx = PassContext(RunSpec(("a:0", "b:0"), ("y:0",)))
    lower_feeds(graph, ctx)
    prune(graph, ctx)
    assert _ops(graph) == {"y", "_arg_a_0_0", "_arg_b_0_1", "_retval_y_0_0"}
    graph.verify()


def test_prune_keeps_control_ancestors() -> None:
    graph = parse_graph("""
        x    = Placeholder()
        init = NoOp()
        y    = Square(x, ^init)
        z    = Neg(y)
    """)
    ctx = PassContext(RunSpec(fetches=("y:0",)))
    lower_feeds(graph, ctx)
    prune(graph, ctx)
    assert _ops(graph) == {"x", "init", "y", "_retval_y_0_0"}


def test_an_argument_nobody_uses_goes_and_the_others_keep_their_index() -> None:
    graph = parse_graph(GRAPH)
    ctx = PassContext(RunSpec(("x:0", "a:0", "b:0"), ("y:0",)))
    lower_feeds(graph, ctx)
    prune(graph, ctx)
    assert {node.name: node.attrs["index"] for node in graph.op_nodes() if node.op == "_Arg"} == {
        "_arg_a_0_1": 1,
        "_arg_b_0_2": 2,
    }
    graph.verify()


@pytest.mark.parametrize(
    ("feeds", "fetches", "targets"),
    [
        (("x:0",), ("y:0",), ()),
        (("s:1",), ("y:0",), ()),
        (("a:0", "b:0"), ("z:0",), ()),
        (("a:0",), ("b:0",), ("n",)),
        (("x:0", "z:0"), ("a:0",), ()),
        (("y:0",), ("z:0",), ("y",)),
        ((), ("axis:0",), ()),
    ],
)
def test_extraction_then_lowering_is_lowering_then_pruning(
    feeds: tuple[str, ...], fetches: tuple[str, ...], targets: tuple[str, ...]
) -> None:
    whole = parse_graph(GRAPH)
    spec = RunSpec(feeds, fetches, targets, dict.fromkeys(feeds, (dtypes.float32, None)))
    ctx = PassContext(spec, PassOptions(verify=True))
    reference = whole.copy()
    lower_feeds(reference, ctx)
    prune(reference, ctx)
    before = whole.to_graph_def().SerializeToString()
    working = extract(whole, spec)
    lower_feeds(working, ctx)
    working.verify()
    prune(working, ctx)
    working.verify()
    assert _ops(working) == _ops(reference)

    def shape(graph):
        edges = (e for e in graph.all_edges() if e.dst != SINK)
        return sorted((e.src, e.src_output, e.dst, e.dst_input) for e in edges)

    assert shape(working) == shape(reference)
    assert whole.to_graph_def().SerializeToString() == before, "the session's graph is not touched"


def test_extraction_costs_what_is_needed_not_the_whole() -> None:
    lines = ["x = Placeholder()"] + [
        f"n{i} = Neg({'x' if i == 0 else f'n{i - 1}'})" for i in range(2000)
    ]
    graph = parse_graph("\n".join(lines))
    touched = 0

    class Counting(dict):  # type: ignore[type-arg]
        def __getitem__(self, key: str) -> object:
            nonlocal touched
            touched += 1
            return super().__getitem__(key)

    graph._pred = Counting(graph._pred)
    assert extract(graph, RunSpec(("x:0",), ("n4:0",))).num_op_nodes == 6
    assert touched < 50


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (RunSpec(), InvalidArgumentError, "Must specify at least one target to fetch or execute."),
        (
            RunSpec(("x:0", "x:0"), ("y:0",)),
            InvalidArgumentError,
            'Endpoint "x:0" fed more than once.',
        ),
        (RunSpec(("x:0",), ("x:0",)), InvalidArgumentError, "x:0 is both fed and fetched."),
        (RunSpec(("q:0",), ("y:0",)), NotFoundError, "FeedInputs: unable to find feed output q:0"),
        (
            RunSpec(("x:1",), ("y:0",)),
            InvalidArgumentError,
            "FeedInputs: x:1 should have output index < 1",
        ),
        (RunSpec(("x:0",), ("q:0",)), NotFoundError, "FetchOutputs node q:0: not found"),
        (
            RunSpec(("x:0",), ("n:0",)),
            InvalidArgumentError,
            "Tried to fetch data for 'n:0', which produces no output.  To run to a node but not "
            "fetch any data, pass 'n:0' as an argument "
            "to the 'target_node_names' argument of the Session::Run API.",
        ),
        (
            RunSpec(("x:0",), ("y:1",)),
            InvalidArgumentError,
            "FetchOutputs y:1: output index too large, must be < 1",
        ),
        (
            RunSpec((), (), ("y", "q", "w")),
            NotFoundError,
            "PruneForTargets: Some target nodes not found: q w ",
        ),
    ],
)
def test_bad_specs(spec: RunSpec, error: type[Exception], message: str) -> None:
    graph = parse_graph(GRAPH)
    for action in (
        lambda: check_spec(graph, spec),
        lambda: lower_feeds(graph, PassContext(spec)),
        lambda: extract(graph, spec),
    ):
        with pytest.raises(error) as caught:
            action()
        assert str(caught.value) == message


def test_client_form_for_partial_and_distributed_runs() -> None:
    graph = parse_graph(GRAPH)
    device = "/job:worker/replica:0/task:1/device:CPU:0"
    ctx = PassContext(RunSpec(("s:1",), ("y:0",)), PassOptions(client=ClientRendezvous(device, 77)))
    lower_feeds(graph, ctx)
    graph.verify()
    receive, send = graph.node("_recv_s_1"), graph.node("_send_y_0")
    common = {
        "send_device": device.encode(),
        "recv_device": device.encode(),
        "send_device_incarnation": 77,
        "client_terminated": True,
    }
    assert receive.op == "_Recv" and receive.attrs == {
        "tensor_type": dtypes.float32,
        "tensor_name": b"s:1",
        **common,
    }
    assert send.op == "_Send" and send.attrs == {
        "T": dtypes.float32,
        "tensor_name": b"y:0",
        **common,
    }
    assert graph.inputs("b") == [("_recv_s_1", 0)] and graph.inputs("_send_y_0") == [("y", 0)]


def test_references_are_read_where_they_are_fetched() -> None:
    graph = parse_graph("v = VariableV2(dtype=float32, shape=<2>)")
    lower_feeds(graph, PassContext(RunSpec((), ("v:0",))))
    graph.verify()
    assert graph.node("_retval_v_0_0").attrs["T"] is dtypes.float32


def test_tensor_names() -> None:
    assert parse_tensor_name("a/b:12") == ("a/b", 12)
    assert parse_tensor_name("a") == ("a", 0)
    assert parse_tensor_name("^a") == ("a", -1)
    assert parse_tensor_name("a:b") == ("a:b", 0)
    assert np.isscalar(parse_tensor_name("a:1")[1])


def test_a_feed_of_a_known_value_is_a_constant() -> None:
    graph = parse_graph(GRAPH)
    value = np.ones((4, 2), np.float32)
    spec = RunSpec(("x:0",), ("y:0",), (), {"x:0": (dtypes.float32, (4, 2))})
    lower_feeds(graph, PassContext(replace(spec, feed_values={"x:0": value})))
    graph.verify()
    (axis, (known, _)) = graph.inputs("s")
    assert axis == ("axis", 0)
    assert graph.node(known).op == "Const"
    np.testing.assert_array_equal(graph.node(known).attrs["value"], value)
    assert graph.node("_arg_x_0_0").op == "_Arg", "the run has the feed all the same"
    assert graph.control_inputs("n") == ["_arg_x_0_0"]
