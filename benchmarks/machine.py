"""Measure the machine's own limits: memory bandwidth and multiply-adds.

They are measured in the same run, by kernels of a few lines of LLVM text.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

# Bytes of each array of a copy: within L2 of a core, within L3, in memory.
SIZES = {"L2": 1 << 18, "L3": 4 << 20, "memory": 128 << 20}
_ACCUMULATORS = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Hold GB/s and GF/s.

    GB/s as STREAM counts (written data is not counted as read), by the place of the data and by
    threads; GF/s by threads.
    """

    copy_gbs: dict[str, dict[int, float]]
    triad_gbs: dict[str, dict[int, float]]
    fma_gfs: dict[int, float]
    sgemm_gfs: float

    def __str__(self) -> str:
        def rates(by_threads: dict[int, float]) -> str:
            return " / ".join(f"{rate:.0f}" for rate in by_threads.values())

        threads = " / ".join(str(n) for n in self.fma_gfs)
        places = "; ".join(
            f"{place} copy {rates(self.copy_gbs[place])}, triad {rates(self.triad_gbs[place])} GB/s"
            for place in SIZES
        )
        arithmetic = (
            f"multiply-adds {rates(self.fma_gfs)} GF/s, NumPy's sgemm 1024 "
            f"{self.sgemm_gfs:.0f} GF/s"
        )
        return f"this machine, {threads} threads: {places}; {arithmetic}"

    def least_us(self, size: int, flops: int, threads: int) -> float:
        """Return the least time to move `size` bytes once and compute `flops`.

        It is the longer of the two.
        """
        place = next((p for p in SIZES if size <= 2 * SIZES[p]), "memory")
        threads = threads if threads in self.fma_gfs else max(self.fma_gfs)
        return max(size / self.copy_gbs[place][threads], flops / self.fma_gfs[threads]) / 1e3


def _stream(name: str, inputs: int, expression: str, width: int = 8) -> str:
    """A loop over vectors, `repeats` times: out[i] = expression of %v0, %v1."""
    vector = f"<{width} x float>"
    pointers = [f"%p{k}" for k in range(inputs)]
    loads = "\n".join(
        f"  %a{k} = getelementptr {vector}, {vector}* {p}, i64 %i\n  %v{k} = load {vector}, "
        f"{vector}* %a{k}"
        for k, p in enumerate(pointers)
    )
    return f"""
define void @{name}(i64 %repeats, i64 %n, {vector}* noalias %out, {", ".join(f"{vector}* noalias {p}" for p in pointers)}) {{
start:
  br label %again
again:
  %round = phi i64 [ 0, %start ], [ %rounds, %done ]
  br label %loop
loop:
  %i = phi i64 [ 0, %again ], [ %next, %loop ]
{loads}
  {expression.format(vector=vector)}
  %to = getelementptr {vector}, {vector}* %out, i64 %i
  store {vector} %r, {vector}* %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %rounds = add i64 %round, 1
  %repeat = icmp slt i64 %rounds, %repeats
  br i1 %repeat, label %again, label %end
end:
  ret void
}}
"""


def _multiply_adds(name: str, width: int) -> str:
    """Return a loop of independent multiply-adds.

    Their sum is stored so that none is dropped.
    """
    vector, lines = f"<{width} x float>", []
    count = range(_ACCUMULATORS)
    phis = "\n".join(
        f"  %c{k} = phi {vector} [ zeroinitializer, %start ], [ %d{k}, %loop ]" for k in count
    )
    fmas = "\n".join(
        f"  %d{k} = call {vector} @llvm.fma.v{width}f32({vector} %x, {vector} %c{k}, {vector} %x)"
        for k in count
    )
    total = "%d0"
    for k in range(1, _ACCUMULATORS):
        lines.append(f"  %s{k} = fadd {vector} {total}, %d{k}")
        total = f"%s{k}"
    return f"""
declare {vector} @llvm.fma.v{width}f32({vector}, {vector}, {vector})
define void @{name}(i64 %n, {vector}* %io) "prefer-vector-width"="512" "min-legal-vector-width"="{32 * width}" {{
start:
  %x = load {vector}, {vector}* %io
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
{phis}
{fmas}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
{chr(10).join(lines)}
  store {vector} {total}, {vector}* %io
  ret void
}}
"""


