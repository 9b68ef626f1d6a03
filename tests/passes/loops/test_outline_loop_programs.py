"""The pass that makes loops single kernels: where it fires, where it must not, and values against
TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tests.programs.random_loops import SIZES, random_loop
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.loop_program.builder import program_call
from tfjit.kernels.ir.loop_program import LoopProgram
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.pipeline import build
from tfjit.passes.text.text_format import parse_graph, print_graph
from tfjit.passes.text.value_text import format_value

tf1 = tf.compat.v1


def eager() -> Any:
    """A configuration whose first run is compiled."""
    config = tfjit.ConfigProto(intra_op_parallelism_threads=2)
    config.graph_options.optimizer_options.global_jit_level = 2
    return config


def optimized(
    graph: Any, feeds: dict[str, Any], fetches: list[str]
) -> tuple[DataflowGraph, list[str]]:
    """The plan's graph for these feeds, and what compile_loops said."""
    working = DataflowGraph.from_graph_def(graph.as_graph_def())
    types = {
        name: (d.as_dtype(np.asarray(value).dtype), np.shape(value))
        for name, value in feeds.items()
    }
    (part,), report = build(
        working, RunSpec(tuple(feeds), tuple(fetches), (), types), PassOptions(verify=True)
    )
    (said,) = (
        entry.messages
        for entry in report.passes
        if entry.name == "compile_loops" and not entry.depth
    )
    return part.graph, [text for _, text in said]


@pytest.fixture(autouse=True)
def while_nodes() -> Iterator[None]:
    """TensorFlow builds While and If, whatever a test before has left."""
    before = tf1.control_flow_v2_enabled()
    tf1.enable_control_flow_v2()
    yield
    if not before:
        tf1.disable_control_flow_v2()


def ops(graph: DataflowGraph) -> list[str]:
    return [node.op for node in graph.op_nodes()]


def flushed(x: np.ndarray) -> np.ndarray:
    """Subnormal floats made zero: the reference kernels of a first run keep them, TensorFlow does
    not.
    """
    return (
        np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.zeros((), x.dtype), x)
        if x.dtype.kind == "f"
        else x
    )


