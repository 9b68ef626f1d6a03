"""Run kernel texts as Python, one simulated thread at a time.

A text runs with `simulated_intrinsics` in the place of `intrinsics`, and `simulated_math` in that
of `device_math`. These ask `here` for their position in the grid, and use `barrier`, `exchange` and
`shared` to work with the other threads of their block.

The threads of a block run one after the other. A function that waits for other threads becomes a
generator, which yields at each barrier: the block resumes it once all threads have come so far.
An exchange within a warp is no barrier on a device: uses of a shared element by two threads, one of
them a store, are an error unless a barrier is between them.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import sys
import threading
import types
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

import numpy as np

from tfjit.framework import errors

Extent = tuple[int, int, int]
T = TypeVar("T")

Wait = Generator[None, None, T]
"""Yields at each barrier; returns the value of the waiting function."""

WARP: Final = 32
_TWINS: Final = {
    "template.intrinsics": "template.simulated_intrinsics",
    "template import device_math": "template import simulated_math",
    "gemm.tile_intrinsics": "gemm.simulated_tile_intrinsics",
}
_MODULE: Final = re.compile(rf"\btfjit\.kernels\.cuda\.({'|'.join(map(re.escape, _TWINS))})\b")
_WAITING: Final = frozenset({"barrier", "exchange", "shuffle_down", "shuffle_xor", "sync_threads"})
"""Functions that wait for the other threads of a block."""
_NONE, _SEVERAL = -1, -2  # in the place of a thread's number
_numbers: Final = itertools.count(1)
_functions: Final[dict[int, tuple[Callable[..., Wait[None] | None], str]]] = {}
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


def load(text: str, entries: Sequence[str], title: str) -> dict[str, int]:
    """Return the handle of each entry of a text, for `launch`."""
    text = _MODULE.sub(lambda match: f"tfjit.kernels.cuda.{_TWINS[match[1]]}", text)
    filename = f"<simulated kernel {next(_numbers)}: {title}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType(f"tfjit_simulated_{next(_numbers)}")
    sys.modules[module.__name__] = module
    try:
        exec(compile(_with_waits(ast.parse(text)), filename, "exec"), module.__dict__)
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


class _Waits(ast.NodeTransformer):
    """Put `yield from` before the calls of some functions, `names`."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._found = False

    def applies_to(self, function: ast.FunctionDef) -> bool:
        """Change a function; return whether it calls any of the names."""
        self._found = False
        self.visit(function)
        return self._found

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self._names:
            return node
        self._found = True
        return ast.copy_location(ast.YieldFrom(node), node)


def _with_waits(module: ast.Module) -> ast.Module:
    """Make generators of a text's functions that wait for other threads."""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    known, new = frozenset[str](), _WAITING
    while new:
        waits = _Waits(new)
        known |= new
        new = frozenset(f.name for f in functions if waits.applies_to(f)) - known
    return ast.fix_missing_locations(module)


class _Block:
    """Run the threads of one block, in order between two barriers."""

    def __init__(
        self,
        function: Callable[..., Wait[None] | None],
        words: Sequence[int],
        extent: Extent,
        title: str,
    ) -> None:
        self.function, self.words, self.title = function, words, title
        self.extent = extent
        self.count = extent[0] * extent[1] * extent[2]
        self.values: list[object] = [None] * self.count  # of `exchange`
        self.shared: list[np.ndarray[tuple[int], np.dtype[np.uint8]]] = []
        self.allocated = [0] * self.count  # calls of `shared` by thread
        self.barriers = [0] * self.count  # that a thread has come to
        # by address: barriers before, and the threads that have stored and loaded since then
        self.uses: dict[int, tuple[int, int, int]] = {}

    def run(self) -> None:
        """Run all threads to their end."""
        global _current
        _current = self
        try:
            with np.errstate(all="ignore"):
                self._run()
        finally:
            _current = None

    def _run(self) -> None:
        waiting: list[tuple[int, Wait[None]]] = []
        for number in range(self.count):
            self._place(number)
            try:
                thread = self.function(*self.words)
            except Exception as error:
                raise self._failure(error, number) from error
            if thread is not None:
                waiting.append((number, thread))
        while waiting:
            waiting = self._resume(waiting)

    def _resume(self, threads: Sequence[tuple[int, Wait[None]]]) -> list[tuple[int, Wait[None]]]:
        """Run threads to their next barrier; return those that have not ended."""
        waiting = []
        for number, thread in threads:
            self._place(number)
            try:
                next(thread)
            except StopIteration:
                continue
            except Exception as error:
                raise self._failure(error, number) from error
            waiting.append((number, thread))
        if waiting and len(waiting) < self.count:
            why = RuntimeError(
                f"{self.count - len(waiting)} threads have ended while {len(waiting)} wait at a "
                "barrier: all threads of a block have to reach it"
            )
            raise self._failure(why, waiting[0][0]) from why
        return waiting

    def _failure(self, error: Exception, number: int) -> errors.InternalError:
        return errors.InternalError(
            None,
            None,
            f"{self.title}: thread {self.index(number)} of block {here.block} failed: "
            f"{type(error).__name__}: {error}",
        )

    def index(self, number: int) -> Extent:
        """Return a thread's indices in its block."""
        x, y, _ = self.extent
        return (number % x, number // x % y, number // (x * y))

    def _place(self, number: int) -> None:
        here.number = number
        here.thread = self.index(number)


_current: _Block | None = None


def _block() -> _Block:
    if _current is None:
        raise errors.InternalError(None, None, "this is called by a simulated kernel alone")
    return _current


def barrier() -> Wait[None]:
    """Wait until every thread of the block is here."""
    _block().barriers[here.number] += 1
    return _wait()


def use_shared(address: int, stores: bool) -> None:
    """Note a use of a shared element.

    Raises RuntimeError where no barrier separates it from another thread's.
    """
    block, number = _block(), here.number
    barriers = block.barriers[number]
    before, stored, loaded = block.uses.get(address, (-1, _NONE, _NONE))
    if before != barriers:
        stored = loaded = _NONE
    if stored not in (_NONE, number) or (stores and loaded not in (_NONE, number)):
        other, use = (stored, "stored") if stored not in (_NONE, number) else (loaded, "loaded")
        name = "several threads have" if other == _SEVERAL else f"thread {block.index(other)} has"
        raise RuntimeError(
            f"it {'stores' if stores else 'loads'} a shared element that {name} {use}, without a "
            "barrier between them"
        )
    if stores:
        stored = number
    else:
        loaded = number if loaded in (_NONE, number) else _SEVERAL
    block.uses[address] = (barriers, stored, loaded)


def _wait() -> Wait[None]:
    yield


def exchange(value: T) -> Wait[list[T]]:
    """Return the values that the lanes of this thread's warp have brought.

    Every thread of the block has to call it. The last warp may have fewer lanes.
    """
    block, number = _block(), here.number
    block.values[number] = value
    yield
    first = number // WARP * WARP
    values = block.values[first : first + WARP]
    yield  # before the next exchange writes
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


__all__ = ["Position", "barrier", "exchange", "here", "launch", "load", "shared", "use_shared"]
