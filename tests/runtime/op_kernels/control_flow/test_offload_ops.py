"""Graphs on a simulated GPU:0: values, placement, variables, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import CPU, GPU, simulated_gpu
from tfjit.framework import errors
from tfjit.protos import ConfigProto, RunMetadata, RunOptions
from tfjit.runtime.offload.device_program import DeviceProgram

X = np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    with simulated_gpu():
        yield


def runs(session: Any, fetches: Any, feeds: Any, times: int = 3) -> list[Any]:
    """Return the results of a run before, while and after its kernels are loaded."""
    found = [session.run(fetches, feeds)]
    for _ in range(times - 1):
        assert session.wait_until_compiled(300)
        found.append(session.run(fetches, feeds))
    return found


def offloaded(session: Any, fetches: Any, feeds: Any) -> list[str]:
    """Return the paragraphs of the run's offloaded graphs."""
    shapes = {key: np.shape(value) for key, value in feeds.items()}
    nodes = session.explain(fetches, shapes).nodes
    return [node.group for node in nodes if node.op == "_Offload"]


def test_a_chain_is_one_program() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5])
        with tf.device("/device:GPU:0"):
            y = tf.transpose(tf.concat([x, tf.tanh(x)], 0)) * 2.0
        z = tf.identity(y)
    expected = np.concatenate([X, np.tanh(X)]).T * 2
    with tf.Session(graph=graph) as session:
        for found in runs(session, z, {x: X}):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        (text,) = offloaded(session, z, {x: X})
    assert f"on {GPU}" in text and "launches" in text and "by the host" not in text


def test_new_shapes_make_new_programs() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 5])
        with tf.device("/device:GPU:0"):
            y = tf.exp(x) - 1.0
    with tf.Session(graph=graph) as session:
        for rows in (4, 1, 3, 0, 4, 3):
            for found in runs(session, y, {x: X[:rows]}):
                np.testing.assert_allclose(found, np.exp(X[:rows]) - 1, rtol=1e-6, atol=1e-7)


def test_the_host_between_two_parts() -> None:
    """A node of the GPU without a kernel is computed in host memory."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5])
        with tf.device("/device:GPU:0"):
            y = tf.tanh(x)
            z = tf.sqrt(tf.square(tf.matrix_inverse(y[:, :4] + 2 * tf.eye(4))))
    with tf.Session(graph=graph) as session:
        inverse = np.linalg.inv(np.tanh(X)[:, :4] + 2 * np.eye(4))
        for found in runs(session, z, {x: X}):
            np.testing.assert_allclose(found, np.abs(inverse), rtol=1e-4)
        assert len(offloaded(session, z, {x: X})) == 2


def test_without_soft_placement_it_is_an_error() -> None:
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        y = tf.string_to_number(tf.constant(["1"]))
    with (
        tf.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match="no supported kernel for GPU devices"),
    ):
        session.run(y)


def test_tiny_work_without_a_device_stays_on_the_host() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5])
        y = tf.tanh(x) + 1.0
    with tf.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run(y, {x: X}), np.tanh(X) + 1, rtol=1e-6)
        assert offloaded(session, y, {x: X}) == []


@pytest.mark.parametrize("resource", [False, True])
def test_variables_live_on_the_device(resource: bool) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5])
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=X, use_resource=resource)
            update = tf.assign_add(v, 2 * x)
        read = tf.identity(v) + 0.0
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        with pytest.raises(errors.FailedPreconditionError, match="v"):
            session.run(update, {x: X})
        session.run(init)
        expected = X.copy()
        for _ in range(4):
            expected += 2 * X
            np.testing.assert_allclose(session.run(update, {x: X}), expected, rtol=1e-6)
            assert session.wait_until_compiled(300)
        np.testing.assert_allclose(session.run(read), expected, rtol=1e-6)
        session.run(init)
        for found in runs(session, read, {}):
            np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("resource", [False, True])
def test_an_error_names_the_read_of_a_variable(
    resource: bool, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the node that TensorFlow names: the first reader, or a fetched reference itself."""
    monkeypatch.setenv("TFJIT_JIT", jit)
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        v = tf.get_variable("v", initializer=X, use_resource=resource)
        y = tf.tanh(v) * 2.0
    readers = {y: y.op.inputs[0].op.inputs[0].op.name, v: "v/Read/ReadVariableOp"}
    if not resource:
        readers = {y: "v/read", "v:0": "v"}
    with tf.Session(graph=graph) as session:
        for fetch, reader in readers.items():
            with pytest.raises(errors.FailedPreconditionError) as caught:
                session.run(fetch)
            assert caught.value.op.name == reader