class _Kernels:
    """The compiled loops; ctypes releases the GIL while one runs."""

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        from tfjit.kernels.jit.loader import target_machine

        triad = (
            # as many reads and writes as STREAM's, which scales by a number
            "%m = fmul {vector} %v1, %v1\n  %r = fadd {vector} %v0, %m"
        )
        text = _stream("copy", 1, "%r = fadd {vector} %v0, zeroinitializer") + _stream(
            "triad", 2, triad
        )
        text += _multiply_adds("fma8", 8) + _multiply_adds("fma16", 16)
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target_machine())
        self._engine.finalize_object()

    def get(self, name: str, pointers: int) -> Callable[..., None]:
        sizes = 1 if name.startswith("fma") else 2
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * sizes, *[ctypes.c_void_p] * pointers)
        return kind(self._engine.get_function_address(name))


def _aligned(size: int) -> np.ndarray:
    buffer = np.zeros(size + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    view: np.ndarray = buffer[start : start + size].view(np.float32)
    view[:] = 0.5
    return view


def _best_s(calls: list[Callable[[], object]]) -> float:
    """Return the shortest wall time of all calls at once.

    Each call has a thread. A call is one stay outside the interpreter: threads that come back to it
    often wait for each other.
    """
    best = float("inf")
    cpus = sorted(os.sched_getaffinity(0))
    for _ in range(5):
        barrier = threading.Barrier(len(calls) + 1)
        times: list[tuple[float, float]] = []

        def work(
            n: int, barrier: threading.Barrier = barrier, times: list[tuple[float, float]] = times
        ) -> None:
            # this thread's; two may else stay on one core for the whole of it
            os.sched_setaffinity(0, {cpus[n % len(cpus)]})
            barrier.wait()
            start = time.perf_counter()
            calls[n]()
            times.append((start, time.perf_counter()))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(calls))]
        for thread in threads:
            thread.start()
        barrier.wait()
        for thread in threads:
            thread.join()
        best = min(best, max(end for _, end in times) - min(start for start, _ in times))
    return best


def measure_limits(threads: int) -> Limits:
    """One to two seconds; for one thread and for `threads`."""
    kernels = _Kernels()
    counts = sorted({1, threads})

    def rate(name: str, arrays: int, size: int, n: int) -> float:
        kernel = kernels.get(name, arrays)
        part = size // n // 64 * 64
        # twenty milliseconds, beside which the start of a thread is little
        repeats = max(2, (1 << 30) // size)
        calls, held = [], []
        for _ in range(n):
            buffers = [_aligned(part) for _ in range(arrays)]
            held.append(buffers)
            calls.append(
                lambda kernel=kernel, at=[b.ctypes.data for b in buffers]: kernel(
                    repeats, part // 32, *at
                )
            )
        return arrays * part * n * repeats / _best_s(calls) / 1e9

    def peak(n: int) -> float:
        found = 0.0
        for width in (8, 16):
            kernel, loops = kernels.get(f"fma{width}", 1), 1_000_000
            buffers = [_aligned(4 * width) for _ in range(n)]
            calls = [
                lambda kernel=kernel, at=b.ctypes.data, loops=loops: kernel(loops, at)
                for b in buffers
            ]
            found = max(found, 2 * width * _ACCUMULATORS * loops * n / _best_s(calls) / 1e9)
        return found

    matrix = np.ones((1024, 1024), np.float32)
    gemm_s = _best_s([lambda: np.matmul(matrix, matrix, out=np.empty_like(matrix))])
    return Limits(
        {
            place: {n: rate("copy", 2, size * n if place == "L2" else size, n) for n in counts}
            for place, size in SIZES.items()
        },
        {
            place: {n: rate("triad", 3, size * n if place == "L2" else size, n) for n in counts}
            for place, size in SIZES.items()
        },
        {n: peak(n) for n in counts},
        2 * 1024**3 / gemm_s / 1e9,
    )
