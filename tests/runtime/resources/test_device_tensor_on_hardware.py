"""Device tensors of a GPU beside those of other libraries, which share their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit as tf
from tests import hardware
from tests.simulated_gpu import GPU
from tfjit.protos import CallableOptions
from tfjit.runtime.resources.device_tensor import DeviceTensor

pytestmark = pytest.mark.gpu
if hardware.missing():
    pytest.skip(f"no GPU: {hardware.missing()}", allow_module_level=True)

X = np.linspace(-1, 1, 1 << 20, dtype=np.float32).reshape(1024, 1024)


def doubling() -> tuple[Any, Any]:
    """Return a session and its callable of 2 x, fed and fetched on the GPU."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [1024, 1024], name="x")
        with tf.device("/device:GPU:0"):
            tf.multiply(x, 2.0, name="y")
    session = tf.Session(graph=graph)
    options = CallableOptions(feed=["x:0"], fetch=["y:0"], fetch_skip_sync=True)
    options.feed_devices["x:0"] = options.fetch_devices["y:0"] = GPU
    return session, session._make_callable_from_options(options)


def test_a_loop_stays_on_the_gpu() -> None:
    session, call = doubling()
    value: Any = X
    for turn in range(20):
        (value,) = call(value)
        if turn == 1:
            assert session.wait_until_compiled(300)
    assert isinstance(value, DeviceTensor)
    np.testing.assert_array_equal(value.numpy(), X * 2.0**20)
    session.close()


def test_torch_and_back() -> None:
    """Each library waits for the other's stream; the memory is one."""
    torch: Any = pytest.importorskip("torch")
    session, call = doubling()
    stream = torch.cuda.Stream()
    for turn in range(20):
        with torch.cuda.stream(stream):
            given = torch.full((1024, 1024), float(turn), device="cuda") + 1
            (value,) = call(given)
            found = torch.from_dlpack(value)
            assert found.data_ptr() == value.address
            total = (found * 3).sum()
        assert total.item() == 6.0 * (turn + 1) * (1 << 20)
        assert session.wait_until_compiled(300)
    session.close()


def test_cupy_and_back() -> None:
    cupy: Any = pytest.importorskip("cupy")
    session, call = doubling()
    for turn in range(20):
        (value,) = call(cupy.full((1024, 1024), turn, "f4") + 1)
        for found in (cupy.from_dlpack(value), cupy.asarray(value)):
            assert found.data.ptr == value.address
            assert float((found * 3).max()) == 6.0 * (turn + 1)
        assert session.wait_until_compiled(300)
    session.close()


def test_a_transposed_array_is_refused() -> None:
    torch: Any = pytest.importorskip("torch")
    session, call = doubling()
    with pytest.raises(ValueError, match="have to be contiguous"):
        call(torch.ones(1024, 1024, device="cuda").T[:, :])
    with pytest.raises(TypeError, match="dtype float64 for Tensor x:0"):
        call(torch.ones(1024, 1024, device="cuda", dtype=torch.float64))
    session.close()
