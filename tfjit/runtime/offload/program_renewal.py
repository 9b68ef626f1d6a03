"""Replace a graph's program by one with routines of libraries."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings
from tfjit.framework.errors import OpError, ResourceExhaustedError
from tfjit.kernels.ir.accelerator import RoutineFailed
from tfjit.kernels.registry import Unsupported

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.offload.device_program import DeviceProgram
    from tfjit.runtime.offload.graph_form import GraphForm

_LEAST_TIMES: Final = 8
"""A device with room for this number prepares programs early."""


class ProgramRenewal:
    """The renewal of one program of a `GraphForm`.

    numbers: of the program in the form. Form and program may be gone by the time it is made.
    """

    def __init__(self, form: GraphForm, numbers: tuple[bytes, ...], program: DeviceProgram) -> None:
        self._form, self._old = weakref.ref(form), weakref.ref(program)
        self._numbers = numbers
        self._new: DeviceProgram | None = None

    def make(self) -> Sequence[KernelSource]:
        """Make the new program; return its kernels."""
        form, old = self._form(), self._old()
        if form is None or old is None:
            return ()
        try:
            made = form.remade(old)
        except (Unsupported, OpError) as why:
            settings.say("kernels", "a program keeps its kernels: %s", why)
            return ()
        if made.routines == old.routines:
            old.unplanned = False
            form.await_libraries(self._numbers, old, made)
            return ()
        self._new = made
        return made.sources

    def replace(self) -> None:
        """Let runs take the new program once its kernels are loaded.

        The addresses of the old one's runs are made ready first, so that no run waits for the
        capture of routines.
        """
        form, old, new = self._form(), self._old(), self._new
        self._new = None
        if form is None or new is None:
            return
        lookup = form.lookup
        if any(lookup(source) is None for source in new.sources):
            settings.say("kernels", "a program keeps its kernels: others are refused")
            return
        if old is not None and new.device_bytes * _LEAST_TIMES <= form.memory_limit:
            try:
                new.prepare(old, lookup)
            except ResourceExhaustedError:
                new.close()  # the first run has the memory of the old one
            except RoutineFailed as failure:
                form.note_failure(failure)
                new.unplanned = True  # another one is made without that routine
                form.await_libraries(self._numbers, old, new)
                return
            except OpError as why:
                settings.tell("kernels", "a program keeps its kernels: %s", why)
                return
        form.replace(self._numbers, new)


__all__ = ["ProgramRenewal"]
