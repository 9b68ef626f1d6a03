"""Sharing one launch between threads: helpers that spin for a bounded time, then sleep, and claim chunks of a posted job.

A job is (code address, argument block address, nchunks). The caller posts it in the pool's one slot, wakes helpers that sleep,
works too, and waits only for chunks that a helper has claimed, so a helper that never gets a core costs nothing. A caller that
finds the slot taken by another thread does all its chunks itself. Helpers run compiled code without the GIL all the time.

State, int64 words, a cache line (8 words) each where threads meet:

    0   nchunks << 32 | next chunk         8   chunks done
    16  code address, 17 argument block    24  1 while a caller holds the slot
    32  1 = stop, 33 helpers, 34 spin limit in ticks, 35 signal, 36 wait, 37 yield: C functions
    40 + 8 h  1 while helper h sleeps, 41 + 8 h its semaphore, for signal(semaphore, 1, 0) and wait(semaphore, -1)
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
from typing import Any

import numpy as np

from tfjit.kernels import walker, walker_ir
from tfjit.kernels.cpu_features import available_cpus

DEFAULT_SPIN_US = 50.0
_SEMAPHORE_BYTES = 64  # of a sem_t: 32 on Linux


def _aligned_words(count: int) -> np.ndarray:
    raw = np.zeros(count + 8, np.int64)
    skip = (-raw.ctypes.data % 64) // 8
    return raw[skip : skip + count]


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


class _Semaphores:
    """Counting semaphores of the operating system, usable from compiled code: signal(handle, 1, 0), wait(handle, -1), yield_()."""

    def __init__(self, count: int) -> None:
        self.handles: list[int] = []
        if sys.platform == "win32":
            kernel32: Any = ctypes.WinDLL("kernel32")
            kernel32.CreateSemaphoreW.restype = ctypes.c_void_p
            kernel32.CreateSemaphoreW.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p]
            self.handles = [kernel32.CreateSemaphoreW(None, 0, 1 << 30, None) for _ in range(count)]
            names, library = ("ReleaseSemaphore", "WaitForSingleObject", "SwitchToThread"), kernel32
        elif sys.platform == "darwin":  # it has no unnamed POSIX semaphores
            library = ctypes.CDLL(None)
            library.dispatch_semaphore_create.restype = ctypes.c_void_p
            library.dispatch_semaphore_create.argtypes = [ctypes.c_long]
            self.handles = [library.dispatch_semaphore_create(0) for _ in range(count)]
            names = ("dispatch_semaphore_signal", "dispatch_semaphore_wait", "sched_yield")
        else:
            library = ctypes.CDLL(None, use_errno=True)
            self._memory = _aligned_words(count * _SEMAPHORE_BYTES // 8)
            for n in range(count):
                handle = self._memory.ctypes.data + n * _SEMAPHORE_BYTES
                if library.sem_init(ctypes.c_void_p(handle), 0, 0):
                    raise OSError(ctypes.get_errno(), "sem_init")
                self.handles.append(handle)
            names = ("sem_post", "sem_wait", "sched_yield")
        self.signal, self.wait, self.yield_ = (_address(library, name) for name in names)


class IntraOpPool:
    """num_threads - 1 helpers beside the calling thread. Use `get_pool` unless a test needs its own."""

    def __init__(self, num_threads: int, spin_us: float = DEFAULT_SPIN_US) -> None:
        """spin_us: how long an idle helper looks for work before it sleeps; waking it then takes 20-45 us."""
        if num_threads < 1:
            raise ValueError(f"a pool needs at least one thread, not {num_threads}")
        self.num_threads = num_threads
        self.spin_us = spin_us
        self._helpers = num_threads - 1
        self._state = _aligned_words(40 + 8 * max(self._helpers, 1))
        self._threads: list[threading.Thread] = []
        addresses = walker_ir.load()
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 4)(addresses["tfjit_run"])
        self._helper = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)(addresses["tfjit_helper"])
        self._start()

    @property
    def state_address(self) -> int:
        """For word 8 of a step table. Valid as long as the pool object lives."""
        return int(self._state.ctypes.data)

    def run(self, code: int, args: int, nchunks: int) -> None:
        """Do one job, without the GIL; returns when every chunk is done. Denormals are flushed meanwhile."""
        self._run(self.state_address, code, args, nchunks)

    def _start(self) -> None:
        state = self._state
        state[:] = 0
        if not self._helpers:
            return
        self._semaphores = _Semaphores(self._helpers)
        state[34] = int(self.spin_us * 1e-6 * walker.ticks_per_second())
        state[35:38] = self._semaphores.signal, self._semaphores.wait, self._semaphores.yield_
        for n, handle in enumerate(self._semaphores.handles):
            state[41 + 8 * n] = handle
        for n in range(self._helpers):
            # the thread keeps state and semaphores alive: it may outlive a pool that is dropped
            kept = (self._helper, state, self._semaphores, n)
            thread = threading.Thread(target=_live, args=kept, name=f"tfjit-intraop-{n}", daemon=True)
            thread.start()
            self._threads.append(thread)
        state[33] = self._helpers

    def stop(self, timeout: float = 1.0) -> None:
        """End the helpers; jobs posted later run on their callers' threads."""
        self._state[33] = 0
        self._state[32] = 1
        if self._threads:
            signal = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t)(self._semaphores.signal)
            for handle in self._semaphores.handles:
                signal(handle, 1, 0)
            deadline = time.monotonic() + timeout
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        self._threads = []

    def asleep(self) -> int:
        """How many helpers sleep now."""
        return int(self._state[40 : 40 + 8 * self._helpers : 8].sum())

    def restart(self) -> None:
        """In a forked child, where the helpers do not exist: start new ones. State address and users' tables stay valid."""
        self._threads = []
        self._start()

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None and self._threads and not sys.is_finalizing():
            self.stop(timeout=0.0)


def _live(helper: Any, state: np.ndarray, semaphores: _Semaphores, index: int) -> None:
    helper(state.ctypes.data, index)


_lock = threading.Lock()
_pools: dict[int, IntraOpPool] = {}
_forked: set[int] = set()


def get_pool(num_threads: int = 0) -> IntraOpPool:
    """The process's pool of that many threads; 0 or more than there are cores: as many as this process may use."""
    cpus = available_cpus()
    size = min(num_threads, cpus) if num_threads > 0 else cpus
    with _lock:
        pool = _pools.get(size)
        if pool is None:
            pool = _pools[size] = IntraOpPool(size)
        elif size in _forked:
            pool.restart()
        _forked.discard(size)
        return pool


def _stop_all() -> None:
    for pool in list(_pools.values()):
        pool.stop()


def _after_fork_in_child() -> None:
    """The helpers were the parent's: until `get_pool` starts new ones, callers do their chunks alone."""
    global _lock
    _lock = threading.Lock()
    for size, pool in _pools.items():
        pool._state[33] = 0
        pool._threads = []
        _forked.add(size)


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
