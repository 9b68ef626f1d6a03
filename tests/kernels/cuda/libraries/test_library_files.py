"""NVIDIA's libraries are found in wheels, then by the system, unless they are turned off."""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfjit.kernels.cuda.libraries import library_files
from tfjit.kernels.cuda.libraries.library_files import CUBLASLT, CUDNN, MissingLibrary


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TFJIT_CUDA_LIBRARIES", raising=False)
    library_files.are_on.cache_clear()
    yield
    library_files.are_on.cache_clear()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was asked of the loader; only files of `tmp_path` open."""
    asked: list[str] = []

    def open_file(place: str) -> Any:
        asked.append(place)
        if not place.startswith(str(tmp_path)):
            raise OSError(f"{place}: cannot open shared object file")
        return SimpleNamespace(place=place)

    monkeypatch.setattr(library_files, "_load", lambda place: None)
    monkeypatch.setattr(ctypes, "CDLL", open_file)
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: SimpleNamespace(submodule_search_locations=[str(tmp_path)]),
    )
    return asked


def add(folder: Path, name: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path)


def test_wheels_come_first(opened: list[str], tmp_path: Path) -> None:
    path = add(tmp_path, "cu13/lib/libcublasLt.so.13")
    add(tmp_path, "cublas/lib/libcublasLt.so.12")
    assert library_files.open_library(CUBLASLT, 13000).place == path  # type: ignore[attr-defined]
    assert opened == [path]


def test_an_older_driver_takes_the_older_library(opened: list[str], tmp_path: Path) -> None:
    add(tmp_path, "cu13/lib/libcublasLt.so.13")
    path = add(tmp_path, "cublas/lib/libcublasLt.so.12")
    assert library_files.open_library(CUBLASLT, 12080).place == path  # type: ignore[attr-defined]


def test_the_system_is_asked_behind_wheels(opened: list[str], tmp_path: Path) -> None:
    with pytest.raises(MissingLibrary, match=r"libcudnn.so.9: cannot open shared object file"):
        library_files.open_library(CUDNN, 13000)
    assert opened == ["libcudnn.so.9"]


@pytest.mark.parametrize(("cuda", "driver_version"), [(13, 13000), (12, 13000), (13, 12080)])
def test_cudnn_is_opened_with_its_cublaslt(
    opened: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cuda: int,
    driver_version: int,
) -> None:
    """cuDNN looks beside its own folder alone, and ends the process without it."""
    cudnn = add(tmp_path, "cudnn/lib/libcudnn.so.9")
    products = add(tmp_path, "cu13/lib/libcublasLt.so.13")
    open_file = ctypes.CDLL

    def open_cudnn(place: str) -> Any:
        found = open_file(place)

        def version() -> int:
            return 1000 * cuda + 50

        found.cudnnGetCudartVersion = version  # type: ignore[attr-defined]
        return found

    monkeypatch.setattr(ctypes, "CDLL", open_cudnn)
    if (cuda, driver_version) == (13, 13000):
        assert library_files.open_cudnn(driver_version).place == cudnn  # type: ignore[attr-defined]
        assert opened == [cudnn, products]
    else:
        with pytest.raises(MissingLibrary, match=f"it needs cuBLASLt of CUDA {cuda}: "):
            library_files.open_cudnn(driver_version)


def test_libraries_may_be_turned_off(
    opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFJIT_CUDA_LIBRARIES", "0")
    add(tmp_path, "cu13/lib/libcublasLt.so.13")
    with pytest.raises(MissingLibrary, match="TFJIT_CUDA_LIBRARIES=0"):
        library_files.open_library(CUBLASLT, 13000)
    assert opened == []


def test_a_library_without_a_function() -> None:
    library = ctypes.CDLL(None)
    library_files.declare(library, {"strlen": (ctypes.c_char_p,)})
    assert library.strlen(b"four") == 4
    with pytest.raises(MissingLibrary, match="it has no function cublasLtNothing"):
        library_files.declare(library, {"cublasLtNothing": ()})


def test_libraries_that_are_installed(opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ask = library_files.is_installed.__wrapped__
    assert not ask(CUDNN) and opened == ["libcudnn.so.9"]
    monkeypatch.setattr(library_files, "_wheel_file", lambda one: None)
    monkeypatch.setattr(ctypes, "CDLL", lambda place: SimpleNamespace(place=place))
    assert ask(CUDNN) and ask(CUBLASLT)
    monkeypatch.setattr(library_files, "_wheel_file", lambda one: "somewhere")
    monkeypatch.setattr(ctypes, "CDLL", None)  # a wheel's is not opened
    assert ask(CUDNN)
    monkeypatch.setenv("TFJIT_CUDA_LIBRARIES", "0")
    library_files.are_on.cache_clear()
    assert not ask(CUDNN)
