"""The simulated GPU: memory, commands, and the mistakes that it finds."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda.texts import DOUBLE
from tfjit.framework import errors
from tfjit.kernels.cuda.device import simulator
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.ir.accelerator import Copy, Fill, KernelLaunch


@pytest.fixture(scope="module")
def double() -> int:
    return simulator.load(DOUBLE, ("kernel",), "double")["kernel"]


@pytest.fixture
def device() -> SimulatedAccelerator:
    return SimulatedAccelerator(1 << 20)


def test_a_program_runs_again_and_again(device: SimulatedAccelerator, double: int) -> None:
    n = 10
    source, target = device.allocate(4 * n), device.allocate(4 * n)
    assert source % 256 == 0 == target % 256
    fed, fetched = device.pinned(4 * n).view(np.float32), device.pinned(4 * n).view(np.float32)
    program = device.program(
        [
            Copy("in", source, fed.ctypes.data, 4 * n),
            Fill(target, 0xFF, 4 * n),
            KernelLaunch(double, (source, target, n), (3, 1, 1), (4, 1, 1)),
            Copy("within", source, target, 4 * n),
            Copy("out", fetched.ctypes.data, source, 4 * n),
        ]
    )
    assert program.launches == 1
    for start in (0, 5):
        fed[:] = np.arange(start, start + n)
        program.start()
        program.wait()
        np.testing.assert_array_equal(fetched, 2 * fed)
    program.close()


def test_write_read_copy(device: SimulatedAccelerator) -> None:
    first, second = device.allocate(24), device.allocate(24)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    device.write(first, array)
    device.copy(second + 8, first, 16)
    found = np.empty(4, np.float32)
    device.read(found, second + 8)
    np.testing.assert_array_equal(found, array.ravel()[:4])
    with pytest.raises(errors.InternalError, match="contiguous"):
        device.write(first, array[:, 1])


def test_the_limit(device: SimulatedAccelerator) -> None:
    device.memory_limit = 512
    first = device.allocate(300)
    with pytest.raises(errors.ResourceExhaustedError, match="OOM when allocating 1 bytes"):
        device.allocate(1)
    device.free(first)
    device.free(device.allocate(512))
    with pytest.raises(errors.InternalError, match="is no allocation"):
        device.free(first)


def test_a_kernel_that_writes_beyond_an_array(device: SimulatedAccelerator, double: int) -> None:
    source, target = device.allocate(64), device.allocate(16)
    program = device.program(
        [KernelLaunch(double, (source, target, 5), (1, 1, 1), (8, 1, 1)), Fill(source, 0, 4)]
    )
    program.start()
    with pytest.raises(errors.InternalError, match="a kernel wrote outside the 16 bytes"):
        program.wait()
    device.synchronize()  # told once


def test_copies_are_checked(device: SimulatedAccelerator) -> None:
    address, pageable = device.allocate(16), np.zeros(16, np.uint8)
    for command, reason in (
        (Copy("in", address, pageable.ctypes.data, 16), "are not page-locked host memory"),
        (Copy("out", pageable.ctypes.data, address, 16), "are not page-locked host memory"),
        (Copy("within", address, address + 8, 16), "are not allocated on the device"),
        (Fill(address - 4, 0, 4), "are not allocated on the device"),
    ):
        program = device.program([command])
        program.start()
        with pytest.raises(errors.InternalError, match=reason):
            program.wait()


def test_page_locked_memory_ends_with_its_array(device: SimulatedAccelerator) -> None:
    address = device.allocate(16)
    array = device.pinned(16)
    at = array.ctypes.data
    device.program([Copy("in", address, at, 16)]).start()
    device.synchronize()
    del array
    gc.collect()
    device.pinned(1 << 16)
    device.program([Copy("in", address, at, 16)]).start()
    with pytest.raises(errors.InternalError, match="page-locked"):
        device.synchronize()


def test_memory_that_was_page_locked_is_allocated(
    device: SimulatedAccelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of an array that is gone are those of an allocation later."""
    heap = np.full(1 << 13, 0xA5, np.uint8)
    offsets = iter((2048, 0))
    monkeypatch.setattr(np, "full", lambda n, *_: heap[(start := next(offsets)) : start + n])
    locked = device.pinned(64)
    inside = locked.ctypes.data + 64
    del locked
    gc.collect()
    address = device.allocate(4096)
    array = np.ones(64, np.uint8)
    assert address < inside - 64
    device.write(inside, array)
    device.read(array, inside)
    device.free(address)


def test_a_finalizer_frees_while_guards_are_checked(
    device: SimulatedAccelerator, double: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, others = device.allocate(40), device.allocate(40), [device.allocate(8)]
    check = SimulatedAccelerator._check_guards

    def collecting(self: SimulatedAccelerator, allocation: Any) -> None:
        while others:
            device.free(others.pop())
        check(self, allocation)

    monkeypatch.setattr(SimulatedAccelerator, "_check_guards", collecting)
    program = device.program([KernelLaunch(double, (source, target, 10), (3, 1, 1), (4, 1, 1))])
    program.start()
    program.wait()
    assert not others
