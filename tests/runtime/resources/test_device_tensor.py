"""Tensors in device memory: views of other libraries, copies, the end of their life."""

from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.runtime.resources.device_tensor import DeviceTensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Recorded(SimulatedAccelerator):
    """Writes down how memory is freed, and which streams wait."""

    stream_handle = 77

    def __init__(self) -> None:
        super().__init__()
        self.log: list[object] = []

    def free(self, address: int) -> None:
        self.log.append("free")
        super().free(address)

    def free_shared(self, address: int) -> None:
        self.log.append("free shared")
        super().free(address)

    def hold_back(self, stream: int) -> None:
        self.log.append(stream)


def test_facts() -> None:
    tensor = DeviceTensor.of_array(SimulatedAccelerator(), X)
    assert (tensor.shape, tensor.ndim, tensor.size, tensor.nbytes) == ((2, 3), 2, 6, 24)
    assert tensor.dtype is dtypes.float32 and len(tensor) == 2
    assert repr(tensor) == "<DeviceTensor: float32[2, 3] on simulated GPU 0>"
    np.testing.assert_array_equal(np.asarray(tensor, np.float64), X)
    with pytest.raises(ValueError, match="without a copy"):
        np.array(tensor, copy=False)
    with pytest.raises(TypeError, match="without axes"):
        len(DeviceTensor.of_array(SimulatedAccelerator(), np.float32(1)))


def test_views_share_the_memory() -> None:
    tensor = DeviceTensor.of_array(SimulatedAccelerator(), X)
    assert np.from_dlpack(tensor).ctypes.data == tensor.address
    found = tensor.__cuda_array_interface__
    assert found["data"] == (tensor.address, False)
    assert (found["shape"], found["typestr"], found["version"]) == ((2, 3), "<f4", 3)
    copied = np.from_dlpack(tensor, copy=True)
    assert copied.ctypes.data != tensor.address
    np.testing.assert_array_equal(copied, X)


def test_memory_that_others_have_seen_is_freed_as_such() -> None:
    device = Recorded()
    DeviceTensor.of_array(device, X)
    assert device.log == ["free"]
    for stream, waits in ((None, [1]), (5, [5]), (-1, [])):
        device.log.clear()
        DeviceTensor.of_array(device, X).__dlpack__(stream=stream)
        assert device.log == [*waits, "free shared"]
    device.log.clear()
    assert DeviceTensor.of_array(device, X).__cuda_array_interface__["stream"] == 77
    assert device.log == ["free shared"]


def test_other_devices() -> None:
    tensor = DeviceTensor.of_array(SimulatedAccelerator(), X)
    with pytest.raises(BufferError, match=r"cannot be exported to device \(2, 1\)"):
        tensor.__dlpack__(dl_device=(2, 1))
    small = DeviceTensor.of_array(SimulatedAccelerator(), X.astype(dtypes.bfloat16.as_numpy_dtype))
    with pytest.raises(AttributeError, match="no name for bfloat16"):
        _ = small.__cuda_array_interface__
    assert not hasattr(small, "__cuda_array_interface__")
