"""`function`: traces, calls, effects, variables and gradients against TensorFlow's `tf.function` in
graphs.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
MODULES = ((tf1, partial(tf.function, autograph=False)), (tfjit, tfjit.function))


@pytest.fixture(autouse=True)
def identity_of_tensors() -> Iterator[None]:
    tf1.disable_tensor_equality()
    yield
    tf1.enable_tensor_equality()


def same_everywhere(
    build: Callable[[Any, Any], Sequence[Any]], feeds: Sequence[dict[str, Any]] = ({},)
) -> Any:
    """Values under TensorFlow, under tfjit, and of tfjit's graph under TensorFlow; returns tfjit's
    graph.
    """
    sessions, fetched = [], []
    for m, function in MODULES:
        graph = m.Graph()
        with graph.as_default():
            fetches = list(build(m, function))
            sessions.append((m.Session(graph=graph), m.global_variables_initializer().name))
            fetched.append([fetch.name for fetch in fetches])
            shapes = [
                fetch.shape.as_list() if fetch.shape.rank is not None else None for fetch in fetches
            ]
            types = sorted(
                op.type
                for op in graph.get_operations()
                if "Call" in op.type and not op.name.startswith("gradients")
            )
        if m is tf1:
            their_shapes, their_types = shapes, types
    assert shapes == their_shapes
    assert types == their_types
    with tf1.Graph().as_default():
        tf1.import_graph_def(
            tf1.GraphDef.FromString(graph.as_graph_def().SerializeToString()), name=""
        )
        sessions.append((tf1.Session(), sessions[1][1]))
    fetched.append(fetched[1])
    for session, init in sessions:
        session.run(init)
    for feed in feeds:
        wanted, got, exported = (
            session.run(names, feed) for (session, _), names in zip(sessions, fetched, strict=True)
        )
        for one, two, three in zip(wanted, got, exported, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(three, one, rtol=1e-4, atol=1e-5)
    for session, _ in sessions:
        session.close()
    return graph


FEED = {"x:0": [0.5, -0.3]}


def derivatives(m: Any, y: Any, xs: Sequence[Any]) -> list[Any]:
    first = [m.convert_to_tensor(g) for g in m.gradients(y, xs)]
    second = m.gradients(first[0], xs)
    return [
        m.identity(y),
        *first,
        *(m.zeros([2]) if g is None else m.convert_to_tensor(g) for g in second),
    ]


def test_calls_and_their_gradients() -> None:
    def build(m: Any, function: Any) -> list[Any]:
        x = m.placeholder(m.float32, [2], "x")
        v = m.get_variable("v", initializer=[1.0, 2.0], use_resource=True)

        @function
        def f(a: Any, k: float = 2.0) -> Any:
            return m.sin(a) * v * k, {"b": a + v, "none": None}

        @function
        def g(a: Any) -> Any:
            start = f(a)[0]
            return m.while_loop(
                lambda i, _: i < 3, lambda i, h: (i + 1, f(h, 3.0)[0] + a), [0, start]
            )[1]

        @function
        def h(a: Any) -> Any:
            return m.cond(a[0] > 0.0, lambda: f(a)[0] * g(a), lambda: a * a)

        return [
            part
            for y in (f(x)[0], f(x, k=1.5)[1]["b"], g(x), h(x))
            for part in derivatives(m, y, [x, v])
        ]

    graph = same_everywhere(build, [FEED, {"x:0": [-0.5, 0.3]}])
    # v2 inside
    assert "While" in {
        node.op for function in graph.as_graph_def().library.function for node in function.node_def
    }


def test_effects_happen_in_order() -> None:
    def build(m: Any, function: Any) -> list[Any]:
        x = m.placeholder(m.float32, [2], "x")
        v = m.get_variable("v", initializer=[1.0, 2.0], use_resource=True)

        @function
        def inner(a: Any) -> None:
            v.assign(v * 2.0)
            m.cond(a[0] > 0.0, lambda: v.assign_add(a), lambda: v.assign_sub(a))

        @function
        def outer(a: Any) -> Any:
            v.assign_add(a)
            seen = v.read_value()
            inner(a)
            v.assign_add([100.0, 100.0])
            m.while_loop(
                lambda i: i < 2, lambda i: (v.assign_add([1.0, 1.0]) * 0.0 + 1.0)[0] + i, [0.0]
            )
            return seen, v.read_value()

        found = outer(x)
        with m.control_dependencies(found):
            return [*found, v.read_value()]

    same_everywhere(build, [FEED])


def test_captures_of_outer_tensors_and_control_dependencies() -> None:
    def build(m: Any, function: Any) -> list[Any]:
        x = m.placeholder(m.float32, [2], "x")
        v = m.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        changed = v.assign_add(x, read_value=False)

        @function
        def f(a: Any) -> Any:
            with m.control_dependencies([changed]):
                return a * x + v.read_value()

        return derivatives(m, f(m.exp(x)), [x])

    same_everywhere(build, [FEED])


def outcome(call: Callable[[], Any]) -> tuple[str, str]:
    try:
        found = call()
    except Exception as error:
        return type(error).__name__, str(error).partition(" of <")[0].partition("<function")[0]
    return "gives", str(
        tf.nest.map_structure(
            lambda part: None if part is None else (part.shape.rank, part.dtype.name), found
        )
    )


def spoiled(m: Any, function: Any) -> dict[str, Callable[[], Any]]:
    x = m.placeholder(m.float32, [2], "x")
    spec = m.TensorSpec([None], m.float32, name="given")
    typed = function(lambda a: a + 1.0, input_signature=[spec])

    def with_defaults(a: Any, b: Any = 1, *, c: str = "z") -> Any:
        return {"sum": a + b, "none": None, "nested": [a, (a,)]}

    plain = function(with_defaults)
    made: list[Any] = []

    def variables(a: Any) -> Any:
        made.append(m.Variable(1.0))
        return made[-1] * a

    def one_variable(a: Any) -> Any:
        if not made:
            made.append(m.Variable([1.0, 2.0], use_resource=True))
        return made[0] * a

    return {
        "a tensor": lambda: plain(x),
        "by keyword": lambda: plain(b=x, a=x, c="q"),
        "a number": lambda: plain(3),
        "an array": lambda: plain(np.float64([1.0]), np.float64(2.0)),
        "a list": lambda: function(lambda a: a[0] + a[1]["k"])([x, {"k": 2.0}]),
        "a missing argument": lambda: plain(),
        "too many arguments": lambda: plain(x, x, x),
        "an unknown keyword": lambda: plain(x, d=1),
        "a list for a spec": lambda: typed([1.0, 2.0]),
        "a number for a spec": lambda: typed(3.0),
        "another dtype for a spec": lambda: typed(m.constant([1])),
        "another rank for a spec": lambda: typed(m.constant([[1.0]])),
        "more than the signature": lambda: typed(x, x),
        "an operation returned": lambda: function(lambda a: m.no_op())(x),
        "an object returned": lambda: function(lambda a: object())(x),
        "nothing returned": lambda: function(lambda a: None)(x),
        "a new variable each time": lambda: function(variables)(x),
        "one variable": lambda: function(one_variable)(x),
        "no function": lambda: function(3),
        "no signature": lambda: function(lambda a: a, input_signature=3),
    }


@pytest.mark.parametrize("name", spoiled(tfjit, tfjit.function))
def test_arguments_and_results(name: str) -> None:
    told = []
    for m, function in MODULES:
        with m.Graph().as_default():
            told.append(outcome(spoiled(m, function)[name]))
    assert told[1] == told[0]


def test_one_trace_for_each_kind_of_arguments() -> None:
    traces: dict[Any, list[Any]] = {tf1: [], tfjit: []}
    for m, function in MODULES:

        def f(a: Any, b: Any = 1, m: Any = m) -> Any:
            traces[m].append((str(getattr(a, "shape", a)), getattr(b, "name", b) and str(b)[:6]))
            return a

        traced = function(f)
        with m.Graph().as_default():
            x, y, z = (
                m.placeholder(dtype, shape)
                for dtype, shape in ((m.float32, [2]), (m.float32, [None]), (m.int32, [2]))
            )
            for args in (
                (x,),
                (x, 1),
                (x, 2),
                (y,),
                (m.ones([2]),),
                (z,),
                (3,),
                (3,),
                (4,),
                (np.ones(2, "f4"),),
                ([x, y],),
                ([x, x],),
                ("a",),
            ):
                traced(*args)
    assert traces[tfjit] == traces[tf1]


def test_fewer_traces() -> None:
    count = []

    @tfjit.function(reduce_retracing=True)
    def f(a: Any) -> Any:
        count.append(str(a.shape))
        return a * 2.0

    with tfjit.Graph().as_default():
        for size in (1, 2, 3, 4):
            assert f(tfjit.ones([size])).shape.as_list() == [size]
    assert count == ["(1,)", "(None,)"] and f.experimental_get_tracing_count() == 2


def test_a_method_is_bound() -> None:
    class Model:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @tfjit.function
        def call(self, a: Any) -> Any:
            """Times the factor."""
            return a * self.factor

    with tfjit.Graph().as_default(), tfjit.Session() as session:
        two, three = Model(2.0), Model(3.0)
        assert session.run([two.call(tfjit.constant(1.0)), three.call(tfjit.constant(1.0))]) == [
            2.0,
            3.0,
        ]
        assert two.call is two.call and Model.call.__doc__ == "Times the factor."
        gone = weakref.ref(three)
        del three
        gc.collect()
        assert gone() is None


def test_a_concrete_function() -> None:
    with tfjit.Graph().as_default() as graph, tfjit.Session() as session:
        outside = tfjit.constant([10.0, 20.0])
        f = tfjit.function(lambda a, k=3.0: {"y": a * k + outside})
        concrete = f.get_concrete_function(tfjit.TensorSpec([None], tfjit.float32))
        assert concrete.name.decode() in graph.functions
        assert [value.shape.as_list() for value in concrete.inputs] == [[None], [2]]
        assert concrete.captured_inputs == [outside]
        assert concrete.function_def.signature.name == concrete.name.decode()
        np.testing.assert_array_equal(
            session.run(concrete(tfjit.constant([1.0, 2.0]))["y"]), [13.0, 26.0]
        )
        with pytest.raises(TypeError, match="expects 1 tensors, got 2"):
            concrete(outside, outside)


@pytest.mark.parametrize("use", [lambda a: a if a[0] > 0.0 else -a, lambda a: list(a)])
def test_there_is_no_autograph(use: Callable[[Any], Any]) -> None:
    told = []
    for m, function in MODULES:
        with m.Graph().as_default():
            with pytest.raises(TypeError) as caught:
                function(use)(m.placeholder(m.float32, [2]))
            told.append((type(caught.value).__name__, str(caught.value).partition(". ")[0]))
    assert told[0] == told[1]


def test_functions_go_into_a_meta_graph_and_another_graph() -> None:
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [2], "x")
        f = tfjit.function(
            lambda a: tfjit.while_loop(
                lambda i, _: i < 3, lambda i, h: (i + 1, tfjit.sin(h) * a), [0, a]
            )[1]
        )
        tfjit.identity(f(x), "y")
        meta = tfjit.train.export_meta_graph(graph=graph)
        with tfjit.Session() as session:
            wanted = session.run(
                ["y:0", *tfjit.gradients(graph.get_tensor_by_name("y:0"), x)], FEED
            )
    with tfjit.Graph().as_default() as other, tfjit.Session() as session:
        tfjit.train.import_meta_graph(meta)
        y, x = other.get_tensor_by_name("y:0"), other.get_tensor_by_name("x:0")
        for one, two in zip(session.run([y, *tfjit.gradients(y, x)], FEED), wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-6)


def test_a_call_by_name_has_a_symbolic_gradient() -> None:
    """What TensorFlow 1's `Defun` makes: nodes whose op type is the function."""
    library = tf1.GraphDef()
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [2], "x")

        @partial(tf.function, autograph=False)
        def f(a: Any) -> Any:
            return a * tf.sin(a)

        f(x)
        library.CopyFrom(graph.as_graph_def())
    call = library.node[1]
    call.op = library.library.function[0].signature.name
    call.attr.clear()
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x, y = tfjit.import_graph_def(library, name="", return_elements=["x:0", call.name + ":0"])
        got = session.run([y, *tfjit.gradients(y, x)], FEED)
    values = np.float32(FEED["x:0"])
    np.testing.assert_allclose(got[0], values * np.sin(values), rtol=1e-6)
    np.testing.assert_allclose(got[1], np.sin(values) + values * np.cos(values), rtol=1e-6)
