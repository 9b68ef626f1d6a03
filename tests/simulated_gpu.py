"""Give sessions a simulated GPU:0 within the tests' own process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

import numba.cuda  # noqa: F401  (reads the variable once: compilers stay usable in this process)

from tests import hardware
from tests.waiting import PATIENCE_S
from tfjit.kernels.cuda.device import architecture
from tfjit.kernels.cuda.device.simulated_accelerator import SimulatedAccelerator
from tfjit.kernels.ir import backend as backends
from tfjit.kernels.jit.store import store
from tfjit.kernels.jit.targets import find_target
from tfjit.runtime.plan.background import BACKGROUND

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@contextmanager
def simulated_gpu(disorder: int | Literal["late"] | None = None) -> Iterator[None]:
    """Simulate a GPU for sessions made in the block.

    disorder: the order of its commands, as `SimulatedAccelerator` has it. With `pytest -m gpu` they
    have the machine's own, opened anew.
    """
    if hardware.is_chosen():
        backends._LOADED.pop("GPU", None)
        try:
            yield
        finally:
            backends._LOADED.pop("GPU", None)
        return
    before = os.environ.get("NUMBA_ENABLE_CUDASIM")
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    _forget()
    SimulatedAccelerator.disorder = disorder
    try:
        yield
    finally:
        settle()
        SimulatedAccelerator.disorder = None
        if before is None:
            del os.environ["NUMBA_ENABLE_CUDASIM"]
        else:
            os.environ["NUMBA_ENABLE_CUDASIM"] = before
        _forget()


def settle() -> None:
    """Wait for the background work of sessions, and for the kernels that it asks for.

    Behind the block it would ask a compiler that needs a GPU, and be refused in the next test.
    """
    for _ in range(4):  # a job may submit others
        for submit in (partial(BACKGROUND.submit, share=lambda: 1.0), store._to_load.put):
            done = threading.Event()
            submit(done.set)
            assert store._thread is None or done.wait(PATIENCE_S)


def _forget() -> None:
    """Forget the facts of the process's devices."""
    architecture.is_simulated.cache_clear()
    architecture.architecture.cache_clear()
    find_target.cache_clear()
    backends._LOADED.pop("GPU", None)
    # background work of a session may ask for a kernel behind the block: nothing compiles it there
    if store.stored.without_compiler.pop("cuda", None) is not None:
        for source in [source for source in store.refusals() if source.target == "cuda"]:
            store._refused.pop(source, None)
