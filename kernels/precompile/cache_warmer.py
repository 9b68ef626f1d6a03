"""Put the generic kernels into the disk cache of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfjit.kernels.executor import table_executor_ir
from tfjit.kernels.jit.store import store
from tfjit.kernels.jit.target import available_cpus
from tfjit.kernels.precompile.generic_kernels import generic_kernels

_BLOCK: Final = 48
"""Kernels between two reports."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """Count the kernels: those that were there, those compiled now, those refused."""

    present: int
    compiled: int
    refused: int


def warm_cache(
    processes: int | None = None, progress: Callable[[int, int], None] = lambda done, total: None
) -> Warmed:
    """Compile the generic kernels that this machine lacks.

    Niced processes compile them: `processes` of them, by default one a core. Returns when all are
    settled. progress: called with the numbers of settled and of all kernels. Raises CompileError
    where TFJIT_JIT=off, OSError without a cache directory.
    """
    if store.directory is None:
        raise OSError("there is no cache directory that compiled kernels can be written to")
    sources = generic_kernels()
    before = store.snapshot()
    table_executor_ir.load()
    for at in range(0, len(sources), _BLOCK):
        progress(at, len(sources))
        block = sources[at : at + _BLOCK]
        store.compile(block, workers=processes or available_cpus(), refusals=True)
    progress(len(sources), len(sources))
    after = store.snapshot()
    compiled, refused = after.compiled - before.compiled, after.refused - before.refused
    return Warmed(len(sources) - compiled - refused, compiled, refused)
