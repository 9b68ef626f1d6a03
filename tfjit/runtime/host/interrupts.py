"""Ctrl-C during compiled loops.

Python's handler waits for the main thread to come back from compiled code, which a loop need not
do. So from the first loop on Python also writes each signal to a socket of ours
(`signal.set_wakeup_fd`), and a thread that reads it sets the cancel flags of the main thread's
loops: they end, and the handler raises KeyboardInterrupt where the run was called.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

    from tfjit.runtime.host.cancellation import CancellationManager


class _Watch:
    """The socket, its reader, and the cancel flags of running loops.

    The loops run on the main thread.
    """

    def __init__(self) -> None:
        self.flags: list[np.ndarray] = []
        self.armed = -1.0
        self.reader, self.writer = socket.socketpair()
        self.writer.setblocking(False)
        threading.Thread(target=self._read, name="tfjit-interrupts", daemon=True).start()

    def _read(self) -> None:
        while received := self.reader.recv(64):
            if _SIGINT in received:
                for flag in list(self.flags):
                    flag[0] = 1


_watch: _Watch | None = None
_MAIN = threading.main_thread().ident
# signal.getsignal makes an enum of the answer, which takes longer than all the rest
_handler_of: Final = importlib.import_module("_signal").getsignal
_SIGINT: Final = int(signal.SIGINT)
_RAISES: Final = signal.default_int_handler
# period of arming the socket again: event loops that came and went take the signals away
_ARM_S: Final = 0.5


def watched(cancellation: CancellationManager) -> np.ndarray:
    """Return the run's cancel flag, set by interrupts until `unwatched`.

    Interrupts set it only where they raise, and no other listener has them.
    """
    global _watch
    flag = cancellation.poll_flag()
    if threading.get_ident() != _MAIN or _handler_of(_SIGINT) is not _RAISES:
        return flag
    if _watch is None:
        _watch = _Watch()
    now = time.monotonic()
    if now - _watch.armed > _ARM_S:
        _watch.armed = now
        before = signal.set_wakeup_fd(_watch.writer.fileno(), warn_on_full_buffer=False)
        if before not in (-1, _watch.writer.fileno()):
            signal.set_wakeup_fd(before)
    _watch.flags.append(flag)
    return flag


def unwatched(flag: np.ndarray) -> None:
    """Stop setting a loop's flag, since it is over."""
    watch = _watch
    if watch is not None:
        for k, other in enumerate(watch.flags):
            if other is flag:
                del watch.flags[k]
                return


def _forget() -> None:
    """Forget the parent's reader and socket in a child."""
    global _watch, _MAIN
    _MAIN = threading.main_thread().ident
    if _watch is not None and threading.get_ident() == _MAIN:
        before = signal.set_wakeup_fd(-1)
        if before not in (-1, _watch.writer.fileno()):
            signal.set_wakeup_fd(before)
    _watch = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

__all__ = ["unwatched", "watched"]
