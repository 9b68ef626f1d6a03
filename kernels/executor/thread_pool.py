"""Share one launch between threads.

Helper threads spin for a bounded time, then sleep, and claim chunks of a posted job. A job is (code
address, argument block address, nchunks). The caller posts it in the pool's one slot, wakes
sleeping helpers, works too, and waits only for chunks that a helper has claimed. So a helper that
never gets a core costs nothing. A caller that finds the slot taken by another thread does all its
chunks itself. Callers occupy cores, too: with k of them running at once, k - 1 helpers fewer are
asked, so callers and helpers together are never more than the pool's threads. Helpers run compiled
code without the GIL all the time.

Linux may wake a helper on its caller's own processor, behind the caller, and leave it there for
milliseconds while another processor idles. (Where processors share no cache known to Linux, it
searches no further.) So a helper publishes its processor, and a caller that finds it on its own
processor bars the helper from there. Another process may take a helper's processor in the middle of
a chunk, so that the caller has to wait. Then the caller works alone for as long as it waited, and
twice as long the next time, up to 16 times. So an accident costs little, and on a machine that
stays busy a sixteenth of the runs suffers, not every run.

State, int64 words, a cache line (8 words) each where threads meet:

    0   nchunks << 42 | end << 21 | first of the unclaimed chunks
    8   chunks done
    16  code address, 17 argument block, 18 helpers asked (those of lower number), 19 address of a
        cancel flag or 0
    23  recent losses of a processor by a helper, less one for each undisturbed job
    24  1 while a caller holds the slot
    25  masks of processors: row c allows all but c, 26 rows
    27  ticks when the last job ended, 28 work in ticks of recent jobs that left sleepers asleep, 29
        amount of it that is worth a wake-up
    30  ticks until which no helper is asked, 31 time beyond two chunks that a caller may wait
        before it stops asking
    32  1 = stop, 33 helpers, 34 spin limit in ticks, 35 signal, 36 wait, 37 yield, 38 current
        processor or 0, 39 set affinity: C functions
    40 + 8 h  1 while helper h sleeps, 41 + 8 h its semaphore, for signal(semaphore, 1, 0) and
        wait(semaphore, -1)
    42 + 8 h  the processor it last saw itself on, or -1; 43 + 8 h its thread number in the
        operating system
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

from tfjit.kernels.executor import table_executor, table_executor_ir, thread_pool_ir
from tfjit.kernels.jit.target import available_cpus

DEFAULT_SPIN_US = 50.0
PATIENCE_US = 50.0
# Work from which a wake-up pays: it takes the caller 7 us, and the helper some 10 more to arrive.
WAKE_US = 30.0
_SEMAPHORE_BYTES = 64  # size of a sem_t: 32 on Linux


def _aligned_words(count: int) -> np.ndarray:
    raw = np.zeros(count + 8, np.int64)
    skip = (-raw.ctypes.data % 64) // 8
    return raw[skip : skip + count]


def _address(library: ctypes.CDLL, name: str) -> int:
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


class _Semaphores:
    """Counting semaphores of the operating system.

    Compiled code can use them: signal(handle, 1, 0), wait(handle, -1), yield_().
    """

    def __init__(self, count: int) -> None:
        self.handles: list[int] = []
        if sys.platform == "win32":
            kernel32: Any = ctypes.WinDLL("kernel32")
            kernel32.CreateSemaphoreW.restype = ctypes.c_void_p
            kernel32.CreateSemaphoreW.argtypes = [
                ctypes.c_void_p,
                ctypes.c_long,
                ctypes.c_long,
                ctypes.c_void_p,
            ]
            self.handles = [kernel32.CreateSemaphoreW(None, 0, 1 << 30, None) for _ in range(count)]
            names, library = ("ReleaseSemaphore", "WaitForSingleObject", "SwitchToThread"), kernel32
        elif sys.platform == "darwin":  # macOS has no unnamed POSIX semaphores.
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


class _Processors:
    """C functions that keep helpers off their callers' processors.

    There are none where the system has no such calls.
    """

    def __init__(self) -> None:
        self.current = self.set_affinity = 0
        self.masks = np.zeros((0, thread_pool_ir.MASK_BYTES), np.uint8)
        if not sys.platform.startswith("linux"):
            return
        library = ctypes.CDLL(None)
        allowed = [cpu for cpu in os.sched_getaffinity(0) if cpu < 8 * thread_pool_ir.MASK_BYTES]
        if len(allowed) < 2 or not hasattr(library, "sched_getcpu"):
            return
        self.current, self.set_affinity = (
            _address(library, "sched_getcpu"),
            _address(library, "sched_setaffinity"),
        )
        self.masks = np.zeros((max(allowed) + 1, thread_pool_ir.MASK_BYTES), np.uint8)
        for row in range(len(self.masks)):
            for cpu in allowed:
                if cpu != row:
                    self.masks[row, cpu // 8] |= 1 << cpu % 8


class IntraOpPool:
    """A pool of num_threads - 1 helpers beside the calling thread.

    Use `get_pool` unless a test needs a separate pool.
    """

    def __init__(
        self, num_threads: int, spin_us: float = DEFAULT_SPIN_US, patience_us: float = PATIENCE_US
    ) -> None:
        """Start the helpers.

        spin_us: time that an idle helper looks for work before it sleeps. patience_us: time beyond
        two chunks that a caller waits for a helper before it takes the helper for displaced by
        another process.
        """
        if num_threads < 1:
            raise ValueError(f"a pool needs at least one thread, not {num_threads}")
        self.num_threads = num_threads
        self.spin_us, self.patience_us = spin_us, patience_us
        self._helpers = num_threads - 1
        self._state = _aligned_words(40 + 8 * max(self._helpers, 1))
        self._threads: list[threading.Thread] = []
        addresses = table_executor_ir.load()
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 4)(addresses["tfjit_run"])
        self._helper = ctypes.CFUNCTYPE(None, ctypes.c_size_t, ctypes.c_size_t)(
            addresses["tfjit_helper"]
        )
        self._start()

    @property
    def state_address(self) -> int:
        """Return the address for word 8 of a step table.

        It is valid as long as the pool object lives.
        """
        return int(self._state.ctypes.data)

    def run(self, code: int, args: int, nchunks: int) -> None:
        """Do one job without the GIL; return when every chunk is done.

        Denormals are flushed meanwhile.
        """
        self._run(self.state_address, code, args, nchunks)

    def _start(self) -> None:
        state = self._state
        state[:] = 0
        if not self._helpers:
            return
        self._semaphores = _Semaphores(self._helpers)
        self._processors = _Processors()
        state[29] = int(WAKE_US * 1e-6 * table_executor.ticks_per_second())
        state[31] = int(self.patience_us * 1e-6 * table_executor.ticks_per_second())
        state[34] = int(self.spin_us * 1e-6 * table_executor.ticks_per_second())
        state[35:38] = self._semaphores.signal, self._semaphores.wait, self._semaphores.yield_
        state[25:27] = self._processors.masks.ctypes.data, len(self._processors.masks)
        state[38:40] = self._processors.current, self._processors.set_affinity
        for n, handle in enumerate(self._semaphores.handles):
            state[41 + 8 * n] = handle
            state[42 + 8 * n] = -1
        for n in range(self._helpers):
            # The thread keeps state and semaphores alive: it may outlive a pool that is dropped.
            kept = (self._helper, state, (self._semaphores, self._processors), n)
            thread = threading.Thread(
                target=_live, args=kept, name=f"tfjit-intraop-{n}", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        state[33] = self._helpers

    def stop(self, timeout: float = 1.0) -> None:
        """End the helpers; jobs posted later run on their callers' threads."""
        self._state[33] = 0
        self._state[32] = 1
        if self._threads:
            signal = ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_size_t
            )(self._semaphores.signal)
            for handle in self._semaphores.handles:
                signal(handle, 1, 0)
            deadline = time.monotonic() + timeout
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        self._threads = []

    def asleep(self) -> int:
        """Return the number of sleeping helpers."""
        return int(self._state[40 : 40 + 8 * self._helpers : 8].sum())

    def restart(self) -> None:
        """Start new helpers in a forked child, which has none.

        The state's address and users' tables stay valid.
        """
        self._threads = []
        self._start()

    def __del__(self) -> None:
        state = getattr(self, "_state", None)
        if state is not None and self._threads and not sys.is_finalizing():
            self.stop(timeout=0.0)


