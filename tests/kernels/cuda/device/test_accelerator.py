"""The calls of the driver that a GPU's commands make, recorded by a fake driver."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.device.recorded import Failing, Routine, launch
from tests.kernels.cuda.fake_driver import GIB, FakeDriver
from tfjit.framework import errors
from tfjit.kernels.cuda.device import driver, graph_capture
from tfjit.kernels.cuda.device.accelerator import CudaAccelerator


def test_facts(device: CudaAccelerator) -> None:
    assert (device.number, device.name, device.memory_bytes) == (0, "Fake GPU", 4 * GIB)
    assert device.memory_limit == 4 * GIB


def test_allocations_are_ordered_like_commands(device: CudaAccelerator, fake: FakeDriver) -> None:
    address = device.allocate(1000)
    call = next(call for call in fake.calls if call[0] == "cuMemAllocFromPoolAsync")
    assert call[1] == 1024 and call[3] == device.stream.value
    device.free(address)
    assert fake.calls[-1] == ("cuMemFreeAsync", address, device.stream.value)
    with pytest.raises(errors.InternalError, match="is freed, and is no allocation"):
        device.free(address)


def test_a_device_without_pools(fake: FakeDriver) -> None:
    fake.attributes[115] = 0
    device = CudaAccelerator(0)
    fake.calls.clear()
    device.free(device.allocate(1))
    assert fake.names() == ["cuMemAlloc_v2", "cuMemFree_v2"]


def test_the_limit(device: CudaAccelerator) -> None:
    device.memory_limit = 1024
    first = device.allocate(600)
    with pytest.raises(
        errors.ResourceExhaustedError, match="OOM when allocating 500 bytes on GPU:0"
    ):
        device.allocate(500)
    device.free(first)
    device.allocate(1024)


def test_out_of_memory_trims_the_pool_once(device: CudaAccelerator, fake: FakeDriver) -> None:
    fake.free = 100
    with pytest.raises(errors.ResourceExhaustedError, match="0.00 GiB of the device are free"):
        device.allocate(4096)
    assert fake.names() == [
        *("cuMemAllocFromPoolAsync", "cuStreamSynchronize", "cuMemPoolTrimTo"),
        *("cuMemAllocFromPoolAsync", "cuMemGetInfo_v2"),
    ]
    assert device.memory.used == 0


def test_pinned_memory_is_freed_after_its_last_view(
    device: CudaAccelerator, fake: FakeDriver
) -> None:
    array = device.pinned(100)
    assert array.dtype == np.uint8 and array.shape == (100,)
    array[:] = 7
    view = array[4:8].view(np.float32)
    (address,) = fake.host
    assert address == array.ctypes.data
    del array
    gc.collect()
    device.synchronize()
    assert address in fake.host
    del view
    gc.collect()
    device.synchronize()
    assert not fake.host


def test_pinned_memory_is_never_freed_within_a_capture(
    device: CudaAccelerator, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = [device.pinned(8)]
    issue = graph_capture.issue

    def issue_and_drop(calls) -> None:  # type: ignore[no-untyped-def]
        arrays.clear()
        gc.collect()
        issue(calls)

    monkeypatch.setattr(graph_capture, "issue", issue_and_drop)
    device.program([launch(1)] * 3).start()
    assert "cuMemFreeHost" not in fake.names()
    device.pinned(0)
    assert "cuMemFreeHost" in fake.names()


def test_page_locked_memory_may_be_missing(device: CudaAccelerator, fake: FakeDriver) -> None:
    fake.failing["cuMemHostAlloc"] = 2
    with pytest.raises(errors.ResourceExhaustedError, match="64 bytes of page-locked host memory"):
        device.pinned(64)


def test_write_and_read_wait(device: CudaAccelerator, fake: FakeDriver) -> None:
    array = np.arange(6, dtype=np.float32)
    device.write(0x500, array)
    assert fake.calls[1] == (
        *("cuMemcpyHtoDAsync_v2", 0x500, array.ctypes.data, 24),
        device.stream.value,
    ) or fake.calls[2][:2] == ("cuMemcpyHtoDAsync_v2", 0x500)
    assert fake.names()[-1] == "cuStreamSynchronize"
    device.read(array, 0x500)
    assert fake.names() == ["cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"]
    device.write(0x500, np.zeros(0, np.float32))
    assert fake.names() == ["cuStreamSynchronize"]
    with pytest.raises(errors.InternalError, match="contiguous"):
        device.write(0x500, np.zeros((4, 4), np.float32)[:, 1])


def test_memory_is_asked_about_in_the_context(device: CudaAccelerator, fake: FakeDriver) -> None:
    """The driver has no answer for a thread without one."""
    fake.current = None
    found: list[int | None] = []
    fake.watching = lambda name: name != "cuPointerGetAttribute" or found.append(fake.current)
    device.holds(0x1000)
    assert found == [device.context._handle.value]


def test_an_accelerator_leaves_no_memory_behind(fake: FakeDriver) -> None:
    """Its pool would keep what it has freed."""
    device = CudaAccelerator(0)
    host = device.pinned(100)
    del host, device
    fake.calls.clear()
    gc.collect()
    assert fake.names() == ["cuMemFreeHost", "cuMemPoolDestroy"]
    assert not fake.host


def test_a_forked_child_frees_nothing(
    device: CudaAccelerator, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, program = device.allocate(8), device.program([launch(1)] * 3)
    program.start()
    fake.calls.clear()
    monkeypatch.setattr(driver, "_forked", True)
    monkeypatch.setattr(driver, "_functions", None)
    program.close()
    device.free(address)
    assert not fake.calls
    with pytest.raises(errors.FailedPreconditionError, match="by spawn"):
        device.allocate(8)


def test_shared_memory_is_freed_when_the_device_is_idle(
    device: CudaAccelerator, fake: FakeDriver
) -> None:
    """A finalizer only notes it; the next allocation waits for every stream, once."""
    first, second = device.allocate(100), device.allocate(100)
    fake.names()
    device.free_shared(first)
    device.free_shared(second)
    assert fake.calls == [] and device.memory.used == 512
    device.allocate(100)
    called = [call[0] for call in fake.calls if call[0] not in ("cuCtxGetCurrent",)]
    assert called == [
        *("cuCtxSynchronize", "cuMemFreeAsync", "cuMemFreeAsync", "cuMemAllocFromPoolAsync")
    ]
    assert device.memory.used == 256


def test_streams_wait_for_each_other(device: CudaAccelerator, fake: FakeDriver) -> None:
    own = device.stream_handle
    assert own and device.memory_kind == (2, 0)
    for wait, first, then in ((device.wait_for, 5, own), (device.hold_back, own, 5)):
        fake.names()
        wait(5)
        calls = [call for call in fake.calls if not call[0].startswith("cuCtx")]
        assert [call[0] for call in calls] == [
            *("cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2")
        ]
        event = calls[1][1]
        assert calls[1][2] == first and calls[2][1:3] == (then, event)


def test_a_routine_is_tried_by_a_capture(
    device: CudaAccelerator, fake: FakeDriver, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused call leaves the kernels; the error of a run would come too late."""
    routine = Routine(fake)
    stream = device.captures._stream(0).value
    fake.calls.clear()
    assert device.accepts(routine, 2) and device.memory.used == 0
    (call,) = [call for call in fake.calls if call[0] == "routine"]
    assert call[1] == stream and call[2] == call[3]
    names = fake.names()
    assert names[:3] == ["cuMemAllocFromPoolAsync", "cuStreamBeginCapture_v2", "routine"]
    assert names[-1] == "cuGraphExecDestroy" and "cuGraphLaunch" not in names
    assert device.accepts(routine, 2) and not fake.names()
    # the driver may compare a fill with the memory at its address
    large = Routine(fake)
    large.reach_bytes, large.workspace_bytes = 5000, 7000
    assert device.accepts(large, 2) and device.memory.used == 0
    assert next(c for c in fake.calls if c[0] == "cuMemAllocFromPoolAsync")[1] >= 7000
    fake.names()
    large = Routine(fake)
    large.reach_bytes = 8 * GIB
    assert not device.accepts(large, 2) and device.memory.used == 0
    fake.names()
    assert not caplog.records
    failing = Failing(fake)
    assert not device.accepts(failing, 1) and device.memory.used == 0
    assert "kernels of tfjit serve instead: cublasLtMatmul: status 13" in caplog.text


