"""Run kernel texts as Python, one simulated thread at a time.

A text runs with `simulated_intrinsics` in the place of `intrinsics`, and `simulated_math` in that
of `device_math`. These ask `here` for their position in the grid, and use `barrier`, `exchange` and
`shared` to work with the other threads of their block.

The threads of a block run one after the other. A thread that reaches a barrier waits in its Python
thread until all others have reached it: only kernels with barriers pay for threads.
"""

from __future__ import annotations

import itertools
import linecache
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np

from tfjit.framework import errors

Extent = tuple[int, int, int]
T = TypeVar("T")

WARP: Final = 32
_TWINS: Final = {
    "template.intrinsics": "template.simulated_intrinsics",
    "template import device_math": "template import simulated_math",
    "gemm.tile_intrinsics": "gemm.simulated_tile_intrinsics",
}
_MODULE: Final = re.compile(rf"\btfjit\.kernels\.cuda\.({'|'.join(map(re.escape, _TWINS))})\b")
_numbers: Final = itertools.count(1)
_functions: Final[dict[int, tuple[Callable[..., None], str]]] = {}
_launching: Final = threading.Lock()


class Position:
    """Hold the place of the running thread in the grid.

    thread, block: indices in x, y, z, with their extents. number: of the thread in its block, in
    the order of the hardware: x is the fastest.
    """

    __slots__ = ("block", "block_extent", "grid_extent", "number", "thread")

    thread: Extent
    block: Extent
    block_extent: Extent
    grid_extent: Extent
    number: int


here: Final = Position()
"""The position of the running thread."""


class _Abandoned(BaseException):
    """Ends the threads of a block that has failed."""


def load(text: str, entries: Sequence[str], title: str) -> dict[str, int]:
    """Return the handle of each entry of a text, for `launch`."""
    text = _MODULE.sub(lambda match: f"tfjit.kernels.cuda.{_TWINS[match[1]]}", text)
    filename = f"<simulated kernel {next(_numbers)}: {title}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType(f"tfjit_simulated_{next(_numbers)}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, filename, "exec"), module.__dict__)
    finally:
        del sys.modules[module.__name__]
    handles = {}
    for entry in entries:
        handles[entry] = next(_numbers)
        _functions[handles[entry]] = (getattr(module, entry), title)
    return handles


def launch(handle: int, words: Sequence[int], grid: Extent, block: Extent) -> None:
    """Run a kernel over a grid.

    Raises InternalError, which names the thread at fault.
    """
    function, title = _functions[handle]
    with _launching:
        here.block_extent, here.grid_extent = block, grid
        for z, y, x in itertools.product(*(range(extent) for extent in reversed(grid))):
            here.block = (x, y, z)
            _Block(function, words, block, title).run()


class _Block:
    """Run the threads of one block.

    One thread runs at any time: it hands over at a barrier and at its end. So nothing
    here needs a lock, and each run has the same order.
    """

    def __init__(
        self, function: Callable[..., None], words: Sequence[int], extent: Extent, title: str
    ) -> None:
        self.function, self.words, self.title = function, words, title
        self.extent = extent
        self.count = extent[0] * extent[1] * extent[2]
        self.values: list[object] = [None] * self.count  # of `exchange`
        self.shared: list[np.ndarray[tuple[int], np.dtype[np.uint8]]] = []
        self.allocated = [0] * self.count  # calls of `shared` by thread
        self._started = self._ended = 0
        self._has_barrier = False
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._released: deque[tuple[int, threading.Lock]] = deque()
        self._done = threading.Lock()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run all threads to their end."""
        global _current
        _current = self
        self._done.acquire()
        if self._work():
            self._done.acquire()
        _current = None
        if self._error is not None:
            raise self._error

    def _work(self) -> bool:
        """Run threads that have not started; then hand over.

        Returns whether any thread of the block has met a barrier.
        """
        while self._started < self.count and self._error is None:
            number = self._started
            self._started += 1
            self._place(number)
            try:
                with np.errstate(all="ignore"):  # of each Python thread
                    self.function(*self.words)
            except _Abandoned:
                pass
            except Exception as error:
                self._fail(error, number)
            self._ended += 1
        if self._has_barrier:
            self._hand_over()
        return self._has_barrier

    def barrier(self) -> None:
        self._has_barrier = True
        number = here.number
        resume = threading.Lock()
        resume.acquire()
        self._waiting.append((number, resume))
        self._hand_over()
        resume.acquire()
        if self._error is not None:
            raise _Abandoned
        self._place(number)

    def _hand_over(self) -> None:
        """Let the next thread run; with none left, end the block."""
        if self._error is None and self._started < self.count:
            threading.Thread(target=self._work, name="tfjit-simulated-thread", daemon=True).start()
            return
        if not self._released and self._waiting:
            if self._ended and self._error is None:
                self._fail(
                    RuntimeError(
                        f"{self._ended} threads have ended while {len(self._waiting)} wait at a "
                        "barrier: all threads of a block have to reach it"
                    ),
                    self._waiting[0][0],
                )
            self._released, self._waiting = self._waiting, self._released
        if self._released:
            self._released.popleft()[1].release()
        else:
            self._done.release()

    def _fail(self, error: Exception, number: int) -> None:
        if self._error is None:
            self._error = errors.InternalError(
                None,
                None,
                f"{self.title}: thread {self._index(number)} of block {here.block} failed: "
                f"{type(error).__name__}: {error}",
            )
            self._error.__cause__ = error

    def _index(self, number: int) -> Extent:
        x, y, _ = self.extent
        return (number % x, number // x % y, number // (x * y))

    def _place(self, number: int) -> None:
        here.number = number
        here.thread = self._index(number)


_current: _Block | None = None


def _block() -> _Block:
    if _current is None:
        raise errors.InternalError(None, None, "this is called by a simulated kernel alone")
    return _current


def barrier() -> None:
    """Wait until every thread of the block is here."""
    _block().barrier()


def exchange(value: T) -> list[T]:
    """Return the values that the lanes of this thread's warp have brought.

    Every thread of the block has to call it. The last warp may have fewer lanes.
    """
    block, number = _block(), here.number
    block.values[number] = value
    block.barrier()
    first = number // WARP * WARP
    values = block.values[first : first + WARP]
    block.barrier()  # before the next exchange writes
    return values  # type: ignore[return-value]


def shared(nbytes: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return memory of the block, aligned to 16 bytes.

    The n-th call of each thread returns the same memory. Its first contents are garbage.
    """
    block, number = _block(), here.number
    at = block.allocated[number]
    block.allocated[number] += 1
    if at == len(block.shared):
        whole = np.full(nbytes + 16, 0xFF, np.uint8)
        start = -whole.ctypes.data % 16
        block.shared.append(whole[start : start + nbytes])
    return block.shared[at]


__all__ = ["Position", "barrier", "exchange", "here", "launch", "load", "shared"]
