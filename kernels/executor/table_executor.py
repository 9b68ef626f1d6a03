"""Run a whole step: a table of integers, executed by compiled code.

One call from Python runs the table. `walk(table, *arrays)` writes the arrays' addresses into the
words that the table names, runs the instructions in order and returns an int:

    0          every instruction ran
    k > 0      instruction k - 1 left a status other than 0 in word 0 of its argument block; later
               ones did not run
    k < 0      the cancel flag was set; instruction -k - 1 did not run, or not all of it, and later
               ones did not

It resets nothing: the caller reads status and detail from the block and zeroes them. Denormals are
flushed while it runs, and the caller's floating-point control word is restored. A table, and the
argument blocks it points at, serve one call at a time. Different tables may run at the same time on
different threads.

A table is a C-contiguous int64 array. Words:

    0  number of arrays that `walk` must be given
    1  number of patches
    2  word offset of the patches, three words each: array number, address of the word to write,
       byte offset added to the data address
    3  number of instructions
    4  word offset of the instructions, four words each: address of
       `void kernel(intp args, intp chunk, intp nchunks)`, address of its argument block, nchunks,
       predicted ticks on one thread (their complement, a negative number, where the chunks that
       are left when the cancel flag is set need not run); or a jump, with its kind in the place of
       nchunks: number of the instruction to continue with, address of its block, kind, 0
    5  flags: 1 = release the GIL
    6  address of a trace buffer or 0. It has 1 + 2 * instructions words: the counter when the last
       instruction ended, then for each instruction its ticks and its number of runs, added to the
       words' contents
    7  address of a cancel flag, an int64 that is not 0 once the step is to stop, or 0
    8  address of the state of an IntraOpPool that shares launches of several chunks, or 0 (all
       chunks run here)

Jumps make loops and branches: JUMP always; TEST_BYTE, TEST_INT32 and TEST_INT64 when a scalar in
memory passes a test. The block of a test: status and detail (never set), address of the scalar,
mask, value, invert; it jumps when ((scalar & mask) == value) != (invert != 0). An endless loop ends
when the cancel flag is set.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from tfjit.kernels.executor import table_executor_ir

_HEADER_WORDS = 16
RELEASE_GIL = 1
JUMP, TEST_BYTE, TEST_INT32, TEST_INT64 = -1, -2, -3, -4
_FLAGS, _TRACE, _CANCEL, _POOL = 5, 6, 7, 8

RunTable = Callable[..., int]


def patch_offset_word(number: int) -> int:
    """Return the word of a table with a patch's byte offset."""
    return _HEADER_WORDS + 3 * number + 2


