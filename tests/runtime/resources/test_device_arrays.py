"""Arrays of other libraries: what is taken, and the errors of what is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.runtime.resources.device_arrays import is_of_device, receive
from tfjit.runtime.resources.device_tensor import DeviceTensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Producer:
    """Gives the capsules of a device tensor as another library would.

    device: in the place of the tensor's own.
    """

    def __init__(self, tensor: DeviceTensor, device: tuple[int, int] | None = None) -> None:
        self.tensor, self.device = tensor, device
        self.asked: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.tensor.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> object:
        self.asked.append(options)
        return self.tensor.__dlpack__()


class WithStream(SimulatedAccelerator):
    """A device whose queue has a name."""

    stream_handle = 77


@pytest.fixture
def device() -> SimulatedAccelerator:
    return SimulatedAccelerator()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex64", "int64", "uint8"])
def test_capsules_are_taken(device: SimulatedAccelerator, dtype: str) -> None:
    kind = dtypes.as_dtype(dtype)
    array = X.astype(kind.as_numpy_dtype)
    own = DeviceTensor.of_array(device, array)
    found = receive(Producer(own), [device], kind, "x:0")
    assert found.address == own.address and found.is_borrowed
    np.testing.assert_array_equal(found.numpy(), array)
    address = own.address
    del own
    assert device.holds(address)
    del found
    assert not device.holds(address) and device.memory.used == 0


def test_the_producer_waits_for_the_devices_stream(device: SimulatedAccelerator) -> None:
    other = WithStream()
    producer = Producer(DeviceTensor.of_array(other, X))
    receive(producer, [other], dtypes.float32, "x:0")
    plain = Producer(DeviceTensor.of_array(device, X))
    receive(plain, [device], dtypes.float32, "x:0")
    assert (producer.asked, plain.asked) == ([{"stream": 77}], [{}])


def test_what_is_of_a_device(device: SimulatedAccelerator) -> None:
    tensor = DeviceTensor.of_array(device, X)
    assert is_of_device(tensor)
    assert is_of_device(Producer(tensor, (2, 0)))
    for value in (X, X[0, 0], 1.0, [1.0], "text", None, Producer(tensor)):
        assert not is_of_device(value)


def test_refusals(device: SimulatedAccelerator) -> None:
    tensor = DeviceTensor.of_array(device, X)
    cases: list[tuple[Any, dtypes.DType, type[Exception], str]] = [
        (Producer(tensor, (2, 5)), dtypes.float32, ValueError, "in CUDA device 5 for Tensor x:0"),
        (Producer(tensor, (10, 0)), dtypes.float32, ValueError, "in ROCm device 0"),
        (Producer(tensor, (99, 0)), dtypes.float32, ValueError, "DLPack's device type 99 0"),
        (Producer(tensor), dtypes.float64, TypeError, "of dtype float32 .* has dtype float64"),
        (Producer(tensor), dtypes.int32, TypeError, "dtype int32 are in host memory"),
        (tensor, dtypes.bool, TypeError, "arrays in device memory are not converted"),
    ]
    for value, dtype, kind, text in cases:
        with pytest.raises(kind, match=text):
            receive(value, [device], dtype, "x:0")
    with pytest.raises(ValueError, match="the session computes on simulated GPU 0"):
        receive(tensor, [SimulatedAccelerator()], dtypes.float32, "x:0")
