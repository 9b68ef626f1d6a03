"""Yield the interpreter from background work in short slices.

One thread at a time runs Python. A thread that comes back from a kernel of 2 ms and finds another
one at work waits up to the switch interval of 5 ms: a plan that is optimised behind it would take
two thirds of its throughput. So background work is cut into slices: its loops call
`yield_interpreter()` or run over `yielding(...)`, which sleep when a slice is over. Slices are
longer while no other thread of the process is busy.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

_T = TypeVar("_T")

SLICE_S: Final = 100e-6
"""The longest wait of another thread, where loops call `yield_interpreter` that often."""
_IDLE_SLICE_S: Final = 2e-3  # while no other thread was busy
# Another thread gets the interpreter after this time anyway (`sys.getswitchinterval`), and takes it
# for as long: shorter slices would be less than half of the time.
_HALF_SLICE_S: Final = 5e-3
# enough for a waiting thread to wake up; sleeping for nothing does not hand the interpreter over
_NAP_S: Final = 50e-6
_BUSY_S: Final = 20e-6
# the kernel adds up the processor time of threads that run elsewhere only at its ticks, of up to 10
# ms
_BUSY_FOR_S: Final = 30e-3
_PROMPT_S: Final = 1e-3  # switch interval of the interpreter during imports

_thread = 0  # id of the background thread, or 0
_due = 0.0
_state: _YieldState | None = None


class _YieldState:
    """Length of the slices, from the waiting times of other threads.

    share: returns the background's part of the time while other threads want the interpreter.
    """

    def __init__(self, share: Callable[[], float]) -> None:
        self.share = share
        self.slice_s = SLICE_S
        self.others_s = _others_s()
        self.busy_until = 0.0

    def end_slice(self) -> None:
        """Let others in, and choose how long the next slice is."""
        asleep = time.perf_counter()
        time.sleep(_NAP_S)
        awake, others_s = time.perf_counter(), _others_s()
        if others_s - self.others_s > _BUSY_S:
            self.others_s, self.busy_until = others_s, awake + _BUSY_FOR_S
        if awake > self.busy_until:
            self.slice_s = _IDLE_SLICE_S
        else:
            # longer than asked for when another thread held the interpreter
            waited_s = awake - asleep
            share = self.share()
            longest_s = _IDLE_SLICE_S if share < 0.5 else _HALF_SLICE_S
            self.slice_s = min(max(waited_s * share / (1 - share), SLICE_S), longest_s)


def _others_s() -> float:
    """Return the processor time of the process's other threads."""
    return time.process_time() - time.thread_time()


def yield_interpreter() -> None:
    """Let other threads in if a slice of background work is over.

    For loops of background work; a call costs 0.1 us.
    """
    global _due
    if _thread and _thread == threading.get_ident() and time.perf_counter() >= _due:
        assert _state is not None
        _state.end_slice()
        _due = time.perf_counter() + _state.slice_s


def yielding(items: Iterable[_T]) -> Iterator[_T]:
    """Yield items, and let other threads in before each. For loops over all nodes of a graph."""
    for item in items:
        yield_interpreter()
        yield item


def is_under_way() -> bool:
    """Return whether background work of this process is under way."""
    return _thread != 0


@contextmanager
def prompt_interpreter() -> Iterator[None]:
    """Give the interpreter promptly to threads that wait for it.

    For imports behind a thread that runs Python: each read of a file gives the interpreter away,
    and the importing thread waits for the usual 5 ms to have it back. 200 modules take seconds. The
    switch interval is the process's, so it is shortened for few blocks only.
    """
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(min(usual_s, _PROMPT_S))
    shortened_s = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == shortened_s:  # no other code has set it meanwhile
            sys.setswitchinterval(usual_s)


@contextmanager
def background(share: Callable[[], float] = lambda: 0.1) -> Iterator[None]:
    """Treat the block as background work of this thread.

    One thread of the process may be in such a block. share: returns the part of the time, above 0
    and below 1, that the block may take from threads that want the interpreter; asked again and
    again.
    """
    global _thread, _due, _state
    _state = _YieldState(share)
    _due = time.perf_counter() + SLICE_S
    _thread = threading.get_ident()
    try:
        yield
    finally:
        _thread, _state = 0, None
