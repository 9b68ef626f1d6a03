"""Waiting for what another thread or process does.

The limits are for what never happens: a machine that is busy for seconds reaches none of them.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE_S = 60.0
_QUIET_S = 0.05


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Return once a condition is true; AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "still not so"
        time.sleep(0.002)


def is_blocked(thread: threading.Thread) -> bool:
    """Wait until a thread sleeps or ends; return whether it sleeps.

    It sleeps when it did not get a processor, and was not ready for one, for a while. A thread that
    waits for the interpreter does not sleep: it wakes every few milliseconds. So the call that the
    thread makes has begun and waits, however busy the machine is. A sleep of a fixed time says
    nothing of this. Other threads may do the work of the call, TensorFlow's above all, so they get
    a second to become idle.
    """
    end, polite = time.monotonic() + PATIENCE_S, time.monotonic() + 1.0
    before = switches(thread)
    while thread.is_alive():
        assert time.monotonic() < end, "the thread does not sleep"
        time.sleep(_QUIET_S)
        now = switches(thread)
        if now is not None and now == before and (_is_idle() or time.monotonic() > polite):
            return thread.is_alive()
        before = now
    return False


def _is_idle() -> bool:
    """Return whether no other thread of the process runs or is ready to."""
    own = threading.get_native_id()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            status = (task / "status").read_text(encoding="ascii")
            if int(task.name) != own and "State:\tR" in status:
                return False
    return True


def once_blocked(call: Callable[[], object]) -> threading.Thread:
    """Start a thread that makes a call as soon as the present thread sleeps."""
    present = threading.current_thread()

    def wait() -> None:
        assert is_blocked(present)
        call()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def switches(thread: threading.Thread) -> list[str] | None:
    """Return how often a thread has given a processor up; None unless it sleeps."""
    try:
        text = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    except OSError:  # it has ended
        return None
    lines = text.splitlines()
    if not any(line.startswith("State:\tS") for line in lines):
        return None
    return [line for line in lines if "_switches" in line]


def growing(seconds: float) -> Iterator[float]:
    """Return time limits, each five times the one before, up to a minute.

    For a call that has to begin before its limit ends it. A busy machine may not have begun within
    the first.
    """
    while seconds < PATIENCE_S:
        yield seconds
        seconds *= 5
    raise AssertionError("not begun within any limit")
