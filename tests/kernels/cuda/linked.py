"""Resources that compiled kernels take, as the linker tells them. No GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kernels.cuda.compiler_process import compiled
from tfjit.kernels.cuda.device.compiler import Resources
from tfjit.kernels.source import KernelSource

ALL = ("sm_80", "sm_90", "sm_100")
"""The architectures that kernels are made for."""


def resources(sources: Sequence[KernelSource], *architectures: str) -> list[Resources]:
    """Return the resources of each kernel for sm_90 or other architectures."""
    requests = [
        (source.text, source.arity, architecture)
        for architecture in architectures or ("sm_90",)
        for source in sources
    ]
    return [Resources(*one) for one in compiled("resources", requests)]
