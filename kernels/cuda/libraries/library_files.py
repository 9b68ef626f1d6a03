"""Find and open NVIDIA's libraries, as wheels or the system have them."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tfjit.framework import settings


class MissingLibrary(Exception):
    """A library is missing or turned off; the message says why."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One form of a library.

    folder: within site-packages/nvidia. file: its name there and for the system's loader.
    oldest_driver: version of CUDA, 13000 for 13.0, that the driver needs to have.
    """

    folder: str
    file: str
    oldest_driver: int


CUBLASLT: Final = (
    Candidate("cu13/lib", "libcublasLt.so.13", 13000),
    Candidate("cublas/lib", "libcublasLt.so.12", 12000),
)
CUDNN: Final = (Candidate("cudnn/lib", "libcudnn.so.9", 12000),)


@functools.cache
def are_on() -> bool:
    """Return whether this process may use libraries (TFJIT_CUDA_LIBRARIES)."""
    with settings.using(os.environ):
        return settings.flag("TFJIT_CUDA_LIBRARIES")


def open_library(candidates: tuple[Candidate, ...], driver_version: int) -> ctypes.CDLL:
    """Return the first library that opens.

    Those of wheels come before the system's. Raises MissingLibrary.
    """
    if not are_on():
        raise MissingLibrary("TFJIT_CUDA_LIBRARIES=0")
    fitting = [one for one in candidates if driver_version >= one.oldest_driver]
    reasons = []
    for place in (*filter(None, map(_wheel_file, fitting)), *(one.file for one in fitting)):
        try:
            _load(place)
            return ctypes.CDLL(place)
        except OSError as error:
            reasons.append(str(error))
    raise MissingLibrary("; ".join(reasons) or "none is for a driver as old as this machine's")


def open_cudnn(driver_version: int) -> ctypes.CDLL:
    """Return cuDNN, behind the cuBLASLt that it looks for by itself.

    Its own search reaches neighbours of its folder alone, and it ends the process where it finds
    none; a library that is loaded already is found. Raises MissingLibrary.
    """
    found = open_library(CUDNN, driver_version)
    found.cudnnGetCudartVersion.restype = ctypes.c_size_t
    cuda = found.cudnnGetCudartVersion() // 1000
    try:
        open_library(
            tuple([one for one in CUBLASLT if one.oldest_driver // 1000 == cuda]), driver_version
        )
    except MissingLibrary as error:
        raise MissingLibrary(f"it needs cuBLASLt of CUDA {cuda}: {error}") from None
    return found


@functools.cache
def is_installed(candidates: tuple[Candidate, ...]) -> bool:
    """Return whether a form of a library is installed for some driver.

    A wheel's file is not opened: opening is slow.
    """
    if are_on() and any(map(_wheel_file, candidates)):
        return True
    try:
        open_library(candidates, max(one.oldest_driver for one in candidates))
    except MissingLibrary:
        return False
    return True


def declare(library: ctypes.CDLL, signatures: Mapping[str, tuple[type, ...]]) -> None:
    """Set the argument types of functions.

    Raises MissingLibrary for one that is not there.
    """
    for name, arguments in signatures.items():
        try:
            getattr(library, name).argtypes = arguments
        except AttributeError:
            raise MissingLibrary(f"it has no function {name}") from None


def _load(place: str) -> None:
    """Load a library without the interpreter, which ctypes.CDLL holds meanwhile.

    Other threads run on. An error is left to ctypes.CDLL, which tells it.
    """
    if hasattr(os, "RTLD_LOCAL"):
        process = ctypes.CDLL(None)
        process.dlopen.restype = ctypes.c_void_p
        process.dlopen(os.fsencode(place), os.RTLD_NOW | os.RTLD_LOCAL)


def _wheel_file(candidate: Candidate) -> str | None:
    """Return the path of a candidate in an installed wheel, or None."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(place, candidate.folder, candidate.file)
        if os.path.exists(path):
            return path
    return None


__all__ = [
    "CUBLASLT",
    "CUDNN",
    "Candidate",
    "MissingLibrary",
    "are_on",
    "declare",
    "is_installed",
    "open_cudnn",
    "open_library",
]
