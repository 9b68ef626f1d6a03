"""The machine's own limits, measured in the same run: memory bandwidth and multiply-add rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Limits:
    """GB/s of a copy that does not fit the caches and of one that does; GF/s of NumPy's float32 matrix product."""

    copy_dram_gbs: float
    copy_cache_gbs: float
    triad_gbs: float
    sgemm_gfs: float

    def __str__(self) -> str:
        return (
            f"this machine: copy {self.copy_dram_gbs:.0f} GB/s from memory, {self.copy_cache_gbs:.0f} GB/s in cache; "
            f"triad {self.triad_gbs:.0f} GB/s; sgemm 1024 (NumPy) {self.sgemm_gfs:.0f} GF/s"
        )


def _best(call: Callable[[], object], repeats: int = 9) -> float:
    call()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def measure_limits() -> Limits:
    """About a second."""
    big = np.ones(32 << 20, np.float32)
    target = np.empty_like(big)
    small = np.ones(1 << 17, np.float32)
    small_target = np.empty_like(small)
    other = np.ones_like(big)
    matrix = np.ones((1024, 1024), np.float32)

    def triad() -> None:
        np.multiply(big, np.float32(3), out=target)
        np.add(target, other, out=target)

    copy_s = _best(lambda: np.copyto(target, big))
    small_s = _best(lambda: np.copyto(small_target, small), 99)
    triad_s = _best(triad)
    gemm_s = _best(lambda: matrix @ matrix)
    return Limits(
        2 * big.nbytes / copy_s / 1e9, 2 * small.nbytes / small_s / 1e9, 5 * big.nbytes / triad_s / 1e9, 2 * 1024**3 / gemm_s / 1e9
    )
