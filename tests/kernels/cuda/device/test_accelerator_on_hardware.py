"""What only a GPU shows: kernels run, captures replay, errors are the driver's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.cuda.texts import need_numba_cuda, scale_by
from tests.kernels.jit.processes import run_python
from tfjit.framework import errors
from tfjit.kernels.cuda.device import devices, driver, stream_plan
from tfjit.kernels.cuda.device.architecture import is_simulated
from tfjit.kernels.cuda.device.context import Context
from tfjit.kernels.cuda.device.program import CudaProgram
from tfjit.kernels.ir.accelerator import (
    Accelerator,
    Command,
    CommandOrder,
    Copy,
    Fill,
    KernelLaunch,
)
from tfjit.kernels.jit.store import KernelStore

pytestmark = pytest.mark.gpu
COUNT, REASON = driver.device_count()
if is_simulated() or not COUNT:
    pytest.skip(f"no CUDA driver: {REASON or 'a simulated GPU'}", allow_module_level=True)


@pytest.fixture(scope="module")
def device() -> Accelerator:
    return devices.open_device(0)


@pytest.fixture(scope="module")
def triple(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    need_numba_cuda()
    store = KernelStore(tmp_path_factory.mktemp("store"))
    store.compile([scale_by(3)])
    yield (store.lookup(scale_by(3)) or {})["kernel"]
    store.close()


def test_facts(device: Accelerator) -> None:
    assert device.name and device.memory_bytes > 1 << 30
    assert driver.driver_version() >= 12000
    assert 0 < Context(0).free_bytes() <= device.memory_bytes


def test_write_copy_read(device: Accelerator) -> None:
    x = np.random.default_rng(1).normal(size=(257, 33)).astype(np.float32)
    first, second = device.allocate(x.nbytes), device.allocate(x.nbytes)
    assert first % 256 == 0 == second % 256
    device.write(first, x)
    device.copy(second, first, x.nbytes)
    found = np.empty_like(x)
    device.read(found, second)
    np.testing.assert_array_equal(found, x)
    device.free(first)
    device.free(second)


def test_branches_of_a_program(device: Accelerator, triple: int) -> None:
    """Two chains with large copies around them, captured in several streams, again and again."""
    n, length = 1 << 20, 6
    source = [device.allocate(4 * n) for _ in range(2)]
    target = [device.allocate(4 * n) for _ in range(2)]
    fed = [device.pinned(4 * n).view(np.float32) for _ in range(2)]
    fetched = [device.pinned(4 * n).view(np.float32) for _ in range(2)]
    commands: list[Command] = []
    follows: list[tuple[int, ...]] = []
    for k in range(2):
        commands.append(Copy("in", source[k], fed[k].ctypes.data, 4 * n))
        follows.append(())
        for step in range(length):
            words = (source[k], target[k], n) if step % 2 == 0 else (target[k], source[k], n)
            commands.append(KernelLaunch(triple, words, (-(-n // 64), 1, 1), (64, 1, 1)))
            follows.append((len(commands) - 2,))
        commands.append(Copy("out", fetched[k].ctypes.data, source[k], 4 * n))
        follows.append((len(commands) - 2,))
    moved = tuple(0 if isinstance(c, KernelLaunch) else 4 * n for c in commands)
    order = CommandOrder(tuple(follows), moved, (0,) * len(commands))
    plan = stream_plan.plan_streams([stream_plan.Work(50.0)] * len(commands), order.follows)
    assert plan.streams == 2
    program = CudaProgram(device, commands, plan)  # type: ignore[arg-type]
    for start in range(5):
        for k in range(2):
            fed[k][:] = np.arange(start + k, start + k + n) % 1000
        program.start()
        program.wait()
        for k in range(2):
            np.testing.assert_array_equal(fetched[k], 3**length * fed[k])
    program.close()
    for address in (*source, *target):
        device.free(address)


@pytest.mark.parametrize("launches", [1, 5])
def test_a_program_runs_again(device: Accelerator, triple: int, launches: int) -> None:
    """Queued directly, and as a graph."""
    n = 1000
    source, target = device.allocate(4 * n), device.allocate(4 * n)
    fed, fetched = device.pinned(4 * n).view(np.float32), device.pinned(4 * n).view(np.float32)
    grid = (-(-n // 64), 1, 1)
    commands = [
        Copy("in", source, fed.ctypes.data, 4 * n),
        Fill(target, 0, 4 * n),
        *[KernelLaunch(triple, (source, target, n), grid, (64, 1, 1))] * launches,
        Copy("out", fetched.ctypes.data, target, 4 * n),
    ]
    # the first one in parts of two commands, so that none becomes a graph
    parts = [commands[:2], commands[2:]] if launches == 1 else [commands]
    programs = [device.program(part) for part in parts]
    for start in (0, 7):
        fed[:] = np.arange(start, start + n)
        for program in programs:
            program.start()
        programs[-1].wait()
        np.testing.assert_array_equal(fetched, 3 * fed)
    for program in programs:
        program.close()
    device.free(source)
    device.free(target)


def test_out_of_memory(device: Accelerator) -> None:
    with pytest.raises(errors.ResourceExhaustedError, match="OOM when allocating"):
        device.allocate(1 << 50)
    device.free(device.allocate(1 << 20))


def test_a_cached_kernel_loads_in_a_millisecond(device: Accelerator, tmp_path: Path) -> None:
    need_numba_cuda()
    KernelStore(tmp_path).compile([scale_by(4)])
    warm = KernelStore(tmp_path)
    assert warm.load([scale_by(4)])
    assert warm.counters.load_ms < 10


def test_an_illegal_address_ends_the_process_use_of_the_gpu(tmp_path: Path) -> None:
    need_numba_cuda()
    done = run_python(
        """
        from tests.kernels.cuda.texts import scale_by
        from tfjit.framework import errors
        from tfjit.kernels.cuda.device import devices
        from tfjit.kernels.ir.accelerator import KernelLaunch
        from tfjit.kernels.jit.store import store

        store.compile([scale_by(3)])
        device = devices.open_device(0)
        launch = KernelLaunch(store.lookup(scale_by(3))["kernel"], (4, 4, 9), (1, 1, 1), (64, 1, 1))
        program = device.program([launch])
        program.start()
        for wait in (program.wait, device.synchronize):
            try:
                wait()
            except errors.InternalError as error:
                print(error.message)
        """,
        tmp_path,
        PYTHONPATH=str(Path(__file__).parents[3]),
    )
    first, second = done.stdout.splitlines()
    assert "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)" in first, done.stderr
    assert "This process cannot use the GPU any more" in second
