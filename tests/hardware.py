"""Choose the GPU of tests: none, the simulated one, or that of the machine.

`pytest -m gpu` is for a machine with a GPU. The tests of GPU kernels, which otherwise run in the
simulator, then use GPU:0. Sessions of the conformance suite then have it, too, and place their
nodes there. All other tests are left out. With NUMBA_ENABLE_CUDASIM=1 in the environment, `pytest
-m gpu` runs the conformance suite on the simulated GPU. Without `-m gpu`, sessions see no GPU of
the machine. A test marked `simulator` shows what the simulated GPU alone has, one of the
conformance suite marked `host` the code of the host alone: `-m gpu` leaves out both.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import pytest

TESTS: Final = Path(__file__).resolve().parent

CONFORMANCE: Final = (
    "contract",
    "client",
    "ops",
    "programs",
    "public_api",
    "runtime/op_kernels",
)
"""Folders with the tests that compare sessions with TensorFlow.

A new test of one of them is a test of GPUs too, unless it is marked `host`.
"""
LONG_IN_THE_SIMULATOR: Final = (
    "programs/test_loop_programs.py",
    "programs/test_random_graphs.py",
    "programs/test_random_templates.py",
    "programs/test_real_graphs.py",
    "programs/test_tf1_programs.py",
    "programs/test_training.py",
    "programs/test_workloads.py",
)
"""Modules of them that hardware alone runs; tests/programs/test_simulated_gpu.py has such graphs."""

# of values of a GPU beside TensorFlow's on a CPU: functions within 4 ULP, sums in another order
_RTOL: Final = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-6, "complex64": 2e-6}
_RTOL_OF_DOUBLES: Final = 4e-15

_USED: Literal["", "simulated", "real"] = ""
_KERNELS = re.compile(
    r"\btests\.(kernels\.cuda\.(harness|against_reference|library_calls|libraries\.form_runs|conv\.oracle)|simulated_gpu)\b"
)
_ALONE = re.compile(r"^pytestmark = pytest\.mark\.(gpu|host|simulator)$", re.MULTILINE)


@functools.cache
def missing() -> str:
    """Return the reason for having no GPU, "" where there is one."""
    from tfjit.kernels.cuda.device import driver
    from tfjit.kernels.cuda.device.architecture import is_simulated

    return "a simulated GPU" if is_simulated() else driver.device_count()[1]


def choose() -> None:
    """Let tests use the GPU of this machine, if it has one, or the simulated one.

    Results are compared with those of the host, so float32 stays float32.
    """
    global _USED
    # one GPU: tests name others as ones that are not there
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        _USED = "simulated"
    elif not missing():
        _USED = "real"
        os.environ.setdefault("TFJIT_TF32", "0")


def hide() -> None:
    """Let no session of this process, nor of its children, see a GPU of the machine."""
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"


def report() -> str:
    """Return a line on the GPU for the head of the report, "" without one."""
    if not _USED:
        return ""
    place = f"{_USED} GPU:0"
    if importlib.util.find_spec("tensorflow") is None:
        return f"{place}, without the conformance suite: TensorFlow is not installed"
    return f"{place}, with the conformance suite"


def is_left_out(item: pytest.Item) -> bool:
    """Return whether a test shows the host's code or the simulator alone."""
    return any(item.get_closest_marker(mark) is not None for mark in ("host", "simulator"))


def is_chosen() -> bool:
    """Return whether tests run on hardware."""
    return _USED == "real"


def gpu_count() -> int:
    """Return the number of GPUs that sessions of the conformance suite have."""
    if _USED == "real":
        from tfjit.kernels.cuda.device import driver

        return driver.device_count()[0]
    return 1 if _USED else 0


def rtol(dtype: Any) -> float:
    """Return the relative difference that values of a session may have from TensorFlow's.

    It is 0 without a GPU and for all types but floats.
    """
    name = str(dtype)
    if not _USED or not name.startswith(("float", "bfloat", "complex")):
        return 0.0
    return _RTOL.get(name, _RTOL_OF_DOUBLES)


@functools.cache
def is_conformance(path: Path) -> bool:
    """Return whether a test module belongs to the conformance suite.

    Modules that simulate a GPU themselves do not: they say what it runs.
    """
    if not _name(path).startswith(tuple(f"{folder}/" for folder in CONFORMANCE)):
        return False
    return not simulates(path)


def simulates(path: Path) -> bool:
    """Return whether a test module simulates a GPU itself, where it has none."""
    return _KERNELS.search(path.read_text(encoding="utf-8")) is not None


def _name(path: Path) -> str:
    """Return the path from the folder of all tests, "" for one that is elsewhere."""
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


def has_tests(path: Path) -> bool:
    """Return whether a test module has tests of a GPU.

    Without one, modules that are for nothing else stay: their reason to skip is that of all.
    """
    text = path.read_text(encoding="utf-8")
    alone = _ALONE.search(text)
    if alone is not None:
        return alone[1] == "gpu"
    if is_chosen() and _KERNELS.search(text) is not None:
        return True
    if _USED == "simulated" and _name(path) in LONG_IN_THE_SIMULATOR:
        return False
    return bool(_USED) and is_conformance(path)


@contextmanager
def on_gpu(path: Path) -> Iterator[None]:
    """Run what a test module of the conformance suite can on its GPU, from the first run on.

    Without that, graphs as small as those of tests stay on the host, and so do first runs.
    """
    if not _USED or not is_conformance(path):
        yield
        return
    from tfjit.passes.offload import outline_offloaded

    with pytest.MonkeyPatch.context() as patch:
        if "TFJIT_JIT" not in os.environ:
            patch.setenv("TFJIT_JIT", "eager")
        patch.setattr(outline_offloaded, "SMALL_BYTES", 0)
        patch.setattr(outline_offloaded, "SMALL_FLOPS", 0)
        yield


def end_if_lost(end: Callable[[int], object] = os._exit) -> None:
    """End a process of pytest-xdist that cannot use its GPU any more.

    All its later tests would fail. pytest-xdist reports the present one and starts a new process.
    """
    if not is_chosen() or "PYTEST_XDIST_WORKER" not in os.environ:
        return
    from tfjit.kernels.cuda.device import driver

    if driver.is_lost():
        end(1)


@functools.cache
def device() -> Any:
    """Return GPU:0, of which the tests of kernels share one stream."""
    from tfjit.kernels.cuda.device import devices

    return devices.open_device(0)
