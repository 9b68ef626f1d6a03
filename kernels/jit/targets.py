"""Declare the protocol of kernel targets: devices beside the host.

A KernelSource with a `target` is compiled, named and loaded as its target says; the store keeps it
like any other kernel. Targets are registered as text, so that nothing of a device is imported
before a source asks for it.
"""

from __future__ import annotations

import functools
import importlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors

if TYPE_CHECKING:
    from tfjit.kernels.jit.object_file import ObjectFile
    from tfjit.kernels.source import KernelSource


class Target(ABC):
    """Describe one kind of device to the kernel store.

    compiler: a module with `compile_text(text, entries, arity, filename, unique, architecture)`,
    which the compiler process calls. interprets: kernels run as Python in this process, without
    the disk and the compiler process.
    """

    compiler = ""
    interprets = False

    @abstractmethod
    def architecture(self) -> str:
        """Return the name of the instruction set to compile for.

        Raises NoCompiler where there is no device.
        """

    @abstractmethod
    def environment(self) -> str:
        """Return all that decides object code besides texts and imports.

        Raises NoCompiler where the compiler is not installed.
        """

    def load(self, obj: ObjectFile) -> dict[str, int]:
        """Load an object; return the handle of each entry. Raises LoadError."""
        raise errors.InternalError(None, None, "kernels that are interpreted have no object")

    def interpret(self, source: KernelSource) -> dict[str, int]:
        """Return the handles of a source that needs no compiler."""
        raise errors.InternalError(None, None, f"kernels for {source.target} are compiled")


# as text, so that nothing of the device is imported before a source asks for it
_FACTORIES: Final = {"cuda": "tfjit.kernels.cuda.device.modules:cuda_target"}


@functools.cache
def find_target(name: str) -> Target:
    """Return a registered target. Raises NotFoundError."""
    factory = _FACTORIES.get(name)
    if factory is None:
        raise errors.NotFoundError(None, None, f"no kernel target {name!r} is registered")
    module, _, function = factory.partition(":")
    made: Target = getattr(importlib.import_module(module), function)()
    return made


__all__ = ["Target", "find_target"]
