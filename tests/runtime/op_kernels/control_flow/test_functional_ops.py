"""Functions at run time: v2 control flow and calls that TensorFlow has built give TensorFlow's
values and errors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfjit
from tests.waiting import wait_until
from tfjit.passes.text.text_format import parse_graph

tf = pytest.importorskip("tensorflow")
tf1 = tf.compat.v1

Build = Callable[[dict[str, Any]], Any]


@pytest.fixture(autouse=True, scope="module")
def v2_control_flow() -> Iterator[None]:
    tf1.enable_control_flow_v2()
    yield
    tf1.disable_control_flow_v2()


def placeholder(made: dict[str, Any], name: str, dtype: Any, shape: Any) -> Any:
    made[name] = tf1.placeholder(dtype, shape, name=name)
    return made[name]


def outcomes(
    session_class: Any, graph: Any, fetches: Any, feeds: Any, init: Any, runs: int
) -> list[Any]:
    found = []
    with session_class(graph=graph) as session:
        session.run(init)
        for _ in range(runs):
            try:
                found.append(session.run(fetches, feeds))
            except Exception as error:
                found.append(error)
    return found


def compare(
    build: Build, feeds: dict[str, Any] | None = None, runs: int = 3, same_text: bool = True
) -> list[Any]:
    """Run a program in both sessions, several times: values and error classes are the same, and the
    last line of errors.
    """
    with tf.Graph().as_default() as graph:
        made: dict[str, Any] = {}
        fetches = build(made)
        init = tf1.global_variables_initializer()
    fed = {made[name]: value for name, value in (feeds or {}).items()}
    wanted = outcomes(tf1.Session, graph, fetches, fed, init, runs)
    found = outcomes(tfjit.Session, graph, fetches, fed, init, runs)
    for one, other in zip(wanted, found, strict=True):
        if isinstance(one, Exception) or isinstance(other, Exception):
            assert type(one).__name__ == type(other).__name__, (one, other)
            if same_text:
                first, second = (
                    error.message.split("\n\t [[")[0].split("\n")[-1] for error in (one, other)
                )
                assert first == second
        else:
            tf.nest.map_structure(same, one, other)
    return found


def same(one: Any, other: Any) -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert one.dtype == other.dtype and one.shape == other.shape
    if one.dtype.kind in "fc":
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(other, one)


X = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]], np.float32)


def loop_of_scalars(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [])
    return tf.while_loop(
        lambda i, a: i < 10, lambda i, a: (i + 1, a * 2.0 + tf.cast(i, tf.float32)), [0, x]
    )


def loop_of_unknown_rows(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [None, 3])
    return tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tf.sin(a) + 1.0), [0, x])


def loop_that_grows(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [None, 3])
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 3])]
    return tf.while_loop(
        lambda i, a: i < 6,
        lambda i, a: (i + 1, tf.concat([a, a[:1] + 1.0], 0)),
        [0, x],
        shape_invariants=shapes,
    )


def loop_that_adds_dimensions(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, None)
    shapes = [tf.TensorShape([]), tf.TensorShape(None)]
    return tf.while_loop(
        lambda i, a: i < 3,
        lambda i, a: (i + 1, tf.expand_dims(a, 0)),
        [0, x],
        shape_invariants=shapes,
    )


def nested(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [2, 3])

    def body(i: Any, a: Any) -> Any:
        def inner(j: Any, b: Any) -> Any:
            return j + 1, tf.cond(tf.reduce_sum(b) > 3.0, lambda: b * 0.5, lambda: b + 1.0)

        return i + 1, tf.while_loop(lambda j, b: j < i, inner, [0, a])[1]

    return tf.while_loop(lambda i, a: i < 6, body, [0, x])


def loop_that_never_runs(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [2, 3])
    return tf.while_loop(
        lambda i, a, b: i < 0, lambda i, a, b: (i + 1, a * 2.0, b), [0, x, x * 1.0]
    )


def loop_with_a_limit(made: dict[str, Any]) -> Any:
    return tf.while_loop(lambda i: i < 1000, lambda i: i + 1, [0], maximum_iterations=7)


def strings(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.string, [])
    return tf.while_loop(
        lambda i, s: i < 3, lambda i, s: (i + 1, tf.strings.join([s, "a"])), [0, x]
    )


def variable_in_a_loop(made: dict[str, Any]) -> Any:
    v = tf1.get_variable("v", initializer=np.zeros(3, np.float32), use_resource=True)

    def body(i: Any) -> Any:
        with tf.control_dependencies([v.assign_add(tf.ones(3) * tf.cast(i, tf.float32))]):
            return i + 1

    (i,) = tf.while_loop(lambda i: i < 5, body, [0])
    with tf.control_dependencies([i]):
        return v.read_value(), i


def function_with_a_variable(made: dict[str, Any]) -> Any:
    v = tf1.get_variable("v", initializer=1.0, use_resource=True)

    @tf.function
    def f(a: Any) -> Any:
        for _ in tf.range(5):
            if a > 3.0:
                v.assign_add(a)
                a = a - 1.0
            else:
                a = a + v
        return a, v.read_value()

    return f(placeholder(made, "x", tf.float32, []))


def random_numbers(made: dict[str, Any]) -> Any:
    tf1.set_random_seed(3)
    p = placeholder(made, "p", tf.bool, [])
    looped = tf.while_loop(
        lambda i, a: i < 4,
        lambda i, a: (i + 1, a + tf1.random_uniform([2], seed=7)),
        [0, tf.zeros(2)],
    )
    return looped, tf.cond(
        p, lambda: tf1.random_uniform([2], seed=7), lambda: tf1.random_normal([2], seed=7)
    )


def queue_behind_an_enqueue(made: dict[str, Any]) -> Any:
    q = tf1.FIFOQueue(100, [tf.int32], shapes=[[]])
    with tf.control_dependencies([q.enqueue_many([tf.range(20)])]):
        return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a + q.dequeue()), [0, 0])


def queue_beside_an_enqueue(made: dict[str, Any]) -> Any:
    """The loop waits for a node of the same step."""
    q = tf1.FIFOQueue(100, [tf.int32], shapes=[[]])
    return tf.while_loop(
        lambda i, a: i < 4, lambda i, a: (i + 1, a + q.dequeue()), [0, 0]
    ), q.enqueue_many([tf.range(4)])


def python_in_a_loop(made: dict[str, Any]) -> Any:
    shapes = [tf.TensorShape([]), tf.TensorShape(None)]
    double = lambda a: a * 2  # noqa: E731
    body = lambda i, a: (i + 1, tf1.py_func(double, [a], tf.float32))  # noqa: E731
    return tf.while_loop(lambda i, a: i < 3, body, [0, 1.0], shape_invariants=shapes)


def functions_by_name(made: dict[str, Any]) -> Any:
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32, func_name="F")
    def f(a: Any, b: Any) -> Any:
        return a * b + tf.sin(a), a - b

    @function.Defun(tf.float32, func_name="G", noinline=True)
    def g(a: Any) -> Any:
        return f(a, a)[0]

    x = placeholder(made, "x", tf.float32, [2, 3])
    u, v = f(x, x * 2.0)
    # the gradient of a function without one of its own: SymbolicGradient
    return u, v, g(x), tf.gradients([u, v], [x])


def function_with_a_gradient(made: dict[str, Any]) -> Any:
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32, func_name="FGrad")
    def gradient(a: Any, dy: Any) -> Any:
        return dy * 5.0

    @function.Defun(tf.float32, func_name="F", grad_func=gradient)
    def f(a: Any) -> Any:
        return tf.exp(a)

    x = placeholder(made, "x", tf.float32, [2, 3])
    return f(x), tf.gradients(f(x), [x])


def gradient_of_conds(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [2, 3])
    always = tf1.placeholder_with_default(True, [])
    y = tf.cond(
        always,
        lambda: tf.cond(x[0, 0] > 0.0, lambda: x * tf.sin(x), lambda: x * x),
        lambda: tf.exp(x),
    )
    return y, tf.gradients(y, [x])


def remote(made: dict[str, Any]) -> Any:
    from tensorflow.python.framework import function
    from tensorflow.python.ops import functional_ops

    @function.Defun(tf.float32, func_name="F")
    def f(a: Any) -> Any:
        return a * 2.0

    x = placeholder(made, "x", tf.float32, [2, 3])
    return functional_ops.remote_call(args=[x], Tout=[tf.float32], f=f, target="/device:CPU:0")


def mapped_and_scanned(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [None, 3])
    return (
        tf.map_fn(lambda t: t * 2.0, x),
        tf.scan(lambda a, t: a * 0.5 + t, x),
        tf.foldl(lambda a, t: a * t, x),
    )


def gradient_of_a_loop(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [None, 3])
    w = tf1.get_variable("w", initializer=np.eye(3, dtype=np.float32) * 0.5, use_resource=True)

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.cond(
            tf.reduce_sum(a) > 2.0, lambda: tf.tanh(tf.matmul(a, w)), lambda: a * 1.5
        )

    y = tf.while_loop(lambda i, a: i < 5, body, [0, x])[1]
    return y, tf.gradients(tf.reduce_sum(y * y), [x, w])


def gradient_of_nested_loops(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [2, 3])

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.while_loop(
            lambda j, b: j < i, lambda j, b: (j + 1, tf.sin(b) + x), [0, a]
        )[1]

    y = tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]
    return y, tf.gradients(y, [x])


def gradient_of_a_growing_array(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.float32, [None, 3])
    n = placeholder(made, "n", tf.int32, [])
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    step = lambda i, array, a: (i + 1, array.write(i, a), tf.tanh(a))  # noqa: E731
    y = tf.while_loop(lambda i, array, a: i < n, step, [0, array, x])[1].stack()
    return y, tf.gradients(tf.reduce_sum(y), [x])


S = np.float32(1.5)
PROGRAMS: list[tuple[Build, dict[str, Any]]] = [
    (loop_of_scalars, {"x": S}),
    (loop_of_unknown_rows, {"x": X}),
    (loop_that_grows, {"x": X}),
    (loop_that_adds_dimensions, {"x": S}),
    (nested, {"x": X}),
    (loop_that_never_runs, {"x": X}),
    (loop_with_a_limit, {}),
    (strings, {"x": np.array(b"q", object)}),
    (variable_in_a_loop, {}),
    (function_with_a_variable, {"x": S}),
    (random_numbers, {"p": np.bool_(True)}),
    (queue_behind_an_enqueue, {}),
    (queue_beside_an_enqueue, {}),
    (python_in_a_loop, {}),
    (functions_by_name, {"x": X}),
    (function_with_a_gradient, {"x": X}),
    (gradient_of_conds, {"x": X}),
    (gradient_of_conds, {"x": -X}),
    (remote, {"x": X}),
    (mapped_and_scanned, {"x": X}),
    (gradient_of_a_loop, {"x": X}),
    (gradient_of_nested_loops, {"x": X}),
    (gradient_of_a_growing_array, {"x": X, "n": np.int32(4)}),
]


@pytest.mark.parametrize(
    ("build", "feeds"), PROGRAMS, ids=[build.__name__ for build, _ in PROGRAMS]
)
def test_programs(build: Build, feeds: dict[str, Any]) -> None:
    compare(build, feeds)


@pytest.mark.parametrize(
    "build", [nested, function_with_a_variable, random_numbers, gradient_of_a_loop]
)
@pytest.mark.parametrize(
    "setting", ["TFJIT_JIT=off", "TFJIT_JIT=eager", "TFJIT_DISABLE=straight_line"]
)
def test_programs_however_they_are_run(
    build: Build, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*setting.split("="))
    compare(build, next(feeds for other, feeds in PROGRAMS if other is build), runs=2)


@pytest.mark.parametrize("index", [0, 1, 2, -1])
def test_case(index: int) -> None:
    def build(made: dict[str, Any]) -> Any:
        v = tf1.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        x = placeholder(made, "x", tf.int32, [])
        add, reset = (
            lambda: tf.identity(v.assign_add([1.0, 1.0])),
            lambda: tf.identity(v.assign([5.0, 5.0])),
        )
        return tf.switch_case(x, [add, reset, v.read_value])

    compare(build, {"x": np.int32(index)})


@pytest.mark.parametrize("value", [0.0, 2.0, np.nan, [], [0.0], [[1.0, 0.0]], b"", b"x"])
def test_if_takes_any_tensor(value: Any) -> None:
    from tensorflow.python.framework import function
    from tensorflow.python.ops import gen_functional_ops

    is_text = isinstance(value, bytes)

    def build(made: dict[str, Any]) -> Any:
        @function.Defun(tf.float32, func_name="Then")
        def then(a: Any) -> Any:
            return a * 2.0

        @function.Defun(tf.float32, func_name="Else")
        def other(a: Any) -> Any:
            return a * 3.0

        x = placeholder(made, "x", tf.string if is_text else tf.float32, None)
        return gen_functional_ops._if(x, [tf.constant(2.0)], [tf.float32], then, other)

    compare(build, {"x": np.array(value, object if is_text else np.float32)}, runs=1)


@pytest.mark.parametrize("alive", [1.0, -1.0])
def test_dead_loops(alive: float) -> None:
    def build(made: dict[str, Any]) -> Any:
        x = placeholder(made, "x", tf.float32, [])
        no, yes = tf1.raw_ops.Switch(data=x, pred=x > 0.0)
        looped = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2.0), [0, yes])[1]
        return tf1.raw_ops.Merge(inputs=[no, looped])[0]

    compare(build, {"x": np.float32(alive)})


def division_by_zero(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.int32, [])
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a // (x - i)), [0, 10])


def failed_assertion(made: dict[str, Any]) -> Any:
    x = placeholder(made, "x", tf.int32, [])

    def body(i: Any, a: Any) -> Any:
        with tf.control_dependencies([tf1.Assert(a < 10, [a, i])]):
            return i + 1, a * 2

    return tf.while_loop(lambda i, a: i < 30, body, [0, x])


@pytest.mark.parametrize("build", [division_by_zero, failed_assertion])
def test_errors_in_bodies(build: Build) -> None:
    for error in compare(build, {"x": np.int32(1)}):
        assert isinstance(error, tfjit.errors.InvalidArgumentError) and isinstance(
            error, tf.errors.InvalidArgumentError
        )
        assert error.op.name == "while" and "{{node while/body/" in error.message


def test_a_saved_model_of_recurrent_layers(data_dir: Path) -> None:
    """Functions in functions, an LSTM and a GRU as v2 loops; its variables frozen by TensorFlow."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        model = tf1.saved_model.load(session, ["serve"], str(data_dir / "lstm_saved_model"))
        signature = model.signature_def["serving_default"]
        (fed,), (fetched,) = (
            [info.name for info in infos.values()]
            for infos in (signature.inputs, signature.outputs)
        )
        frozen = tf1.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), [fetched.split(":")[0]]
        )
    with np.load(data_dir / "lstm_saved_model.npz") as file, tfjit.Session(graph=frozen) as ours:
        for _ in range(3):
            np.testing.assert_allclose(
                ours.run(fetched, {fed: file["inputs"]}), file["outputs"], rtol=1e-5, atol=1e-6
            )
        plan = ours.explain(fetched, {fed: file["inputs"].shape})
    assert "straight-line" in plan.executor, plan.executor


