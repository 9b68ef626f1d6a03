"""Control flow of functions: the nodes, shapes and values of TensorFlow's, its errors, and graphs that TensorFlow runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.ops.test_control_flow_functions import PROGRAMS, spoiled
from tests.ops.test_gradients_of_control_flow import PROGRAMS as DIFFERENTIABLE
from tests.ops.test_gradients_of_control_flow import trained

tf1 = tf.compat.v1


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


def in_tensorflow(graph: Any, fetches: list[Any], feeds: dict[str, Any] | None = None) -> list[Any]:
    """What TensorFlow computes of a graph that tfjit exports."""
    with tf1.Graph().as_default():
        tf1.import_graph_def(tf1.GraphDef.FromString(graph.as_graph_def().SerializeToString()), name="")
        with tf1.Session() as session:
            return session.run([fetch.name for fetch in fetches], feeds)


def known(value: Any) -> tuple[int | None, ...] | None:
    return None if value.shape.rank is None else tuple(value.shape.as_list())


def no_less_known(ours: Any, theirs: Any) -> bool:
    if theirs is None or ours is None:
        return theirs is None
    return len(ours) == len(theirs) and all(b is None or a == b for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"every_method"}))  # which asks an array for its gradient
def test_a_program(name: str) -> None:
    (their_graph, theirs), (our_graph, ours) = built(PROGRAMS[name])
    assert nodes(our_graph) == nodes(their_graph)
    assert [fetch.name for fetch in ours] == [fetch.name for fetch in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert no_less_known(known(mine), known(other)), mine
    with tf1.Session(graph=their_graph) as a, tfjit.Session(graph=our_graph) as b:
        wanted, got = a.run(theirs), b.run(ours)
    for mine, other, exported in zip(got, wanted, in_tensorflow(our_graph, ours), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
        np.testing.assert_allclose(exported, other, rtol=1e-6)


def derivatives(m: Any, program: Any, unknown: bool, x: Any, p: Any) -> list[Any]:
    """The value, the first derivatives by both, and the second by the first of them."""
    y = program(m, x, p)
    first = m.gradients(y, [x, p])
    second = [m.gradients(g, [x, p]) if g is not None else [None, None] for g in first]
    return [y, *(m.zeros([3]) if g is None else m.convert_to_tensor(g) for g in [*first, *second[0], *second[1]])]


FEEDS = [[0.4, 0.6, 0.8], [0.3, 0.5, 0.7]], [[0.4, 0.6, 0.8], [-0.3, -0.5, -0.7]]


@pytest.mark.parametrize("unknown", [False, True], ids=["known shapes", "unknown shapes"])
@pytest.mark.parametrize("name", sorted(set(DIFFERENTIABLE) - {"switch and merge"}))
def test_first_and_second_derivatives(name: str, unknown: bool) -> None:
    """In tfjit, in TensorFlow, and in TensorFlow of the graph that tfjit exports."""

    def build(m: Any) -> list[Any]:
        shape = [None] if unknown else [3]
        x, p = m.placeholder(m.float32, shape, "x"), m.placeholder(m.float32, shape, "p")
        return derivatives(m, DIFFERENTIABLE[name], unknown, x, p)

    (their_graph, theirs), (our_graph, ours) = built(build)
    with tf1.Session(graph=their_graph) as a, tfjit.Session(graph=our_graph) as b:
        for x, p in FEEDS:
            feeds = {"x:0": x, "p:0": p}
            wanted = a.run(theirs, feeds)
            exported = in_tensorflow(our_graph, ours, feeds)
            for mine, other, third in zip(b.run(ours, feeds), wanted, exported, strict=True):
                np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)
                np.testing.assert_allclose(third, other, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["loop in a loop", "conditional in a loop", "loop in a conditional", "scan", "nested conditionals"])
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
    for mine, other, exported in zip(got, wanted, in_tensorflow(ours, fetches, feeds), strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(exported, other, rtol=2e-4, atol=2e-5)


def test_training_through_a_loop() -> None:
    """A recurrent network's weights, a variable taken into the loop by its handle: three steps leave the same in both."""
    rng = np.random.default_rng(5)
    data, start = rng.normal(size=(6, 4, 3)).astype("f4"), rng.normal(size=(5, 2)).astype("f4") * 0.5
    np.testing.assert_allclose(trained(tfjit, data, start), trained(tf1, data, start), rtol=1e-4, atol=1e-6)


# What TensorFlow asserts, or lets pass until it runs: tfjit tells what it tells of the other form.
OTHERWISE = {
    "a body that gives nothing": "None values not supported",
    "a name beside a handle": "Cannot provide both `handle` and `tensor_array_name`",
    "a size beside a handle": "Cannot provide both a `handle` and `size`",
    "an invariant that does not fit": "is not compatible with the initial shape of the loop variable",
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
