"""A library is opened once a device and checked; one that fails gives way to kernels."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernels.cuda.fake_cublaslt import FakeCublasLt, installed
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries.product_problem import ProductOperand, ProductProblem

pytestmark = pytest.mark.simulator


@pytest.fixture
def fake() -> Iterator[FakeCublasLt]:
    made = FakeCublasLt()
    with installed(made):
        yield made


def problem(n: int = 16, dtype: Any = d.float32) -> ProductProblem:
    one = ProductOperand(False, 0)
    return ProductProblem(dtype, dtype, 1, 8, n, 4, one, one)


def test_a_library_is_opened_and_checked_once(
    fake: FakeCublasLt, caplog: pytest.LogCaptureFixture
) -> None:
    device = SimulatedAccelerator()
    routine = device.routine(problem())
    assert routine is not None and routine.workspace_bytes == 4096 + 255
    assert device.routine(problem()) is routine
    assert device.routine(problem(32)) is not routine
    assert fake.calls.count("cublasLtCreate") == 1
    assert fake.calls.count("cublasLtMatmul") == 7  # the check: a product of each kind
    assert not caplog.records


def test_each_device_has_a_handle(fake: FakeCublasLt) -> None:
    devices = [SimulatedAccelerator() for _ in range(2)]
    assert all(device.routine(problem()) is not None for device in devices)
    assert fake.calls.count("cublasLtCreate") == 2


def test_descriptors_live_as_long_as_routines(fake: FakeCublasLt) -> None:
    device = SimulatedAccelerator()
    first = device.routine(problem())
    count = len(fake.objects)
    second = device.routine(problem(32))
    assert len(fake.objects) > count
    del second
    gc.collect()
    assert len(fake.objects) == count and first is not None


def test_memory_of_the_check_is_freed(fake: FakeCublasLt) -> None:
    device = SimulatedAccelerator()
    device.routine(problem())
    assert not device._allocations


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("cublasLtCreate", "cublasLtCreate: status 1: the text of the library"),
        ("cublasLtMatmul", r"cublasLtMatmul: status 1: the text of the library"),
        ("cublasLtMatmulAlgoGetHeuristic", "Heuristic: status 1: the text of the library"),
    ],
)
def test_a_library_that_fails_gives_way_with_one_warning(
    fake: FakeCublasLt, caplog: pytest.LogCaptureFixture, function: str, text: str
) -> None:
    fake.failing[function] = 1
    device = SimulatedAccelerator()
    assert device.routine(problem()) is None
    assert device.routine(problem(32)) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and record.name == "tfjit.kernels"
    message = record.getMessage()
    assert text in message and "kernels of tfjit serve instead" in message
    assert message.startswith("cuBLASLt") and "simulated GPU" in message
    assert function == "cublasLtCreate" or "cuBLASLt 13.10.0" in message


def test_wrong_results_give_way_with_a_warning(
    fake: FakeCublasLt, caplog: pytest.LogCaptureFixture
) -> None:
    fake.wrong = True
    assert SimulatedAccelerator().routine(problem()) is None
    assert "cuBLASLt product 5x3x7 float32 has wrong results" in caplog.text


def test_a_dtype_that_a_gpu_lacks_passes_the_check(fake: FakeCublasLt) -> None:
    fake.refuses = lambda epilogue, operand, result: operand.__name__ == "bfloat16"
    device = SimulatedAccelerator()
    assert device.routine(problem()) is not None
    assert device.routine(problem(dtype=d.bfloat16)) is None


@pytest.mark.parametrize("status", [8, 15])
def test_problems_without_algorithms_are_no_failures(
    fake: FakeCublasLt, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    fake.failing["cublasLtMatmulAlgoGetHeuristic"] = status
    assert SimulatedAccelerator().routine(problem()) is None
    assert not caplog.records


def test_a_missing_library_is_no_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed(None):
        assert SimulatedAccelerator().routine(problem()) is None
        assert not caplog.records
        monkeypatch.setenv("TFJIT_LOG", "kernels")
        assert SimulatedAccelerator().routine(problem()) is None
    assert "cuBLASLt is not used: none is installed" in caplog.text


def test_the_simulated_gpu_has_no_libraries() -> None:
    assert SimulatedAccelerator().routine(problem()) is None


def test_a_failure_with_one_problem_concerns_that_one(
    fake: FakeCublasLt, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TFJIT_LOG", "kernels")
    device = SimulatedAccelerator()
    assert device.routine(problem()) is not None
    fake.failing["cublasLtMatrixLayoutCreate"] = 3
    assert device.routine(problem(32)) is None
    assert "8x32x4 float32: cublasLtMatrixLayoutCreate: status 3" in caplog.text
    del fake.failing["cublasLtMatrixLayoutCreate"]
    assert device.routine(problem(32)) is not None