@pytest.mark.host
def test_a_loop_that_reads_a_variable_is_in_its_step() -> None:
    with tf.Graph().as_default() as graph:
        v = tf1.get_variable("v", initializer=np.ones(3, np.float32), use_resource=True)
        x = tf1.placeholder(tf.float32, [3])
        y = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 0.5 + v), [0, x])[1]
        init = tf1.global_variables_initializer()
    with tfjit.Session(graph=graph) as session:
        session.run(init)
        np.testing.assert_allclose(session.run(y, {x: np.zeros(3)}), 1.9375)
        assert {
            node.serving
            for node in session.explain(y, {x: (3,)}).nodes
            if node.op in ("While", "StatelessWhile")
        } == {"native"}


def test_each_shape_of_a_growing_loop_has_a_step() -> None:
    """Shapes that come a second time get steps of their own, behind the caller's back; a run with
    other ones goes on as before.
    """
    with tf.Graph().as_default() as graph:
        x, n = (
            tf1.placeholder(tf.float32, [None], name="x"),
            tf1.placeholder(tf.int32, [], name="n"),
        )
        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        y = tf.while_loop(
            lambda i, v: tf.logical_and(i < n, tf.size(v) < 20),
            lambda i, v: (i + 1, tf.concat([v, v[-1:] * 0.5 + v[-2:-1]], 0)),
            [0, x],
            shapes,
        )[1].name
    feeds = [
        {"x:0": np.ones(size, "f4"), "n:0": count}
        for size, count in ((2, 6), (3, 9), (2, 30), (1, 1), (2, 6))
    ]
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for feed in (*feeds, *feeds):
            np.testing.assert_allclose(ours.run(y, feed), theirs.run(y, feed), 1e-6)
        (plan,) = ours._runtime_session.plan_cache.plans()
        kept = [
            k
            for v in plan.variants.values()
            for part in v.partitions
            for k in part.graph.functions._kept.items()
        ]
        loops = [lease.plan for (what, _), lease in kept if what == "iteration"]
        ends = time.monotonic() + 300
        while (
            sum(v.lowered is not None for body in loops for v in list(body.variants.values())) < 6
            and time.monotonic() < ends
        ):
            time.sleep(0.02)
        assert (
            sum(v.lowered is not None for body in loops for v in list(body.variants.values())) >= 6
        )
        for feed in feeds:
            np.testing.assert_allclose(ours.run(y, feed), theirs.run(y, feed), 1e-6)


