"""The calls of single commands."""

from __future__ import annotations

import pytest

from tests.kernels.cuda.device.recorded import launch
from tests.kernels.cuda.fake_driver import FakeDriver
from tfjit.framework import errors
from tfjit.kernels.cuda.device import command_calls
from tfjit.kernels.cuda.device.accelerator import CudaAccelerator


def test_much_dynamic_shared_memory_is_asked_for(device: CudaAccelerator, fake: FakeDriver) -> None:
    device.program([launch(shared_bytes=100 << 10)]).start()
    call = next(call for call in fake.calls if call[0] == "cuFuncSetAttribute")
    assert call[2:] == (8, 100 << 10)


def test_a_kernel_without_arguments(device: CudaAccelerator, fake: FakeDriver) -> None:
    device.program([launch()]).start()
    call = next(call for call in fake.calls if call[0] == "cuLaunchKernel")
    assert call[-2:] == (None, None)


def test_shared_memory_that_was_asked_for_is_never_taken_back(
    device: CudaAccelerator, fake: FakeDriver
) -> None:
    """The calls of a program are known before the first one is made."""
    launches = [launch(shared_bytes=kib << 10) for kib in (100, 60, 120)]
    device.program(launches).start()
    sizes = [call[3] for call in fake.calls if call[0] == "cuFuncSetAttribute"]
    assert sizes == [100 << 10, 120 << 10]


def test_a_kernel_for_another_gpu(
    device: CudaAccelerator, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine may have GPUs of two kinds; the driver may load a cubin only now."""
    monkeypatch.setattr(command_calls, "architecture", lambda: "sm_90")
    fake.failing["cuKernelGetFunction"] = 209
    with pytest.raises(
        errors.FailedPreconditionError,
        match="a kernel for sm_90: CUDA_ERROR_NO_BINARY_FOR_GPU .*for CUDA 13.0.*VISIBLE_DEVICES",
    ):
        device.program([launch()]).start()
    fake.failing["cuKernelGetFunction"] = 1
    with pytest.raises(errors.InternalError, match="cuKernelGetFunction: error 1"):
        device.program([launch()]).start()


def test_code_is_loaded_before_a_capture(device: CudaAccelerator, fake: FakeDriver) -> None:
    """A driver that loads code when it is first launched would do so within."""
    fake.is_late = True
    device.program([launch(1)] * 3).start()
    names = fake.names()
    assert names.count("cuFuncLoad") == 1
    assert names.index("cuFuncLoad") < names.index("cuStreamBeginCapture_v2")
