"""Make CUDA a target of the kernel store, or its simulation."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
from typing import Final

from tfjit.kernels.cuda.device import driver
from tfjit.kernels.cuda.device.architecture import SIMULATED, architecture, is_simulated
from tfjit.kernels.jit.cache_key import module_hash
from tfjit.kernels.jit.loader import LoadError, NoCompiler
from tfjit.kernels.jit.object_file import ObjectFile
from tfjit.kernels.jit.targets import Target
from tfjit.kernels.source import KernelSource

_COMPILER: Final = "tfjit.kernels.cuda.device.compiler"
# Their versions decide object code: CUDA 12 has libNVVM in the wheel of nvcc.
_VERSION: Final = re.compile(
    r"(numba|numba_cuda|nvidia_(nvvm|cuda_nvcc|nvjitlink)\w*)-.*\.dist-info$"
)
_FORMAT: Final = "1"


@functools.cache
def compiler_versions() -> tuple[str, ...]:
    """Return the installed versions of numba-cuda and its libraries.

    They are the names of metadata folders, since nothing is imported. Raises NoCompiler where
    numba-cuda is missing.
    """
    places: set[str] = set()
    for name in ("numba", "numba_cuda"):
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise NoCompiler(
                f"there is no compiler of GPU kernels ({name} is missing): install tfjit[gpu]"
            )
        places |= {os.path.dirname(place) for place in spec.submodule_search_locations}
    names = {name for place in places for name in os.listdir(place)}
    return tuple(sorted(name for name in names if _VERSION.match(name)))


class CudaTarget(Target):
    """Compile for the present GPU, or for TFJIT_CUDA_ARCH."""

    compiler = _COMPILER

    def architecture(self) -> str:
        return architecture()

    @functools.cache  # noqa: B019 (there is one target)
    def environment(self) -> str:
        versions = (compiler_versions(), sys.version_info[:2], _FORMAT)
        return repr((architecture(), versions, module_hash(_COMPILER)))

    def load(self, obj: ObjectFile) -> dict[str, int]:
        if obj.needs != (architecture(),):  # a stored plan of another GPU, say
            raise LoadError(f"it is for {', '.join(obj.needs)}, and this GPU is {architecture()}")
        try:
            return driver.load_kernels(obj.code, obj.symbols)
        except driver.BadImage as error:
            raise LoadError(str(error)) from None


class SimulatedTarget(Target):
    """Run kernels as Python, in this process."""

    interprets = True

    def architecture(self) -> str:
        return SIMULATED

    def environment(self) -> str:
        return SIMULATED

    def interpret(self, source: KernelSource) -> dict[str, int]:
        from tfjit.kernels.cuda.device import simulator

        return simulator.load(source.text, source.entries, source.description)


def cuda_target() -> Target:
    """Return the target of this process."""
    return SimulatedTarget() if is_simulated() else CudaTarget()
