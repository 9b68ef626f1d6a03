"""Groups of refused kernels are divided into smaller ones: all but the refused node stays compiled,
and no result changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.programs.big_graphs import BigGraph
from tests.programs.surroundings import environment
from tests.refused_kernels import refusing
from tfjit.kernels.source import KernelSource
from tfjit.runtime.plan.variant import Variant

tf1 = tf.compat.v1
X = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)
pytestmark = pytest.mark.refuses_kernel


def finished(session: Any) -> Variant:
    """Return the session's only variant once it has its fastest form."""
    ((variant,),) = (p.variants.values() for p in session._runtime_session.plan_cache.plans())
    variant.upgrade()
    assert variant.compile_done.wait(300)
    assert variant.failure is None
    return variant


def servings(variant: Variant) -> dict[str, str]:
    """Return how each node is served."""
    assert variant.lowered is not None and variant.step is not None
    return {
        i.node.name: variant.step.serving(i)
        for i in variant.lowered.instructions
        if i.role is None and i.serving != "copy"
    }


def softmax() -> Any:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 4], name="x")
        h = tf.tanh(x, name="tanh") * 2.0
        tf.cumsum(tf.sqrt(tf.abs(tf.nn.softmax(h)) + 1.0), name="y")
    return graph


def theirs(graph: Any, fetches: Any, feeds: Any) -> Any:
    with tf1.Session(graph=graph) as session:
        return session.run(fetches, feeds)


@pytest.mark.parametrize("jit", ["eager", "lazy"])
def test_the_parts_of_a_refused_group_are_compiled(
    monkeypatch: pytest.MonkeyPatch, jit: str
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    graph = softmax()
    expected = theirs(graph, "y:0", {"x:0": X})
    with (
        refusing(lambda source: source.title.startswith("rows tanh")),
        tfjit.Session(graph=graph) as session,
    ):
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
        variant = finished(session)
        served = servings(variant)
        assert served.pop("y") == "native"
        assert len(served) > 1 and set(served.values()) == {"native"}
        (divided,) = variant.lowered.divided  # type: ignore[union-attr]
        assert set(divided.parts) == set(served)
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
        explained = session.explain("y:0")
        ((_, why),) = explained.refused
        assert "planted" in why and f"divided into {len(divided.parts)}: " in why
        assert {node.name for node in explained.nodes} >= set(divided.parts)


@pytest.mark.parametrize("jit", ["eager", "lazy"])
def test_only_the_refused_node_stays_on_its_reference(
    monkeypatch: pytest.MonkeyPatch, jit: str
) -> None:
    """The neighbours on either side form one group each."""
    monkeypatch.setenv("TFJIT_JIT", jit)
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    graph = tf1.Graph()
    with graph.as_default():
        h = tf1.placeholder(tf.float32, [3, 4], name="x")
        for k in range(13):
            h = tf.sin(h, name="bad") if k == 8 else tf.tanh(h * 1.5, name=f"t{k}")
        tf.identity(h, name="y")
    expected = theirs(graph, "y:0", {"x:0": X})
    with (
        refusing(lambda source: "sin" in source.text),
        tfjit.Session(graph=graph) as session,
    ):
        for _ in range(2):
            np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
            served = servings(finished(session))
        assert served.pop("bad") == "reference"
        assert sorted(served.values()) == ["native", "native"]


@pytest.mark.parametrize("jit", ["eager", "lazy"])
def test_a_refused_group_is_compiled_in_another_way_first(
    monkeypatch: pytest.MonkeyPatch, jit: str
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    graph = softmax()
    expected = theirs(graph, "y:0", {"x:0": X})
    with (
        refusing(lambda source: source.title.startswith("rows tanh") and source.attempt == 0),
        tfjit.Session(graph=graph) as session,
    ):
        session.run("y:0", {"x:0": X})
        served = servings(finished(session))
        assert len(served) == 2 and set(served.values()) == {"native"}
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
        ((_, why),) = session.explain("y:0").refused
        assert why.endswith("compiled in another way")


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("jit", ["eager", "lazy"])
def test_a_single_node_is_compiled_in_another_way(
    monkeypatch: pytest.MonkeyPatch, jit: str, attempts: int
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 4], name="x")
        tf.matmul(tf.cumsum(x), W, name="y")
    expected = theirs(graph, "y:0", {"x:0": X})
    with (
        refusing(lambda source: source.attempt < attempts) as refused,
        tfjit.Session(graph=graph) as session,
    ):
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
        variant = finished(session)
        assert set(servings(variant).values()) == {"native"}
        assert {source.attempt for source in refused} == set(range(attempts))
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
        explained = session.explain("y:0")
        assert {name for name, _ in explained.refused} == {"Cumsum", "y"}
        assert all("compiled in another way" in why for _, why in explained.refused)


def test_a_second_plan_divides_what_an_earlier_one_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    graph = softmax()
    expected = theirs(graph, "y:0", {"x:0": X})
    with refusing(lambda source: source.title.startswith("rows tanh")):
        for _ in range(3):
            with tfjit.Session(graph=graph) as session:
                session.run("y:0", {"x:0": X})
                assert set(servings(finished(session)).values()) == {"native"}
                np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)


