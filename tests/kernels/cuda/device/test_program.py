"""Programs, by the calls that a fake driver gets."""

from __future__ import annotations

import threading

import pytest

from tests.kernels.cuda.device.recorded import Routine, launch
from tests.kernels.cuda.fake_driver import FakeDriver, launched_words
from tfjit.framework import errors
from tfjit.kernels.cuda.device.accelerator import CudaAccelerator
from tfjit.kernels.ir.accelerator import Copy, Fill, LibraryCall


def test_short_programs_are_queued_directly(device: CudaAccelerator, fake: FakeDriver) -> None:
    program = device.program([Copy("within", 0x100, 0x200, 8), launch(1, -2, 2**63 + 5)])
    assert program.launches == 1 and not fake.calls
    program.start()
    call = next(call for call in fake.calls if call[0] == "cuLaunchKernel")
    assert call[2:10] == (7, 2, 1, 64, 1, 1, 0, device.stream.value)
    assert launched_words(call) == (1, -2, 5 - 2**63)
    assert fake.names() == [
        *("cuKernelGetFunction", "cuEventCreate"),
        *("cuMemcpyDtoDAsync_v2", "cuLaunchKernel", "cuEventRecord"),
    ]
    program.start()
    assert fake.names() == ["cuMemcpyDtoDAsync_v2", "cuLaunchKernel", "cuEventRecord"]
    program.wait()
    assert fake.names() == ["cuEventSynchronize"]


def test_long_programs_become_a_graph_once(device: CudaAccelerator, fake: FakeDriver) -> None:
    program = device.program(
        [
            Copy("in", 0x100, 0x9000, 64),
            Fill(0x300, 0x1FF, 32),
            launch(0x100, 3),
            Copy("out", 0x9100, 0x100, 64),
            Copy("out", 0x9100, 0x100, 0),
        ]
    )
    program.start()
    captured = [call for call in fake.calls if call[0].startswith(("cuMem", "cuLaunch"))]
    (stream,) = {call[9 if call[0] == "cuLaunchKernel" else -1] for call in captured}
    assert stream != device.stream.value
    assert ("cuMemsetD8Async", 0x300, 0xFF, 32, stream) in fake.calls
    assert fake.names() == [
        *("cuStreamCreate", "cuKernelGetFunction", "cuStreamBeginCapture_v2"),
        *("cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2"),
        *("cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy"),
        *("cuEventCreate", "cuGraphLaunch", "cuEventRecord"),
    ]
    program.start()
    launched = [call for call in fake.calls if call[0] == "cuGraphLaunch"]
    assert launched[0][-1] == device.stream.value
    assert fake.names() == ["cuGraphLaunch", "cuEventRecord"]
    program.close()
    assert fake.names() == ["cuEventSynchronize", "cuEventDestroy_v2", "cuGraphExecDestroy"]
    program.close()
    assert not fake.names()
    with pytest.raises(errors.InternalError, match="closed program"):
        program.start()


def test_an_empty_program(device: CudaAccelerator, fake: FakeDriver) -> None:
    program = device.program([])
    program.wait()
    program.start()
    program.wait()
    assert fake.names() == ["cuEventCreate", "cuEventRecord", "cuEventSynchronize"]


def test_a_failed_kernel_is_told_by_wait(device: CudaAccelerator, fake: FakeDriver) -> None:
    program = device.program([launch(1)])
    program.start()
    fake.failing["cuEventSynchronize"] = 700
    with pytest.raises(errors.InternalError, match="ILLEGAL_ADDRESS.*start it again"):
        program.wait()


def test_programs_of_several_threads_do_not_mix(device: CudaAccelerator, fake: FakeDriver) -> None:
    programs = [device.program([launch(n), Fill(0x100, 0, 8), launch(n)]) for n in range(8)]
    threads = [threading.Thread(target=program.start) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    inside: list[int] = []
    for call in fake.calls:
        if call[0] == "cuLaunchKernel":
            inside.append(launched_words(call)[0])
        elif call[0] == "cuStreamEndCapture":
            assert len(inside) == 2 and inside[0] == inside[1]
            inside.clear()


def test_a_library_is_called_while_a_graph_is_captured(
    device: CudaAccelerator, fake: FakeDriver
) -> None:
    stream = device.captures._stream(0).value
    fake.calls.clear()
    program = device.program([LibraryCall(Routine(fake), (0x100, 0x200))])
    assert program.launches == 1
    program.start()
    assert ("routine", stream, 0x100, 0x200) in fake.calls
    assert fake.names() == [
        *("cuStreamBeginCapture_v2", "routine", "cuStreamEndCapture"),
        *("cuGraphInstantiateWithFlags", "cuGraphDestroy"),
        *("cuEventCreate", "cuGraphLaunch", "cuEventRecord"),
    ]
    program.start()
    assert fake.names() == ["cuGraphLaunch", "cuEventRecord"]


def test_freeing_at_the_end_of_the_process(device: CudaAccelerator, fake: FakeDriver) -> None:
    """The driver may have gone before the last program."""
    address, program = device.allocate(8), device.program([launch(1)] * 3)
    program.start()
    for name in ("cuMemFreeAsync", "cuEventSynchronize", "cuGraphExecDestroy"):
        fake.failing[name] = 4
    device.free(address)
    program.close()
    fake.failing["cuGraphExecDestroy"] = 1
    other = device.program([launch(1)] * 3)
    other.start()
    with pytest.raises(errors.InternalError, match="cuGraphExecDestroy: error 1"):
        other.close()
