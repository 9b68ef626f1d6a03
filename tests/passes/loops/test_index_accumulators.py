"""What loops keep for their gradients: when it becomes arrays, when not, and that values stay.
Against TensorFlow, in both of its forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.passes.plan_graphs import ops_of
from tfjit.framework import errors
from tfjit.passes.analysis.induction_variables import read_loop
from tfjit.passes.analysis.region_tree import open_scopes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

tf1 = tf.compat.v1

X = np.random.default_rng(5).standard_normal((4, 2, 3)).astype("f4")


@pytest.fixture(params=[1, 2], autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[int]:
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if request.param == 2 else tf1.disable_control_flow_v2)()
    yield request.param
    (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()


def left(session: tfjit.Session) -> set[str]:
    return {
        op
        for op in ops_of(session)
        if op.startswith(("TensorList", "TensorArray", "Stack", "EmptyTensorList"))
    }


def check(
    build: Callable[[Any], Sequence[Any]],
    dense: bool | None,
    x: np.ndarray = X,
    fed: Sequence[int] = (3, 3),
) -> None:
    """Compare runs with TensorFlow's, by references and compiled.

    dense: whether no list, array or stack is left; None where that does not matter. fed: n of each
    run. The passes, and so what is verified after each, are the same in both modes.
    """
    with tf.Graph().as_default() as graph:
        placeholder = tf1.placeholder(tf.float32, [None, None, 3], name="x")
        tf1.placeholder_with_default(3, [], name="n")
        fetches = [t.name for t in build(placeholder)]
        init = tf1.global_variables_initializer().name
    feeds = [{"x:0": x, "n:0": n} for n in fed]
    with tf1.Session(graph=graph) as theirs:
        theirs.run(init)
        expected = [theirs.run(fetches, feed) for feed in feeds]
    for mode in ("off", "eager"):
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("TFJIT_JIT", mode)
            environment.setenv("TFJIT_VERIFY", "1" if mode == "eager" else "0")
            with tfjit.Session(graph=graph) as ours:
                ours.run(init)
                before = left(ours)
                for feed, wanted in zip(feeds, expected, strict=True):
                    for a, b in zip(ours.run(fetches, feed), wanted, strict=True):
                        np.testing.assert_allclose(a, b, 2e-5, 1e-6, err_msg=mode)
                if dense is not None:
                    assert bool(left(ours) - before) != dense, (mode, left(ours))


def weights() -> Any:
    return tf1.Variable(
        tf.constant(np.linspace(-1, 1, 18).reshape(6, 3).astype("f4")), use_resource=True
    )


def recurrent(x: Any, count: Any = None) -> list[Any]:
    """A recurrence over the rows of x: all states, and the loss's gradient by the weights."""
    w = weights()
    count = tf.shape(x)[0] if count is None else count
    rows = tf.TensorArray(tf.float32, tf.shape(x)[0]).unstack(x)
    states = tf.TensorArray(tf.float32, tf.shape(x)[0])

    def body(i: Any, h: Any, states: Any) -> Any:
        h = tf.tanh(tf.concat([rows.read(i), h], 1) @ w)
        return i + 1, h, states.write(i, h)

    states = tf.while_loop(lambda i, *_: i < count, body, [0, tf.zeros_like(x[0]), states])[
        2
    ].stack()
    return [states, *tf1.gradients(tf.reduce_sum(states**2), [w])]


def powers(x: Any, trips: Any, step: int = 1, start: int = 0) -> list[Any]:
    """A loop of so many steps of a counter, and the gradient by what it starts from."""
    y = tf.while_loop(
        lambda i, h: i < trips,
        lambda i, h: (i + step, tf.sin(h) * tf.cast(i, tf.float32) + x[0]),
        [start, x[1]],
    )[1]
    return [y, *tf1.gradients(y, [x])]


def updated(x: Any) -> list[Any]:
    """A training step: the variable is written behind the loops that read it."""
    states, gradient = recurrent(x)
    w = tf1.global_variables()[0]
    with tf1.control_dependencies([states]):
        step = (
            tf1.assign_sub(w, 0.1 * gradient)
            if not hasattr(w, "assign_sub")
            else w.assign_sub(0.1 * gradient)
        )
    return [states, tf.identity(step)]


