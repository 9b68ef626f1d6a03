"""Opening GPUs and the simulated one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tests.kernels.jit.processes import run_python
from tfjit.framework import errors
from tfjit.kernels.cuda.device import devices, driver


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(devices, "is_simulated", lambda: False)
    yield
    driver.properties.cache_clear()


def test_a_device_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(devices=2))
    assert len(devices.physical_memory()) == 2
    assert devices.open_device(1).number == 1
    with pytest.raises(errors.NotFoundError, match="no GPU:2: 2 are visible"):
        devices.open_device(2)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver()).failing["cuInit"] = 100
    with pytest.raises(errors.NotFoundError, match="no GPU:0: cuInit: CUDA_ERROR_NO_DEVICE"):
        devices.open_device(0)


def test_a_simulated_process(tmp_path: Path) -> None:
    """No driver and no compiler; a kernel of the store runs on the device."""
    done = run_python(
        """
        import sys
        from tests.kernels.cuda.texts import DOUBLE
        import numpy as np
        from tfjit.kernels.cuda.device import devices
        from tfjit.kernels.cuda.template import launches
        from tfjit.kernels.ir.accelerator import KernelLaunch
        from tfjit.kernels.jit.store import store

        source = launches.source(DOUBLE, 3, "double", "tests")
        store.compile([source])
        device = devices.open_device(0)
        address = device.allocate(20)
        device.write(address, np.arange(5, dtype=np.float32))
        kernel = store.lookup(source)["kernel"]
        program = device.program([KernelLaunch(kernel, (address, address, 5), (2, 1, 1), (3, 1, 1))])
        program.start()
        program.wait()
        found = np.empty(5, np.float32)
        device.read(found, address)
        print(devices.description(0), device.name, found.tolist(), "numba" in sys.modules)
        """,
        tmp_path,
        NUMBA_ENABLE_CUDASIM="1",
        PYTHONPATH=str(Path(__file__).parents[3]),
    )
    assert done.stdout.strip() == (
        "name: simulated GPU, compute capability: 0.0 simulated GPU [0.0, 2.0, 4.0, 6.0, 8.0] False"
    ), done.stderr
