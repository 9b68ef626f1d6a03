"""A second device: registered by one call, placed on, partitioned for, fused for and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tests import fake_device
from tests.fake_device.backend import FakeArray, FakeBackend
from tests.fake_device.ops import OPS
from tfjit.demo.digits import IMAGES, LOGITS, PROBS, load_data, load_graph
from tfjit.framework import errors
from tfjit.kernels.ir import backend as backends
from tfjit.protos import ConfigProto, GraphDef, OptimizerOptions

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
FAKE = "/job:localhost/replica:0/task:0/device:FAKE:0"
PARTS = ("Const", "Identity", *OPS)
"""What the digits network consists of, but for its placeholder."""


class UnfusedBackend(FakeBackend):
    """FAKE without rules of fusion."""

    @property
    def fusion(self) -> None:  # type: ignore[override]
        return None


class PreferredBackend(FakeBackend):
    """FAKE as a device that placement takes before the host."""

    priority = 210


class MisnamedBackend(FakeBackend):
    """A backend that is not for the type it is registered for."""

    device_type = "OTHER"


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    fake_device.register()
    try:
        made = backends.backend_for("FAKE")
        assert isinstance(made, FakeBackend)
        yield made
    finally:
        fake_device.unregister()


def digits() -> GraphDef:
    """Return the network with all but its placeholder asked to be on FAKE:0."""
    graph = load_graph()
    for node in graph.node:
        if node.op in PARTS:
            node.device = "/device:FAKE:0"
    return graph


def config(soft: bool = False, **fields: Any) -> ConfigProto:
    return ConfigProto(allow_soft_placement=soft, **fields)


def devices(explanation: Any) -> dict[str, str]:
    """Return the device of each node that an explanation has, by name."""
    return {node["name"]: node["device"] for node in explanation.as_json()["nodes"]}


@pytest.mark.parametrize("jit", [OptimizerOptions.DEFAULT, OptimizerOptions.ON_1])
def test_digits(fake: FakeBackend, jit: int) -> None:
    data = load_data()
    options = config()
    options.graph_options.optimizer_options.global_jit_level = jit
    with tfjit.Session(graph=digits(), config=options) as session:
        for images in (data["test_images"], data["test_images"][:1], data["test_images"]):
            fake.calls.clear()
            logits, probs = session.run([LOGITS, PROBS], {IMAGES: images})
            np.testing.assert_allclose(logits, data["test_logits"][: len(images)], atol=1e-4)
            np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-5)
            counts = Counter(op for op, _ in fake.calls)
            assert counts == {"_Fused": 4, "MaxPool": 2, "Reshape": 1, "Softmax": 1}
        explained = session.explain([LOGITS, PROBS], {IMAGES: images.shape})
    nodes = {node.name: node for node in explained.nodes}
    fused = {node.name: node.group.split(" ")[0] for node in explained.nodes if node.group}
    assert fused == {
        "conv1/Relu": "conv2d", "conv2/Relu": "conv2d", "Tanh": "matmul", "logits": "matmul"
    }  # fmt: skip
    assert {nodes[name].device for name in fused} == {FAKE}
    transfers = {(node.op, node.device) for node in explained.nodes if "_Arg" not in node.op}
    assert {("_Send", CPU), ("_Recv", FAKE), ("_Send", FAKE), ("_Recv", CPU)} <= transfers
    # the host computes nothing
    on_host = {node.op for node in explained.nodes if node.device == CPU}
    assert on_host == {"_Arg", "_Retval", "_Send", "_Recv"}


def test_a_backend_without_rules_fuses_nothing() -> None:
    data = load_data()
    backends.register_backend("FAKE", f"{__name__}:UnfusedBackend")
    try:
        with tfjit.Session(graph=digits(), config=config()) as session:
            logits = session.run(LOGITS, {IMAGES: data["test_images"][:3]})
            explained = session.explain(LOGITS, {IMAGES: (3, 8, 8, 1)})
    finally:
        fake_device.unregister()
    np.testing.assert_allclose(logits, data["test_logits"][:3], atol=1e-4)
    assert "_Fused" not in {node.op for node in explained.nodes}
    assert "the fake backend fuses nothing" in explained.details()


def test_a_session_lists_the_devices(fake: FakeBackend) -> None:
    def listed(options: ConfigProto | None = None) -> list[tuple[str, str, int]]:
        with tfjit.Session(graph=tfjit.Graph(), config=options) as session:
            return [(d.name, d.device_type, d.memory_limit_bytes) for d in session.list_devices()]

    host, first = (CPU, "CPU", 256 << 20), (FAKE, "FAKE", 1 << 20)
    second = (FAKE.removesuffix("0") + "1", "FAKE", 1 << 20)
    assert listed() == [host, first]
    assert listed(config(device_count={"FAKE": 2})) == [host, first, second]
    assert listed(config(device_count={"FAKE": 0})) == [host]


def program() -> tuple[tfjit.Graph, Any, Any]:
    """Return a graph with Tanh and Sigmoid on FAKE:0, which has a kernel for Tanh only."""
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [3], name="x")
        with tfjit.device("/device:FAKE:0"):
            y = tfjit.sigmoid(tfjit.tanh(x, name="t"), name="s")
    return graph, x, y


def test_an_op_without_a_kernel_there_is_placed_on_the_host(fake: FakeBackend) -> None:
    graph, x, y = program()
    values = np.float32([-1, 0, 2])
    with tfjit.Session(graph=graph, config=config(soft=True)) as session:
        result = session.run(y, {x: values})
        explained = session.explain(y, {x: (3,)})
    np.testing.assert_allclose(result, 1 / (1 + np.exp(-np.tanh(values))), rtol=1e-6)
    assert (devices(explained)["t"], devices(explained)["s"]) == (FAKE, CPU)
    assert fake.calls == [("Tanh", "t")]
    text = explained.details()
    assert f"on {FAKE}, " in text and "by the fake backend" in text and "by the cpu backend" in text


def test_an_op_without_a_kernel_there_is_refused_without_soft_placement(fake: FakeBackend) -> None:
    graph, x, y = program()
    session = tfjit.Session(graph=graph, config=config())
    with session, pytest.raises(errors.InvalidArgumentError) as caught:
        session.run(y, {x: np.zeros(3, np.float32)})
    assert (
        "Cannot assign a device for operation s: Could not satisfy explicit device specification "
        "'/device:FAKE:0' because no supported kernel for FAKE devices is available.\nOp: Sigmoid\n"
        "Registered kernels:\n  device='CPU'"
    ) in caught.value.message
    assert fake.calls == []


def test_what_names_no_device_stays_on_the_host(fake: FakeBackend) -> None:
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [3])
        y = tfjit.tanh(x)
    with tfjit.Session(graph=graph) as session:
        session.run(y, {x: np.zeros(3, np.float32)})
        assert set(devices(session.explain(y, {x: (3,)})).values()) == {CPU}
    assert fake.calls == []


def test_placement_prefers_the_higher_priority() -> None:
    graph, x, y = program()
    for operation in graph.get_operations():
        operation._set_device("")
    backends.register_backend("FAKE", f"{__name__}:PreferredBackend")
    try:
        with tfjit.Session(graph=graph, config=config()) as session:
            session.run(y, {x: np.zeros(3, np.float32)})
            found = devices(session.explain(y, {x: (3,)}))
    finally:
        fake_device.unregister()
    assert (found["t"], found["s"]) == (FAKE, CPU)


def test_dead_values_cross_to_the_device(fake: FakeBackend) -> None:
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [2])
        choice = tfjit.placeholder(tfjit.bool, [])

        def on_fake() -> Any:
            with tfjit.device("/device:FAKE:0"):
                return tfjit.tanh(x * x)

        y = tfjit.cond(choice, on_fake, lambda: x)
    values = np.float32([1, 2])
    with tfjit.Session(graph=graph, config=config(soft=True)) as session:
        np.testing.assert_array_equal(session.run(y, {x: values, choice: False}), values)
        assert fake.calls == []
        taken = session.run(y, {x: values, choice: True})
    np.testing.assert_allclose(taken, np.tanh(values * values), rtol=1e-6)
    assert fake.calls


def test_switch_and_merge_on_the_device(fake: FakeBackend) -> None:
    """The predicate is read where it lies: in host memory, or as a constant of the device."""
    with tfjit.Graph().as_default() as graph:
        x = tfjit.placeholder(tfjit.float32, [2])
        choice = tfjit.placeholder(tfjit.bool, [])
        with tfjit.device("/device:FAKE:0"):
            results = []
            for chosen in (choice, tfjit.constant(True)):
                # on FAKE, since its data comes from there
                no, yes = tfjit.raw_ops.Switch(data=x * x, pred=chosen)
                results.append(tfjit.raw_ops.Merge(inputs=[tfjit.tanh(yes), no * no]).output)
    values = np.float32([1, 2])
    options = config()
    options.graph_options.optimizer_options.opt_level = OptimizerOptions.L0
    with tfjit.Session(graph=graph, config=options) as session:
        for taken in (True, False):
            found, always = session.run(results, {x: values, choice: taken})
            squares = values * values
            wanted = np.tanh(squares) if taken else squares * squares
            np.testing.assert_allclose(found, wanted, rtol=1e-6)
            np.testing.assert_allclose(always, np.tanh(squares), rtol=1e-6)
        explained = session.explain(results, {x: (2,), choice: ()})
    nodes = {(node.op, node.device) for node in explained.nodes}
    assert {("Switch", FAKE), ("Merge", FAKE), ("_HostRecv", FAKE)} <= nodes


def test_a_run_of_this_device_alone(fake: FakeBackend) -> None:
    """One partition is no straight-line step here: the backend does not lower."""
    with tfjit.Graph().as_default() as graph, tfjit.device("/device:FAKE:0"):
        target = tfjit.tanh(tfjit.constant([1.0, 2.0]), name="t").op
    options = config()
    options.graph_options.optimizer_options.opt_level = OptimizerOptions.L0
    with tfjit.Session(graph=graph, config=options) as session:
        session.run(target)
        explained = session.explain(target)
    assert fake.calls == [("Tanh", "t")]
    assert "the fake backend runs node by node" in explained.executor
    assert set(devices(explained).values()) == {FAKE}


def test_memory_of_the_device_is_its_own() -> None:
    with pytest.raises(TypeError, match="through FAKE's backend only"):
        np.asarray(FakeArray(np.zeros(3)))


def test_unregistering_leaves_no_trace() -> None:
    before = set(backends.device_types())
    fake_device.register()
    graph, x, y = program()
    with tfjit.Session(graph=graph, config=config(soft=True)) as old:
        fake_device.unregister()
        assert set(backends.device_types()) == before == {"CPU", "GPU"}
        with pytest.raises(errors.NotFoundError, match="no backend for FAKE"):
            backends.backend_for("FAKE")
        # a session that has the device keeps it, for new plans too
        old.run(y, {x: np.zeros(3, np.float32)})
        assert devices(old.explain(y, {x: (3,)}))["t"] == FAKE
        with tfjit.Session(graph=graph, config=config()) as new:
            assert [d.device_type for d in new.list_devices()] == ["CPU"]
            with pytest.raises(errors.InvalidArgumentError, match="was explicitly assigned to"):
                new.run(y, {x: np.zeros(3, np.float32)})
        with tfjit.Session(graph=graph, config=config(soft=True)) as new:
            new.run(y, {x: np.zeros(3, np.float32)})
            assert set(devices(new.explain(y, {x: (3,)})).values()) == {CPU}


def test_a_type_is_registered_once() -> None:
    fake_device.register()
    try:
        with pytest.raises(errors.AlreadyExistsError, match="a backend for FAKE is registered"):
            fake_device.register()
    finally:
        fake_device.unregister()
    backends.register_backend("FAKE", f"{__name__}:MisnamedBackend")
    try:
        with pytest.raises(errors.InternalError, match="registered for FAKE, not OTHER"):
            tfjit.Session(graph=tfjit.Graph())
    finally:
        fake_device.unregister()


def test_nothing_outside_this_folder_knows_the_device(root: Path) -> None:
    for folder in ("tfjit", "kernels", "passes"):
        for path in (root / folder).rglob("*.py"):
            assert "fake_device" not in (text := path.read_text("utf-8")), path
            assert "FAKE" not in text, path
