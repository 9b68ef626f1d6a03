"""Resources that compiled kernels take, as the linker tells them. No GPU is needed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kernels.cuda.compiler_process import compiler_process
from tfjit.kernels.cuda.device.compiler import Resources
from tfjit.kernels.source import KernelSource

ALL = ("sm_80", "sm_90", "sm_100")
"""The architectures that kernels are made for."""
_LINK = """
from dataclasses import astuple
from tfjit.kernels.cuda.device.compiler import resources_of

def answer_to(requests):
    return [astuple(resources_of(*request)) for request in requests]
"""


def resources(sources: Sequence[KernelSource], *architectures: str) -> list[Resources]:
    """Return the resources of each kernel for sm_90 or other architectures."""
    requests = [
        (source.text, source.arity, architecture)
        for architecture in architectures or ("sm_90",)
        for source in sources
    ]
    found = compiler_process(_LINK).ask(requests)
    return [Resources(*one) for one in found]
