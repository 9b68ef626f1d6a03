"""Control flow of functions: the nodes, shapes and values of TensorFlow's, its errors, and graphs
that TensorFlow runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.ops.control_flow_programs import PROGRAMS, spoiled
from tests.ops.differentiable_programs import PROGRAMS as DIFFERENTIABLE
from tests.ops.differentiable_programs import trained

tf1 = tf.compat.v1


@pytest.fixture(scope="module", autouse=True)
def references() -> Iterator[None]:
    """The nodes are TensorFlow's, whose loops and branches are compiled in the tests of runtime/ and
    of passes/: here the compiler would only work behind runs that do not wait for it.
    """
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        yield


@pytest.fixture(scope="module", autouse=True)
def new_control_flow() -> Iterator[None]:
    tf1.enable_control_flow_v2()
    tf1.disable_tensor_equality()
    tfjit.enable_control_flow_v2()
    yield
    tfjit.disable_control_flow_v2()
    tf1.enable_tensor_equality()


def built(build: Any) -> list[tuple[Any, list[Any]]]:
    """(graph, flat fetches) of TensorFlow and of tfjit."""
    found = []
    for module in (tf1, tfjit):
        graph = module.Graph()
        with graph.as_default():
            found.append((graph, tf.nest.flatten(build(module))))
    return found


def nodes(graph: Any) -> dict[str, tuple[str, list[str]]]:
    return {node.name: (node.op, list(node.input)) for node in graph.as_graph_def().node}


def in_tensorflow(graph: Any, fetches: list[Any], *feeds: dict[str, Any]) -> list[list[Any]]:
    """Return the values that TensorFlow computes of a graph that tfjit exports, for each feeds."""
    with tf1.Graph().as_default():
        tf1.import_graph_def(
            tf1.GraphDef.FromString(graph.as_graph_def().SerializeToString()), name=""
        )
        with tf1.Session() as session:
            return [session.run([fetch.name for fetch in fetches], fed) for fed in feeds]


def known(value: Any) -> tuple[int | None, ...] | None:
    return None if value.shape.rank is None else tuple(value.shape.as_list())


def no_less_known(ours: Any, theirs: Any) -> bool:
    if theirs is None or ours is None:
        return theirs is None
    return len(ours) == len(theirs) and all(
        b is None or a == b for a, b in zip(ours, theirs, strict=True)
    )


# which asks an array for its gradient
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"every_method"}))
def test_a_program(name: str) -> None:
    (their_graph, theirs), (our_graph, ours) = built(PROGRAMS[name])
    assert nodes(our_graph) == nodes(their_graph)
    assert [fetch.name for fetch in ours] == [fetch.name for fetch in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert no_less_known(known(mine), known(other)), mine
    with tf1.Session(graph=their_graph) as a, tfjit.Session(graph=our_graph) as b:
        wanted, got = a.run(theirs), b.run(ours)
    (again,) = in_tensorflow(our_graph, ours, {})
    for mine, other, exported in zip(got, wanted, again, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
        np.testing.assert_allclose(exported, other, rtol=1e-6)


def derivatives(m: Any, program: Any, unknown: bool, x: Any, p: Any) -> list[Any]:
    """The value, the first derivatives by both, and the second by the first of them."""
    y = program(m, x, p)
    first = m.gradients(y, [x, p])
    second = [m.gradients(g, [x, p]) if g is not None else [None, None] for g in first]
    return [
        y,
        *(
            m.zeros([3]) if g is None else m.convert_to_tensor(g)
            for g in [*first, *second[0], *second[1]]
        ),
    ]


FEEDS = [[0.4, 0.6, 0.8], [0.3, 0.5, 0.7]], [[0.4, 0.6, 0.8], [-0.3, -0.5, -0.7]]


CASES = [(name, False) for name in sorted(set(DIFFERENTIABLE) - {"switch and merge"})]
CASES += [
    (name, True)
    for name in (
        "branches of different inputs",
        "conditional in a loop",
        "loop until",
        "map",
        "two variables",
    )
]


@pytest.mark.parametrize(("name", "unknown"), CASES)
def test_first_and_second_derivatives(name: str, unknown: bool) -> None:
    """In tfjit, in TensorFlow, and in TensorFlow of the graph that tfjit exports."""

    def build(m: Any) -> list[Any]:
        shape = [None] if unknown else [3]
        x, p = m.placeholder(m.float32, shape, "x"), m.placeholder(m.float32, shape, "p")
        return derivatives(m, DIFFERENTIABLE[name], unknown, x, p)

    (their_graph, theirs), (our_graph, ours) = built(build)
    with tf1.Session(graph=their_graph) as a, tfjit.Session(graph=our_graph) as b:
        fed = [{"x:0": x, "p:0": p} for x, p in FEEDS]
        for feeds, exported in zip(fed, in_tensorflow(our_graph, ours, *fed), strict=True):
            wanted = a.run(theirs, feeds)
            for mine, other, third in zip(b.run(ours, feeds), wanted, exported, strict=True):
                np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)
                np.testing.assert_allclose(third, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    "name",
    [
        "loop in a loop",
        "conditional in a loop",
        "loop in a conditional",
        "scan",
        "nested conditionals",
    ],
)
def test_derivatives_of_an_imported_graph(name: str) -> None:
    """TensorFlow's While and If, imported; their gradients are tfjit's."""
    with tf1.Graph().as_default() as graph:
        x, p = tf1.placeholder(tf.float32, [3], "x"), tf1.placeholder(tf.float32, [3], "p")
        y = tf.identity(DIFFERENTIABLE[name](tf1, x, p), "y")
        bare = graph.as_graph_def().SerializeToString()
        theirs = derivatives(tf1, lambda *_: y, False, x, p)
        feeds = {"x:0": FEEDS[1][0], "p:0": FEEDS[1][1]}
        with tf1.Session() as session:
            wanted = session.run(theirs, feeds)
    with tfjit.Graph().as_default() as ours:
        x, p, y = tfjit.import_graph_def(bare, name="", return_elements=["x:0", "p:0", "y:0"])
        fetches = derivatives(tfjit, lambda *_: y, False, x, p)
        with tfjit.Session() as session:
            got = session.run(fetches, feeds)
    (again,) = in_tensorflow(ours, fetches, feeds)
    for mine, other, exported in zip(got, wanted, again, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(exported, other, rtol=2e-4, atol=2e-5)


def test_training_through_a_loop() -> None:
    """A recurrent network's weights, a variable taken into the loop by its handle: three steps
    leave the same in both.
    """
    rng = np.random.default_rng(5)
    data, start = (
        rng.normal(size=(6, 4, 3)).astype("f4"),
        rng.normal(size=(5, 2)).astype("f4") * 0.5,
    )
    np.testing.assert_allclose(
        trained(tfjit, data, start), trained(tf1, data, start), rtol=1e-4, atol=1e-6
    )


# What TensorFlow asserts, or lets pass until it runs: tfjit tells what it tells of the other form.
OTHERWISE = {
    "a body that gives nothing": "None values not supported",
    "a name beside a handle": "Cannot provide both `handle` and `tensor_array_name`",
    "a size beside a handle": "Cannot provide both a `handle` and `size`",
    "an invariant that does not fit": "is not compatible with the initial shape of the loop "
    "variable",
    "no flow": "flow must not be None if handle is not None",
    "no variables": "'loop_vars' must be provided",
}


@pytest.mark.parametrize("name", sorted(set(spoiled(None)) - set(OTHERWISE)))
def test_an_error(name: str) -> None:
    told = []
    for module in (tf1, tfjit):
        with module.Graph().as_default():
            try:
                spoiled(module)[name](module)
            except Exception as error:
                told.append((type(error).__name__, str(error)))
    assert told[1:] == told[:1]


@pytest.mark.parametrize("name", OTHERWISE)
def test_an_error_that_tensorflow_has_no_words_for(name: str) -> None:
    with tfjit.Graph().as_default(), pytest.raises(ValueError, match=OTHERWISE[name]):
        spoiled(tfjit)[name](tfjit)


def same_everywhere(
    build: Any, feeds: Sequence[dict[str, Any]] = ({},), fetch_nodes: bool = True
) -> list[Any]:
    """The values of a program, which are those of TensorFlow, and what TensorFlow computes of
    tfjit's graph.
    """
    (their_graph, theirs), (our_graph, ours) = built(build)
    if fetch_nodes:
        assert [op.type for op in their_graph.get_operations()] == [
            op.type for op in our_graph.get_operations()
        ]
    found = []
    with their_graph.as_default():
        their_init = tf1.global_variables_initializer()
    with our_graph.as_default():
        our_init = tfjit.global_variables_initializer()
    exported = tf1.GraphDef.FromString(our_graph.as_graph_def().SerializeToString())
    with tf1.Graph().as_default() as third:
        tf1.import_graph_def(exported, name="")
    with (
        tf1.Session(graph=their_graph) as a,
        tfjit.Session(graph=our_graph) as b,
        tf1.Session(graph=third) as c,
    ):
        for session, init in ((a, their_init), (b, our_init), (c, our_init.name)):
            session.run(init)
        for feed in feeds:
            wanted, got, other = (
                a.run(theirs, feed),
                b.run(ours, feed),
                c.run([fetch.name for fetch in ours], feed),
            )
            for one, two, three in zip(wanted, got, other, strict=True):
                np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(three, one, rtol=1e-4, atol=1e-5)
            found.append(got)
    return found


def inputs(m: Any) -> tuple[Any, Any]:
    return m.placeholder(m.float32, [3], "x"), m.placeholder(m.bool, [], "p")


TWO_WAYS = [{"x:0": [0.3, -0.5, 2.0], "p:0": p} for p in (True, False)]


def test_variables_and_effects() -> None:
    """A variable is taken by its handle, effects in a branch or body happen once it runs, others do
    not.
    """

    def build(m: Any) -> list[Any]:
        x, p = inputs(m)
        v = m.get_variable("v", initializer=[1.0, 2.0, 3.0], use_resource=True)
        w = m.get_variable("w", initializer=[1.0, 1.0, 1.0], use_resource=False)
        branch = m.cond(p, lambda: v.assign_add(x) * w, lambda: x + w)
        with m.control_dependencies([branch]):
            many = m.while_loop(
                lambda i, _: i < 3, lambda i, h: (i + 1, v.assign_sub(h) + x), [m.constant(0), x]
            )
        with m.control_dependencies(many):
            return [branch, *many, v.read_value()]

    same_everywhere(build, TWO_WAYS)


def test_variables_that_are_made_inside() -> None:
    def build(m: Any) -> list[Any]:
        x, p = inputs(m)
        with m.variable_scope("a"):
            ones = m.ones_initializer()
            first = m.cond(p, lambda: m.get_variable("q", [3], initializer=ones) * x, lambda: x)
        with m.variable_scope("a", reuse=True):
            again = m.while_loop(
                lambda i, _: i < 2,
                lambda i, h: (i + 1, h * m.get_variable("q", [3])),
                [m.constant(0), x],
            )[1]
        assert [variable.name for variable in m.global_variables()] == ["a/q:0"]
        return [first, again]

    same_everywhere(build, TWO_WAYS, fetch_nodes=False)


def test_a_gradient_of_ones_own_in_a_body() -> None:
    def build(m: Any) -> list[Any]:
        x, p = inputs(m)

        @m.custom_gradient
        def clipped(value: Any) -> Any:
            return m.exp(value), lambda dy: m.clip_by_value(dy, -0.5, 0.5) * value

        y = m.cond(p, lambda: clipped(x) * 3.0, lambda: m.stop_gradient(x) * x)
        z = m.while_loop(
            lambda i, _: i < 3,
            lambda i, h: (i + 1, clipped(h) * 0.1 + m.stop_gradient(h)),
            [m.constant(0), x],
        )[1]
        return [y, z, *m.gradients(y, x), *m.gradients(z, x)]

    same_everywhere(build, TWO_WAYS, fetch_nodes=False)


def test_checks_and_prints_in_bodies(capfd: pytest.CaptureFixture[str]) -> None:
    with tfjit.Graph().as_default():
        x, p = inputs(tfjit)

        def checked() -> Any:
            with tfjit.control_dependencies([tfjit.Assert(x[0] > 0.0, ["x is", x])]):
                return tfjit.Print(x * 2.0, [x], "printed: ")

        y = tfjit.cond(p, checked, lambda: x)
        (dy,) = tfjit.gradients(y, x)
        with tfjit.Session() as session:
            np.testing.assert_array_equal(
                session.run(dy, {x: [1.0, 2.0, 3.0], p: True}), [2.0, 2.0, 2.0]
            )
            np.testing.assert_array_equal(
                session.run(y, {x: [-1.0, 2.0, 3.0], p: False}), [-1.0, 2.0, 3.0]
            )
            with pytest.raises(tfjit.errors.InvalidArgumentError, match="x is"):
                session.run(y, {x: [-1.0, 2.0, 3.0], p: True})
            np.testing.assert_array_equal(
                session.run(y, {x: [1.0, 2.0, 3.0], p: True}), [2.0, 4.0, 6.0]
            )
    assert "printed: [1 2 3]" in capfd.readouterr().err


def test_switch_case_and_its_gradients() -> None:
    def build(m: Any) -> list[Any]:
        x, k = m.placeholder(m.float32, [3], "x"), m.placeholder(m.int32, [], "k")
        y = m.switch_case(k, [lambda: x * x, lambda: m.sin(x)], default=lambda: m.exp(x))
        (first,) = m.gradients(y, x)
        return [y, first, *m.gradients(first, x)]

    feeds = [{"x:0": [0.3, -0.5, 2.0], "k:0": k} for k in (-1, 0, 1, 2, 7)]
    same_everywhere(build, feeds, fetch_nodes=False)


def test_what_is_done_with_arrays_has_gradients() -> None:
    def build(m: Any) -> list[Any]:
        x = m.placeholder(m.float32, [4, 2], "x")
        rows = m.TensorArray(m.float32, 4).unstack(x)
        cut = m.TensorArray(m.float32, 2, infer_shape=False).split(m.sin(x), [1, 3])
        pair = m.TensorArray(m.float32, 4).scatter([2, 0], x[:2]).scatter([1, 3], m.exp(x[2:]))
        grown = m.while_loop(
            lambda i, a: i < 3,
            lambda i, a: (i + 1, a.write(i, rows.read(i) * x[0])),
            [0, m.TensorArray(m.float32, 0, dynamic_size=True)],
        )[1]
        values = [
            rows.gather([3, 1]),
            cut.concat(),
            pair.stack() * x,
            grown.stack(),
            grown.identity().concat(),
        ]
        gradients = [m.gradients(value, x)[0] for value in values[:-1]]
        return [
            *values[:-1],
            *gradients,
            *m.gradients(gradients[2] * x, x),
            m.TensorArray(m.float32, 3).size(),
        ]

    same_everywhere(build, [{"x:0": np.linspace(-1.0, 1.0, 8).reshape(4, 2)}], fetch_nodes=False)


def test_a_session_that_is_open_takes_gradients_of_loops_that_it_has_run() -> None:
    """TensorFlow does not: its nodes stay what they were."""
    with tfjit.Graph().as_default(), tfjit.Session() as session:
        x, p = inputs(tfjit)
        y = tfjit.while_loop(
            lambda i, _: i < 3,
            lambda i, h: (i + 1, tfjit.cond(p, lambda: tfjit.sin(h) * x, lambda: h)),
            [0, x],
        )[1]
        values = [0.3, -0.5, 2.0]
        before = session.run(y, {x: values, p: True})
        (first,) = tfjit.gradients(y, x)
        got = session.run([y, first], {x: values, p: True})
        np.testing.assert_array_equal(got[0], before)
        step = 1e-3
        for i in range(3):
            moved = [value + step * (i == j) for j, value in enumerate(values)]
            slope = (session.run(y, {x: moved, p: True})[i] - before[i]) / step
            assert slope == pytest.approx(got[1][i], rel=2e-2, abs=1e-3)


def test_what_is_of_another_branch_or_is_no_tensor_is_refused() -> None:
    with tfjit.Graph().as_default():
        x, p = inputs(tfjit)
        kept: list[Any] = []

        def first() -> Any:
            kept.append(x * 2.0)
            return kept[0]

        with pytest.raises(ValueError, match="is out of scope|is accessed from"):
            tfjit.cond(p, first, lambda: kept[0] + 1.0)
        with pytest.raises(TypeError, match="found return value of type object"):
            tfjit.cond(p, lambda: object(), lambda: x)
        assert tfjit.get_default_graph().get_operations()[-1].graph is x.graph
        # the graph is as good as before
        np.testing.assert_array_equal(tfjit.cond(p, lambda: x, lambda: -x).shape, [3])


def test_the_form_is_a_setting() -> None:
    assert tfjit.control_flow_v2_enabled()
    tfjit.disable_control_flow_v2()
    try:
        assert not tfjit.control_flow_v2_enabled()
        with tfjit.Graph().as_default() as graph:
            x, p = inputs(tfjit)
            tfjit.cond(p, lambda: x, lambda: -x)
        assert "Switch" in {op.type for op in graph.get_operations()}
    finally:
        tfjit.enable_control_flow_v2()


def test_names_devices_and_collections_inside() -> None:
    with tfjit.Graph().as_default() as graph:
        x, p = inputs(tfjit)
        seen = {}

        def branch() -> Any:
            inside = tfjit.get_default_graph()
            seen["device"] = (x + 1.0).device
            with tfjit.name_scope("s"):
                seen["name"] = (x * 2.0).name
            tfjit.add_to_collection("losses", x)
            seen["losses"] = len(tfjit.get_collection("losses"))
            assert inside is not graph and inside.building_function
            return x

        graph.add_to_collection("losses", x)
        with tfjit.device("/cpu:0"):
            tfjit.cond(p, branch, lambda: x)
        assert seen == {"device": "/device:CPU:0", "name": "s/mul:0", "losses": 2}
        assert len(graph.get_collection("losses")) == 1