def test_accumulators_beside_a_gpu() -> None:
    """Their handles are references, and no variables."""
    with tf.Graph().as_default() as graph:
        made = tf.ConditionalAccumulator(tf.float32, shape=[4, 5])
        put, taken = made.apply_grad(X), tf.tanh(made.take_grad(1))
        with tf.device("/device:GPU:0"):
            y = taken + 1.0
    with tf.Session(graph=graph) as session:
        session.run(put)
        np.testing.assert_allclose(session.run(y), np.tanh(X) + 1, rtol=1e-6)


def test_a_variable_of_another_shape_than_the_graph_says() -> None:
    """A program is for the graph's shape; the host computes with the value that is there."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32)
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=np.ones(4, np.float32))
            total = tf.reduce_sum(v * 2.0)
        change = tf.assign(v, x, validate_shape=False)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for found in runs(session, total, {}):
            assert found == 8
        for size in (9, 4, 3):
            session.run(change, {x: np.ones(size)})
            for found in runs(session, total, {}):
                assert found == 2 * size


@pytest.mark.parametrize("resource", [False, True])
def test_variables_of_strings_beside_a_gpu(resource: bool) -> None:
    with tf.Graph().as_default() as graph:
        words = tf.Variable(["a", "bc"], use_resource=resource)
        with tf.device("/device:GPU:0"):
            same = tf.identity(words)
        update = words.assign(["x", "yz"])
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        assert session.run(same).tolist() == [b"a", b"bc"]
        session.run(update)
        assert session.run(words).tolist() == [b"x", b"yz"]


def test_a_partial_run_waits_for_its_own_feeds() -> None:
    """The nodes of its parts have programs of their own."""
    with tf.Graph().as_default() as graph:
        x, y = (tf.placeholder(tf.float32, [4, 5]) for _ in range(2))
        with tf.device("/device:GPU:0"):
            first = tf.tanh(x)
            second = first * y
    with tf.Session(graph=graph) as session:
        handle = session.partial_run_setup([first, second], [x, y])
        found = session.partial_run(handle, first, {x: X})
        np.testing.assert_allclose(found, np.tanh(X), rtol=1e-6)
        np.testing.assert_allclose(session.partial_run(handle, second, {y: X}), found * X)


def test_the_host_reads_before_and_after_an_assignment() -> None:
    """Each reader of a reference gets the value at its place in the order."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5])
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=X)
        reference = v.op.outputs[0]

        def read() -> Any:
            with tf.device("/device:CPU:0"):
                return tf.py_func(lambda value: value + 1, [reference], tf.float32)

        before = read()
        with tf.control_dependencies([before]), tf.device("/device:GPU:0"):
            changed = tf.assign(v, x * 3)
        with tf.control_dependencies([changed]):
            after = read()
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        expected = X
        for step in range(3):
            value = X + step
            first, second = session.run([before, after], {x: value})
            np.testing.assert_allclose(first, expected + 1, rtol=1e-6)
            np.testing.assert_allclose(second, value * 3 + 1, rtol=1e-6)
            expected = value * 3
            assert session.wait_until_compiled(300)


def drawn(device: str) -> tuple[list[Any], str]:
    """Return the results of runs with random numbers, and the programs' paragraphs."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 5])
        seed = tf.placeholder(tf.int64, [2])
        with tf.device(device):
            uniform = tf.random_uniform(tf.shape(x), seed=3) * x
            dropped = tf.nn.dropout(x, rate=0.4, seed=4)
            normal = tf.random_normal([3, 7], seed=5) + 1.0
            cut = tf.truncated_normal([9], seed=6) * 2.0
            rows = tf.gather(x, tf.random_uniform([6], 0, 2, tf.int32, seed=7))
            stateless = tf.random.stateless_uniform([11], seed) + 1.0
    fetches = [uniform, dropped, normal, cut, rows, stateless]
    found, text = [], ""
    with tf.Session(graph=graph) as session:
        for step, size in enumerate((4, 4, 4, 2, 4, 2, 4)):
            feeds = {x: X[:size], seed: [step, 9]}
            found += session.run([normal] if step == 4 else fetches, feeds)
            if step in (1, 4):
                assert session.wait_until_compiled(300)
        text = "\n".join(offloaded(session, fetches, feeds))
    return found, text


def test_random_numbers_are_the_hosts() -> None:
    """A stream goes on between programs, shapes, signatures and the host's plan."""
    expected, nothing = drawn("/device:CPU:0")
    found, text = drawn("/device:GPU:0")
    assert nothing == "" and "by the host" not in text
    for name in ("RandomUniformInt", "StatelessRandom", "TruncatedNormal", "RandomUniform f32"):
        assert name in text
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-7)


def test_sessions_list_the_device() -> None:
    with tf.Session(graph=tf.Graph()) as session:
        listed = [(d.name, d.device_type) for d in session.list_devices()]
    assert listed == [(CPU, "CPU"), (GPU, "GPU")]
    with tf.Session(graph=tf.Graph(), config=ConfigProto(device_count={"GPU": 0})) as session:
        assert [d.name for d in session.list_devices()] == [CPU]