def two_gradients(x: Any) -> list[Any]:
    """Two loops take out what one put in."""
    y = tf.while_loop(
        lambda i, h, g: i < 3, lambda i, h, g: (i + 1, tf.sin(h) * g, g * h), [0, x[0], x[1]]
    )
    return [*tf1.gradients(y[1], [x]), *tf1.gradients(y[2], [x])]


DENSE: dict[str, Callable[[Any], Sequence[Any]]] = {
    "recurrence": recurrent,
    "training": updated,
    "a length that is fed": lambda x: powers(x, 3),
    "steps of three": lambda x: powers(x, 11, 3),
    "from below": lambda x: powers(x, 2, 1, -3),
    "down": lambda x: (lambda y: [y, *tf1.gradients(y, [x])])(
        tf.while_loop(
            lambda i, h: i >= 2,
            lambda i, h: (i - 2, tf.sin(h) * tf.cast(i - 5, tf.float32)),
            [9, x[1]],
        )[1]
    ),
    "two conditions": lambda x: (lambda y: [y, *tf1.gradients(y, [x])])(
        tf.while_loop(
            lambda i, h: tf.logical_and(i < 7, i < 5),
            lambda i, h: (i + 1, tf.sin(h) * x[0]),
            [0, x[1]],
        )[1]
    ),
    "of what does not change": lambda x: (lambda y: [y, *tf1.gradients(y, [x])])(
        tf.while_loop(
            lambda i, h, c: i < 4, lambda i, h, c: (i + 1, h * c * x[2], c), [0, x[1], x[0]]
        )[1]
    ),
    "at most so often": lambda x: (lambda y: [y, *tf1.gradients(y, [x])])(
        tf.while_loop(
            lambda h, g: True,
            lambda h, g: [tf.sin(h) * x[0], g],
            [x[1], x[2]],
            maximum_iterations=3,
        )[0]
    ),
}


@pytest.mark.parametrize("name", DENSE)
def test_dense(name: str) -> None:
    check(DENSE[name], True)


def nested(x: Any) -> list[Any]:
    def body(i: Any, h: Any) -> Any:
        return i + 1, tf.while_loop(
            lambda j, g: j < i + 1, lambda j, g: (j + 1, tf.sin(g) * x[0]), [0, h]
        )[1]

    y = tf.while_loop(lambda i, h: i < 3, body, [0, x[1]])[1]
    return [y, *tf1.gradients(y, [x])]


def in_branches(x: Any) -> list[Any]:
    y = tf.while_loop(
        lambda i, h: i < 4,
        lambda i, h: (i + 1, tf.cond(i % 2 > 0, lambda: tf.sin(h) * x[0], lambda: h * h)),
        [0, x[1]],
    )[1]
    return [y, *tf1.gradients(y, [x])]


def until(x: Any) -> list[Any]:
    y = tf.while_loop(
        lambda i, h: tf.reduce_sum(h) < 50.0,
        lambda i, h: (i + 1, h * 1.5 + tf.abs(x[0])),
        [0, x[1]],
    )[1]
    return [y, *tf1.gradients(y, [x])]


def growing(x: Any) -> list[Any]:
    """Elements of other shapes in each iteration."""
    y = tf.while_loop(
        lambda i, h: i < 3,
        lambda i, h: (i + 1, tf.concat([h, tf.sin(h[:1])], 0)),
        [0, x[0]],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
    )[1]
    return [y, *tf1.gradients(y, [x])]


STAY: dict[str, Callable[[Any], Sequence[Any]]] = {
    "nested": nested,
    "until a value is reached": until,
    "of shapes that change": growing,
}


@pytest.mark.parametrize("name", STAY)
def test_stay(name: str) -> None:
    check(STAY[name], False)


def test_right_in_any_case() -> None:
    check(in_branches, None)
    check(two_gradients, None)  # of the v2 form, the second one is a gradient of the lists too
    # a number that is fed is not known before it runs
    check(
        lambda x: powers(x, tf1.get_default_graph().get_tensor_by_name("n:0")),
        None,
        fed=(0, 1, 3, 3),
    )
    check(lambda x: powers(x, 0), None)
    check(recurrent, None, X[:1])
    check(lambda x: recurrent(x, tf.shape(x)[0] - 1), None)