def _live(helper: Any, state: np.ndarray, kept: Any, index: int) -> None:
    state[43 + 8 * index] = threading.get_native_id()
    helper(state.ctypes.data, index)


_lock = threading.Lock()
_pools: dict[tuple[int, bool], IntraOpPool] = {}  # key: number of threads, and whether helpers spin
_forked: set[tuple[int, bool]] = set()


def get_pool(num_threads: int = 0, spinning: bool = True) -> IntraOpPool:
    """Return the process's pool of that many threads.

    0, or more than there are cores, means as many as this process may use. spinning: whether an
    idle helper looks for work for a while before it sleeps.
    """
    cpus = available_cpus()
    size = min(num_threads, cpus) if num_threads > 0 else cpus
    with _lock:
        key = (size, spinning)
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = IntraOpPool(size) if spinning else IntraOpPool(size, spin_us=0.0)
        elif key in _forked:
            pool.restart()
        _forked.discard(key)
        return pool


def _stop_all() -> None:
    """Stop the helpers at the end of the process.

    The pools' memory stays: a daemon thread may run a step until the process is gone.
    """
    for pool in list(_pools.values()):
        pool.stop()
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))


def _after_fork_in_child() -> None:
    """Mark the helpers as absent: they were the parent's.

    Until `get_pool` starts new ones, callers do their chunks alone.
    """
    global _lock
    _lock = threading.Lock()
    for size, pool in _pools.items():
        pool._state[33] = 0
        pool._threads = []
        _forked.add(size)


atexit.register(_stop_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
