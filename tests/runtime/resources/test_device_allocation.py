"""The words of errors of missing memory on a device."""

from __future__ import annotations

import numpy as np
import pytest

from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.runtime.resources.device_allocation import (
    HINT,
    AllocatedTensor,
    allocating,
    with_hint,
)
from tfjit.runtime.resources.device_tensor import DeviceTensor

LOCAL = "/job:localhost/replica:0/task:0/device:GPU:0"


@pytest.mark.parametrize(
    ("shape", "dtype", "node", "device", "first"),
    [
        ((2, 3), dtypes.float32, "a/b", "", f"shape[2,3] and type float on {LOCAL} by allocator "
         "GPU_0_bfc\n\t [[{{node a/b}}]]\n"),
        ((), dtypes.float16, "", "", f"shape[] and type half on {LOCAL} by allocator GPU_0_bfc\n"),
        ((7,), dtypes.bfloat16, "", "/job:worker/replica:0/task:3/device:GPU:2", "shape[7] and "
         "type bfloat16 on /job:worker/replica:0/task:3/device:GPU:2 by allocator GPU_2_bfc\n"),
    ],
)  # fmt: skip
def test_tensorflow_s_words(
    shape: tuple[int, ...], dtype: dtypes.DType, node: str, device: str, first: str
) -> None:
    accelerator = SimulatedAccelerator(256)
    tensor = AllocatedTensor(shape, dtype, node)
    with (
        pytest.raises(errors.ResourceExhaustedError) as caught,
        allocating(tensor, accelerator, device),
    ):
        accelerator.allocate(257)
    assert type(caught.value).__name__ == "ResourceExhaustedError"  # where TensorFlow is, its class
    assert caught.value.message.startswith(f"OOM when allocating tensor with {first}")
    assert "257 bytes on the simulated GPU: 0.0 MiB of 0.0 MiB" in caught.value.message


def test_other_errors_stay() -> None:
    tensor = AllocatedTensor((), dtypes.int8)
    with (
        pytest.raises(errors.InternalError, match="^a kernel failed$"),
        allocating(tensor, SimulatedAccelerator()),
    ):
        raise errors.InternalError(None, None, "a kernel failed")


def test_the_hint_comes_once() -> None:
    error = errors.ResourceExhaustedError(None, None, "OOM")
    hinted = with_hint(error)
    assert hinted.message == "OOM" + HINT and HINT.startswith("\nHint: If you want to see a list")
    assert with_hint(hinted).message == hinted.message


def test_memory_of_a_failed_copy_is_none() -> None:
    accelerator = SimulatedAccelerator(256)
    with pytest.raises(errors.ResourceExhaustedError):
        DeviceTensor.of_array(accelerator, np.zeros(100, np.float32))
    assert accelerator.available_bytes() == 256