def test_a_program_too_large_for_the_device() -> None:
    """The error has TensorFlow's class, and the session goes on."""
    config = ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1])
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None])
        with tf.device("/device:GPU:0"):
            y = tf.transpose(tf.reshape(x, [2, -1]))
    with tf.Session(graph=graph, config=config) as session:
        big = np.zeros(1 << 19, np.float32)
        with pytest.raises(errors.ResourceExhaustedError, match="OOM when allocating"):
            for _ in range(5):  # the host may answer until the kernels are loaded
                session.run(y, {x: big})
                assert session.wait_until_compiled(300)
            pytest.fail(str(offloaded(session, y, {x: big})))
        np.testing.assert_array_equal(session.run(y, {x: X.reshape(-1)}), X.reshape(2, 10).T)


@pytest.mark.parametrize("resource", [False, True])
def test_a_refused_node_cuts_the_program(resource: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of channels have no kernel; all around them stays on the device."""
    ran = []
    run = DeviceProgram.run
    monkeypatch.setattr(
        DeviceProgram, "run", lambda self, *given: ran.append(self.launches) or run(self, *given)
    )
    rng = np.random.default_rng(3)
    image, taps = (rng.normal(size=s).astype("f4") for s in ((1, 3, 3, 4), (1, 1, 2, 6)))
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, image.shape)
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=np.float32(2), use_resource=resource)
            y = tf.nn.conv2d(tf.tanh(x) * v, tf.constant(taps), [1, 1, 1, 1], "SAME")
            z = tf.reduce_sum(tf.sigmoid(y))
            update = tf.assign_add(v, 0.01 * z)
    halves = [np.tanh(image)[..., k : k + 2] @ taps[0, 0][:, 3 * k // 2 :][:, :3] for k in (0, 2)]
    product = np.concatenate(halves, -1)
    value = np.float32(2)
    with tf.Session(graph=graph) as session:
        session.run(v.initializer)
        for found in runs(session, [z, update], {x: image}):
            wanted = (1 / (1 + np.exp(-product * value))).sum()
            value += 0.01 * wanted
            np.testing.assert_allclose(found[0], wanted, rtol=1e-5)
        (text,) = offloaded(session, [z, update], {x: image})
        np.testing.assert_allclose(session.run(v), value, rtol=1e-5)
    assert "1 node by the host, between programs: " in text and "groups of 2 of 4" in text
    # the initial value; then a program before the convolution and one behind it
    assert len(ran) >= 5


def test_a_variable_in_a_graph_of_unknown_sizes() -> None:
    """The host's plan runs node by node, and finds the variable on its device."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [6])
        with tf.device("/device:GPU:0"):
            v = tf.get_variable("v", initializer=np.float32(2), use_resource=False)
            kept = tf.gather_nd(x, tf.where(x > 0))
            drawn = tf.random_uniform(tf.shape(kept), 1.0, 1.0)
            y = tf.reduce_sum(kept * drawn * v) + tf.nn.l2_loss(v)
    with tf.Session(graph=graph, config=ConfigProto(allow_soft_placement=True)) as session:
        session.run(v.initializer)
        for fed in ([1, -1, 2, -2, 3, 3], [0, 0, 1, 1, 1, 5]):
            wanted = 2 * np.maximum(fed, 0).sum() + 2
            assert session.run(y, {x: fed}) == pytest.approx(wanted)


def test_a_partial_run_waits_for_no_later_feed() -> None:
    """Both sums could be one program, which would need the last feed for the first fetch."""
    with tf.Graph().as_default() as graph:
        a, b, c = (tf.placeholder(tf.float32, []) for _ in range(3))
        with tf.device("/device:GPU:0"):
            v = tf.Variable(1.0)
            first = a + b
            second = tf.assign_add(v, first * c)
        init = tf.global_variables_initializer()
    with tf.Session(graph=graph) as session:
        session.run(init)
        for total in (10.0, 19.0):
            handle = session.partial_run_setup([first, second], [a, b, c])
            assert session.partial_run(handle, first, {a: 1.0, b: 2.0}) == 3.0
            assert session.partial_run(handle, second, {c: 3.0}) == total
        assert session.run(v) == 19.0


def test_a_trace_names_the_device() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 5], name="x")
        with tf.device("/device:GPU:0"):
            y = tf.transpose(tf.tanh(x, name="h"), name="y")
    with tf.Session(graph=graph) as session:
        runs(session, y, {x: X})
        metadata = RunMetadata()
        session.run(y, {x: X}, RunOptions(trace_level=RunOptions.FULL_TRACE), metadata)
    stats = {device.device: device.node_stats for device in metadata.step_stats.dev_stats}
    assert set(stats) == {CPU, GPU}
    labels = [node.timeline_label for node in stats[GPU]]
    assert any("[h:Tanh+" in label and "y:Transpose](_arg_x_0_0)" in label for label in labels)
