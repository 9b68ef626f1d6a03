"""The lock has one holder, whose end frees it, and remembers the last one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfjit.kernels.jit.build_lock import BuildLock

pytest.importorskip("fcntl")


def test_one_process_holds_the_lock(tmp_path: Path) -> None:
    lock, other = BuildLock(tmp_path, "level"), BuildLock(tmp_path, "level")
    assert lock.holder() == 0 and lock.age_s() == float("inf") and lock.failure() == ""
    assert lock.acquire() and not other.acquire()
    assert other.holder() == os.getpid() and other.age_s() < 60
    assert BuildLock(tmp_path, "another").acquire()
    lock.note("it broke")
    assert other.failure() == "it broke"
    lock.release()
    assert other.holder() == 0 and other.failure() == "it broke"
    assert other.acquire() and lock.failure() == ""
    other.release()


def test_the_end_of_a_process_frees_the_lock(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        os._exit(not BuildLock(tmp_path, "level").acquire())
    assert os.waitpid(child, 0)[1] == 0
    lock = BuildLock(tmp_path, "level")
    assert lock.holder() == 0 and lock.acquire()
    lock.release()