def test_no_iterations() -> None:
    """Rows are read in no iteration, so there is nothing to keep either."""
    check(lambda x: powers(x, tf.shape(x)[0] - 4), None)


def test_what_a_loop_writes_is_read_in_it() -> None:
    """A variable that the loop itself changes is kept as it was in each iteration."""

    def build(x: Any) -> list[Any]:
        w = tf1.Variable(tf.ones([2, 3]), use_resource=True)

        def body(i: Any, h: Any) -> Any:
            value = w.read_value()
            with tf1.control_dependencies([value]):
                add = w.assign_add(tf.ones([2, 3]), read_value=False)
            with tf1.control_dependencies([add]):
                return i + 1, tf.sin(h) * value

        y = tf.while_loop(lambda i, h: i < 3, body, [0, x[0]], parallel_iterations=1)[1]
        return [y, *tf1.gradients(y, [x])]

    check(build, None)


def test_messages() -> None:
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, None, 3], name="x")
        fetches = [t.name for t in until(x)]
    with tfjit.Session(graph=graph) as session:
        assert "how often" in session.explain(fetches, {"x:0": X.shape}).details()


def test_too_many_reads(form: int) -> None:
    """What is read beyond an array's end is an error before and behind."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, None, 3], name="x")
        fetches = [t.name for t in recurrent(x, tf.shape(x)[0] + 1)]
        init = tf1.global_variables_initializer().name
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        theirs.run(init)
        ours.run(init)
        with pytest.raises(tf.errors.OpError) as expected:
            theirs.run(fetches, {"x:0": X})
        with pytest.raises(getattr(errors, type(expected.value).__name__)):
            ours.run(fetches, {"x:0": X})


LOOP = """
    n = Const(dtype=int32, value=int32<>[{start}])
    x = Placeholder(dtype=float32, shape=<3>)
    w = StatelessWhile(n, x, cond=func'cond'{{}}, body=func'body'{{}})
    function 'cond'{{}} {{
        i = _Arg(T=int32, index=0)
        x = _Arg(T=float32, index=1)
        limit = Const(dtype=int32, value=int32<>[{limit}])
        go = {op}
        r = _Retval(go, index=0)
    }}
    function 'body'{{}} {{
        i = _Arg(T=int32, index=0)
        x = _Arg(T=float32, index=1)
        step = Const(dtype=int32, value=int32<>[{step}])
        next = {next}
        r0 = _Retval(next, index=0)
        r1 = _Retval(x, index=1)
    }}
"""


@pytest.mark.parametrize(
    ("start", "limit", "op", "step", "next", "trips"),
    [
        (0, 5, "Less(i, limit)", 1, "AddV2(i, step)", 5),
        (0, 5, "Less(i, limit)", 2, "AddV2(step, i)", 3),
        (0, 5, "LessEqual(i, limit)", 5, "AddV2(i, step)", 2),
        (9, 5, "Greater(i, limit)", 3, "Sub(i, step)", 2),
        (9, 5, "GreaterEqual(i, limit)", -2, "AddV2(i, step)", 3),
        (9, 5, "Less(limit, i)", 1, "Sub(i, step)", 4),
        (5, 5, "Less(i, limit)", 1, "AddV2(i, step)", 0),
        (7, 5, "Less(i, limit)", 1, "AddV2(i, step)", 0),
        (0, 5, "Less(i, limit)", 1, "Sub(i, step)", None),  # until it overflows
        (0, 5, "Less(i, limit)", 1, "Sub(step, i)", None),
        (0, 5, "NotEqual(i, limit)", 1, "AddV2(i, step)", None),
        (0, 2147483647, "LessEqual(i, limit)", 1, "AddV2(i, step)", None),
        (0, 5, "Less(i, limit)", 0, "AddV2(i, step)", None),
    ],
)
def test_trips(start: int, limit: int, op: str, step: int, next: str, trips: int | None) -> None:
    graph = parse_graph(LOOP.format(start=start, limit=limit, op=op, step=step, next=next))
    loop = read_loop(open_scopes(graph, PassContext()), "w")
    assert loop.trips == trips
    assert 1 in loop.unchanged
