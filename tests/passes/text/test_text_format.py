"""The text form: what prints can be parsed, and what is no graph is refused with line
and reason.
"""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tfjit.framework.op_defs.attrs import FuncRef, Unset, equal
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.text.text_format import TextError, parse_graph, print_graph
from tfjit.passes.text.value_text import ValueReader, format_value

SMALL = """
    x    = Placeholder(dtype=float32, shape=<?,3>) @/device:CPU:1
    axis = Const(dtype=int32, value=int32<>[0]) on /job:localhost/replica:0/task:0/device:CPU:0
    s    = Split(axis, x, ^axis, num_split=2) from x, y   # a comment
    y    = AddN(s:1, s, x)
"""


def test_attrs_that_follow_are_filled_in() -> None:
    graph = parse_graph(SMALL)
    assert graph.node("s").attrs == {"num_split": 2, "T": dtypes.float32}
    assert graph.node("y").attrs == {"N": 3, "T": dtypes.float32}
    assert graph.inputs("y") == [("s", 1), ("s", 0), ("x", 0)]
    assert graph.node("x").device == "/device:CPU:1" and graph.node(
        "axis"
    ).assigned_device.endswith("CPU:0")
    assert graph.node("s").origin == ("x", "y")
    graph.verify()


def test_round_trip() -> None:
    text = print_graph(parse_graph(SMALL), full=True)
    assert print_graph(parse_graph(text), full=True) == text
    assert "s    = Split(axis, x, ^axis, num_split=2) from x, y -> float32<*>, float32<*>" in text


def test_types_default_to_float32_and_order_is_free() -> None:
    graph = parse_graph("""
        y = Square(x)
        x = Placeholder()
    """)
    assert graph.node("y").output_dtypes == (dtypes.float32,) and [
        node.name for node in graph.op_nodes()
    ] == ["y", "x"]


@pytest.mark.parametrize(
    "value",
    [
        1,
        -7,
        True,
        1.5,
        float("inf"),
        1e-30,
        b"SAME",
        b"quote ' and \" and \\ and \xff",
        dtypes.float32,
        dtypes.int32._ref if hasattr(dtypes.int32, "_ref") else dtypes.int32,
        TensorShape([2, None, 3]),
        TensorShape([]),
        TensorShape([0]),
        TensorShape(None),
        (),
        (1, 2, 3),
        (b"a", b"b]"),
        (dtypes.float32, dtypes.bool),
        (TensorShape([1]), TensorShape(None)),
        FuncRef("f", {"T": dtypes.float32, "n": 3}),
        Unset("T"),
        np.array([1.5, -0.0, np.nan, np.inf], np.float32),
        np.array([[1, 2], [3, 4]], np.int64),
        np.array(3, np.int32),
        np.zeros((0, 3), np.float32),
        np.zeros((50, 50), np.float64),
        np.arange(100, dtype=np.int32),
        np.array([True, False]),
        np.array([1 + 2j, -3j], np.complex64),
        np.array([b"a", b"\x00'"], object),
        np.array([1.5, 2.0], ml_dtypes.bfloat16),
        np.frombuffer(b"\x01\x00\xc0\x7f", np.float32),  # a NaN with a payload
        np.array([5e-324, 1e308]),
    ],
    ids=lambda value: format_value(value)[:40],
)
def test_values_survive(value: object) -> None:
    text = format_value(value, full=True)
    again = ValueReader(text, 1).value()
    assert equal(again, value), text


def test_nan_as_an_attr() -> None:
    assert np.isnan(ValueReader(format_value(float("nan")), 1).value())


def test_large_tensors_are_elided_and_say_so_when_read() -> None:
    value = np.arange(1000, dtype=np.float32)
    assert format_value(value) == "float32<1000>..."
    with pytest.raises(TextError, match="full=True"):
        parse_graph("c = Const(dtype=float32, value=float32<1000>...)")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x Placeholder()", "line 1: expected 'name = Op"),
        ("x = Placeholder()\nx = NoOp()", "line 2: Node 'x' is not unique"),
        ("y = Square(x)", "line 1: Node 'y': Unknown input node 'x'"),
        ("x = Placeholder()\ny = Square(x:1)", "line 2: Node 'y': 'x' has no output 1"),
        ("x = Nope()", "line 1: Op type not registered 'Nope'"),
        ("x = Placeholder(\ny = Square(x)", "line 1"),
        ("x = Placeholder(dtype=what)", "'what' is no value"),
        ("x = Placeholder() at home", "expected a device"),
        (
            "x = Placeholder()\ny = Square(^x, x)",
            "Control dependencies must come after regular dependencies",
        ),
        ("a = Neg(b)\nb = Neg(a)", "2 nodes in or behind a cycle"),
        ("c = Const(dtype=float32, value=float32<2>[1.0, 2.0, 3.0])", "3 elements do not fill <2>"),
    ],
)
def test_what_is_no_graph(text: str, reason: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_graph(text)
    assert reason in str(caught.value)


def test_loops_are_read_with_their_back_edges() -> None:
    text = """
        x = Placeholder(shape=<>)
        e = Enter(x, frame_name=b'loop')
        m = Merge(e, n)
        l = Less(m, m)
        c = LoopCond(l)
        s = Switch(m, c)
        n = NextIteration(s:1)
        o = Exit(s)
    """
    graph = parse_graph(text)
    graph.verify()
    printed = print_graph(graph, full=True)
    assert print_graph(parse_graph(printed), full=True) == printed


@pytest.mark.parametrize("name", ["digits_train.pb", "mandelbrot_v1_loop.pb", "lstm_v1_loop.pb"])
def test_real_graphs_survive_both_ways(name: str, data_dir: Path) -> None:
    graph = DataflowGraph.from_graph_def((data_dir / name).read_bytes())
    text = print_graph(graph, full=True)
    again = parse_graph(text)
    again.verify()
    assert print_graph(again, full=True, shapes=False) == print_graph(
        graph, full=True, shapes=False
    )
    assert {node.name: node for node in again.to_graph_def().node} == {
        node.name: node for node in graph.to_graph_def().node
    }
