"""Stages of a partition by the receives that they depend on."""

from __future__ import annotations

import pytest

from tfjit.framework import errors
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.partitioning.split_receives import SMALL, split_by_receives
from tfjit.passes.text.text_format import parse_graph

RECEIVE = (
    "_Recv(tensor_type=float32, tensor_name=b'{0}', send_device=b'', send_device_incarnation=1, "
    "recv_device=b'', client_terminated={1})"
)
SEND = (
    "_Send({0}, tensor_name=b'{0}', send_device=b'', send_device_incarnation=1, "
    "recv_device=b'', client_terminated={1})"
)


def graph_of(text: str) -> DataflowGraph:
    """Return a graph in which recv(x), feed(x), send(x) and fetch(x) stand for transfers."""
    lines = []
    for line in text.strip().splitlines():
        name, _, op = line.strip().partition(" = ")
        kind, _, rest = op.partition("(")
        argument = rest.rstrip(")")
        if kind in ("recv", "feed"):
            op = RECEIVE.format(argument, kind == "feed")
        elif kind in ("send", "fetch"):
            op = SEND.format(argument, kind == "fetch")
        lines.append(f"{name} = {op}")
    return parse_graph("\n".join(lines))


def stages(text: str) -> list[tuple[set[str], tuple[str, ...], list[str], set[int]]]:
    """Return (members, feeds, sends, earlier stages) of each stage."""
    found, why = split_by_receives(graph_of(text), lambda node: node.op == "QueueDequeueV2")
    assert found or not text or why, why
    return [
        (
            set() if one.stage is None else one.stage.members,
            tuple(sorted(one.feeds)),
            sorted(name for name, _ in one.sends),
            set(one.after),
        )
        for one in found
    ]


def test_a_send_waits_for_its_own_receives_alone() -> None:
    assert stages("""
        a = recv(a)
        b = recv(b)
        x = Neg(a)
        s = send(x)
        y = AddV2(x, b)
        t = send(y)
    """) == [
        ({"x"}, ("a:0",), ["s"], set()),
        ({"y"}, ("b:0", "x:0"), ["t"], {0}),
    ]


def test_small_stages_join_their_users() -> None:
    assert stages("""
        a = recv(a)
        b = recv(b)
        x = Neg(a)
        y = AddV2(x, b)
        t = send(y)
    """) == [({"x", "y"}, ("a:0", "b:0"), ["t"], set())]


@pytest.mark.parametrize(
    ("line", "is_early"),
    [
        ("x = CheckNumerics(a, message=b'bad')", True),
        ("x = GatherV2(a, i, k)", True),
        ("x = GatherV2(a, k, k)", False),  # the indices are constant
        ("x = Tanh(a)", False),
    ],
)
def test_a_node_that_may_fail_does_not_wait_for_more(line: str, is_early: bool) -> None:
    """Its error is seen although the other task never sends b."""
    found = stages(f"""
        a = recv(a)
        b = recv(b)
        f = feed(f)
        i = Cast(f, DstT=int32, SrcT=float32)
        k = Const(dtype=int32, value=0)
        {line}
        y = AddV2(x, b)
        t = send(y)
    """)
    assert any("x" in members and "y" not in members for members, *_ in found) == is_early


def test_large_stages_start_early() -> None:
    chain = "\n".join(f"n{i} = Neg({f'n{i - 1}' if i else 'a'})" for i in range(SMALL + 1))
    found = stages(f"a = recv(a)\nb = recv(b)\n{chain}\ny = AddV2(n{SMALL}, b)\nt = send(y)")
    assert [len(members) for members, *_ in found] == [SMALL + 1, 1]


def test_feeds_of_the_client_have_arrived() -> None:
    assert stages("""
        a = feed(a)
        x = Neg(a)
        s = send(x)
        f = fetch(x)
    """) == [({"x"}, ("a:0",), ["f", "s"], set())]


def test_updates_of_several_tensors_are_one_stage() -> None:
    found = stages("""
        v = VarHandleOp(dtype=float32, shape=<>, shared_name=b'v')
        w = VarHandleOp(dtype=float32, shape=<>, shared_name=b'w')
        a = recv(a)
        b = recv(b)
        r = ReadVariableOp(v, dtype=float32)
        s = send(r)
        x = AssignAddVariableOp(v, a, dtype=float32)
        y = AssignAddVariableOp(w, b, dtype=float32)
        z = NoOp(^x, ^y)
    """)
    assert [members for members, *_ in found] == [{"r"}, {"x", "y", "z"}]


def test_a_blocking_node_is_a_stage_of_its_own() -> None:
    found = stages("""
        q = FIFOQueueV2(component_types=[float32])
        d = QueueDequeueV2(q, component_types=[float32])
        a = recv(a)
        x = Neg(a)
        s = send(x)
        y = Neg(d)
        t = send(y)
    """)
    assert sorted(map(sorted, (members for members, *_ in found))) == [["d"], ["x"], ["y"]]
    dequeue = next(i for i, (members, *_) in enumerate(found) if members == {"d"})
    assert next(after for members, _, _, after in found if members == {"y"}) == {dequeue}


def test_values_are_passed_on_without_a_node() -> None:
    assert stages("""
        a = feed(a)
        b = recv(b)
        s = send(a)
        f = fetch(b)
    """) == [(set(), ("a:0",), ["s"], set()), (set(), ("b:0",), ["f"], set())]


