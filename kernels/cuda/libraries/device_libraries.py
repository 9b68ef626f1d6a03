"""Open the libraries of a device, and check their results."""

from __future__ import annotations

import importlib
import threading
import weakref
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors, settings
from tfjit.kernels.cuda.libraries.library_files import MissingLibrary
from tfjit.kernels.cuda.libraries.passed_checks import PassedCheck
from tfjit.kernels.ir.accelerator import LibraryCall, RoutineFailed
from tfjit.kernels.ir.library_opening import LibraryOpening

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from tfjit.kernels.ir.accelerator import Accelerator, HostArray, LibraryRoutine
    from tfjit.kernels.registry import LibraryProblem

_MODULES: Final = {"cuBLASLt": "cublaslt", "cuDNN": "cudnn"}
"""Modules of this folder with a function `open_for`, by library."""
_END: Final = object()
_MOST_LACKING: Final = 4096


class LibraryFailure(Exception):
    """A library refused or was wrong; the message has its words."""


class VendorLibrary(ABC):
    """A library with a handle for one device.

    The device's context is current in all calls. version: as the library tells it.
    """

    version: str
    file: str | None
    """The path of the library, None where it cannot be told."""

    @abstractmethod
    def check(self, accelerator: Accelerator) -> Iterator[None]:
        """Compute small problems with known results; yield behind each.

        Raises LibraryFailure where one differs.
        """

    def remembered(self) -> str:
        """Return the findings of a passed check, as one line."""
        return ""

    def recall(self, text: str) -> bool:
        """Use the findings of a check in an earlier process.

        Returns whether the text is one of `remembered`.
        """
        return text == ""

    @abstractmethod
    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        """Return the routine of a problem, None where the library has none.

        Raises LibraryFailure.
        """


class DeviceLibraries:
    """The libraries of one device.

    The first question about a library opens and checks it, on another thread. A library that
    fails is left out from then on, with one warning: kernels serve instead. A passed check is
    recorded on disk, and later processes only open the library. Thread-safe.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        driver_version: int,
        capability: str = "",
        current: Callable[[], AbstractContextManager[None]] = nullcontext,
        apart: AbstractContextManager[object] | None = None,
    ) -> None:
        """Open nothing.

        driver_version: 13000 is for CUDA 13.0. capability: the device's, as text. current: makes
        the device's context current in a block. apart: no program is captured in its block, which
        may be entered again.
        """
        self._accelerator = weakref.ref(accelerator)
        self._name = accelerator.name
        self._driver_version, self._capability = driver_version, capability
        self._current, self._apart = current, apart or nullcontext()
        self._lock = threading.Lock()
        self._openings: dict[str, LibraryOpening] = {}
        self._opened: dict[str, VendorLibrary] = {}
        self._planning = threading.RLock()
        self._lacking: dict[LibraryProblem, None] = {}  # without a routine, or with a failed one
        # routines live as long as the programs that use them
        self._routines: weakref.WeakValueDictionary[LibraryProblem, LibraryRoutine] = (
            weakref.WeakValueDictionary()
        )

    def routine(self, problem: LibraryProblem) -> LibraryRoutine | None:
        """Return the routine of a problem, or None.

        Waits for the library. The device's context is current.
        """
        opening = self.opening(problem.library)
        if opening is not None:
            opening.wait()
        with self._planning:
            is_known, found = self.known(problem)
            if is_known:
                return found
            try:
                made = self._opened[problem.library].routine(problem)
            except LibraryFailure as failure:
                settings.say("kernels", "%s: %s: %s", problem.library, problem.title, failure)
                return None
            if made is None:
                settings.say("kernels", "%s has no routine for %s", problem.library, problem.title)
                self._note_lacking(problem)
            else:
                self._routines[problem] = made
            return made

    def known(self, problem: LibraryProblem) -> tuple[bool, LibraryRoutine | None]:
        """Return whether a problem's routine is known, and the routine or None."""
        if problem in self._lacking or problem.library not in self._opened:
            return True, None
        found = self._routines.get(problem)
        return found is not None, found

    def reject(self, routine: LibraryRoutine) -> None:
        """Answer from now on that a routine's problem has none."""
        with self._planning:
            for problem, one in list(self._routines.items()):
                if one is routine:
                    self._note_lacking(problem)
                    del self._routines[problem]

    def _note_lacking(self, problem: LibraryProblem) -> None:
        if len(self._lacking) >= _MOST_LACKING:
            self._lacking.pop(next(iter(self._lacking)))
        self._lacking[problem] = None

    def opening(self, name: str) -> LibraryOpening | None:
        """Return the opening of a library, None once it is done.

        The first call starts it.
        """
        with self._lock:
            found = self._openings.get(name)
            if found is None:
                found = self._openings[name] = LibraryOpening(name)
                found.start(self._open(name))
        return None if found.is_done else found

    def _open(self, name: str) -> Generator[None, None, bool]:
        """Open and check a library, by steps; return whether it has passed."""
        accelerator = self._accelerator()
        if accelerator is None:
            return False
        version = ""
        try:
            with self._current():
                module = importlib.import_module(f"tfjit.kernels.cuda.libraries.{_MODULES[name]}")
                library: VendorLibrary = module.open_for(self._driver_version, self._apart)
                version = f" {library.version}"
                record = self._record(name, library)
                remembered = record.found() if record is not None else None
                has_passed = remembered is not None and library.recall(remembered)
            if not has_passed:
                yield
                steps = library.check(accelerator)
                while self._has_step(steps):
                    yield
                if record is not None:
                    record.write(library.remembered())
        except MissingLibrary as missing:
            settings.say("kernels", "%s is not used: %s", name, missing)
            return False
        except (LibraryFailure, RoutineFailed, errors.OpError) as failure:
            settings.tell(
                "kernels",
                "%s%s is not used on %s, kernels of tfjit serve instead: %s",
                name,
                version,
                self._name,
                failure,
            )
            return False
        self._opened[name] = library
        settings.say("kernels", "%s%s is used on %s", name, version, self._name)
        return True

    def _has_step(self, steps: Iterator[None]) -> bool:
        """Take one step of a check; return whether there was one."""
        with self._current():
            return next(steps, _END) is None

    def _record(self, name: str, library: VendorLibrary) -> PassedCheck | None:
        """Return the record of a library's check.

        The answer is None where the library's file is unknown.
        """
        if library.file is None:
            return None
        device = f"{self._name}, {self._capability}"
        try:
            return PassedCheck(name, library.version, library.file, device, self._driver_version)
        except OSError as error:
            settings.say("kernels", "%s: %s", name, error)
            return None


def run_once(
    accelerator: Accelerator, routine: LibraryRoutine, arrays: Sequence[HostArray]
) -> None:
    """Run a routine on copies of arrays; read the last one back.

    It runs in a program, as those of graphs do. arrays: contiguous, by the routine's words, the
    result last.
    """
    places: list[int] = []
    try:
        for nbytes in (*(array.nbytes for array in arrays), routine.workspace_bytes):
            places.append(accelerator.allocate(max(nbytes, 1)))
        for place, array in zip(places, arrays):
            accelerator.write(place, array)
        program = accelerator.program([LibraryCall(routine, tuple(places))])
        try:
            program.start()
            program.wait()
        finally:
            program.close()
        accelerator.read(arrays[-1], places[-2])
    finally:
        for place in places:
            accelerator.free(place)


__all__ = ["DeviceLibraries", "LibraryFailure", "VendorLibrary", "run_once"]
