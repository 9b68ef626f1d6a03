"""The feeds whose values decide shapes."""

from __future__ import annotations

from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.analysis.size_feeds import find_size_feeds
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.legalize.lower_feeds import lower_feeds
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

COUNT = "Placeholder(dtype=int32, shape=<>)"


def found(text: str) -> list[int]:
    """Numbers among the feeds x, n and f of a graph with the node y."""
    graph = parse_graph("    x = Placeholder(dtype=float32, shape=<6,4>)\n" + text)
    fed = [graph.node(name) for name in "xnf" if name in graph]
    types = {
        f"{node.name}:0": (node.output_dtypes[0], node.attrs["shape"].dims_tuple) for node in fed
    }
    context = PassContext(RunSpec(tuple(types), ("y:0",), feed_types=types))
    lower_feeds(graph, context)
    infer_shapes(graph, context)
    return find_size_feeds(graph)


def test_a_size_that_is_drawn() -> None:
    text = f"""
    n = {COUNT}
    two = Const(dtype=int32, value=int32<>[2])
    m = Mul(n, two)
    shape = Pack(m, two, N=2, axis=0)
    y = RandomUniform(shape, dtype=float32)
    """
    assert found(text) == [1]


def test_values_that_decide_no_shape() -> None:
    assert not found(f"""
    n = {COUNT}
    axis = Const(dtype=int32, value=int32<>[0])
    y = GatherV2(x, n, axis)
    """)
    assert not found("    y = Where(x)")


def test_a_shape_that_is_known_all_the_same() -> None:
    assert not found(f"""
    n = {COUNT}
    size = Const(dtype=int32, value=int32<2>[1, 4])
    zero = Const(dtype=int32, value=int32<>[0])
    begin = Pack(n, zero, N=2, axis=0)
    y = Slice(x, begin, size)
    """)


def test_long_vectors_and_floats_are_no_sizes() -> None:
    assert not found("""
    n = Placeholder(dtype=int32, shape=<17>)
    f = Placeholder(dtype=float32, shape=<1>)
    k = Cast(f, DstT=int32)
    z = RandomUniform(n, dtype=float32)
    y = RandomUniform(k, ^z, dtype=float32)
    """)
