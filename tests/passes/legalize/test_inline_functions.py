"""Inlining: where calls become their bodies, in which order effects then happen, and what stays a
call.
"""

from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework.errors import InvalidArgumentError, NotFoundError
from tfjit.framework.types.tensors import truth
from tfjit.passes.ir.dataflow_graph import SINK, DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.legalize.inline_functions import inline_functions
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph, print_graph

FUNCTIONS = """
    function 'f'{} {
        a = _Arg(index=0, T=float32)
        p = Print(a, a)
        m = Mul(a, a, ^a)
        r = _Retval(m, index=0)
        s = _Retval(a, index=1)
    } runs p
    function 'pure'{} {
        a = _Arg(index=0, T=float32)
        c = Const(dtype=float32, value=float32<>[2.0])
        n = Mul(a, c)
        r = _Retval(n, index=0)
    }
    function 'outer'{} {
        a = _Arg(index=0, T=float32)
        n = PartitionedCall(a, Tin=[float32], Tout=[float32], f=func'pure'{}) @/device:CPU:0
        r = _Retval(n, index=0)
    }
    function 'self'{} {
        a = _Arg(index=0, T=float32)
        n = StatelessIf(a, a, Tcond=float32, Tin=[float32], Tout=[float32], then_branch=func'again'{}, else_branch=func'pure'{})
        r = _Retval(n, index=0)
    }
    function 'again'{} {
        a = _Arg(index=0, T=float32)
        n = PartitionedCall(a, Tin=[float32], Tout=[float32], f=func'self'{})
        r = _Retval(n, index=0)
    }
"""
ONE = "Tin=[float32], Tout=[float32]"


def inlined(text: str) -> tuple[DataflowGraph, list[str]]:
    graph = parse_graph(text + FUNCTIONS)
    ctx = PassContext(RunSpec(fetches=("y:0",)))
    inline_functions(graph, ctx)
    check(graph)
    once = print_graph(graph)
    inline_functions(graph, ctx)
    assert print_graph(graph) == once
    return graph, [f"{name}: {text}" for _, name, text in ctx.messages if name]


def check(graph: DataflowGraph) -> None:
    graph.verify()
    names = [node.name for node in graph.op_nodes()]
    for ref in graph.functions.reachable(graph):
        body = graph.functions.body(ref)
        body.graph.verify()
        names += [node.name for node in body.graph.op_nodes()]
    assert len(set(names)) == len(names)


def test_a_call_becomes_its_body_through_all_levels() -> None:
    graph, messages = inlined(f"""
        x = Placeholder(shape=<2>)
        c = PartitionedCall(x, {ONE}, f=func'outer'{{}})
        y = Neg(c)
    """)
    assert set(graph.nodes) == {"_SOURCE", "_SINK", "x", "y", "c/n/n", "c/n/c"}
    assert graph.inputs("y") == [("c/n/n", 0)] and graph.inputs("c/n/n") == [("x", 0), ("c/n/c", 0)]
    assert graph.node("c/n/n").origin == ("c",) and graph.node("c/n/n").device == "/device:CPU:0"
    assert messages == ["c: 'outer' inlined: 1 nodes", "c/n: 'pure' inlined: 2 nodes"]


def test_effects_wait_for_what_the_call_waits_for_and_are_waited_for() -> None:
    graph, _ = inlined("""
        x = Placeholder(shape=<2>)
        k = Print(x, x)
        c = StatefulPartitionedCall(x, ^k, Tin=[float32], Tout=[float32,float32], f=func'f'{})
        w = Print(x, x, ^c)
        y = Neg(c:1, ^w)
    """)
    order = graph.topological_order()
    assert order.index("k") < order.index("c/p") < order.index("w")
    assert (
        graph.control_inputs("w") == ["c"]
        and graph.node("c").op == "NoOp"
        and "c/p" in graph.control_inputs("c")
    )
    assert graph.inputs("y") == [("x", 0)] and "c/m" not in graph  # nobody takes the product