def test_reshapes_between_parts_are_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reshapes that are results get a copy, as do values that are fetched twice."""
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3, 4], name="x")
        a = tf.tanh(tf.reshape(x, [2, 6]) * 2.0)
        b = tf.reshape(tf.tanh(tf.reshape(a, [12])), [4, 3])
        c = tf.sin(b) * 0.5 + tf.reshape(a, [4, 3])
        fetches = [tf.reshape(b, [12]), tf.reshape(b, [6, 2]), tf.identity(c), tf.reshape(x, [12])]
        fetches.append(tf.reshape(tf.sin(tf.reshape(c, [2, 6]) + 1.0), [12]))
    feeds = {"x:0": X}
    expected = theirs(graph, fetches, feeds)
    for text in ("sin", "tanh", "+", "*", ""):
        with (
            refusing(lambda source, text=text: text in source.text),  # type: ignore[misc]
            tfjit.Session(graph=graph) as session,
        ):
            for a, b in zip(session.run(fetches, feeds), expected, strict=True):
                np.testing.assert_allclose(a, b, 1e-5, 1e-6)


@pytest.mark.parametrize("disabled", ["", "straight_line"])
@pytest.mark.parametrize("make", ["loop", "unknown", "branch"])
def test_groups_of_bodies_and_of_the_dataflow_executor(
    make: str, disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        if make == "loop":
            step = lambda i, h: (i + 1, tf.nn.softmax(tf.sin(tf.tanh(tf.matmul(h, W)) * 2.0)) + x)  # noqa: E731
            y = tf.while_loop(
                lambda i, h: i < 5,
                step,
                [0, x],
                shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])],
            )[1]
        elif make == "branch":
            y = tf.cond(
                x[0, 0] > 0, lambda: tf.sin(tf.tanh(x) * 2) + 1, lambda: tf.nn.softmax(tf.sin(x))
            )
        else:
            h = tf.boolean_mask(x, x[:, 1] > -2.0)
            y = tf.nn.softmax(tf.sin(tf.tanh(h * 1.5) * 2.0))
        tf.identity(y, name="y")
    expected = theirs(graph, "y:0", {"x:0": X})
    for is_bad in (
        lambda source: "rows" in source.title or "loop" in source.title,
        lambda source: "sin" in source.text,
    ):
        with refusing(is_bad), tfjit.Session(graph=graph) as session:
            for _ in range(6):
                np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, 1e-5, 1e-6)
                session.wait_until_compiled()


W = np.eye(4, dtype="f4") * 0.7


def test_a_generic_variant_divides_its_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feed shapes that vary share one plan with the parts of a refused group."""
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        h = tf.tanh(tf.matmul(x, W)) * 2.0
        y = tf.reduce_sum(tf.sqrt(tf.nn.softmax(h) + 1.0), 1, name="y")
    rng = np.random.default_rng(0)
    with (
        refusing(lambda source: source.title.startswith("rows softmax+addv2+sqrt")) as refused,
        tf1.Session(graph=graph) as their_session,
        tfjit.Session(graph=graph) as session,
    ):
        for size in (3, 5, 7, 8, 9, 11, 13, 17, 18, 19, 21, 22, 23):
            feeds = {"x:0": rng.standard_normal((size, 4)).astype("f4")}
            for _ in range(2):
                got = session.run(y, feeds)
                np.testing.assert_allclose(got, their_session.run(y, feeds), 1e-5, 1e-6)
                session.wait_until_compiled()
        (plan,) = session._runtime_session.plan_cache.plans()
        assert refused
        assert plan.generic is not None and plan.generic.ready


