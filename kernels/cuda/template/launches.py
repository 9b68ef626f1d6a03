"""Describe launches of CUDA kernels, and choose their grids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tfjit.kernels.registry import Launch
from tfjit.kernels.source import KernelSource

TARGET: Final = "cuda"
"""KernelSource.target of every kernel of this folder; the store adds the architecture."""
THREADS: Final = 256
MAX_BLOCKS: Final = 132 * 16
"""Blocks of a grid-stride loop: several waves on any card."""

Extent = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CudaLaunch(Launch):
    """One launch of a kernel on a grid.

    words: the kernel's arguments, int64 each; there are no status words. grid, block: extents in
    x, y, z. shared_bytes: of dynamic shared memory. table_form: the kernel of several such
    launches, or None (`launch_table.py`).
    """

    grid: Extent = (1, 1, 1)
    block: Extent = (THREADS, 1, 1)
    shared_bytes: int = 0
    table_form: KernelSource | None = None


def source(text: str, arity: int, title: str, module: str) -> KernelSource:
    """Return a CUDA kernel's source. arity: the number of its arguments."""
    return KernelSource(text, arity=arity, title=title, module=module, target=TARGET)


def grid_for(units: int, threads: int = THREADS, limit: int = MAX_BLOCKS) -> Extent:
    """Return the grid of a grid-stride loop over `units`, one a thread."""
    return (max(1, min(-(-units // threads), limit)), 1, 1)


__all__ = ["MAX_BLOCKS", "TARGET", "THREADS", "CudaLaunch", "Extent", "grid_for", "source"]
