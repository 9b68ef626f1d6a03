"""`trim_bodies`: constants move into bodies, and unused arguments and results leave."""

from __future__ import annotations

from tfjit.passes.control_flow.prune_captures import trim_bodies
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph, print_graph


def test_a_dead_branch_inside_a_branch_leaves_with_its_constant() -> None:
    graph = parse_graph("""
        p = _Arg(index=0, T=bool)
        x = _Arg(index=1, T=float32)
        c = Const(dtype=float32, value=float32<>[2.0])
        w = StatelessIf(p, p, x, c, then_branch=func'o'{}, else_branch=func'o'{}, Tout=[float32,float32])
        r = _Retval(w:1, index=0)
        function 'o'{} {
            q = _Arg(index=0, T=bool)
            a = _Arg(index=1, T=float32)
            k = _Arg(index=2, T=float32)
            v = StatelessIf(q, a, k, then_branch=func'i'{}, else_branch=func'i'{}, Tout=[float32])
            n = Neg(a)
            s = _Retval(v, index=0)
            t = _Retval(n, index=1)
        }
        function 'i'{} {
            a = _Arg(index=0, T=float32)
            k = _Arg(index=1, T=float32)
            m = Mul(a, k)
            s = _Retval(m, index=0)
        }
    """)
    trim_bodies(graph, PassContext(RunSpec(feeds=("p:0", "x:0"), fetches=("w:1",))))
    graph.verify()
    body = graph.functions.body(graph.node("w").attrs["then_branch"]).graph
    assert {n.op for n in body.op_nodes()} == {"_Arg", "Neg", "_Retval"}, print_graph(graph)
