"""A first run waits for compiled code where its kernels are present and that pays soon."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tfjit
from tfjit.kernels.cpu.backend import CpuBackend
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.runtime.plan import first_run, tier_up, upgrades
from tfjit.runtime.plan import variant as variants
from tfjit.runtime.plan.background import BACKGROUND
from tfjit.runtime.plan.variant import QUICK_NODES, Variant
from tfjit.runtime.schedule import compile_cost
from tfjit.runtime.stored_plans import plan_warm_start

X = np.linspace(-1, 1, 400_000, dtype="f4").reshape(800, 500)


def heavy() -> tfjit.Graph:
    """A graph with two groups and a single node, of half a million elements each."""
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [800, 500], name="x")
        y = tfjit.nn.softmax(tfjit.tanh(x) * 2.0)
        tfjit.exp(tfjit.cumsum(y) * -0.5, name="y")
    return graph


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """The value of the graph; its kernels and those of members are loaded afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_JIT", "eager")
        with tfjit.Session(graph=heavy()) as session:
            value: np.ndarray = session.run("y:0", {"x:0": X})
        patch.setenv("TFJIT_DISABLE", "fuse")
        with tfjit.Session(graph=heavy()) as session:
            session.run("y:0", {"x:0": X})
    return value


Reveal = Callable[[Callable[[KernelSource], bool]], None]


@pytest.fixture
def requested(expected: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[KernelSource]:
    """The kernels that plans request; no plan has a record."""
    asked: list[KernelSource] = []
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    monkeypatch.setattr(plan_warm_start, "read", lambda key: None)
    monkeypatch.setattr(store, "request", asked.extend)
    return asked


@pytest.fixture
def present(requested: list[KernelSource], monkeypatch: pytest.MonkeyPatch) -> Reveal:
    """A function that says which of the loaded kernels plans may see."""
    lookup = store.lookup

    def reveal(seen: Callable[[KernelSource], bool]) -> None:
        def found(source: KernelSource) -> Any:
            return lookup(source) if seen(source) else None

        def all_found(sources: Iterable[KernelSource]) -> bool:
            return all(found(source) is not None for source in sources)

        monkeypatch.setattr(store, "lookup", found)
        monkeypatch.setattr(store, "load_present", all_found)
        monkeypatch.setattr(store, "are_final", all_found)

    return reveal


def variant_of(session: tfjit.Session) -> Variant:
    """The variant of a session's only plan."""
    (plan,) = session._runtime_session.plan_cache.plans()
    (variant,) = plan.variants.values()
    return variant


def test_a_long_wait_has_to_pay_sooner() -> None:
    assert first_run.pays_soon(300.0, 30.0)
    assert not first_run.pays_soon(300.0, 10.0)
    assert not first_run.pays_soon(3000.0, 300.0)
    assert first_run.pays_soon(3000.0, 1500.0)
    assert first_run.pays_soon(300.0, 700.0, once=True)
    assert not first_run.pays_soon(300.0, 500.0, once=True)


def test_the_passes_of_an_unrolled_network_are_worth_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [32, 64])
        for _ in range(4000):
            x = tfjit.tanh(x)
    working = DataflowGraph.from_graph(graph)
    infer_shapes(working, PassContext())
    monkeypatch.setattr(first_run, "_builders_ms", lambda: 0.0)
    monkeypatch.setattr(store, "has_kernels", lambda: True)
    monkeypatch.setattr(store, "load_present", lambda sources: True)
    assert first_run.passes_pay(working, CpuBackend(), 1)


