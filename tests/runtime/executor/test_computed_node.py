"""Nodes of the dataflow executor are lowered once, and only for shapes that come again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tfjit.compat.v1 as tf1
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import NodeSpec
from tfjit.kernels.source import KernelSource
from tfjit.runtime.executor import computed_node
from tfjit.runtime.schedule.kernel_selection import CallMemo


@pytest.fixture
def lowerings(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts lowerings by the last part of the node's name."""
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    found: Counter[str] = Counter()
    call = CallMemo.call

    def counted(self: Any, spec: NodeSpec, group: Any) -> Any:
        found[spec.name.split("/")[-1]] += 1
        return call(self, spec, group)

    monkeypatch.setattr(CallMemo, "call", counted)
    return found


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> list[KernelSource]:
    """The kernels that nodes ask for, which are never ready."""
    asked: list[KernelSource] = []
    monkeypatch.setattr(store, "lookup", lambda source: None)
    monkeypatch.setattr(store, "load_present", lambda sources: False)
    monkeypatch.setattr(store, "request", lambda sources, for_others=False: asked.extend(sources))
    monkeypatch.setattr(store, "when_ready", lambda sources, callback: None)
    return asked


Run = Callable[[Sequence[float]], float]


def make_run() -> tuple[Run, tf1.Session]:
    """A function that runs a node `kept` of shape [2, 3], and one `total` behind Unique."""
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf1.float32, [None])
        values, _ = tf1.unique(x)
        total = tf1.reduce_sum(values, name="total")
        fixed = tf1.reshape(tf1.stack([total] * 6), [2, 3])
        kept = tf1.tanh(fixed, name="kept")
    session = tf1.Session(graph=graph)

    def run(fed: Sequence[float]) -> float:
        # 16 of them: another size would have nodes of its own
        found, all_kept = session.run([total, kept], {x: np.resize(np.float32(fed), 16)})
        np.testing.assert_allclose(all_kept, np.full((2, 3), np.tanh(found)), rtol=1e-6)
        return float(found)

    return run, session


def test_a_node_is_lowered_once_while_its_kernel_is_not_there(
    lowerings: Counter[str], requested: list[KernelSource]
) -> None:
    run, session = make_run()
    with session:
        for _ in range(6):
            assert run([1, 2, 2, 3]) == 6
    assert requested
    assert lowerings["total"] == lowerings["kept"] == 1


def test_shapes_that_come_once_are_not_lowered(
    lowerings: Counter[str], requested: list[KernelSource]
) -> None:
    run, session = make_run()
    with session:
        for n in range(1, 9):
            assert run(range(n)) == n * (n - 1) / 2
        assert lowerings["total"] == 0
        for n in range(1, 9):
            run(range(n))
    assert lowerings["total"] == 8


def test_a_refused_kernel_is_asked_for_no_more(
    lowerings: Counter[str], requested: list[KernelSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, session = make_run()
    with session:
        for _ in range(3):
            run([1, 2, 2, 3])
        asked = len(requested)
        assert asked
        monkeypatch.setattr(store, "refused", lambda source: "too long")
        for _ in range(3):
            assert run([1, 2, 2, 3]) == 6
    assert len(requested) == asked
    assert lowerings["total"] == lowerings["kept"] == 1


def test_compiled_code_takes_over(lowerings: Counter[str]) -> None:
    asked: list[KernelSource] = []
    run, session = make_run()
    with session, pytest.MonkeyPatch.context() as patch:
        made: list[tuple[Any, ...]] = []
        make = computed_node.Step
        patch.setattr(computed_node, "Step", lambda *args: made.append(args) or make(*args))
        request = store.request
        patch.setattr(store, "request", lambda sources: (asked.extend(sources), request(sources)))
        for _ in range(3):
            run([1, 2, 2, 3])
        store.compile(list(dict.fromkeys(asked)), timeout=120)
        for _ in range(3):
            assert run([1, 2, 2, 3]) == 6
    assert {"total", "kept"} <= {args[2] for args in made}
    assert len({args[2] for args in made}) == len(made)
    assert lowerings["total"] == lowerings["kept"] == 1


@pytest.mark.parametrize("present", [False, True])
def test_a_heavy_node_uses_kernels_present_in_its_first_run(
    present: bool, lowerings: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shapes are known before the run; no kernel is requested for shapes of one run."""
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf1.float32, [None])
        heavy = tf1.tanh(tf1.ones([600, 600]) * x[0], name="heavy")
        values, _ = tf1.unique(x)
        fetched = tf1.reduce_sum(values), heavy
    fed = {x: np.ones(3, np.float32)}
    asked: list[KernelSource] = []
    served: list[str] = []
    with tf1.Session(graph=graph) as session:
        if present:
            for _ in range(3):
                session.run(fetched, fed)
            (plan,) = session._runtime_session.plan_cache.plans()
            executor = next(iter(plan.variants.values()))._dataflow().executors[0]
            for runner in executor.runners:
                if isinstance(runner, computed_node.ComputedNode):
                    store.compile([s for w in runner._waiting.values() for s in w.sources])
    monkeypatch.setattr(store, "request", lambda sources, for_others=False: asked.extend(sources))
    if not present:
        monkeypatch.setattr(store, "load_present", lambda sources: False)
        # another test may have loaded them
        monkeypatch.setattr(store, "lookup", lambda source: None)
    step = computed_node.Step
    monkeypatch.setattr(
        computed_node, "Step", lambda *args: served.append(args[2].split("/")[-1]) or step(*args)
    )
    lowerings.clear()
    with tf1.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run(fetched, fed)[1][0, 0], np.tanh(1.0), rtol=1e-6)
    assert asked == []
    assert len(served) == present
    assert sum(lowerings.values()) == 1


def test_tables_of_shapes_are_bounded(
    lowerings: Counter[str], requested: list[KernelSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed_node, "_MAX_CHECKED", 4)
    monkeypatch.setattr(computed_node, "_MAX_WAITING", 2)
    runners = []
    init = computed_node.ComputedNode.__init__

    def kept(self: computed_node.ComputedNode, *args: Any) -> None:
        init(self, *args)
        runners.append(self)

    monkeypatch.setattr(computed_node.ComputedNode, "__init__", kept)
    run, session = make_run()
    with session:
        for n in range(1, 12):
            run(range(n))
            run(range(n))
    total = next(r for r in runners if r._node.name == "total")
    assert len(total._checked) == 4
    assert len(total._waiting) == 2


def test_a_kept_step_reads_the_values_of_variables() -> None:
    """A reference edge carries the variable itself, which has a shape as arrays have."""
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf1.float32, [None])
        variable = tf1.get_variable(
            "v", initializer=np.full(5, 3.0, np.float32), use_resource=False
        )
        doubled = tf1.multiply(variable._ref(), variable._ref(), name="doubled")
        fetched = tf1.unique(x)[0], doubled
        assign = tf1.assign(variable, [2.0] * 5)
    fed = {x: np.ones(3, np.float32)}
    with tf1.Session(graph=graph) as session:
        session.run(variable.initializer)
        for _ in range(2):
            session.run(fetched, fed)
        for plan in session._runtime_session.plan_cache.plans():
            for variant in plan.held():
                for runner in variant._dataflow().executors[0].runners:
                    if isinstance(runner, computed_node.ComputedNode):
                        store.compile([s for w in runner._waiting.values() for s in w.sources])
        for _ in range(3):
            np.testing.assert_array_equal(session.run(fetched, fed)[1], np.full(5, 9.0))
        session.run(assign)
        np.testing.assert_array_equal(session.run(fetched, fed)[1], np.full(5, 4.0))
