"""Section 2.7: where nodes go, and what is said of those that can go nowhere, beside TensorFlow's
placer.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware
from tests.contract.worlds import both, cause, ours, same, theirs, world

tf1 = tf.compat.v1
CPUS = tf1.ConfigProto(device_count={"CPU": 3})
SOFT = tf1.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=True)
X = np.ones(3, "f4")
FREE = "GPU:0" if hardware.gpu_count() else "CPU:0"
"""Device that TensorFlow gives nodes which may go anywhere: GPUs have the higher priority."""
NO_GPU = f"/gpu:{hardware.gpu_count()}"


def devices(session: Any, w: Any, fetch: Any, feed_dict: Any) -> dict[str, str]:
    """Device of every node of a run, by name.

    A partition names the nodes that a GPU runs as one.
    """
    metadata = tf1.RunMetadata()
    session.run(fetch, feed_dict, tf1.RunOptions(output_partition_graphs=True), metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    found = {
        node.name: node.device[-5:]
        for node in nodes
        if not node.name.startswith("_") and "/_" not in node.name
    }
    for node in nodes:
        if node.op == "_Offload":
            device = node.attr["device"].s.decode()[-5:]
            found.update((name.decode(), device) for name in node.attr["members"].list.s)
    return found


def far_device(device: str) -> Any:
    def build(api: Any) -> dict[str, Any]:
        x = api.placeholder(api.float32, [3], name="x")
        with api.device(device):
            return {"x": x, "far": api.square(x, name="far")}

    return build


def contradicting_colocation(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [3], name="x")
    with api.device("/cpu:1"):
        a = api.tanh(x, name="a")
    with api.colocate_with(a.op):
        far = api.tanh(a, name="far")
    far.op._set_device("/device:CPU:2")
    return {"x": x, "far": far}


ERRORS = {
    "no such type": far_device("/device:GPU:7"),
    "no such number": far_device("/device:CPU:9"),
    "no such job": far_device("/job:worker/task:3"),
    "colocated with another device": contradicting_colocation,
}


@both
@pytest.mark.parametrize("name", ERRORS)
def test_errors(front: str, name: str) -> None:
    reference, w = world("tf", ERRORS[name]), world(front, ERRORS[name])
    with (
        theirs(reference, CPUS) as session,
        pytest.raises(tf.errors.InvalidArgumentError) as expected,
    ):
        session.run(reference.far, {reference.x: X})
    with ours(w, CPUS) as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(w.far, {w.x: X})
    first = cause(expected.value).splitlines()[0]
    assert first.partition(" available devices are [")[0] in cause(caught.value)
    for part in ("Make sure the device specification refers to a valid device",):
        assert (part in str(expected.value)) <= (part in str(caught.value))
    assert caught.value.op is w.far.op


@both
@pytest.mark.parametrize("device", ["/device:GPU:7", "/device:CPU:9", "/gpu:0", "/job:worker"])
def test_soft_placement(front: str, device: str) -> None:
    reference, w = world("tf", far_device(device)), world(front, far_device(device))
    placed = []
    for session, here in ((theirs(reference, SOFT), reference), (ours(w, SOFT), w)):
        with session:
            try:
                placed.append(devices(session, here, here.far, {here.x: X})["far"])
            except tf.errors.InvalidArgumentError:
                placed.append("error")
    assert placed[1] == placed[0].replace("CPU:0", FREE)


@pytest.mark.parametrize("inside", [False, True], ids=["at the top", "inside the graph's block"])
def test_without_a_config(inside: bool) -> None:
    """TensorFlow's default config places softly while execution is eager; tfjit's own graphs never
    know of that.
    """
    w = world("tf", far_device(NO_GPU))
    outcomes: list[Any] = []
    for make in (tf1.Session, tfjit.Session):
        with w.graph.as_default() if inside else contextlib.nullcontext():
            session = make(graph=w.graph)
        with session:
            try:
                outcomes.append(session.run(w.far, {w.x: X}))
            except tf.errors.InvalidArgumentError:
                outcomes.append("refused")
    same(outcomes[1], outcomes[0])
    w = world("tfjit", far_device(NO_GPU))
    with (
        tfjit.Session(graph=w.graph) as session,
        pytest.raises(tfjit.errors.InvalidArgumentError, match="Cannot assign a device"),
    ):
        session.run(w.far, {w.x: X})


def groups(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [3], name="x")
    with api.device("/cpu:1"):
        ref = api.get_variable("ref", initializer=np.zeros(3, "f4"), use_resource=False)
        res = api.get_variable("res", initializer=np.zeros(3, "f4"), use_resource=True)
    with api.device("/cpu:2"):
        base = api.tanh(x, name="base")
    with api.colocate_with(base):
        near = api.sin(x, name="near")
        near = api.sigmoid(near, name="nearer")
    update = api.assign_add(ref, x, name="update")
    return {
        "x": x,
        "fetches": [update, near],
        "init": api.global_variables_initializer(),
        "sum": api.add(ref, res, name="sum"),
    }


@both
def test_groups(front: str) -> None:
    """An update goes where its variable is, colocated nodes where their base is."""
    reference, w = world("tf", groups), world(front, groups)
    with theirs(reference, CPUS) as session:
        session.run(reference.init)
        expected = devices(session, reference, reference.fetches, {reference.x: X})
    with ours(w, CPUS) as session:
        session.run(w.init)
        got = devices(session, w, w.fetches, {w.x: X})
        np.testing.assert_array_equal(session.run(w.sum), X)
    assert got["update"] == expected["update"] == "CPU:1"
    assert got["nearer"] == expected["nearer"] == "CPU:2"


def followers(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None], name="x")
    draw = api.raw_ops.RandomUniform(shape=[3], dtype=api.float32, seed=1, seed2=2, name="draw")
    generator = api.constant([1.0, 2.0, 3.0], name="generator")
    with api.device("/cpu:1"):
        consumer = api.raw_ops.AddN(inputs=[x, draw, generator], name="consumer")
    size = api.raw_ops.Shape(input=consumer, name="size")
    with api.device("/cpu:2"):
        other = api.raw_ops.ReverseV2(tensor=consumer, axis=[0], name="other")
    return {"x": x, "fetches": [consumer, size, other]}


@both
def test_followers(front: str) -> None:
    """A node without inputs goes where all its consumers are, one that reads only a shape where its
    input is.
    """
    reference, w = world("tf", followers), world(front, followers)
    plain = tf1.ConfigProto(device_count={"CPU": 3})
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    with theirs(reference, plain) as session:
        expected = devices(session, reference, reference.fetches, {reference.x: X})
    with ours(w, CPUS) as session:
        got = devices(session, w, w.fetches, {w.x: X})
    for name in ("consumer", "other", "generator"):
        assert got[name] == expected[name], name
    assert expected["generator"] == "CPU:1"
    assert expected["draw"] == "CPU:0"  # its shape is an input, so it follows no consumer
    assert got["draw"] == FREE
    if "size" in got:  # whose value may be known while planning
        assert got["size"] == expected["size"]
