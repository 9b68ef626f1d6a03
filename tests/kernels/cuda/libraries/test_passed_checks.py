"""A passed check is recorded on disk; later processes only open the library."""

from __future__ import annotations

import ctypes
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernels.cuda.fake_cublaslt import FakeCublasLt, installed
from tests.kernels.cuda.libraries.fake_cudnn import FakeCudnn
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.cuda.libraries import library_files, passed_checks
from tfjit.kernels.cuda.libraries.cudnn import Cudnn
from tfjit.kernels.cuda.libraries.device_libraries import DeviceLibraries
from tfjit.kernels.cuda.libraries.passed_checks import FOLDER, path_of
from tfjit.kernels.cuda.libraries.product_problem import ProductOperand, ProductProblem

pytestmark = pytest.mark.simulator
OPERAND = ProductOperand(False, 0)
PROBLEM = ProductProblem(d.float32, d.float32, 1, 8, 16, 4, OPERAND, OPERAND)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    made = tmp_path / "lib" / "libcublasLt.so.13"
    made.parent.mkdir()
    made.write_bytes(b"code")
    return made


@pytest.fixture
def fake(wheel: Path) -> Iterator[FakeCublasLt]:
    made = FakeCublasLt()
    made._name = str(wheel)  # type: ignore[attr-defined]  # as ctypes.CDLL has it
    with installed(made):
        yield made


def products(fake: FakeCublasLt, capability: str = "9.0", driver: int = 13000) -> int:
    """Return the number of products by which a new process checks the library."""
    before = fake.calls.count("cublasLtMatmul")
    device = SimulatedAccelerator()
    routine = DeviceLibraries(device, driver, capability).routine(PROBLEM)
    assert routine is not None
    return fake.calls.count("cublasLtMatmul") - before


def records(cache: Path) -> list[Path]:
    return sorted((cache / FOLDER).iterdir())


def test_a_passed_check_is_not_repeated(fake: FakeCublasLt, cache: Path) -> None:
    assert products(fake) == 7
    assert products(fake) == 0
    (record,) = records(cache)
    assert stat.S_IMODE((cache / FOLDER).stat().st_mode) == 0o700
    assert stat.S_IMODE(record.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", [b"", b"[]\n\n", b"\xff\n\n", b"half", b"another way"])
def test_a_damaged_record_is_none(fake: FakeCublasLt, cache: Path, text: bytes) -> None:
    assert products(fake) == 7
    (record,) = records(cache)
    whole = record.read_bytes()
    halves = {b"half": whole[: len(whole) // 2], b"another way": whole[:-1] + b"by luck\n"}
    record.write_bytes(halves.get(text, text))
    assert products(fake) == 7
    assert record.read_bytes() == whole and products(fake) == 0


def test_other_facts_are_checked_again(
    fake: FakeCublasLt, wheel: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert products(fake) == 7
    assert products(fake, driver=13010) == 7
    assert products(fake, driver=13010, capability="8.0") == 7
    assert len(records(cache)) == 2  # one for each device
    assert products(fake, driver=13010) == 0
    os.utime(wheel, (1, 1))
    assert products(fake, driver=13010) == 7
    wheel.with_name("libcublasLt_part.so.13").touch()
    assert products(fake, driver=13010) == 7
    monkeypatch.setattr(passed_checks, "code_digest", lambda: "of other code")
    assert products(fake, driver=13010) == 7
    monkeypatch.setattr(fake, "cublasLtGetVersion", ctypes.CFUNCTYPE(ctypes.c_size_t)(lambda: 1))
    assert products(fake, driver=13010) == 7
    assert products(fake, driver=13010) == 0


def test_a_failed_check_is_not_recorded(fake: FakeCublasLt, cache: Path) -> None:
    fake.wrong = True
    device = SimulatedAccelerator()
    assert DeviceLibraries(device, 13000).routine(PROBLEM) is None
    assert not (cache / FOLDER).exists()
    fake.wrong = False
    assert products(fake) == 7


def test_without_a_directory_each_process_checks(
    fake: FakeCublasLt, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache.write_text("a file in its place")
    with caplog.at_level(logging.INFO, logger="tfjit.kernels"):
        assert products(fake) == 7
    assert "the passed check of a library is not recorded" in caplog.text
    assert products(fake) == 7


def test_a_library_of_unknown_place_is_checked(fake: FakeCublasLt, cache: Path) -> None:
    del fake._name  # type: ignore[attr-defined]
    assert products(fake) == products(fake) == 7
    fake._name = str(cache / "gone.so")  # type: ignore[attr-defined]
    assert products(fake) == products(fake) == 7
    assert not (cache / FOLDER).exists()


def test_the_way_to_name_a_device_is_remembered(wheel: Path) -> None:
    fake: Any = FakeCudnn()
    fake._name, fake.knows_handles = str(wheel), False

    def opened(candidates: object, driver_version: int) -> Any:
        return fake

    def library() -> Cudnn:
        device = SimulatedAccelerator()
        libraries = DeviceLibraries(device, 13000)
        opening = libraries.opening("cuDNN")
        assert opening is None or opening.wait(60)
        found = libraries._opened["cuDNN"]
        assert isinstance(found, Cudnn)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_files, "open_library", opened)
        assert library().remembered() == "by descriptor"
        count = len(fake.executed)
        assert count == 13 and library().remembered() == "by descriptor"
        assert len(fake.executed) == count


def test_the_path_of_a_library() -> None:
    maths = ctypes.CDLL("libm.so.6")
    path = path_of(maths)
    assert path is not None and os.path.exists(path) and os.path.basename(path)[:4] == "libm"
    assert path_of(ctypes.CDLL(path)) == path
    assert path_of(ctypes.CDLL(None)) is None