def test_a_session_learns_functions_as_the_graph_grows() -> None:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [])
        first = tf.while_loop(lambda a: a < 10.0, lambda a: a * 2.0, [x])
        with tfjit.Session(graph=graph) as session:
            assert session.run(first, {x: 1.0}) == [16.0]
            second = tf.function(lambda a: a + 1.0)(first[0])
            assert session.run(second, {x: 1.0}) == 17.0


def test_a_graph_of_tfjit_learns_functions_as_it_grows() -> None:
    with tf.Graph().as_default() as source:
        x = tf1.placeholder(tf.float32, [], name="x")
        tf.while_loop(lambda a: a < 10.0, lambda a: a * 2.0, [x], name="w")
    graph = tfjit.Graph()
    with graph.as_default():
        a = tfjit.constant(3.0)
        with tfjit.Session(graph=graph) as session:
            assert session.run(a) == 3.0
            (w,) = tfjit.import_graph_def(
                source.as_graph_def().SerializeToString(), {"x": a}, ["w:2"], name=""
            )
            assert session.run(w) == 12.0


SUM = """
    n = Placeholder(dtype=int32, shape=<>)
    y = PartitionedCall(n, Tin=[int32], Tout=[int32], f=func'Sum'{})
    function 'Sum'{} {
        n = _Arg(index=0, T=int32)
        z = Const(dtype=int32, value=int32<>[0])
        p = Greater(n, z)
        i = StatelessIf(p, n, Tcond=bool, Tin=[int32], Tout=[int32], then_branch=func'More'{}, else_branch=func'Zero'{})
        r = _Retval(i, index=0)
    }
    function 'More'{} {
        n = _Arg(index=0, T=int32)
        one = Const(dtype=int32, value=int32<>[1])
        m = Sub(n, one)
        s = PartitionedCall(m, Tin=[int32], Tout=[int32], f=func'Sum'{})
        a = AddV2(n, s)
        r = _Retval(a, index=0)
    }
    function 'Zero'{} {
        n = _Arg(index=0, T=int32)
        z = Const(dtype=int32, value=int32<>[0])
        r = _Retval(z, index=0)
    }
"""


