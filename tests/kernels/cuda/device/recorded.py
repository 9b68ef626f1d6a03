"""Launches and routines that a fake driver records."""

from __future__ import annotations

from collections.abc import Sequence

from tests.kernels.cuda.fake_driver import FakeDriver
from tfjit.framework import errors
from tfjit.kernels.ir.accelerator import KernelLaunch, LibraryRoutine

KERNEL = 0xBEEF


def launch(*words: int, shared_bytes: int = 0) -> KernelLaunch:
    """Return a launch of one kernel."""
    return KernelLaunch(KERNEL, words, (7, 2, 1), (64, 1, 1), shared_bytes)


class Routine(LibraryRoutine):
    """Records the streams and words of its calls among those of the driver."""

    workspace_bytes = 0

    def __init__(self, fake: FakeDriver) -> None:
        self.fake = fake

    def queue(self, stream: int, words: Sequence[int]) -> None:
        self.fake.calls.append(("routine", stream, *words))


class Failing(Routine):
    def queue(self, stream: int, words: Sequence[int]) -> None:
        raise errors.InternalError(None, None, "cublasLtMatmul: status 13")
