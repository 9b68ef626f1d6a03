"""A plan that is read back runs as the stored one did; a damaged one is ignored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.protos import RunMetadata, RunOptions
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.stored_plans import stored_plan

ROWS = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Store plans in a folder of the test's own."""
    monkeypatch.setenv("TFJIT_STORED_PLANS", "1")
    monkeypatch.setattr(stored_plan, "path_of", lambda key: tmp_path / f"{key}.stored")
    yield tmp_path


def dense() -> None:
    weights = np.linspace(-1, 1, 48, dtype=np.float32).reshape(6, 8)
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    y = tfjit.nn.relu(tfjit.matmul(x, weights) + np.arange(8, dtype=np.float32))
    tfjit.nn.softmax(y, name="out")


def training() -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    w = tfjit.Variable(np.ones((6, 2), np.float32), name="w")
    loss = tfjit.reduce_mean(tfjit.square(tfjit.matmul(x, w) - 1.0))
    step = tfjit.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    with tfjit.control_dependencies([step]):
        tfjit.identity(loss, name="out")


def noise() -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    drawn = tfjit.random.normal([4, 6], seed=7)
    tfjit.add(x, drawn, name="out")


def loop() -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    _, y = tfjit.while_loop(
        lambda i, y: tfjit.logical_and(i < 9, tfjit.reduce_sum(y) < 100.0),
        lambda i, y: (i + 1, tfjit.tanh(y) + 0.5),
        [tfjit.constant(0), x],
    )
    tfjit.identity(y, name="out")


def branch() -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    w = tfjit.Variable(np.ones(6, np.float32), name="w")
    tfjit.cond(
        tfjit.reduce_sum(x) > 100.0,
        lambda: tfjit.cumsum(x) * w,
        lambda: tfjit.identity(x - w),
        name="chosen",
    )
    tfjit.identity(tfjit.get_default_graph().get_tensor_by_name("chosen/Merge:0"), name="out")


def lookups() -> None:
    x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
    rows = tfjit.gather(x, tfjit.cast(tfjit.abs(x[:, 0]), tfjit.int32) % 4)
    parts = tfjit.strings.as_string(rows)
    tfjit.identity(tfjit.strings.to_number(parts), name="out")


GRAPHS = [dense, training, noise, loop, branch, lookups]


def graph_of(build: Callable[[], None]) -> tfjit.Graph:
    with tfjit.Graph().as_default() as graph:
        tfjit.set_random_seed(3)
        build()
        tfjit.global_variables_initializer()
    return graph


def start(session: tfjit.Session) -> None:
    session.run(session.graph.get_operation_by_name("init"))


def variant_of(session: tfjit.Session, fetch: str = "out:0") -> Variant:
    plans = session._runtime_session.plan_cache.plans()
    (found,) = (v for plan in plans if fetch in plan.fetches for v in plan.variants.values())
    return found


def runs(session: tfjit.Session, count: int = 3) -> list[np.ndarray]:
    return [session.run("out:0", {"x:0": ROWS + n}) for n in range(count)]


def store_of(graph: tfjit.Graph) -> tuple[list[np.ndarray], str]:
    """Store a graph's plan; return the values of three compiled runs, and the explanation."""
    with tfjit.Session(graph=graph) as session:
        start(session)
        session.run("out:0", {"x:0": ROWS})
        assert session.wait_until_compiled(300)
        assert variant_of(session).store()
    with tfjit.Session(graph=graph) as session:
        os.environ["TFJIT_STORED_PLANS"] = "0"
        try:
            start(session)
            session.lower("out:0", {"x:0": ROWS}).compile()
            values = runs(session)
            explained = kernels_of(session)
        finally:
            os.environ["TFJIT_STORED_PLANS"] = "1"
    return values, explained


def kernels_of(session: tfjit.Session) -> str:
    """Return the lines of an explanation that do not depend on time."""
    text = session.explain("out:0", {"x:0": ROWS}).details()
    first, last = text.index("node  "), text.index("this session:")
    return text[first:last]


@pytest.mark.parametrize("build", GRAPHS, ids=lambda build: str(build.__name__))
def test_a_stored_plan_computes_the_same_bits(build: Callable[[], None]) -> None:
    graph = graph_of(build)
    values, explained = store_of(graph)
    again = graph_of(build)
    with tfjit.Session(graph=again) as session:
        start(session)
        found = runs(session)
        variant = variant_of(session)
        assert variant.is_restored
        assert variant.compile_done.is_set() and not variant.partitions
        for value, expected in zip(found, values, strict=True):
            np.testing.assert_array_equal(value, expected)
        assert kernels_of(session) == explained


def test_the_plan_of_an_initializer_is_stored_though_it_runs_once() -> None:
    graph = graph_of(training)

    def initializer_of(session: tfjit.Session) -> Variant:
        plans = session._runtime_session.plan_cache.plans()
        (found,) = (v for p in plans if "init" in p.targets for v in p.variants.values())
        return found

    with tfjit.Session(graph=graph) as session:
        start(session)
        session.run("out:0", {"x:0": ROWS})
        assert session.wait_until_compiled(300)
        variant = initializer_of(session)
        variant.select_kernels()
        assert variant.store()  # the variables have values now
        weights = session.run(graph.get_collection("variables"))
    with tfjit.Session(graph=graph_of(training)) as session:
        start(session)
        assert initializer_of(session).is_restored
        session.run("out:0", {"x:0": ROWS})
        for mine, other in zip(
            session.run(session.graph.get_collection("variables")), weights, strict=True
        ):
            np.testing.assert_allclose(mine, other, 1e-5, 1e-6)