def assert_like_tensorflow(
    graph: Any, fetches: list[str], feeds: dict[str, Any], **session: Any
) -> None:
    """A first run, by NumPy, and a compiled one give what TensorFlow gives, to the bit, or its
    error.
    """
    wanted: Any
    with tf1.Session(graph=graph) as theirs:
        try:
            wanted = theirs.run(fetches, feeds)
        except tf.errors.InvalidArgumentError as error:
            wanted = next(
                line
                for line in error.message.split("\n")
                if line and not line.startswith("Graph execution error")
            )
    for config in (None, eager()):
        with tfjit.Session(graph=graph.as_graph_def().SerializeToString(), config=config) as ours:
            try:
                got = ours.run(fetches, feeds)
            except tfjit.errors.InvalidArgumentError as error:
                assert wanted in error.message.split("\n")
                continue
            assert not isinstance(wanted, str), wanted
            for a, b in zip(got, wanted, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(flushed(a), b)


def loop(body: Any, first: list[Any], condition: Any = None, fetch: int = -1) -> Any:
    """(graph, fetches) of a while_loop over an iteration number and `first`, made
    inside the graph.
    """
    with tf1.Graph().as_default() as graph:
        values = [v() if callable(v) else tf.constant(v) for v in first]
        results = tf.while_loop(
            condition or (lambda i, *_: i < 5), lambda i, *x: [i + 1, *body(*x)], [0, *values]
        )
        chosen = results[1:] if fetch < 0 else [results[fetch]]
        fetches = [tf.identity(r, name=f"r{k}").name for k, r in enumerate(chosen)]
    return graph, fetches


def vector(n: int, name: str = "x", dtype: Any = tf.float32) -> Any:
    return lambda: tf1.placeholder(dtype, [n], name=name)


X = np.linspace(0.5, 3.0, 70, dtype=np.float32)

FIRES: dict[str, Any] = {
    "scalars": lambda: (*loop(lambda x: [x * 0.5 + 1.0], [3.0]), {}),
    "vectors": lambda: (*loop(lambda x: [0.5 * (x + 2.0 / x)], [vector(70)]), {"x:0": X}),
    "swap": lambda: (
        *loop(lambda a, b: [b, a], [vector(70), vector(70, "y")]),
        {"x:0": X, "y:0": -X},
    ),
    "rotation": lambda: (
        *loop(lambda a, b, c: [b, c, a + 1.0], [vector(9), vector(9, "y"), 1.0 * np.ones(9, "f")]),
        {"x:0": X[:9], "y:0": -X[:9]},
    ),
    "one value twice": lambda: (
        *loop(lambda a, b: [a + b, a + b], [vector(70), vector(70, "y")]),
        {"x:0": X, "y:0": -X},
    ),
    "old value needed later": lambda: (
        *loop(
            lambda a, b: [a + 1.0, b + tf.reduce_max(a + 1.0) * a], [vector(70), vector(70, "y")]
        ),
        {"x:0": X, "y:0": -X},
    ),
    "vector made of a scalar": lambda: (
        *loop(lambda a, s: [tf.fill([70], s), s * 2.0], [vector(70), 1.5]),
        {"x:0": X},
    ),
    "converging": lambda: (
        *loop(
            lambda x, e: (lambda y: [y, tf.reduce_max(tf.abs(y - x))])(0.5 * (x + 2.0 / x)),
            [vector(70), 1.0],
            lambda i, x, e: tf.logical_and(i < 50, e > 1e-6),
        ),
        {"x:0": X},
    ),
    "NaN in the condition": lambda: (
        *loop(lambda x: [x * 2.0], [np.float32(np.nan)], lambda i, x: x < 5.0),
        {},
    ),
    "no iterations": lambda: (
        *loop(lambda x: [x * 2.0], [vector(70)], lambda i, x: i < 0),
        {"x:0": X},
    ),
    "empty": lambda: (*loop(lambda x: [x * 2.0], [vector(0)]), {"x:0": X[:0]}),
    "wrapping": lambda: (
        *loop(
            lambda k, l: [k * 1664525 + 1013904223, l * 6364136223846793005 + 1], [7, np.int64(7)]
        ),
        {},
    ),
    "half": lambda: (
        *loop(lambda x: [x * tf.constant(1.1, tf.float16)], [vector(70, dtype=tf.float16)]),
        {"x:0": X.astype(np.float16)},
    ),
    "double": lambda: (
        *loop(lambda x: [tf.sqrt(x) + 1.0], [vector(70, dtype=tf.float64)]),
        {"x:0": X.astype(np.float64)},
    ),
    "bool": lambda: (
        *loop(
            lambda p, q: [tf.logical_and(p, q), tf.logical_not(q)],
            [vector(70, dtype=tf.bool), True],
        ),
        {"x:0": X > 1},
    ),
    "branch": lambda: (
        *loop(
            lambda x, s: [
                tf.cond(s > 1.0, lambda: x * s, lambda: tf.zeros([70]) + s),
                tf.cond(s > 1.0, lambda: s - 2.0, lambda: s + 0.7),
            ],
            [vector(70), 0.4],
        ),
        {"x:0": X},
    ),
    "branch that hands on": lambda: (
        *loop(
            lambda x, s: [tf.cond(s > 1.0, lambda: x, lambda: x + 1.0), s + 0.4], [vector(70), 0.4]
        ),
        {"x:0": X},
    ),
    "switch": lambda: (
        *loop(
            lambda k, s: [
                k + 1,
                tf.switch_case(k, [lambda: s + 1.0, lambda: s * 2.0, lambda: s - 0.5]),
            ],
            [-2, 1.0],
        ),
        {},
    ),
    "loop inside": lambda: (
        *loop(
            lambda x, s: [
                tf.while_loop(lambda j, y: j < 3, lambda j, y: [j + 1, y * s + 1.0], [0, x])[1],
                s * 0.5,
            ],
            [vector(70), 1.0],
        ),
        {"x:0": X},
    ),
    "broadcast of what stays": lambda: (
        *loop(
            lambda x: [x * np.float32([[2], [3]])],
            [lambda: tf1.placeholder(tf.float32, [2, 35], name="x")],
        ),
        {"x:0": X.reshape(2, 35)},
    ),
    "one element": lambda: (
        *loop(lambda x: [x * 2.0 + tf.reduce_sum(x)], [vector(1)]),
        {"x:0": X[:1]},
    ),
    "integer division": lambda: (*loop(lambda k: [k // 3 + 5], [1000]), {}),
    "division by zero, later": lambda: (*loop(lambda k, s: [k - 1, s + 12 // k], [3, 0]), {}),
    "division by zero, vector": lambda: (
        *loop(
            lambda k, s: [k - 1, s + 12 // k],
            [np.arange(3, 60, dtype=np.int32), np.zeros(57, np.int32)],
        ),
        {},
    ),
    "division by zero, not taken": lambda: (
        *loop(lambda k, s: [k - 1, tf.cond(k > 0, lambda: s + 12 // k, lambda: s)], [3, 0]),
        {},
    ),
}


@pytest.mark.parametrize("name", FIRES)
def test_becomes_one_kernel(name: str) -> None:
    graph, fetches, feeds = FIRES[name]()
    made, said = optimized(graph, feeds, fetches)
    assert (
        "_Loop" in ops(made) and "While" not in ops(made) and "StatelessWhile" not in ops(made)
    ), said
    assert_like_tensorflow(graph, fetches, feeds)


def written(n: int, shape: Any = None, **more: Any) -> Any:
    return lambda: tf.TensorArray(tf.float32, n, element_shape=shape, **more)


def array_loop(body: Any, first: list[Any], limit: int, start: int = 0) -> Any:
    """(graph, fetches) of a loop over an iteration number, tensors and TensorArrays; the arrays are
    stacked in the end.
    """
    with tf1.Graph().as_default() as graph:
        tf1.placeholder(tf.float32, [5, 14], name="x")
        values = [v() if callable(v) else tf.constant(v) for v in first]
        results = tf.while_loop(
            lambda i, *_: i < limit, lambda i, *v: [i + 1, *body(i, *v)], [start, *values]
        )
        stacked = [r.stack() if isinstance(r, tf.TensorArray) else r for r in results[1:]]
        fetches = [tf.identity(r, name=f"r{k}").name for k, r in enumerate(stacked)]
    return graph, fetches, {"x:0": X.reshape(5, 14)}


def x() -> Any:
    return tf1.get_default_graph().get_tensor_by_name("x:0")


BY_INDEX: dict[str, Any] = {
    "rows of a matrix": lambda: array_loop(
        lambda i, m, v: [m, v * 0.5 + m[i]], [x, np.zeros(14, np.float32)], 5
    ),
    "elements of a vector, from the end": lambda: array_loop(
        lambda i, v, s: [v, s * 2.0 + v[-1 - i]], [X, 0.0], 60
    ),
    "gather": lambda: array_loop(lambda i, v, k: [v, tf.gather(v, i * i % 7) + k], [X, 1.0], 20),
    "a list is written": lambda: array_loop(
        lambda i, ta, v: [ta.write(i, v), v * 1.5], [written(6), X], 4
    ),
    "scalars are written": lambda: array_loop(
        lambda i, ta: [ta.write(i, tf.cast(i, tf.float32) * 0.5)], [written(9, [])], 9
    ),
    "what was written is read": lambda: array_loop(
        lambda i, ta: [ta.write(i, ta.read(i - 1) + ta.read(i - 2))],
        [
            lambda: (
                tf.TensorArray(tf.float32, 20, clear_after_read=False).write(0, 0.0).write(1, 1.0)
            )
        ],
        20,
        2,
    ),
    "a list is read": lambda: array_loop(
        lambda i, v, ta: [v + ta.read(i), ta],
        [np.zeros(14, np.float32), lambda: tf.TensorArray(tf.float32, 5).unstack(x())],
        5,
    ),
    "written in one branch": lambda: array_loop(
        lambda i, ta, v: [tf.cond(v[i] > 1.5, lambda: ta.write(i, v[i]), lambda: ta), v],
        [written(70, []), X],
        70,
    ),
    "out of the list": lambda: array_loop(
        lambda i, ta: [ta.write(tf.minimum(i, 3), 1.0)], [written(3, [])], 9
    ),
    "no element": lambda: array_loop(lambda i, v, s: [v, s + v[tf.minimum(i, 70)]], [X, 0.0], 80),
}


@pytest.mark.parametrize("name", BY_INDEX)
def test_parts_by_index(name: str) -> None:
    graph, fetches, feeds = BY_INDEX[name]()
    made, said = optimized(graph, feeds, fetches)
    assert "_Loop" in ops(made), said
    assert_like_tensorflow(graph, fetches, feeds)


STAYS: dict[str, Any] = {
    "a matrix product": lambda: (
        *loop(lambda x: [tf.matmul(x, x)], [lambda: tf1.placeholder(tf.float32, [3, 3], name="x")]),
        "MatMul",
    ),
    "a print": lambda: (*loop(lambda x: [tf1.Print(x, [x])], [vector(70)]), "has effects"),
    "a sum along rows": lambda: (
        *loop(
            lambda x: [x + tf.reduce_sum(x, 1, keepdims=True)],
            [lambda: tf1.placeholder(tf.float32, [3, 3], name="x")],
        ),
        "reduces some dimensions only",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_stays_a_loop_and_says_why(name: str) -> None:
    graph, fetches, reason = STAYS[name]()
    shape = (
        (3, 3)
        if "x" in [op.name for op in graph.get_operations()]
        and graph.get_tensor_by_name("x:0").shape.rank == 2
        else (70,)
    )
    made, said = optimized(graph, {"x:0": np.ones(shape, np.float32)}, fetches)
    assert "_Loop" not in ops(made)
    assert any(reason in text for text in said), said


def test_what_does_not_change_is_computed_before_the_loop() -> None:
    with tf1.Graph().as_default() as graph:
        x, a = (
            tf1.placeholder(tf.float32, [70], name="x"),
            tf1.placeholder(tf.float32, [70], name="a"),
        )
        y = tf.while_loop(lambda i, x: i < 5, lambda i, x: [i + 1, x * tf.exp(a)], [0, x])[1]
        fetch = tf.identity(y, name="y").name
    made, _ = optimized(graph, {"x:0": X, "a:0": X}, [fetch])
    (node,) = (node for node in made.op_nodes() if node.op == "_Loop")
    assert "Exp" in ops(made) and "Exp" not in node.attrs["program"].ops


def test_a_variable_that_stays_is_the_tensor_it_was() -> None:
    graph, fetches = loop(lambda x, y: [x + y, y], [vector(70), vector(70, "y")])
    made, _ = optimized(graph, {"x:0": X, "y:0": X}, fetches)
    (node,) = (node for node in made.op_nodes() if node.op == "_Loop")
    assert len(node.output_dtypes) == 1


def test_text() -> None:
    graph = parse_graph("""
        n = Placeholder(dtype=int32, shape=<>)
        x = Placeholder(shape=<3>)
        y = StatelessWhile(n, x, cond=func'more'{}, body=func'step'{}) # int32<>, float32<3>
        z = Neg(y:1)
        function 'step'{} {
            n    = _Arg(index=0, T=int32)
            x    = _Arg(index=1, T=float32)
            one  = Const(dtype=int32, value=int32<>[1])
            m    = Sub(n, one)
            w    = Mul(x, x)
            r0   = _Retval(m, index=0)
            r1   = _Retval(w, index=1)
        }
        function 'more'{} {
            n    = _Arg(index=0, T=int32)
            x    = _Arg(index=1, T=float32)
            zero = Const(dtype=int32, value=int32<>[0])
            go   = Greater(n, zero)
            r    = _Retval(go, index=0)
        }
    """)
    from tfjit.passes.analysis.shape_inference import infer_shapes
    from tfjit.passes.loops.outline_loop_programs import compile_loops

    ctx = PassContext()
    infer_shapes(graph, ctx)
    compile_loops(graph, ctx)
    graph.verify()
    text = print_graph(graph)
    assert "y = _Loop(n, x" in text
    assert "z = Neg(y" in text
    program: LoopProgram = graph.node("y").attrs["program"]
    assert format_value(program) == (
        "loop {\n"
        "    'loop' (%0: int32<>, %1: float32<3>)\n"
        "    %4 = int32<>[0]\n"
        "    %8 = int32<>[1]\n"
        "    %11: int32<>, %12: float32<3> = 'y' While(%0, %1)\n"
        "        while(%2: int32<>, %3: float32<3>) {\n"
        "            %5: bool<> = 'go' Greater(%2, %4)\n"
        "            give %5\n"
        "        }\n"
        "        do(%6: int32<>, %7: float32<3>) {\n"
        "            %9: int32<> = 'm' Sub(%6, %8, T=int32)\n"
        "            %10: float32<3> = 'w' Mul(%7, %7, T=float32)\n"
        "            give %9, %10\n"
        "        }\n"
        "    give %12\n"
        "}"
    )
    assert parse_graph(text).node("y").attrs["program"] == program
    (out,) = program.run([np.int32(3), np.float32([1, 2, 3])])
    np.testing.assert_array_equal(out, np.float32([1, 256, 6561]))


def test_one_text_for_all_sizes() -> None:
    sources = []
    for n, limit in ((70, 1000), (300, 2000)):
        graph, fetches = loop(lambda x: [x * 0.5], [vector(n)], lambda i, x, limit=limit: i < limit)
        made, _ = optimized(graph, {"x:0": np.ones(n, np.float32)}, fetches)
        (node,) = (node for node in made.op_nodes() if node.op == "_Loop")
        sources.append(program_call(node.attrs["program"]).launches[0].source)
    assert sources[0] == sources[1]


@settings(max_examples=14, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_loops(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from(SIZES))
    graph, fetches, feeds = random_loop(
        data, size, reductions=data.draw(st.booleans()), failing=data.draw(st.booleans())
    )
    assert_like_tensorflow(graph, fetches, feeds)
