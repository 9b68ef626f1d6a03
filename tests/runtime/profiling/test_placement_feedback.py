"""placement_period: nodes move by measured costs until nothing is to be gained, and values stay
what they were.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import CPU, config
from tfjit.framework.env import Clock, Env

tf1 = tf.compat.v1


class World:
    """Two slow branches, a variable that is updated and a random stream."""

    def __init__(self) -> None:
        self.graph = tf1.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [4], name="x")
            self.v = tf1.Variable(np.zeros(4, "f4"), name="v", use_resource=True)
            noise = tf.random.uniform([4], seed=3, name="noise")
            a, b = tf.sin(self.x, name="a"), tf.cos(self.x, name="b")
            both = tf.add(a * 2.0, b, name="both")
            with tf1.control_dependencies([self.v.assign_add(both)]):
                self.y = tf.add(self.v.read_value() + noise, both, name="y")


class NodeClock(Clock):
    """A clock that goes on by a millisecond whenever a thread reads it, so that each node takes one;
    by `factor` times that once nodes moved.

    Each thread has its own time: nodes that run at the same time do not lengthen each other.
    """

    def __init__(self, factor: int) -> None:
        self.factor = factor
        self.session: Any = None
        self._of_thread = threading.local()

    def monotonic_ns(self) -> int:
        moved = self.session is not None and len(set(placed(self.session).values())) > 1
        now = getattr(self._of_thread, "now", 0) + 1_000_000 * (self.factor if moved else 1)
        self._of_thread.now = now
        return now


def watched(world: World, clock: NodeClock) -> tfjit.Session:
    chosen = config(placement_period=5, device_count={"CPU": 2})
    clock.session = tfjit.Session(
        graph=world.graph,
        config=chosen,
        options=tfjit.SessionOptions(
            env=Env(clock=clock, variables={"TFJIT_JIT": "off", "TFJIT_DISABLE": "fuse"})
        ),
    )
    return clock.session  # type: ignore[no-any-return]


def values(world: World, session: tfjit.Session, steps: int) -> list[np.ndarray]:
    session.run(world.v.initializer)
    found = []
    for i in range(steps):
        found.append(session.run(world.y, {world.x: np.arange(4, dtype="f4") + i}))
        # steps before the background has settled the plan's form do not count
        assert session.wait_until_compiled(60)
    return found


def placed(session: Any) -> dict[str, str]:
    return {node.name: node.assigned_device for node in session._runtime_session.graph.op_nodes()}


@covers("ConfigProto.placement_period")
def test_costly_branches_are_spread_and_values_stay(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with tfjit.Session(graph=world.graph, config=config(device_count={"CPU": 2})) as plain:
        expected = values(world, plain, 60)
    with caplog.at_level(logging.INFO, "tfjit.placement"), watched(world, NodeClock(1)) as session:
        session.run(world.v.initializer)  # sends the graph
        before = placed(session)
        # sums that come near zero
        np.testing.assert_allclose(values(world, session, 60), expected, rtol=1e-5, atol=1e-5)
        after = placed(session)
        assert session._runtime_session.observer is None  # stable: steps are no longer watched
    assert set(before.values()) == {f"{CPU}0"}
    moved = {name for name in after if after[name] != before[name]}
    assert len(moved & {"a", "b"}) == 1
    assert not moved & (
        {"v", "noise/RandomUniform"} | {name for name in after if name.startswith("v/")}
    )
    said = [record.getMessage() for record in caplog.records]
    for name in moved:
        assert any(
            text.startswith(f"{name}: (") and f"moves from {CPU}0 to {CPU}1" in text
            for text in said
        )
    assert any("nodes move: a step is predicted at" in text for text in said)
    assert said[-1] == "placement is stable"


def test_nodes_go_back_where_a_move_did_not_pay(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.INFO, "tfjit.placement"), watched(world, NodeClock(4)) as session:
        session.run(world.v.initializer)
        before = placed(session)
        values(world, session, 60)
        assert session._runtime_session.observer is None
        assert placed(session) == before
    said = [record.getMessage() for record in caplog.records]
    assert any(text.endswith("the nodes go back") for text in said)
    assert any(f"moves from {CPU}1 to {CPU}0" in text for text in said)


def test_one_device_or_no_period_measures_nothing() -> None:
    world = World()
    for text in ("placement_period: 2", "device_count { key: 'CPU' value: 2 }"):
        with tfjit.Session(graph=world.graph, config=config(text)) as session:
            assert session._runtime_session.observer is None
            values(world, session, 3)