def test_effects_happen_though_only_a_result_is_taken() -> None:
    graph, _ = inlined("""
        x = Placeholder(shape=<2>)
        k = Print(x, x)
        c = StatefulPartitionedCall(x, ^k, Tin=[float32], Tout=[float32,float32], f=func'f'{})
        y = Neg(c:1)
    """)
    assert SINK in graph._succ["c/p"] and "c" not in graph
    order = graph.topological_order()
    assert order.index("k") < order.index("c/p")


def test_effects_of_a_branch_stay_effects_though_a_result_waits_for_them() -> None:
    """The result may be dropped later, the effect may not."""
    graph = parse_graph(
        """
        x = Placeholder(shape=<2>)
        b = Placeholder(dtype=bool, shape=<>)
        y = If(b, x, Tcond=bool, Tin=[float32], Tout=[float32], then_branch=func'shown'{}, else_branch=func'pure'{})
        function 'shown'{} {
            a = _Arg(index=0, T=float32)
            p = Print(a, a)
            m = Mul(a, a, ^p)
            r = _Retval(m, index=0)
        } runs p
    """
        + FUNCTIONS
    )
    inline_functions(graph, PassContext(RunSpec(targets=("y",))))
    body = graph.functions.body(graph.node("y").attrs["then_branch"])
    assert [body.graph.node(name).op for name in body.must_run] == ["Print"]


def test_a_call_that_is_a_target_keeps_its_name() -> None:
    graph, _ = inlined("""
        x = Placeholder(shape=<2>)
        c = StatefulPartitionedCall(x, Tin=[float32], Tout=[float32,float32], f=func'f'{})
    """)
    assert set(graph.nodes) == {"_SOURCE", "_SINK", "x", "c", "c/p"} and SINK in graph._succ["c"]


def test_what_waits_for_a_pure_call_waits_for_what_that_waited_for() -> None:
    graph, _ = inlined(f"""
        x = Placeholder(shape=<2>)
        k = Print(x, x)
        c = PartitionedCall(x, ^k, {ONE}, f=func'pure'{{}})
        y = Neg(x, ^c)
    """)
    order = graph.topological_order()
    assert order.index("k") < order.index("c") < order.index("y") and "c/n" not in graph


def test_a_branch_that_is_always_taken_takes_the_place_of_the_choice() -> None:
    graph, messages = inlined("""
        x = Placeholder(shape=<2>)
        t = Const(dtype=string, value=string<>[b''])
        i = Const(dtype=int32, value=int32<>[7])
        a = If(t, x, Tcond=string, Tin=[float32], Tout=[float32], then_branch=func'self'{}, else_branch=func'pure'{})
        y = Case(i, a, Tin=[float32], Tout=[float32], branches=[func'self'{}, func'outer'{}])
        z = Neg(y)
    """)
    assert messages[0].startswith("y: Case is always 'outer'") or messages[0].startswith(
        "a: If is always 'pure'"
    )
    assert graph.inputs("z") == [("y/branches_1/n/n", 0)] and graph.inputs("y/branches_1/n/n")[
        0
    ] == ("a/else_branch/n", 0)
    assert not graph.functions.reachable(graph)


def test_a_function_inside_of_itself_stays_a_call() -> None:
    graph, messages = inlined(f"""
        x = Placeholder(shape=<>)
        y = PartitionedCall(x, {ONE}, f=func'self'{{}})
        z = Neg(y)
    """)
    assert "y/n/then_branch/n: stays: 'self' calls itself" in messages
    node = graph.node("y/n")
    assert node.op == "StatelessIf"
    then = graph.functions.body(node.attrs["then_branch"])
    call = then.graph.node("y/n/then_branch/n")
    assert call.op == "PartitionedCall"
    again = graph.functions.body(call.attrs["f"])  # by the function's name: all its calls share it
    inner = graph.functions.body(again.graph.node("self/n").attrs["then_branch"]).graph.node(
        "self/n/then_branch/n"
    )
    assert graph.functions.body(inner.attrs["f"]) is again


