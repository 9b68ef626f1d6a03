"""Test the config fields of devices, placement and shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import CPU, World, X, config, tf1
from tfjit.runtime.session.direct_session import DirectSession


def on_gpu() -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default(), tf.device("/gpu:0"):
        z = tf.add(tf.constant(1.0), 2.0, name="z")
    return graph, z


@covers("ConfigProto.allow_soft_placement")
@pytest.mark.parametrize(
    "chosen", [None, tf1.ConfigProto(), tf1.ConfigProto(allow_soft_placement=True)]
)
def test_soft_placement(chosen: Any) -> None:
    graph, z = on_gpu()
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        with make(graph=graph, config=chosen) as session:
            if chosen is None or chosen.allow_soft_placement:
                assert session.run(z) == 3
            else:
                with pytest.raises(
                    errors.InvalidArgumentError,
                    match="Cannot assign a device for operation z.*CUDA is not enabled",
                ):
                    session.run(z)


@covers("ConfigProto.log_device_placement")
def test_placement_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    lines = []
    for make in (tfjit.Session, tf1.Session):
        world = World()
        with make(graph=world.graph, config=tf1.ConfigProto(log_device_placement=True)) as session:
            world.check(session)
        lines.append(
            sorted(line for line in capfd.readouterr().out.splitlines() if "): /job" in line)
        )
    assert lines[0] == lines[1]
    assert f"y: (AddV2): {CPU}0" in lines[0]


@covers("ConfigProto.device_filters", "ConfigProto.device_count")
def test_filters_never_hide_local_devices(world: World) -> None:
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        chosen = tf1.ConfigProto(
            device_filters=["/job:ps/task:3"], device_count={"CPU": 2, "FOO": 4}
        )
        with make(graph=world.graph, config=chosen) as session:
            assert [d.name for d in session.list_devices()] == [f"{CPU}0", f"{CPU}1"]
            world.check(session)
        with pytest.raises(errors.InvalidArgumentError, match="Invalid device filter: rubbish!!"):
            make(graph=world.graph, config=tf1.ConfigProto(device_filters=["rubbish!!"]))
        with pytest.raises(
            errors.NotFoundError, match="No CPU devices are available in this process"
        ):
            make(graph=world.graph, config=tf1.ConfigProto(device_count={"CPU": 0}))


@covers("GraphOptions.place_pruned_graph")
def test_only_what_runs_is_placed(
    world: World, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # as TensorFlow: one node that cannot be placed fails every run
    monkeypatch.setenv("TFJIT_STRICT_PLACEMENT", "1")
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.Variable(2.0, name="v", use_resource=False)
        y = tf.add(v, 1.0, name="y")
        with tf.device("/gpu:7"):
            tf.add(v, 5.0, name="nowhere")
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        chosen = tf1.ConfigProto(log_device_placement=True)
        with (
            make(graph=graph, config=chosen) as session,
            pytest.raises(errors.InvalidArgumentError, match="nowhere"),
        ):
            session.run(v.initializer)
        capfd.readouterr()
        chosen.graph_options.place_pruned_graph = True
        with make(graph=graph, config=chosen) as session:
            session.run(v.initializer)
            assert session.run(y) == 3
            assert "nowhere" not in capfd.readouterr().out
            with pytest.raises(errors.InvalidArgumentError, match="nowhere"):
                session.run("nowhere:0")
            assert session.run(v) == 2
    session = tfjit.InteractiveSession(graph=graph)
    assert session._config.graph_options.place_pruned_graph
    session.run(v.initializer)
    assert session.run(y) == 3
    session.close()


@covers("GraphOptions.infer_shapes")
@pytest.mark.parametrize("own", [False, True])
def test_shapes_are_sent(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if own:
        graph: Any = tfjit.Graph()
        with graph.as_default():
            x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
            y = tfjit.tanh(x, name="y")
    else:
        graph = tf1.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None, 3], name="x")
            y = tf.tanh(x, name="y")
    sent: list[Any] = []
    extend = DirectSession.extend
    monkeypatch.setattr(
        DirectSession,
        "extend",
        lambda session, message: (sent.append(message), extend(session, message)),
    )
    for infer in (False, True):
        sent.clear()
        with tfjit.Session(
            graph=graph, config=config(f"graph_options {{ infer_shapes: {str(infer).lower()} }}")
        ) as session:
            np.testing.assert_allclose(session.run(y, {x: X}), np.tanh(X), rtol=1e-6)
            nodes = {node.name: node for message in sent for node in message.node}
            if infer:
                (shape,) = nodes["y"].attr["_output_shapes"].list.shape
                assert [d.size for d in shape.dim] == [-1, 3]
            assert infer or own or "_output_shapes" not in nodes["y"].attr
