"""Measure this machine's limits: copy bandwidth and arithmetic rate.

Bandwidth is measured by the bytes touched, arithmetic in registers.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfjit.kernels.jit.target import cache_sizes, host

# independent sums: more than a multiply-add's latency times its units, fewer than the registers
_CHAINS = 10
_ROUNDS = 20_000
_DRAM_BYTES = 96 << 20


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """The limits of one thread.

    copy_gbs: (bytes touched at most, GB/s, read and written bytes both counted), from the
    second-level cache to memory. fma_gfs: float32 multiply-adds in registers, two operations each,
    in GF/s.
    """

    copy_gbs: tuple[tuple[int, float], ...]
    fma_gfs: float

    def bytes_us(self, nbytes: int, threads: int = 1) -> float:
        """Return the least time to move recently used bytes.

        Each thread has its caches; threads share the memory.
        """
        for limit, rate in self.copy_gbs[:-1]:
            if nbytes <= limit * threads:
                return nbytes / (rate * threads) / 1e3
        return nbytes / self.copy_gbs[-1][1] / 1e3

    def flops_us(self, flops: int, threads: int = 1) -> float:
        """Return the least time for a number of float32 operations."""
        return flops / (self.fma_gfs * threads) / 1e3

    def __str__(self) -> str:
        rates = ", ".join(
            f"{rate:.0f} GB/s up to {_size(limit)}" for limit, rate in self.copy_gbs[:-1]
        )
        return (
            f"one thread copies {rates}, {self.copy_gbs[-1][1]:.0f} GB/s beyond; multiply-adds "
            f"{self.fma_gfs:.0f} GF/s"
        )


@functools.cache
def machine_limits() -> MachineLimits:
    """Return the limits, measured once a process in about 0.2 s."""
    _, l2, l3 = cache_sizes()
    sizes = [l2 // 2, max(l3 // 4, l2), _DRAM_BYTES]
    rates = [_copy_gbs(size) for size in sizes]
    limits = [l2, max(l3, 2 * l2), 1 << 62]
    return MachineLimits(tuple(zip(limits, rates, strict=True)), _fma_gfs())


def _best(call: Callable[[], object], seconds: float = 0.03) -> float:
    """Return the shortest of the times that fit into `seconds`.

    At least three calls are timed.
    """
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    call()
    while count < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        count += 1
    return best


def _copy_gbs(touched: int) -> float:
    """Return the rate of a copy that touches `touched` bytes in all."""
    source = np.ones(touched // 8, np.float32)
    target = np.zeros_like(source)
    return 2 * source.nbytes / _best(lambda: np.copyto(target, source)) / 1e9


def _fma_gfs() -> float:
    from tfjit.kernels.jit.store import store

    lanes = host().vector_bytes // 4
    address = store.assembly.load(_fma_text(lanes, host().isa != "generic"), ("tfjit_fma_rate",))[
        "tfjit_fma_rate"
    ]
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64)(address)
    return 2.0 * lanes * _CHAINS * _ROUNDS / _best(lambda: run(_ROUNDS)) / 1e9


def _fma_text(lanes: int, fused: bool) -> str:
    """Write a loop of independent multiply-adds.

    Without `fused` the loop has a product and a sum: there the intrinsic is a library call.
    """
    kind = f"<{lanes} x float>"
    chains = range(_CHAINS)

    def multiply_add(c: int) -> list[str]:
        if fused:
            return [
                f"  %t{c} = call {kind} @llvm.fma.v{lanes}f32({kind} %s{c}, {kind} %x, {kind} %x)"
            ]
        return [f"  %p{c} = fmul {kind} %s{c}, %x", f"  %t{c} = fadd {kind} %p{c}, %x"]

    lines = [
        f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})",
        f"@fma_sink = internal global {kind} zeroinitializer, align 64",
        "define void @tfjit_fma_rate(i64 %rounds) {",
        "entry:",
        f"  %x = load volatile {kind}, ptr @fma_sink",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %j, %loop ]",
        *(f"  %s{c} = phi {kind} [ %x, %entry ], [ %t{c}, %loop ]" for c in chains),
        *(line for c in chains for line in multiply_add(c)),
        "  %j = add i64 %i, 1",
        "  %more = icmp slt i64 %j, %rounds",
        "  br i1 %more, label %loop, label %out",
        "out:",
        *(f"  store volatile {kind} %t{c}, ptr @fma_sink" for c in chains),
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _size(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.3g} MB"
