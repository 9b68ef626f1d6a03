"""The memory of programs: all of it or nothing, and the tensor that finds none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests.simulated_gpu import simulated_gpu
from tfjit.framework import errors
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.ir.backend import backend_for
from tfjit.protos import CallableOptions, ConfigProto
from tfjit.runtime.resources.device_allocation import HINT

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
pytestmark = pytest.mark.simulator


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    with simulated_gpu():
        yield


def session_of(graph: tf.Graph) -> tf.Session:
    """Return a session whose GPU has one MiB."""
    config = ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[1])
    return tf.Session(graph=graph, config=config)


def used() -> int:
    gc.collect()
    return backend_for("GPU").accelerator(0).memory.used  # type: ignore[attr-defined, no-any-return]


def words(shape: str) -> str:
    """Return the first line of TensorFlow's error."""
    return (
        f"OOM when allocating tensor with shape{shape} and type float on {GPU} by allocator "
        "GPU_0_bfc\n"
    )


def built(build: Any, *, shape: Any = (None,)) -> tuple[tf.Graph, Any, Any]:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, shape, name="x")
        with tf.device("/device:GPU:0"):
            y = build(x)
    return graph, x, y


def squared(x: Any) -> Any:
    column = tf.reshape(x, [-1, 1])
    return tf.tanh(tf.matmul(column, column, transpose_b=True, name="square"), name="result")


def test_the_first_tensor_that_does_not_fit() -> None:
    graph, x, y = built(squared)
    with session_of(graph) as session:
        for value, node, shape in (
            (np.zeros(1 << 19, np.float32), "x", "[524288]"),
            (np.zeros(600, np.float32), "result", "[600,600]"),
        ):
            before = used()
            with pytest.raises(errors.ResourceExhaustedError) as caught:
                session.run(y, {x: value})
            assert f"{words(shape)}\t [[{{{{node {node}}}}}]]\nOOM when" in caught.value.message
            assert caught.value.message.endswith(HINT)
            assert caught.value.op is graph.get_operation_by_name(node)
            assert used() == before
        np.testing.assert_array_equal(session.run(y, {x: np.zeros(2)}), np.zeros((2, 2)))


def test_a_report_takes_the_place_of_the_hint() -> None:
    graph, x, y = built(squared)
    options = tf.RunOptions(report_tensor_allocations_upon_oom=True)
    with session_of(graph) as session, pytest.raises(errors.ResourceExhaustedError) as caught:
        session.run(y, {x: np.zeros(600, np.float32)}, options)
    assert words("[600,600]") in caught.value.message and "Hint" not in caught.value.message
    assert "Current usage from device" in caught.value.message


def test_constants_name_the_largest() -> None:
    table = np.arange(400_000, dtype=np.float32).reshape(400, 1000)
    graph, x, y = built(lambda x: tf.matmul(x, tf.constant(table, name="table")), shape=(1, 400))
    with session_of(graph) as session:
        before = used()
        with pytest.raises(errors.ResourceExhaustedError) as caught:
            session.run(y, {x: np.ones((1, 400))})
    assert words("[400,1000]") + "\t [[{{node table}}]]" in caught.value.message
    assert used() == before


def test_variables_have_their_names() -> None:
    with tf.Graph().as_default() as graph, tf.device("/device:GPU:0"):
        v = tf.get_variable("v", [400, 1000], initializer=tf.zeros_initializer())
    with session_of(graph) as session, pytest.raises(errors.ResourceExhaustedError) as caught:
        session.run(v.initializer)
    assert words("[400,1000]") in caught.value.message


def test_results_that_stay_on_the_device() -> None:
    graph, x, y = built(lambda x: tf.tanh(x, name="result"))
    options = CallableOptions(feed=[x.name], fetch=[y.name], fetch_skip_sync=True)
    options.fetch_devices[y.name] = GPU
    with session_of(graph) as session:
        call = session._make_callable_from_options(options)
        fed = np.zeros(60_000, np.float32)
        held = call(fed)
        with pytest.raises(errors.ResourceExhaustedError) as caught:
            held += call(fed)
            held += call(fed)
    assert words("[60000]") + "\t [[{{node result}}]]" in caught.value.message


def test_a_process_that_cannot_use_the_device_touches_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Page-locked memory of a forked child's parent is not there."""

    def forked(self: Any) -> None:
        raise errors.FailedPreconditionError(None, None, "CUDA cannot be used in a forked child")

    graph, x, y = built(squared)
    with session_of(graph) as session:
        session.run(y, {x: np.zeros(5, np.float32)})
        monkeypatch.setattr(SimulatedAccelerator, "check_usable", forked)
        monkeypatch.setattr("tfjit.runtime.offload.staging.Staging.write", None)
        with pytest.raises(errors.FailedPreconditionError, match="in a forked child"):
            session.run(y, {x: np.zeros(5, np.float32)})
