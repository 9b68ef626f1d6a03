"""Name the machine and the software of a measurement."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = ("numpy", "numba", "llvmlite", "tensorflow", "tensorflow-cpu", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts that a figure depends on.

    cpu: vendor and model. cores: that this process may use. load: runnable tasks in the last
    minute, as the system counts them. versions: of Python and packages.
    """

    cpu: str
    cores: int
    system: str
    load: float
    versions: dict[str, str]

    def __str__(self) -> str:
        return f"{self.cpu}, {self.cores} cores, load {self.load:.1f}"


def this_machine() -> Machine:
    """Return the facts of this machine, now."""
    from tfjit.framework.version import __version__
    from tfjit.runtime.host.thread_counts import cores

    versions = {"python": platform.python_version(), "tfjit": __version__}
    for package in _PACKAGES:
        try:
            versions.setdefault(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            continue
    return Machine(
        _cpu(),
        cores(),
        f"{platform.system()} {platform.release()}",
        os.getloadavg()[0],
        versions,
    )


def _cpu() -> str:
    from tfjit.kernels.jit.target import linux_model

    try:
        model = linux_model(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        model = ()
    return model[-1] if model else platform.machine()


__all__ = ["Machine", "this_machine"]