def words(count: int) -> list[Callable[[KernelSource], bool]]:
    """Return tests of kernels: each refuses the kernels with some word in their texts."""
    chosen = ("tanh", "exp", "sqrt", "max", "* ", "reduce", "epilogue", "matmul", "rows", "conv")
    return [lambda source, word=word: word in source.text for word in chosen[:count]]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("mode", "seed"), [("eager", 0), ("dataflow", 0), ("eager", 1), ("dataflow", 1)]
)
def test_random_graphs_with_refused_kernels(mode: str, seed: int) -> None:
    """Whatever is refused, results stay TensorFlow's."""
    drawn = BigGraph(100 + seed, 120)
    expected = theirs(drawn.graph, drawn.fetches, drawn.feeds)
    rng = np.random.default_rng(seed)
    odd = rng.integers(2, size=256)
    chosen = words(10)
    tests: list[Callable[[KernelSource], bool]] = [
        lambda source: bool(odd[int(source.digest[:2], 16)]),
        chosen[int(rng.integers(len(chosen)))],
        lambda source: source.attempt < 1 + seed % 2,
    ]
    setting = {"TFJIT_JIT": "eager", "TFJIT_VERIFY": "1"}
    if mode == "dataflow":
        setting["TFJIT_DISABLE"] = "straight_line"
    for is_bad in tests:
        with (
            environment(setting),
            refusing(is_bad),
            tfjit.Session(graph=drawn.graph) as session,
        ):
            for _ in range(3 if mode == "dataflow" else 1):
                got = session.run(drawn.fetches, drawn.feeds)
                for name, a, b in zip(drawn.fetches, got, expected, strict=True):
                    np.testing.assert_allclose(a, b, 1e-3, 1e-3, err_msg=f"{drawn.text}, {name}")
                session.wait_until_compiled()


def _chains(x: Any) -> Any:
    """Return independent chains of products, which form bundles."""
    w = tf.constant(np.random.default_rng(0).standard_normal((96, 96)).astype("f4") / 10)
    found = []
    for k in range(6):
        h = x * (1.0 + k)
        for _ in range(3):
            h = tf.sin(tf.tanh(tf.matmul(h, w) + 0.5) * 1.5)
        found.append(h)
    return tf.add_n(found)


def _recurrence(x: Any) -> Any:
    """Return a loop with independent rows, which threads divide."""
    w = tf.constant(np.random.default_rng(0).standard_normal((96, 96)).astype("f4") / 10)
    return tf.while_loop(
        lambda i, h: i < 20,
        lambda i, h: (i + 1, tf.sin(tf.tanh(tf.matmul(h, w) + x) * 1.5) + tf.exp(-tf.abs(h))),
        [0, x],
    )[1]


@pytest.mark.parametrize("jit", ["eager", "lazy"])
@pytest.mark.parametrize("make", [_chains, _recurrence])
def test_divided_groups_on_several_threads(
    make: Callable[[Any], Any], jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_JIT", jit)
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [64, 96], name="x")
        y = make(x)
    feeds = {"x:0": np.random.default_rng(1).uniform(-1, 1, (64, 96)).astype("f4")}
    expected = theirs(graph, y, feeds)
    own = 1 if make is _chains else 2  # else the threads share each product out
    config = tfjit.ConfigProto(
        intra_op_parallelism_threads=own,
        inter_op_parallelism_threads=2,
        use_per_session_threads=True,
    )
    tests: list[Callable[[KernelSource], bool]] = [
        lambda source: "+sin" in source.title,
        lambda source: "sin" in source.text,
    ]
    for is_bad in tests:
        with refusing(is_bad) as refused, tfjit.Session(graph=graph, config=config) as session:
            for _ in range(3):
                np.testing.assert_allclose(session.run(y, feeds), expected, 1e-3, 1e-3)
                session.wait_until_compiled()
            explained = session.explain(y)
            assert refused
            if is_bad is tests[0]:
                assert explained.bundles if make is _chains else explained.divisions
                assert "reference" not in {node.serving for node in explained.nodes}
