"""An accelerator over a driver that records its calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.accelerator import CudaAccelerator


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    yield install(monkeypatch, FakeDriver())
    driver.properties.cache_clear()


@pytest.fixture
def device(fake: FakeDriver) -> CudaAccelerator:
    made = CudaAccelerator(0)
    fake.calls.clear()
    return made