def test_a_big_initialisation_starts_no_upgrade_before_its_second_run() -> None:
    with tfjit.Graph().as_default() as graph:
        for number in range(QUICK_NODES // 2):
            tfjit.get_variable(f"v{number}", [2], initializer=tfjit.zeros_initializer())
        initialise = tfjit.global_variables_initializer()
    with tfjit.Session(graph=graph) as session:
        session.run(initialise)
        variant = variant_of(session)
        assert variant.plan.survey(()).once is False
        assert variant not in upgrades.unfinished(session._runtime_session)
        session.run(initialise)
        assert variant.compile_done.is_set() or variant in upgrades.unfinished(
            session._runtime_session
        )
        session.wait_until_compiled(300)


def test_heavy_nodes_of_an_unoptimised_graph_use_present_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tfjit.Graph().as_default() as graph:
        small = tfjit.random_normal([4], seed=1)
        large = tfjit.random_normal([500, 500], seed=2, name="large")
        fetch = tfjit.reduce_sum(large) + tfjit.reduce_sum(small)
    del fetch
    working = DataflowGraph.from_graph(graph)
    infer_shapes(working, PassContext())
    backend = CpuBackend()
    monkeypatch.setattr(first_run, "_builders_ms", lambda: 0.0)
    monkeypatch.setattr(store, "has_kernels", lambda: True)
    monkeypatch.setattr(store, "load_present", lambda sources: True)
    assert first_run.nodes_with_kernels(working, backend) == {"large/RandomStandardNormal"}
    monkeypatch.setattr(store, "load_present", lambda sources: False)
    assert first_run.nodes_with_kernels(working, backend) == frozenset()
    monkeypatch.setattr(first_run, "_builders_ms", lambda: 1e3)
    assert first_run.heavy_calls(working, backend) == []


def test_the_first_run_is_compiled_when_all_kernels_are_present(
    expected: np.ndarray, requested: list[KernelSource]
) -> None:
    with tfjit.Session(graph=heavy()) as session:
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
        variant = variant_of(session)
        assert variant.compile_done.is_set()
        assert variant.inline is not None
        assert variant.inline.native
    assert requested == []


def test_members_serve_the_first_run_while_a_groups_kernel_is_missing(
    expected: np.ndarray, requested: list[KernelSource], present: Reveal
) -> None:
    present(lambda source: "+" not in source.title)
    with tfjit.Session(graph=heavy()) as session:
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
        variant = variant_of(session)
        assert variant.lowered is not None
        groups = [i for i in variant.lowered.instructions if i.node.op == "_Fused"]
        assert groups
        assert variant.step is not None
        assert all(variant.step.call(group) is group.unfused is not None for group in groups)


def test_references_serve_the_first_run_when_nothing_is_present(
    expected: np.ndarray, requested: list[KernelSource], present: Reveal
) -> None:
    present(lambda source: False)
    with tfjit.Session(graph=heavy()) as session:
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
        variant = variant_of(session)
        assert variant.step is not None
        assert not variant.step.native


def test_a_step_of_references_replaces_the_unoptimised_graph(
    expected: np.ndarray,
    requested: list[KernelSource],
    present: Reveal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    present(lambda source: False)
    monkeypatch.setattr(variants, "QUICK_NODES", 1)
    monkeypatch.setattr(store, "when_ready", lambda sources, callback: None)
    monkeypatch.setattr(BACKGROUND, "submit", lambda job, share: job())
    with tfjit.Session(graph=heavy()) as session:
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
        variant = variant_of(session)
        assert variant.dataflow is not None
        assert variant.step is not None and not variant.step.native
        assert not variant.compile_done.is_set() and requested
        monkeypatch.setattr(variant.dataflow, "run", None)
        np.testing.assert_allclose(session.run("y:0", {"x:0": X}), expected, rtol=1e-5, atol=1e-6)


def test_steps_follow_the_kernels_as_they_arrive(
    expected: np.ndarray,
    requested: list[KernelSource],
    present: Reveal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrived: set[KernelSource] = set()
    present(arrived.__contains__)
    waiting: list[tuple[list[KernelSource], Callable[[], None]]] = []
    monkeypatch.setattr(store, "when_ready", lambda *entry: waiting.append(entry))
    monkeypatch.setattr(tier_up, "_FIRST_CHUNK", 1)
    monkeypatch.setattr(BACKGROUND, "submit", lambda job, share: job())
    with tfjit.Session(graph=heavy()) as session:
        session.run("y:0", {"x:0": X})
        variant = variant_of(session)
        steps = [variant.step]
        while waiting:
            sources, ready = waiting.pop()
            assert not variant.compile_done.is_set()
            arrived.update(sources)
            ready()
            steps.append(variant.step)
            value = session.run("y:0", {"x:0": X})
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
        assert variant.compile_done.is_set()
        assert variant.failure is None
        assert variant.inline is variant.step
    assert len(requested) == len(set(requested)) > 1
    assert arrived == set(requested)
    assert len({id(step) for step in steps}) == len(steps) > 2
    served = [sum(step.call(i) is not None for i in variant.lowered.instructions) for step in steps]
    assert served[0] == 0
    assert served == sorted(served)


def test_kernels_of_little_gain_are_requested_after_many_runs(
    expected: np.ndarray,
    requested: list[KernelSource],
    present: Reveal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    present(lambda source: "+" not in source.title)
    monkeypatch.setattr(BACKGROUND, "submit", lambda job, share: job())
    monkeypatch.setattr(compile_cost, "KERNEL_NS", 1e12)
    waiting: list[list[KernelSource]] = []
    monkeypatch.setattr(store, "when_ready", lambda sources, callback: waiting.append(sources))
    with tfjit.Session(graph=heavy()) as session:
        for _ in range(3):
            value = session.run("y:0", {"x:0": X})
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)
        variant = variant_of(session)
        assert variant.is_stable and variant.inline is not None and variant.inline.native
        assert not variant.compile_done.is_set() and not requested
        variant.runs.count = int(variant.deferred_runs)
        session.run("y:0", {"x:0": X})
        assert requested and not variant.is_stable
        found = set(requested)
    with tfjit.Session(graph=heavy()) as session:
        session.run("y:0", {"x:0": X})
        assert set(requested) == found and len(requested) == len(found)
        variant_of(session).upgrade()  # a caller waits for the fastest form
        assert len(requested) > len(found)