def test_a_constant_is_sent() -> None:
    found, _ = split_by_receives(
        graph_of("""
        c = Const(dtype=float32, value=1)
        s = send(c)
    """),
        lambda node: False,
    )
    assert found[0].stage is not None and found[0].stage.fetches == ("c:0",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a = recv(a)\nb = recv(b)\nm = Merge(a, b)\ns = send(m)", "dead tensor of another"),
        (
            "p = feed(p)\nc = Cast(p, DstT=bool)\nf = Switch(p, c)\nt = Neg(f:1)\ns = send(t)",
            "may get a dead",
        ),
        (
            "q = feed(q)\nb = recv(b)\nv = VariableV2(dtype=float32, shape=<>)\n"
            "x = Assign(v, q)\ns = send(x)\ny = AssignAdd(x, b)\nt = send(y)",
            "is not an array",
        ),
    ],
)
def test_what_stays_whole(text: str, why: str) -> None:
    found, reason = split_by_receives(graph_of(text), lambda node: False)
    assert not found and why in reason


def test_a_branch_on_one_task_is_a_stage() -> None:
    found = stages("""
        p = feed(p)
        c = Cast(p, DstT=bool)
        f = Switch(p, c)
        n = Neg(f:1)
        m = Merge(f, n)
        s = send(m)
    """)
    assert [members for members, *_ in found] == [{"c", "f", "n", "m"}]


LOOP = """
    a = recv(a)
    w = recv(w)
    e = Enter(a, frame_name=b'loop')
    k = Enter(w, frame_name=b'loop', is_constant=True)
    m = Merge(e, n)
    l = Less(m, k)
    c = LoopCond(l)
    s = Switch(m, c)
    t = AddV2(s:1, k)
    n = NextIteration(t)
    o = Exit(s)
    y = send(o)
"""


def test_a_loop_is_a_stage() -> None:
    ((members, feeds, sends, _),) = stages(LOOP)
    assert members == set("ekmlcstno") and feeds == ("a:0", "w:0") and sends == ["y"]


def test_no_send_waits_for_more_because_of_a_loop() -> None:
    graph = graph_of(LOOP + "z = Neg(e)")
    assert split_by_receives(graph, lambda node: False)[0]
    two = """
        p = feed(p)
        c = Cast(p, DstT=bool)
        a = recv(a)
        b = recv(b)
        f = Switch(a, c)
        n = Neg(f:1)
        m = Merge(f, n)
        g = AddV2(m, b)
        h = Switch(g, c)
        i = Neg(h:1)
        j = Merge(h, i)
        s = send(j)
    """
    assert len(split_by_receives(graph_of(two), lambda node: False)[0]) == 1
    found, why = split_by_receives(graph_of(two + "t = send(m)"), lambda node: False)
    assert not found and "t would wait for all receives" in why


def test_a_cycle_is_an_error() -> None:
    graph = graph_of("a = feed(a)\nx = Neg(a)\ny = Neg(x)")
    graph.replace_input("x", 0, "y", 0)
    with pytest.raises(errors.InvalidArgumentError, match="2 nodes in a cycle"):
        split_by_receives(graph, lambda node: False)


def checks(text: str) -> list[list[tuple[set[str], tuple[str, ...], set[int]]]]:
    """Return (members, feeds, earlier stages) of each check of each stage."""
    found, why = split_by_receives(graph_of(text), lambda node: node.op == "QueueDequeueV2")
    assert found, why
    return [
        [
            (check.stage.members, tuple(sorted(check.feeds)), set(check.after))
            for check in stage.checks
            if check.stage is not None and check.stage.by_node
        ]
        for stage in found
    ]


def test_nodes_that_may_fail_beside_a_receive_are_checked() -> None:
    assert checks("""
        a = recv(a)
        f = feed(f)
        g = feed(g)
        n = Neg(f)
        bad = AddV2(n, g)
        y = AddV2(a, bad)
        t = fetch(y)
        u = fetch(bad)
    """) == [[({"n", "bad"}, ("f:0", "g:0"), set())]]


def test_each_receive_has_the_checks_of_its_own_nodes() -> None:
    assert checks("""
        a = recv(a)
        b = recv(b)
        f = feed(f)
        x = AddV2(f, f)
        y = AddV2(a, x)
        z = AddV2(b, y)
        t = fetch(z)
    """) == [[({"x"}, ("f:0",), set()), ({"x", "y"}, ("a:0", "f:0"), set())]]


@pytest.mark.parametrize(
    "line",
    [
        "x = Neg(f)",  # any shape will do
        "x = AddV2(f, f)  [2]",
        "x = AddV2(a, a)",  # nothing is known before the stage's own receive
    ],
)
def test_nodes_that_cannot_fail_earlier_have_no_check(line: str) -> None:
    shape = line.partition("  ")[2]
    graph = graph_of(f"""
        a = recv(a)
        f = feed(f)
        {line.partition("  ")[0]}
        y = AddV2(a, x)
        t = fetch(y)
    """)
    if shape:
        graph.node("f").output_shapes = ((2,),)
    (stage,) = split_by_receives(graph, lambda node: False)[0]
    assert not stage.checks