def test_a_choice_between_the_function_itself_ends() -> None:
    graph = parse_graph("""
        x = Placeholder(shape=<>)
        y = StatelessIf(x, x, Tcond=float32, Tin=[float32], Tout=[float32], then_branch=func'f'{}, else_branch=func'f'{})
        function 'f'{} {
            a = _Arg(index=0, T=float32)
            n = StatelessIf(a, a, Tcond=float32, Tin=[float32], Tout=[float32], then_branch=func'f'{}, else_branch=func'f'{})
            r = _Retval(n, index=0)
        }
    """)
    inline_functions(graph, PassContext())
    check(graph)
    assert 2 <= len(graph.functions.reachable(graph)) <= 4


@pytest.mark.parametrize(("f", "stays"), [("f", True), ("pure", False)])
def test_noinline_matters_where_there_are_effects(f: str, stays: bool) -> None:
    results = "[float32,float32]" if f == "f" else "[float32]"
    graph, messages = inlined(f"""
        x = Placeholder(shape=<2>)
        c = StatefulPartitionedCall(x, Tin=[float32], Tout={results}, f=func'{f}'{{}}, _noinline=True)
        y = Neg(c)
    """)
    assert ("c" in graph) == stays
    if stays:
        assert (
            messages[0] == "c: stays: 'f' has effects and is not to be inlined"
            and "f/p" in graph.functions.body(graph.node("c").attrs["f"]).graph
        )


def test_in_a_dead_branch_the_body_is_dead() -> None:
    """Every node of the body without inputs waits for a node that is dead when one of the call's
    inputs is.
    """
    graph, _ = inlined(f"""
        x = Placeholder(shape=<>)
        b = Placeholder(dtype=bool, shape=<>)
        s = Switch(x, b)
        c = PartitionedCall(s:1, {ONE}, f=func'pure'{{}})
        y = Neg(c)
    """)
    gate = graph.control_inputs("c/c")
    assert gate == ["c/_begin"] and graph.control_inputs("c/_begin") == ["c/_arg_0"]
    assert graph.inputs("c/_arg_0") == [("s", 1)] and graph.inputs("c/n")[0] == ("c/_arg_0", 0)


def test_references_are_read_at_the_call_and_loops_keep_their_own_frames() -> None:
    graph = parse_graph("""
        v = VariableV2(dtype=float32, shape=<>)
        a = PartitionedCall(v, Tin=[float32], Tout=[float32], f=func'l'{})
        b = PartitionedCall(a, Tin=[float32], Tout=[float32], f=func'l'{})
        y = Neg(b)
        function 'l'{} {
            x = _Arg(index=0, T=float32)
            e = Enter(x, frame_name=b'loop')
            o = Exit(e)
            r = _Retval(o, index=0)
        } runs e, o
    """)
    inline_functions(graph, PassContext())
    check(graph)
    assert graph.node("a/_arg_0").op == "Identity" and graph.inputs("a/e") == [("a/_arg_0", 0)]
    assert {graph.node(name).attrs["frame_name"] for name in ("a/e", "b/e")} == {
        b"a/loop",
        b"b/loop",
    }


def test_unknown_functions_and_signatures_that_do_not_fit() -> None:
    with pytest.raises(NotFoundError, match="Function nope is not defined"):
        inlined(f"x = Placeholder()\ny = PartitionedCall(x, {ONE}, f=func'nope'{{}})")
    with pytest.raises(
        InvalidArgumentError, match=r"\{\{node y\}\} .* gives function 'pure' int32 as argument 0"
    ):
        inlined(
            "x = Placeholder(dtype=int32)\ny = PartitionedCall(x, Tin=[int32], Tout=[float32], "
            "f=func'pure'{})"
        )
    with pytest.raises(InvalidArgumentError, match="2 arguments and 1 results"):
        inlined(
            "x = Placeholder()\ny = PartitionedCall(x, x, Tin=[float32,float32], Tout=[float32], "
            "f=func'pure'{})"
        )


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0.0, False),
        (-2, True),
        (b"", False),
        (b"0", True),
        ([], False),
        ([0.0], True),
        (np.nan, True),
        (False, False),
    ],
)
def test_truth(value: object, wanted: bool) -> None:
    assert truth(np.array(value, dtype=object if isinstance(value, bytes) else None)) is wanted
