"""The driver's functions: initialization, contexts, errors, forks. No GPU is needed."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import re
from pathlib import Path

import pytest

from tests.kernels.cuda.fake_driver import FakeDriver, install
from tfjit.framework import errors
from tfjit.kernels.cuda.device import driver


def test_devices(fake: FakeDriver) -> None:
    assert driver.device_count() == (1, "")
    found = driver.properties(0)
    assert (found.name, found.compute_capability) == ("Fake GPU", (9, 0))
    assert found.memory_bytes == 4 << 30
    assert (found.multiprocessors, found.shared_bytes, found.has_pools) == (132, 232448, True)
    assert driver.driver_version() == 13000
    assert [call[0] for call in fake.calls].count("cuInit") == 1


def test_no_device_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = install(monkeypatch, FakeDriver())
    fake.failing["cuInit"] = 100
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    count, reason = driver.device_count()
    assert count == 0
    assert reason == (
        "cuInit: CUDA_ERROR_NO_DEVICE (100): the text of the driver (CUDA_VISIBLE_DEVICES='-1')"
    )
    driver.device_count()
    assert [call[0] for call in fake.calls].count("cuInit") == 1  # it may take a second


def test_all_devices_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(devices=0))
    assert driver.device_count() == (0, "the driver sees no device")


def test_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    opened = driver._open_library
    install(monkeypatch, FakeDriver())
    monkeypatch.setattr(driver, "_open_library", opened)
    monkeypatch.setattr(ctypes, "CDLL", missing)
    count, reason = driver.device_count()
    assert count == 0 and reason.startswith("no NVIDIA driver is installed: libcuda.so.1")


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = driver._open_library
    fake = install(monkeypatch, FakeDriver(version=11040))
    monkeypatch.setattr(driver, "_open_library", opened)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: fake)
    count, reason = driver.device_count()
    assert count == 0
    assert "for CUDA 11.4, and tfjit needs one for CUDA 12.0 or later" in reason


def test_a_failing_call_names_itself(fake: FakeDriver) -> None:
    fake.failing["cuStreamSynchronize"] = 700
    with pytest.raises(errors.InternalError) as caught:
        driver.call("cuStreamSynchronize", None)
    assert caught.value.message == (
        "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700): the text of the driver. This "
        "process cannot use the GPU any more: start it again"
    )
    fake.failing["cuStreamSynchronize"] = 999
    with pytest.raises(errors.InternalError, match="cuStreamSynchronize: error 999"):
        driver.call("cuStreamSynchronize", None)


def test_load_kernels(fake: FakeDriver) -> None:
    found = driver.load_kernels(b"cubin", {"kernel": "k_1", "other": "k_2"})
    assert set(found) == {"kernel", "other"} and len(set(found.values())) == 2
    assert [call[-1] for call in fake.calls if call[0] == "cuLibraryGetKernel"] == [b"k_1", b"k_2"]


def test_a_cubin_for_another_gpu(fake: FakeDriver) -> None:
    fake.failing["cuLibraryLoadData"] = 209
    with pytest.raises(driver.BadImage, match=r"NO_BINARY_FOR_GPU \(209\).*for CUDA 13.0"):
        driver.load_kernels(b"cubin", {"kernel": "k"})


def test_a_cubin_without_its_kernel(fake: FakeDriver) -> None:
    fake.failing["cuLibraryGetKernel"] = 500
    with pytest.raises(driver.BadImage, match=r"cuLibraryGetKernel\(k\)"):
        driver.load_kernels(b"cubin", {"kernel": "k"})


def test_no_driver_loads_no_cubin(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver()).failing["cuInit"] = 100
    with pytest.raises(driver.BadImage, match="CUDA_ERROR_NO_DEVICE"):
        driver.load_kernels(b"cubin", {"kernel": "k"})


def _in_child() -> str:
    count, reason = driver.device_count()
    try:
        driver.call("cuStreamSynchronize", None)
    except errors.FailedPreconditionError as error:
        return f"{count}: {reason == error.message}: {error.message}"
    return "no error"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_is_told(fake: FakeDriver) -> None:
    driver.functions()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        told = pool.apply(_in_child)
    assert told.startswith("0: True: CUDA cannot be used in a forked child")
    assert "spawn" in told
    driver.call("cuStreamSynchronize", None)  # the parent goes on


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_process_without_cuda_may_use_it(fake: FakeDriver) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(driver.device_count) == (1, "")


def test_signatures_are_those_of_the_header() -> None:
    """The numbers of parameters, from cuda.h where the wheels of CUDA are installed."""
    nvidia = pytest.importorskip("nvidia", reason="the wheels of CUDA are not installed")
    headers = [p for place in nvidia.__path__ for p in Path(place).glob("*/include/cuda.h")]
    if not headers:
        pytest.skip("the wheels of CUDA have no cuda.h")
    text = headers[0].read_text(encoding="utf-8", errors="replace")
    for name, arguments in {**driver._SIGNATURES, **driver._LATER_SIGNATURES}.items():
        plain = re.sub(r"_v\d+$", "", name)
        if plain == "cuGraphInstantiateWithFlags":
            plain = "cuGraphInstantiate"
        declared = re.search(rf"CUDAAPI {plain}\(([^)]*)\);", text)
        assert declared, name
        parameters = [] if declared[1] == "void" else declared[1].split(",")
        assert len(parameters) == len(arguments), name
        if plain != name:
            assert re.search(rf"#\s*define {plain}\s.*\b{name}\b", text), name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_lock_that_another_thread_holds_is_free_in_a_child(fake: FakeDriver) -> None:
    """The child raises its error instead of waiting for ever."""
    driver.functions()
    lock = driver.fork_safe_lock()
    lock.acquire()
    held = multiprocessing.get_context("fork").Pool(1, initializer=lock.acquire)
    with held as pool:
        assert pool.apply(_in_child).startswith("0: True")
    lock.release()


def test_a_lost_context_is_told_once(fake: FakeDriver, caplog: pytest.LogCaptureFixture) -> None:
    """Finalizers go on in silence, and later errors name the first one."""
    assert not driver.is_lost()
    fake.failing["cuEventDestroy_v2"] = fake.failing["cuMemFreeAsync"] = 700
    driver.release("cuEventDestroy_v2", 0x100)
    driver.release("cuMemFreeAsync", 0x100, None)
    (record,) = caplog.records
    assert record.getMessage().startswith("cuEventDestroy_v2: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
    assert driver.is_lost()
    fake.failing["cuStreamSynchronize"] = 719
    with pytest.raises(
        errors.InternalError,
        match=r"error 719 \(the first such error: cuEventDestroy_v2: .*start it",
    ):
        driver.call("cuStreamSynchronize", None)


def test_no_memory_is_a_resource_that_is_exhausted(fake: FakeDriver) -> None:
    fake.failing["cuStreamCreate"] = 2
    with pytest.raises(errors.ResourceExhaustedError, match="cuStreamCreate: .*OUT_OF_MEMORY"):
        driver.call("cuStreamCreate", None, 1)
