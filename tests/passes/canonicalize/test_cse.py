"""Common subexpressions: what is merged, what may not be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.reference_run import lowered, run_lowered
from tfjit.passes.canonicalize.cse import eliminate_common_subexpressions
from tfjit.passes.canonicalize.prune import prune
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.pipeline import run_passes

X = np.array([1.0, -0.0, np.nan], np.float32)


def _cse(text: str, fetches: list[str], targets: tuple[str, ...] = ()) -> DataflowGraph:
    graph, ctx = lowered(text, {"x:0": X}, fetches, targets)
    run_passes(graph, (eliminate_common_subexpressions, prune), ctx)
    return graph


def test_equal_nodes_become_one() -> None:
    graph = _cse(
        """
        x = Placeholder(shape=<3>)
        a = Square(x)
        b = Square(x)
        c = AddV2(a, b)
        d = AddV2(b, a)
        y = Mul(c, d)
        """,
        ["y:0", "d:0"],
    )
    assert {"b", "d"}.isdisjoint(graph)
    assert graph.inputs("y") == [("c", 0), ("c", 0)] and graph.inputs("_retval_d_0_1") == [("c", 0)]
    assert graph.node("a").origin == ("a", "b")
    expected = (2 * X * X) ** 2
    np.testing.assert_array_equal(run_lowered(graph, [X])[0], expected)


@pytest.mark.parametrize(
    "lines",
    [
        "a = Sub(x, w)\n b = Sub(w, x)",  # not commutative
        "a = Cast(x, DstT=float64)\n b = Cast(x, DstT=float64, Truncate=True)",  # another attr
        "a = Neg(x)\n b = Neg(x, ^n)",  # another control input
        "a = Neg(x)\n b = Neg(x) on /job:localhost/replica:0/task:0/device:CPU:1",  # another device
        "a = RandomUniform(s, dtype=float32)\n b = RandomUniform(s, dtype=float32)",  # stateful
        "a = Identity(v)\n b = Identity(v)",  # a write may come between the reads
        "a = Const(dtype=float32, value=float32<>[0.0])\n b = Const(dtype=float32, "
        "value=float32<>[-0.0])",
        "a = Const(dtype=float32, value=float32<>[1.0])\n b = Const(dtype=float32, "
        "value=float32<1>[1.0])",
    ],
)
def test_what_differs_stays(lines: str) -> None:
    text = """
        x = Placeholder(shape=<3>)
        w = Placeholder(shape=<3>)
        s = Const(dtype=int32, value=int32<1>[3])
        v = VariableV2(dtype=float32, shape=<3>)
        n = NoOp()
    """
    graph = _cse(text + lines, ["a:0", "b:0"])
    assert {"a", "b"} <= set(graph)


def test_equal_constants_and_outputs_of_a_split() -> None:
    graph = _cse(
        """
        x  = Placeholder(shape=<3>)
        k  = Const(dtype=int32, value=int32<>[0])
        l  = Const(dtype=int32, value=int32<>[0])
        s  = Split(k, x, num_split=3)
        t  = Split(l, x, num_split=3)
        y  = Sub(s:1, t:1)
        """,
        ["y:0"],
    )
    assert "t" not in graph and "l" not in graph and graph.inputs("y") == [("s", 1), ("s", 1)]


def test_a_target_stays() -> None:
    graph = _cse("x = Placeholder(shape=<3>)\n a = Neg(x)\n b = Neg(x)", ["a:0"], ("b",))
    assert "b" in graph
