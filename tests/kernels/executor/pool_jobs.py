"""Jobs for tests of the intra-op pool."""

from __future__ import annotations

import time

import numpy as np

from tfjit.kernels.source import KernelSource

SOURCE = KernelSource(
    """# kernels for the tests of the pool
from numba import float32
from tfjit.kernels.codegen.intrinsics import atomic_add, atomic_load, fail, ld_any, ptr_f32, st_any, store_word, word


def mark(args, chunk, nchunks):
    atomic_add(word(args, 2) + 8 * chunk, 1)


def spin(args, chunk, nchunks):
    x = 1
    for i in range(word(args, 3)):
        x = x * 6364136223846793005 + 1442695040888963407
    store_word(word(args, 4) + 64 * chunk, x)
    atomic_add(word(args, 2) + 8 * chunk, 1)


def meet(args, chunk, nchunks):
    atomic_add(word(args, 2), 1)
    for i in range(word(args, 3)):
        if atomic_load(word(args, 2)) >= nchunks:
            atomic_add(word(args, 2) + 8, 1)
            return


def spin_and_note(args, chunk, nchunks):
    at = word(args, 2)
    inside = atomic_add(at + 16, 1) + 1
    if inside > atomic_load(at + 8):
        store_word(at + 8, inside)
    x = 1
    for i in range(20000):
        x = x * 6364136223846793005 + 1442695040888963407
    store_word(at + 24, x)
    atomic_add(at + 16, -1)
    atomic_add(at, 1)


def wait_for(args, chunk, nchunks):
    at = word(args, 2)
    store_word(at, 1)
    for i in range(word(args, 3)):
        if atomic_load(at + 8) != 0:
            return


def fail_in(args, chunk, nchunks):
    if chunk == word(args, 2):
        fail(args, 3, chunk)


def halve(args, chunk, nchunks):
    p = ptr_f32(word(args, 2))
    x = 1
    for i in range(word(args, 3)):
        x = x * 6364136223846793005 + 1442695040888963407
    st_any(p, chunk, ld_any(p, chunk) * float32(0.5) + float32(x * 0))
""",
    entries=("mark", "spin", "spin_and_note", "wait_for", "fail_in", "halve", "meet"),
    title="intra-op tests",
)


def wait_until(condition: object, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def job(chunks: int, work: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(argument block, how often each chunk ran, scratch)."""
    counts, scratch = np.zeros(chunks, np.int64), np.zeros(8 * chunks, np.int64)
    args = np.zeros(8, np.int64)
    args[2:5] = counts.ctypes.data, work, scratch.ctypes.data
    return args, counts, scratch
