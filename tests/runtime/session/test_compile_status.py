"""`tfjit.compile_status` and `Session.wait_until_compiled`."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.waiting import once_blocked
from tfjit.runtime.plan.plan import Variant
from tfjit.runtime.session.compile_status import CompileStatus, PlanStatus

tf1 = tf.compat.v1


@pytest.fixture
def graph() -> Any:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [4], name="x")
        tf.tanh(x, name="y")
    return graph


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "lazy")


def hold_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let upgrades wait for the event that is returned."""
    go = threading.Event()
    upgrade = Variant._upgrade

    def later(self: Variant) -> None:
        go.wait(60)
        upgrade(self)

    monkeypatch.setattr(Variant, "_upgrade", later)
    monkeypatch.setattr("tfjit.runtime.stored_plans.plan_warm_start.read", lambda key: None)
    return go


def test_a_session_without_runs_is_done(graph: Any) -> None:
    with tfjit.Session(graph=graph) as session:
        assert session.wait_until_compiled(0)
        assert session.wait_until_compiled()


@pytest.mark.usefixtures("lazy")
def test_waits_for_a_plan_that_has_run(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold_back(monkeypatch)
    with tfjit.Session(graph=graph) as session:
        session.run("y:0", {"x:0": np.ones(4)})
        assert not session.wait_until_compiled(0)
        found = tfjit.compile_status()
        assert not found.done
        plans = [plan for plan in found.waiting if plan.plan == "x:0->y:0/"]
        assert len(plans) == 1
        assert plans[0].session.startswith("session ")
        assert str(plans[0]) in str(found)
        with tfjit.Session(graph=graph) as other:  # other sessions do not count
            assert other.wait_until_compiled(0)
        go.set()
        assert session.wait_until_compiled(300)
        assert plans[0] not in tfjit.compile_status().waiting


@pytest.mark.usefixtures("lazy")
def test_a_plan_that_stays_on_references_is_named(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Variant) -> None:
        raise RuntimeError("a builder's bug")

    monkeypatch.setattr(Variant, "select_kernels", fail)
    with tfjit.Session(graph=graph) as session:
        session.run("y:0", {"x:0": np.ones(4)})
        assert session.wait_until_compiled(300)
        reasons = [plan.reason for plan in tfjit.compile_status().on_references]
        assert "a builder's bug" in reasons
    assert "a builder's bug" not in str(tfjit.compile_status())


@pytest.mark.usefixtures("lazy")
def test_kernels_of_single_nodes() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], name="x")
        tf.tanh(tf.unique(x).y, name="y")
    with tfjit.Session(graph=graph) as session:
        for _ in range(3):
            session.run("y:0", {"x:0": [1.0, 2.0, 2.0]})
        assert session.wait_until_compiled(300)
        assert not session._runtime_session.node_kernels.unfinished()


def test_without_compiling_all_is_done(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    with tfjit.Session(graph=graph) as session:
        session.run("y:0", {"x:0": np.ones(4)})
        assert session.wait_until_compiled(0)


def test_a_closed_session(graph: Any) -> None:
    session = tfjit.Session(graph=graph)
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.wait_until_compiled(0)


@pytest.mark.usefixtures("lazy")
def test_closing_ends_the_wait(graph: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold_back(monkeypatch)
    session = tfjit.Session(graph=graph)
    session.run("y:0", {"x:0": np.ones(4)})
    closing = once_blocked(session.close)
    with pytest.raises(tfjit.errors.CancelledError, match="has been closed"):
        session.wait_until_compiled(300)
    go.set()
    closing.join()


def test_the_text() -> None:
    waiting, left = (PlanStatus("a", "x->y/"),), (PlanStatus("b", "z", "refused: n"),)
    found = CompileStatus(3, 2, 1, 0, 4.5, 0.01, waiting, left, "x86-64-v3, 9 kernels, cached")
    assert str(found).splitlines() == [
        "kernels: 3 loaded from disk in 0.01 s, 2 compiled in 4.50 s of the compiler's time, "
        "1 pending, 0 refused",
        "archives of generic kernels: x86-64-v3, 9 kernels, cached",
        "plans that wait for their fastest form: 1",
        "  a: x->y/",
        "plans that stay on reference kernels: 1",
        "  b: z: refused: n",
    ]
    assert not found.done
