"""Keep imports and LLVM calls of other threads out of a fork.

Only the forking thread lives on in the child. A module whose import another thread had begun would
never be imported there: its lock stays held. The same holds for llvmlite's lock.
"""

from __future__ import annotations

import _imp
import importlib
import logging
import sys
import threading
import time
from typing import Final, Protocol, cast

log = logging.getLogger("tfjit.cache")

_WAIT_S: Final = 10.0
_LOOK_S: Final = 1e-3


class _Lock(Protocol):
    def acquire(self) -> bool: ...

    def release(self) -> None: ...


_llvm_lock: _Lock | None = None  # held by the forking thread


def hold() -> None:
    """End other threads' imports and LLVM calls; let none begin.

    To be called last before a fork: a thread that waits for another lock of ours in the middle of
    an import is given up after ten seconds.
    """
    global _llvm_lock
    deadline = time.monotonic() + _WAIT_S
    while True:
        # No import begins without the import lock, which is recursive: os.fork takes it again.
        _imp.acquire_lock()
        if not _imports_of_others():
            break
        if time.monotonic() > deadline:
            log.warning("another thread was importing a module when the process was forked")
            break
        _imp.release_lock()
        time.sleep(_LOOK_S)
    _llvm_lock = _find_llvm_lock()
    if _llvm_lock is not None:
        _llvm_lock.acquire()


def release() -> None:
    """Allow imports and LLVM calls again, in parent and child."""
    global _llvm_lock
    if _llvm_lock is not None:
        _llvm_lock.release()
        _llvm_lock = None
    if _imp.lock_held():
        _imp.release_lock()


def _imports_of_others() -> list[str]:
    """Return the names of modules that other threads import.

    Those about to begin count, too. Python has no public list.
    """
    locks = getattr(importlib._bootstrap, "_module_locks", {})
    here = threading.get_ident()
    return [
        name
        for name, reference in list(locks.items())
        if (lock := reference()) is not None and not _is_owner(lock, here)
    ]


def _is_owner(lock: object, thread: int) -> bool:
    return getattr(lock, "owner", None) == thread


def _find_llvm_lock() -> _Lock | None:
    """Return the lock of llvmlite's calls; None before its import."""
    module = sys.modules.get("llvmlite.binding.ffi")
    guard = getattr(getattr(module, "lib", None), "_lock", None)
    return cast("_Lock | None", getattr(guard, "_lock", None))
