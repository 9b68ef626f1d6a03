"""Open the libraries of a device, and check their results."""

from __future__ import annotations

import importlib
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors, settings
from tfjit.kernels.cuda.libraries.library_files import MissingLibrary

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator, LibraryRoutine
    from tfjit.kernels.registry import LibraryProblem

_MODULES: Final = {"cuBLASLt": "cublaslt", "cuDNN": "cudnn"}
"""Modules of this folder with a function `open_for`, by library."""


class LibraryFailure(Exception):
    """A library refused or was wrong; the message has its words."""


class VendorLibrary(ABC):
    """A library with a handle for one device.

    The device's context is current in all calls. version: as the library tells it.
    """

    version: str

    @abstractmethod
    def check(self, accelerator: Accelerator) -> None:
        """Compute small problems with known results.

        Raises LibraryFailure where one differs.
        """

    @abstractmethod
    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        """Return the routine of a problem, None where the library has none.

        Raises LibraryFailure.
        """


class DeviceLibraries:
    """The libraries of one device.

    The accelerator calls with its lock held and its context current. A library that fails is left
    out from then on, with one warning: kernels serve instead.
    """

    def __init__(self, accelerator: Accelerator, driver_version: int) -> None:
        """Open nothing. driver_version: 13000 is for CUDA 13.0."""
        self._accelerator = weakref.proxy(accelerator)
        self._driver_version = driver_version
        self._opened: dict[str, VendorLibrary | None] = {}
        # routines live as long as the programs that use them
        self._routines: weakref.WeakValueDictionary[LibraryProblem, LibraryRoutine] = (
            weakref.WeakValueDictionary()
        )

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        """Return the routine of a problem, or None."""
        found = self._routines.get(problem)
        if found is not None:
            return found
        if problem.library not in self._opened:
            self._opened[problem.library] = self._open(problem.library)
        library = self._opened[problem.library]
        if library is None:
            return None
        try:
            made = library.routine(problem)
        except LibraryFailure as failure:
            settings.say("kernels", "%s: %s: %s", problem.library, problem.title, failure)
            return None
        if made is None:
            settings.say("kernels", "%s has no routine for %s", problem.library, problem.title)
        else:
            self._routines[problem] = made
        return made

    def _open(self, name: str) -> VendorLibrary | None:
        """Return a library that has passed its check, or None."""
        version = ""
        try:
            module = importlib.import_module(f"tfjit.kernels.cuda.libraries.{_MODULES[name]}")
            library: VendorLibrary = module.open_for(self._driver_version)
            version = f" {library.version}"
            library.check(self._accelerator)
        except MissingLibrary as missing:
            settings.say("kernels", "%s is not used: %s", name, missing)
            return None
        except (LibraryFailure, errors.OpError) as failure:
            settings.tell(
                "kernels",
                "%s%s is not used on %s, kernels of tfjit serve instead: %s",
                name,
                version,
                self._accelerator.name,
                failure,
            )
            return None
        settings.say("kernels", "%s%s is used on %s", name, version, self._accelerator.name)
        return library


__all__ = ["DeviceLibraries", "LibraryFailure", "VendorLibrary"]