def test_two_sessions_have_variables_of_their_own() -> None:
    graph = graph_of(training)
    values, _ = store_of(graph)
    with tfjit.Session(graph=graph) as one, tfjit.Session(graph=graph) as two:
        start(one)
        start(two)
        np.testing.assert_array_equal(runs(one), values)
        np.testing.assert_array_equal(runs(two), values)
        w = one.run("w:0")
        runs(two)
        np.testing.assert_array_equal(one.run("w:0"), w)


@pytest.fixture
def stored(folder: Path) -> tuple[tfjit.Graph, Path, list[np.ndarray]]:
    """A graph, the file of its plan, and the values of three runs."""
    graph = graph_of(dense)
    values, _ = store_of(graph)
    (path,) = folder.glob("*.stored")
    return graph, path, values


def is_read(graph: tfjit.Graph, values: list[np.ndarray]) -> bool:
    """Return whether a new session reads the plan; check its values."""
    with tfjit.Session(graph=graph) as session:
        start(session)
        np.testing.assert_allclose(runs(session), values, 1e-5, 1e-6)
        return variant_of(session).is_restored


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
        lambda data: data.replace(b"tfjit plan 2", b"tfjit plan 0"),
        lambda data: data + b"more",
    ],
    ids=["short", "half", "empty", "header", "end", "version", "long"],
)
def test_a_damaged_file_is_ignored(
    stored: tuple[tfjit.Graph, Path, list[np.ndarray]], damage: Callable[[bytes], bytes]
) -> None:
    graph, path, values = stored
    assert is_read(graph, values)
    path.write_bytes(damage(path.read_bytes()))
    assert not is_read(graph, values)


def test_the_file_of_another_plan_is_ignored(
    stored: tuple[tfjit.Graph, Path, list[np.ndarray]], folder: Path
) -> None:
    graph, path, values = stored
    other = graph_of(noise)
    store_of(other)
    (another,) = set(folder.glob("*.stored")) - {path}
    another.replace(path)
    assert not is_read(graph, values)


def test_plans_are_not_read_where_the_setting_is_off(
    stored: tuple[tfjit.Graph, Path, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _, values = stored
    monkeypatch.setenv("TFJIT_STORED_PLANS", "0")
    assert not is_read(graph, values)


def test_missing_kernels_are_compiled_behind_the_first_run(
    stored: tuple[tfjit.Graph, Path, list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _, values = stored
    from tfjit.kernels.jit.store import store

    loaded = dict(store._loaded)
    with monkeypatch.context() as patch:
        patch.setattr(store, "load_named", lambda kernels, names: None)
        patch.setattr(store, "_load_from_disk", lambda source, key: False)
        store._loaded.clear()
        try:
            with tfjit.Session(graph=graph) as session:
                start(session)
                np.testing.assert_allclose(runs(session, 1)[0], values[0], 1e-5, 1e-6)
                variant = variant_of(session)
                assert variant.is_restored and variant.inline is None
                store._loaded.update(loaded)
                assert session.wait_until_compiled(300)
                np.testing.assert_array_equal(runs(session), values)
                assert variant.inline is not None
        finally:
            store._loaded.update(loaded)


def test_what_a_plan_was_made_of_is_still_shown(
    stored: tuple[tfjit.Graph, Path, list[np.ndarray]],
) -> None:
    graph, _, values = stored
    with tfjit.Session(graph=graph) as session:
        start(session)
        lowered = session.lower("out:0", {"x:0": ROWS})
        assert "_Fused" in lowered.as_text("graph")
        metadata = RunMetadata()
        options = RunOptions(output_partition_graphs=True, trace_level=RunOptions.FULL_TRACE)
        value = session.run("out:0", {"x:0": ROWS}, options=options, run_metadata=metadata)
        np.testing.assert_allclose(value, values[0], 1e-5, 1e-6)
        assert metadata.partition_graphs and metadata.step_stats.dev_stats
        assert variant_of(session).is_restored


def test_a_run_that_breaks_the_plans_assumptions_is_rerouted() -> None:
    def build() -> None:
        x = tfjit.placeholder(tfjit.float32, [None, 6], name="x")
        w = tfjit.Variable(np.ones(6, np.float32), name="w", validate_shape=False)
        w.set_shape([6]) if hasattr(w, "set_shape") else None
        tfjit.add(tfjit.reduce_sum(x), tfjit.reduce_sum(w), name="out")
        tfjit.assign(w, np.ones(9, np.float32), validate_shape=False, name="longer")

    graph = graph_of(build)
    store_of(graph)
    with tfjit.Session(graph=graph) as session:
        start(session)
        (first,) = runs(session, 1)
        assert variant_of(session).is_restored
        session.run("longer:0")
        assert session.run("out:0", {"x:0": ROWS}) == pytest.approx(first + 3)


def test_old_plans_are_dropped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        path = folder / f"{n}.stored"
        path.write_bytes(bytes(100))
        os.utime(path, (n, n))
    monkeypatch.setattr(stored_plan, "ALL_BYTES", 500)
    stored_plan._drop_old(folder, 100)
    assert sorted(path.name for path in folder.iterdir()) == ["4.stored"]


def test_a_large_plan_is_not_stored(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(stored_plan, "MAX_BYTES", 100)
    graph = graph_of(dense)
    with tfjit.Session(graph=graph) as session:
        start(session)
        runs(session, 1)
        assert session.wait_until_compiled(300)
        variant: Any = variant_of(session)
        with pytest.raises(stored_plan.NotStorable):
            variant.store()
    assert not list(folder.glob("*.stored"))