@pytest.mark.parametrize("disabled", ["", "straight_line"])
def test_recursion_and_its_limit(disabled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow would inline without end."""
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    monkeypatch.setenv("TFJIT_RECURSION", "150")
    with tfjit.Session(graph=parse_graph(SUM).to_graph_def()) as session:
        for n in (0, 7, 100, 100):
            assert session.run("y:0", {"n:0": n}) == n * (n + 1) // 2
        with pytest.raises(
            tfjit.errors.ResourceExhaustedError,
            match="Function 'Sum' calls itself more than 150 calls deep",
        ):
            session.run("y:0", {"n:0": 200})
        assert session.run("y:0", {"n:0": 3}) == 6


def endless() -> Any:
    with tf.Graph().as_default() as graph:
        tf.while_loop(lambda i: i > -1, lambda i: (i + 1) % 1000, [0], name="w")
    return graph


@pytest.mark.parametrize("disabled", ["", "straight_line"])
def test_endless_loops_end_at_their_timeout_and_on_close(
    disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    session = tfjit.Session(graph=endless())
    with pytest.raises(tfjit.errors.DeadlineExceededError):
        session.run("w:0", options=tf1.RunOptions(timeout_in_ms=100))
    ended: list[str] = []

    def run() -> None:
        try:
            session.run("w:0")
        except Exception as error:
            ended.append(type(error).__name__)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: session._runtime_session.steps.running)  # type: ignore[union-attr]
    time.sleep(0.1)
    session.close()
    thread.join(60)
    assert ended == ["CancelledError"]


# statements: ("math", op) | ("loop", count, Program) | ("cond", Program, Program) | ("call",
# Program)
Program = list[Any]
statements: Any = st.deferred(
    lambda: st.lists(
        st.one_of(
            st.tuples(st.just("math"), st.integers(0, 4)),
            st.tuples(st.just("loop"), st.integers(0, 3), statements),
            st.tuples(st.just("cond"), statements, statements),
            st.tuples(st.just("call"), statements),
        ),
        max_size=2,
    )
)


MATH: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, k: a * 0.5 + 1.0,
    lambda a, k: tf.sin(a),
    lambda a, k: a - tf.cast(k, tf.float32),
    lambda a, k: a[::-1] * 0.9,
    lambda a, k: tf.nn.relu(a),
)


def interpret(program: Program, a: Any, k: Any) -> tuple[Any, Any]:
    """a: float32 [3]; k: int32 []. Both stay of these shapes."""
    for statement in program:
        if statement[0] == "math":
            a = MATH[statement[1]](a, k)
            k = k + statement[1]
        elif statement[0] == "loop":
            _, a, k = tf.while_loop(
                lambda i, a, k, n=statement[1]: i < n,
                lambda i, a, k, p=statement[2]: (
                    i + 1,
                    *interpret(p, a + tf.cast(i, tf.float32), k),
                ),
                [0, a, k],
            )
        elif statement[0] == "cond":
            a, k = tf.cond(
                tf.reduce_sum(a) > tf.cast(k % 3, tf.float32),
                lambda p=statement[1], a=a, k=k: interpret(p, a * 0.5, k),
                lambda p=statement[2], a=a, k=k: interpret(p, a + 0.5, k + 1),
            )
        else:
            a, k = tf.function(lambda a, k, p=statement[1]: interpret(p, a, k))(a, k)
    return a, k


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    statements, st.sampled_from(["TFJIT_JIT=lazy", "TFJIT_JIT=off", "TFJIT_DISABLE=straight_line"])
)
def test_random_programs(program: Program, setting: str) -> None:
    def build(made: dict[str, Any]) -> Any:
        return interpret(
            program, placeholder(made, "a", tf.float32, [3]), placeholder(made, "k", tf.int32, [])
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*setting.split("="))
        compare(build, {"a": np.array([1.0, -2.0, 0.5], np.float32), "k": np.int32(2)}, runs=2)