class StepTable:
    """Builder of a table, which may change its header later.

    `words` is the first argument of `walk`; `arrays` is the number of ndarrays behind it.
    instructions: (code address, argument block address, nchunks), or for a jump (number of the next
    instruction, which may be one past the last; block address, kind). costs: of each in predicted
    ticks on one thread, by which the pool decides on waking helpers; without costs it wakes them
    always. cancellable: the instructions that may end between two chunks once the cancel flag is set,
    since their missing results are never read. patches: (array number, address of the word to
    write, byte offset). cancel: address of the cancel flag; or cancel_array: the number of the
    array that holds it. The table keeps no memory alive that its addresses point at.
    """

    def __init__(
        self,
        arrays: int,
        instructions: Sequence[tuple[int, int, int]],
        patches: Sequence[tuple[int, int, int]] = (),
        *,
        costs: Sequence[int] | None = None,
        cancellable: Sequence[bool] | None = None,
        release_gil: bool = False,
        pool: int = 0,
        cancel: int = 0,
        cancel_array: int = -1,
        trace: int = 0,
    ) -> None:
        if any(not 0 <= number < arrays for number, _, _ in patches):
            raise ValueError(f"a patch names an array outside 0..{arrays - 1}")
        for code, block, nchunks in instructions:
            if nchunks >= 0 and not (code and block):
                raise ValueError("an instruction has no code or no argument block")
            if nchunks < 0 and not (
                TEST_INT64 <= nchunks <= JUMP
                and 0 <= code <= len(instructions)
                and (block or nchunks == JUMP)
            ):
                raise ValueError("a jump is of no known kind, goes nowhere or has no block")
        patch_offset = _HEADER_WORDS
        patch_count = len(patches) + (cancel_array >= 0)
        # instructions start at a cache line, as the array does
        instruction_offset = patch_offset + -(-3 * patch_count // 8) * 8
        self.words = np.zeros(instruction_offset + 4 * len(instructions), np.int64)
        self.words[:9] = (
            arrays,
            patch_count,
            patch_offset,
            len(instructions),
            instruction_offset,
            RELEASE_GIL if release_gil else 0,
            trace,
            cancel,
            pool,
        )
        if cancel_array >= 0:
            patches = [*patches, (cancel_array, self.cancel_address, 0)]
        if patches:
            self.words[patch_offset : patch_offset + 3 * len(patches)] = np.asarray(
                patches, np.int64
            ).ravel()
        if instructions:
            rows = np.zeros((len(instructions), 4), np.int64)
            rows[:, :3] = np.asarray(instructions, np.int64)
            rows[:, 3] = 1 << 62 if costs is None else np.asarray(costs, np.int64)
            if cancellable is not None:
                rows[:, 3] ^= -np.asarray(cancellable, np.int64)
            self.words[instruction_offset:] = rows.ravel()

    @property
    def instruction_count(self) -> int:
        """Return the number of instructions."""
        return int(self.words[3])

    def set_release_gil(self, release: bool) -> None:
        """Let other Python threads run during a call, or not.

        Releasing the GIL costs tens of ns; it pays from about 10 us on.
        """
        self.words[_FLAGS] = RELEASE_GIL if release else 0

    def set_trace(self, address: int) -> None:
        """Set the address of the trace buffer, or 0.

        The buffer has `1 + 2 * instruction_count` zeroed words for counter ticks.
        """
        set_trace(self.words, address)

    @property
    def cancel_address(self) -> int:
        """Return the address of the word with the cancel flag's address."""
        return int(self.words.ctypes.data) + 8 * _CANCEL

    def set_cancel(self, address: int) -> None:
        """Set the address of the cancel flag, or 0."""
        self.words[_CANCEL] = address


def set_trace(words: np.ndarray, address: int) -> None:
    """Set the address to which a table's ticks are added.

    address: of 1 + 2 * instructions words, or 0 for no trace. words: of a StepTable.
    """
    words[_TRACE] = address


def _array_type() -> int:
    return id(np.ndarray)


def _fallback(
    execute_table: Callable[[int], int], execute_table_nogil: Callable[[int], int]
) -> RunTable:
    """Return a slower `walk` for interpreters with another object layout."""

    def run_table(table: np.ndarray, *arrays: np.ndarray) -> int:
        words = table
        if words[0] != len(arrays):
            raise TypeError("walk(table, *arrays): not the number of arrays that the table is for")
        start, count = int(words[2]), int(words[1])
        for number, place, offset in words[start : start + 3 * count].reshape(-1, 3).tolist():
            ctypes.c_int64.from_address(place).value = arrays[number].ctypes.data + offset
        run = execute_table_nogil if words[_FLAGS] & RELEASE_GIL else execute_table
        return run(words.ctypes.data)

    return run_table


_lock = threading.Lock()
_run_table: RunTable | None = None
_loading: threading.Thread | None = None


def get() -> RunTable:
    """Return `walk(table, *arrays) -> int`.

    The first call takes some ms to load the code, tens of ms when the disk cache is cold.
    """
    global _run_table
    if _run_table is None:
        with _lock:
            if _run_table is None:
                _run_table = _make()
    return _run_table


def ready() -> bool:
    """Return whether `get()` returns at once; else load on another thread."""
    global _loading
    if _run_table is None and _loading is None:
        _loading = threading.Thread(target=get, name="tfjit-walker", daemon=True)
        _loading.start()
    return _run_table is not None


def _make() -> RunTable:
    from tfjit.kernels.executor.python_abi import builtin

    addresses = table_executor_ir.load()
    run_table: RunTable | None = None
    if "tfjit_walk" in addresses:
        ctypes.PYFUNCTYPE(None, ctypes.c_size_t)(addresses["tfjit_set_array_type"])(_array_type())
        run_table = builtin(
            addresses["tfjit_walk"],
            "walk",
            "walk(table, *arrays) -> 0, or which instruction stopped the step",
        )
        if not _works(run_table):
            run_table = None
    if run_table is None:
        table = addresses["tfjit_walk_table"]
        run_table = _fallback(
            ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_size_t)(table),
            ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_size_t)(table),
        )
    return run_table


def _works(run_table: RunTable) -> bool:
    """Return whether `walk` reads the data addresses that `ctypes.data` gives."""
    trials: list[np.ndarray] = [
        np.zeros(3, np.float32),
        np.zeros((4, 4))[1:, 1:],
        np.zeros(0, np.int8),
        np.array(2.5),
    ]
    found = np.zeros(len(trials), np.int64)
    patches = [(n, found.ctypes.data + 8 * n, n) for n in range(len(trials))]
    result = run_table(StepTable(len(trials), [], patches).words, *trials)
    return result == 0 and found.tolist() == [
        trial.ctypes.data + n for n, trial in enumerate(trials)
    ]


def _reset_after_fork() -> None:
    """Reset loading thread and lock in a forked child.

    The loading thread was the parent's, and the lock's holder may have been.
    """
    global _lock, _loading
    _lock, _loading = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


_ticks_per_second: float = 0.0


def ticks_per_second() -> float:
    """Return the rate of the counter that traces are written in.

    The first call measures it in about 2 ms.
    """
    global _ticks_per_second
    if not _ticks_per_second:
        ticks = ctypes.PYFUNCTYPE(ctypes.c_int64)(table_executor_ir.load()["tfjit_ticks"])
        best = 0.0
        for _ in range(2):
            start, first = time.perf_counter_ns(), ticks()
            while (now := time.perf_counter_ns()) - start < 1_000_000:
                pass
            best = max(best, (ticks() - first) * 1e9 / (now - start))
        _ticks_per_second = best or 1e9
    return _ticks_per_second
