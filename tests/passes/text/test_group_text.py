"""Fused groups as text: what is printed is read back, and runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.passes.reference_run import run_partitions
from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassOptions
from tfjit.passes.pipeline import build
from tfjit.passes.text.text_format import TextError, parse_graph, print_graph
from tfjit.protos import GraphDef

GRAPH = """
    x = Placeholder(dtype=float32, shape=<4,6>)
    axes = Const(value=int32<1>[1])
    m = Max(x, axes, keep_dims=True)
    d = Sub(x, m)
    e = Exp(d)
    s = Sum(e, axes, keep_dims=True)
    y = RealDiv(e, s)
    c = Cast(y, SrcT=float32, DstT=float64)
"""


def unshaped(graph: DataflowGraph) -> str:
    return print_graph(graph, full=True, shapes=False)


def test_a_fused_graph_is_read_back() -> None:
    spec = RunSpec(("x:0",), ("c:0",), (), {"x:0": (dtypes.float32, (4, 6))})
    (part,), _ = build(parse_graph(GRAPH), spec, PassOptions(verify=True))
    text = unshaped(part.graph)
    assert "group('rows'" in text and "<<" not in text
    again = parse_graph(text)
    assert unshaped(again) == text
    fused = [node for node in part.graph.op_nodes() if node.op == "_Fused"]
    for node in fused:
        read, made = again.node(node.name).attrs["group"], node.attrs["group"]
        assert (read.kind, read.ops, read.names, read.anchor) == (
            made.kind,
            made.ops,
            made.names,
            made.anchor,
        )
        assert (read.bytes_moved, read.bytes_unfused, read.flops) == (
            made.bytes_moved,
            made.bytes_unfused,
            made.flops,
        )
        inputs = [
            np.linspace(0, 1, 24, dtype=t.dtype.as_numpy_dtype).reshape(t.shape)
            for t in made.inputs
            if t.size == 24
        ]
        if len(inputs) == len(made.inputs):
            for a, b in zip(read.run_reference(inputs), made.run_reference(inputs), strict=True):
                np.testing.assert_array_equal(a, b)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(run_partitions([part], [x])[0].sum(axis=1) > 0.99, True)


def test_the_digits_network_is_read_back(demo_dir: Path) -> None:
    graph = DataflowGraph.from_graph_def(
        GraphDef.FromString((demo_dir / "digits_cnn.pb").read_bytes())
    )
    spec = RunSpec(("images:0",), ("probs:0",), (), {"images:0": (dtypes.float32, (4, 8, 8, 1))})
    (part,), _ = build(graph, spec, PassOptions())
    text = unshaped(part.graph)
    assert "group('conv2d'" in text and unshaped(parse_graph(text)) == text


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ("group('loop')", "expected ','"),
        (
            "group('loop', 'r', anchor=0, costs=[1, 2, 3], inputs=[float32<2>], constants=[], "
            "members=[x], outputs=[%0])",
            "a quoted text",
        ),
        (
            "group('loop', 'r', anchor=0, costs=[1, 2, 3], inputs=[2], constants=[], members=[], "
            "outputs=[])",
            "a dtype and shape",
        ),
    ],
)
def test_faulty_groups_are_refused(group: str, reason: str) -> None:
    with pytest.raises(TextError, match=reason):
        parse_graph(f"x = Placeholder()\ny = _Fused(x, group={group})")
