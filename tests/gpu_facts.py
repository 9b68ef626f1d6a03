"""Tell what a machine with a GPU has: `python -m tests.gpu_facts`, one line of JSON.

A kernel is compiled and run, and NVIDIA's libraries are opened, so that a later failure is not that
of the machine's set-up. The status is 1 where a kernel does not run; `error` then has the reason.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import time
from importlib import metadata
from typing import Any, Final

PACKAGES: Final = (
    *("numpy", "numba", "numba-cuda", "llvmlite", "cuda-bindings", "nvidia-nvvm"),
    *("nvidia-nvjitlink", "nvidia-cublas", "nvidia-cudnn-cu13", "ml_dtypes", "protobuf"),
    *("networkx", "pytest", "pytest-xdist", "hypothesis", "tensorflow-cpu", "torch", "triton"),
    *("jax", "cupy-cuda13x", "matplotlib"),
)
_NEEDED: Final = (
    *("numpy", "numba", "numba_cuda", "llvmlite", "ml_dtypes", "networkx", "google.protobuf"),
    *("pytest", "xdist", "hypothesis"),
)
_OPENING_S: Final = 60.0


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of its package
        return False


def facts() -> dict[str, Any]:
    """Return versions, the GPU, the time of a first kernel, and the usable libraries."""
    found: dict[str, Any] = {"python": platform.python_version(), "versions": versions()}
    lacking = [name for name in _NEEDED if not _is_installed(name)]
    if lacking:
        return found | {"error": f"not installed: {', '.join(lacking)}"}
    from tests import hardware

    if reason := hardware.missing():
        return found | {"error": f"no GPU: {reason}"}
    from tfjit.kernels.cuda.device import driver

    card = driver.properties(0)
    found |= {
        "driver": driver.version_text(driver.driver_version()),
        "gpu": card.name,
        "capability": ".".join(map(str, card.compute_capability)),
        "memory_bytes": card.memory_bytes,
    }
    try:
        found["kernel_s"] = first_kernel()
    # the reason is what a machine is asked for
    except Exception as error:
        return found | {"error": f"{type(error).__name__}: {error}"[:2000]}
    device = hardware.device()
    found["libraries"] = []
    for name in ("cuBLASLt", "cuDNN"):
        opening = device.opening(name)
        if opening is None or (opening.wait(_OPENING_S) and opening.usable):
            found["libraries"].append(name)
    return found


def first_kernel() -> float:
    """Compile a kernel and run it; return the seconds. Raises AssertionError for wrong results."""
    import numpy as np

    from tests import hardware
    from tests.kernels.cuda.texts import scale_by
    from tfjit.kernels.ir.accelerator import KernelLaunch
    from tfjit.kernels.jit.store import store

    began = time.perf_counter()
    source = scale_by(3)
    store.compile([source])
    code = store.lookup(source)
    assert code is not None, store.refused(source)
    device, x = hardware.device(), np.arange(1000, dtype=np.float32)
    given, made = device.allocate(x.nbytes), device.allocate(x.nbytes)
    device.write(given, x)
    program = device.program([KernelLaunch(code["kernel"], (given, made, x.size), (16, 1, 1), (64, 1, 1))])  # fmt: skip
    program.start()
    program.wait()
    result = np.empty_like(x)
    device.read(result, made)
    assert np.array_equal(result, 3 * x), "the kernel's results are wrong"
    return time.perf_counter() - began


def main() -> int:
    """Print the facts."""
    found = facts()
    print(json.dumps(found))
    return 1 if "error" in found else 0


if __name__ == "__main__":
    sys.exit(main())
