"""A generic variant that is read back serves all sizes, without passes and builders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import tfjit
from tests.refused_kernels import refusing
from tfjit.runtime.plan import generic_start, size_class
from tfjit.runtime.plan.generic_variant import GenericVariant
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.stored_plans import stored_plan

Values = list[np.ndarray]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Store plans in a folder of the test's own."""
    monkeypatch.setenv("TFJIT_STORED_PLANS", "1")
    monkeypatch.setattr(stored_plan, "path_of", lambda key: tmp_path / f"{key}.stored")
    yield tmp_path


def training() -> None:
    """The mean's gradient is divided by the number of rows, a constant of each size."""
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    w = tfjit.Variable(np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2), name="w")
    loss = tfjit.reduce_mean(tfjit.square(tfjit.nn.relu(tfjit.matmul(x, w)) - 1.0))
    step = tfjit.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with tfjit.control_dependencies([step]):
        tfjit.identity(loss, name="out")


def mask() -> None:
    """A mask with an element for each size, a slice at one, and a transpose."""
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    n = tfjit.shape(x)[0]
    scores = tfjit.matmul(x, x, transpose_b=True)
    allowed = tfjit.cast(tfjit.range(n)[:, None] >= tfjit.range(n), tfjit.float32)
    shares = tfjit.nn.softmax(scores * allowed - 1e9 * (1 - allowed))
    tfjit.add(tfjit.matmul(shares, x), tfjit.reduce_sum(x[: n - 1], 0), name="out")


def chain() -> None:
    """A group whose kernel may be refused."""
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    shares = tfjit.nn.softmax(tfjit.tanh(x) * 2.0)
    tfjit.reduce_sum(tfjit.sqrt(shares + 1.0), 1, name="out")


def graph_of(build: Callable[[], None]) -> tfjit.Graph:
    with tfjit.Graph().as_default() as graph:
        build()
        tfjit.global_variables_initializer()
    return graph


def start(session: tfjit.Session) -> None:
    session.run(session.graph.get_operation_by_name("init"))


def feed(n: int) -> dict[str, np.ndarray]:
    return {"x:0": np.random.default_rng(n).standard_normal((n, 6), "f4")}


def plan_of(session: tfjit.Session) -> Plan:
    (found,) = (plan for plan in session._runtime_session.plan_cache.plans() if plan.feeds)
    return found


def store_of(graph: tfjit.Graph) -> None:
    """Store a graph's generic variant, with two size classes or more."""
    with tfjit.Session(graph=graph) as session:
        start(session)
        for n in (9, 14):
            session.run("out:0", feed(n))
        assert session.wait_until_compiled(300)  # kernels arrive
        generic = plan_of(session).generic
        assert generic is not None
        for _ in range(2):  # classes are made again of kernels that arrive
            for n in (14, 33, 40, 90):
                session.run("out:0", feed(n))
            assert session.wait_until_compiled(300)
        for n in (14, 33, 40, 90):  # sizes with variants of their own, too
            generic._class_for((n,))
        assert generic.storage.store()


def values_without_store(
    graph: tfjit.Graph, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> Values:
    with monkeypatch.context() as patch, tfjit.Session(graph=graph) as session:
        patch.setenv("TFJIT_DISABLE", "generic")
        start(session)
        return [session.run("out:0", feed(n)) for n in sizes]


@pytest.mark.parametrize("build", [training, mask])
def test_the_first_run_is_served_without_passes_and_builders(
    build: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, sizes = graph_of(build), [33, 14, 90, 40]
    expected = values_without_store(graph, sizes, monkeypatch)
    store_of(graph)
    monkeypatch.setattr(GenericVariant, "build", lambda self: pytest.fail("the passes run"))
    monkeypatch.setattr(size_class, "trace_calls", lambda *args: pytest.fail("the builders run"))
    monkeypatch.setattr(GenericVariant, "make_more", lambda self, start=0: None)
    with tfjit.Session(graph=graph) as session:
        start(session)
        found = [session.run("out:0", feed(n)) for n in sizes]
        plan = plan_of(session)
        assert not plan.variants and plan.generic is not None and plan.generic.builds == 0
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, 1e-4, 1e-5)


def test_sizes_without_a_stored_class_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(training)
    store_of(graph)
    expected = values_without_store(graph, [20, 300], monkeypatch)
    monkeypatch.setattr(GenericVariant, "make_more", lambda self, start=0: None)
    with tfjit.Session(graph=graph) as session:
        start(session)
        found = [session.run("out:0", feed(n)) for n in (20, 300)]
        generic = plan_of(session).generic
        assert generic is not None
        low, high = generic.bounds[0]
        if low <= 300 <= high:
            assert generic.builds == 1 and len(generic.found().classes) >= 2
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_a_variant_of_the_first_shapes_goes_before_it() -> None:
    graph = graph_of(training)
    store_of(graph)
    with tfjit.Session(graph=graph) as session:
        start(session)
        plan = Plan(session._runtime_session, ("x:0",), ("out:0",), (), [tfjit.float32])
        assert plan.variant(((20, 6),)).upgrade() is None
        assert session.wait_until_compiled(300)
        assert plan.variants[(20, 6),].store()
    with tfjit.Session(graph=graph) as session:
        start(session)
        session.run("out:0", feed(20))
        plan = plan_of(session)
        assert plan.generic is None and plan.variants[(20, 6),].is_restored
        session.run("out:0", feed(21))  # the second shapes read it
        assert plan.generic is not None and plan.generic.builds == 0


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:60], lambda data: b""]
)
def test_a_damaged_file_is_ignored(
    damage: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graph_of(mask)
    expected = values_without_store(graph, [12, 30], monkeypatch)
    store_of(graph)
    for path in folder.iterdir():
        path.write_bytes(damage(path.read_bytes()))
    with tfjit.Session(graph=graph) as session:
        start(session)
        for n, value in zip((12, 30), expected, strict=True):
            np.testing.assert_allclose(session.run("out:0", feed(n)), value, 1e-4, 1e-5)
        assert plan_of(session).generic is None or plan_of(session).generic.builds


def test_another_graph_has_another_file(monkeypatch: pytest.MonkeyPatch) -> None:
    store_of(graph_of(training))
    monkeypatch.setattr(generic_start, "restore", lambda *args: pytest.fail("a file is found"))
    with tfjit.Session(graph=graph_of(mask)) as session:
        start(session)
        session.run("out:0", feed(12))
        assert plan_of(session).generic is None


def test_a_session_with_other_settings_does_not_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(training)
    store_of(graph)
    monkeypatch.setenv("TFJIT_DISABLE", "fuse")
    with tfjit.Session(graph=graph) as session:
        start(session)
        session.run("out:0", feed(12))
        assert plan_of(session).generic is None


def test_refused_groups_are_divided_again_and_not_stored(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, sizes = graph_of(chain), [33, 14, 90, 40]
    expected = values_without_store(graph, sizes, monkeypatch)
    store_of(graph)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with (
        refusing(lambda source: "softmax" in source.title and "sqrt" in source.title) as refused,
        tfjit.Session(graph=graph) as session,
    ):
        for _ in range(2):
            for n, value in zip(sizes, expected, strict=True):
                np.testing.assert_allclose(session.run("out:0", feed(n)), value, 1e-4, 1e-5)
                assert session.wait_until_compiled(300)
        generic = plan_of(session).generic
        assert refused and generic is not None and generic.ready and generic.is_divided
        assert not generic.storage.store()
    name = generic.storage._key.all_sizes
    assert (folder / f"{name}.stored").read_bytes() == before[f"{name}.stored"]