def test_routines_are_made_with_the_context_and_without_the_lock(
    device: CudaAccelerator, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(problem: object) -> str:
        assert fake.current == device.context._handle.value
        assert not device.lock._is_owned()  # type: ignore[attr-defined]
        return f"for {problem}"

    class Opening:
        def wait(self) -> None:
            assert not device.lock._is_owned()  # type: ignore[attr-defined]

    asked: list[str] = []
    monkeypatch.setattr(device._libraries, "opening", lambda name: asked.append(name) or Opening())
    monkeypatch.setattr(device._libraries, "routine", made)
    problem: Any = SimpleNamespace(library="cuNothing")
    assert device.routine(problem) == f"for {problem}"  # type: ignore[comparison-overlap]
    assert asked == ["cuNothing"]
    monkeypatch.setattr(driver, "_forked", True)
    monkeypatch.setattr(driver, "_functions", None)
    with pytest.raises(errors.FailedPreconditionError, match="by spawn"):
        device.routine(problem)


def test_a_finalizer_does_not_wait_for_the_lock(device: CudaAccelerator, fake: FakeDriver) -> None:
    """The lock's owner may wait for a lock that the finalizer's thread has."""
    address, program = device.allocate(100), device.program([launch(1)] * 3)
    program.start()
    device.pinned(8)
    gc.collect()
    fake.names()
    with device.lock:
        threads = [
            threading.Thread(target=program.close),
            threading.Thread(target=device.free, args=(address,)),
        ]
        for thread in threads:
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
        assert not fake.names() and device.memory.used == 256
    device.pinned(8)
    # a program's copies are done before page-locked memory is freed
    assert fake.names()[:5] == [
        *("cuEventSynchronize", "cuEventDestroy_v2", "cuGraphExecDestroy", "cuMemFreeAsync"),
        "cuMemFreeHost",
    ]
    assert device.memory.used == 0
