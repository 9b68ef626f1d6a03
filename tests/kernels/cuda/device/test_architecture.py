"""The architecture of kernels: the variable, the first GPU, the simulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tfjit.kernels.cuda.device import architecture as module
from tfjit.kernels.cuda.device import driver
from tfjit.kernels.jit.loader import NoCompiler


def forget() -> None:
    module.architecture.cache_clear()
    module.is_simulated.cache_clear()
    driver.properties.cache_clear()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TFJIT_CUDA_ARCH", raising=False)
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    forget()
    yield
    forget()


def test_the_first_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver()).attributes |= {75: 8, 76: 6}
    assert module.architecture() == "sm_86"


def test_the_variable_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeDriver())
    monkeypatch.setenv("TFJIT_CUDA_ARCH", "sm_100")
    assert module.architecture() == "sm_100"
    assert not fake.calls


def test_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(devices=0))
    with pytest.raises(NoCompiler, match="the driver sees no device.*set TFJIT_CUDA_ARCH"):
        module.architecture()


def test_a_malformed_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_CUDA_ARCH", "hopper")
    with pytest.raises(ValueError, match="'hopper' is no architecture of a GPU"):
        module.architecture()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("sm_75", (7, 5, "")),
        ("sm_90a", (9, 0, "a")),
        ("sm_100", (10, 0, "")),
        ("sm_121f", (12, 1, "f")),
    ],
)
def test_parts(name: str, parts: tuple[int, int, str]) -> None:
    assert module.compute_capability(name) == parts


@pytest.mark.parametrize(("value", "simulated"), [("1", True), ("0", False), ("", False)])
def test_simulated(monkeypatch: pytest.MonkeyPatch, value: str, simulated: bool) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", value)
    assert module.is_simulated() is simulated
    if simulated:
        assert module.architecture() == module.SIMULATED
