"""Sharing a launch between threads: every chunk exactly once, whoever does it; sleep, wake, exit
and fork.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.executor.pool_jobs import SOURCE, job, wait_until
from tests.waiting import is_blocked, switches
from tfjit.kernels.executor import table_executor, thread_pool
from tfjit.kernels.executor.table_executor import StepTable
from tfjit.kernels.executor.thread_pool import IntraOpPool, get_pool
from tfjit.kernels.jit.store import store


@pytest.fixture(scope="module")
def code() -> dict[str, int]:
    store.compile([SOURCE])
    found = store.lookup(SOURCE)
    assert found is not None
    return found


@pytest.fixture
def pool() -> Iterator[IntraOpPool]:
    made = IntraOpPool(3, patience_us=1e9)  # it may have more threads than there are cores
    yield made
    made.stop()


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_each_chunk_once(code: dict[str, int], threads: int) -> None:
    pool = IntraOpPool(threads)
    try:
        for chunks in (1, 2, 3, 7, 64):
            args, counts, _ = job(chunks)
            for _ in range(300):
                pool.run(code["mark"], int(args.ctypes.data), chunks)
            assert (counts == 300).all(), (chunks, counts)
        args, counts, _ = job(1)
        pool.run(code["mark"], int(args.ctypes.data), 0)
        assert counts.tolist() == [0]
    finally:
        pool.stop()


def test_helpers_take_part(code: dict[str, int], pool: IntraOpPool) -> None:
    """Every chunk waits until all have begun, so three threads must each have one."""
    for _ in range(20):
        met = np.zeros(2, np.int64)
        args = np.zeros(8, np.int64)
        args[2:4] = met.ctypes.data, 10**10
        pool.run(code["meet"], int(args.ctypes.data), 3)
        assert met.tolist() == [3, 3]


def test_a_caller_whose_helpers_lost_their_core_goes_on_alone(code: dict[str, int]) -> None:
    """With no patience every wait counts as a displaced helper, and nobody is asked for as long,
    and longer each time.
    """
    pool = IntraOpPool(2, patience_us=-1e9)
    try:
        args, counts, _ = job(8, 20000)
        for _ in range(200):
            pool.run(code["spin"], int(args.ctypes.data), 8)
        assert (counts == 200).all()
        assert pool._state[30] != 0
        assert 0 < pool._state[23] <= 4
    finally:
        pool.stop()


def test_callers_leave_each_other_their_cores(code: dict[str, int]) -> None:
    """While another thread walks a table, a pool of two has no helper to spare: the chunks run one
    after the other.
    """
    pool = IntraOpPool(2, patience_us=1e9)
    met, seen = np.zeros(2, np.int64), np.zeros(4, np.int64)
    held = np.array([0, 0, met.ctypes.data, 10**11, 0, 0, 0, 0], np.int64)
    mine = np.array([0, 0, seen.ctypes.data, 0, 0, 0, 0, 0], np.int64)
    table = StepTable(0, [(code["wait_for"], int(held.ctypes.data), 1)], release_gil=True)
    other = threading.Thread(target=table_executor.get(), args=(table.words,))
    other.start()
    try:
        assert wait_until(lambda: met[0] == 1)
        pool.run(code["spin_and_note"], int(mine.ctypes.data), 8)
        assert seen[:3].tolist() == [8, 1, 0]  # chunks done, at most so many at once, none going on
        met[1] = 1
        other.join()
        # the helper takes part again, once it gets a core
        assert wait_until(
            lambda: pool.run(code["spin_and_note"], int(mine.ctypes.data), 8) or seen[1] == 2
        )
    finally:
        met[1] = 1
        other.join()
        pool.stop()


def test_short_jobs_leave_sleepers_asleep(code: dict[str, int]) -> None:
    """A job predicted too short for a wake-up runs on its caller's thread; many in a row wake the
    helper.
    """
    pool = IntraOpPool(2, spin_us=20000.0)
    (helper,) = pool._threads
    walk = table_executor.get()
    args, counts, _ = job(4, 10)
    row = [(code["spin"], int(args.ctypes.data), 4)]
    try:
        ticks = int(table_executor.ticks_per_second() * 1e-6)
        short = StepTable(0, row, costs=[3 * ticks], pool=pool.state_address)
        long = StepTable(0, row, costs=[300 * ticks], pool=pool.state_address)
        for table, awake in ((short, False), (long, True)):
            assert wait_until(lambda: pool.asleep() == 1 and is_blocked(helper))
            time.sleep(0.03)  # longer than the spin: what was missed before is forgotten
            before = switches(helper)
            assert walk(table.words) == 0
            # by now it may sleep again
            assert (pool.asleep() == 0 or switches(helper) != before) is awake
        assert wait_until(lambda: pool.asleep() == 1 and is_blocked(helper))
        before = switches(helper)
        for _ in range(40):
            walk(short.words)
        assert pool.asleep() == 0 or switches(helper) != before
        assert (counts == 42).all()
    finally:
        pool.stop()


def test_several_callers(code: dict[str, int], pool: IntraOpPool) -> None:
    """One has the slot, the others do their chunks alone; nobody's chunks are lost or
    done twice.
    """
    walk, wrong = table_executor.get(), []

    def work(release: bool) -> None:
        args, counts, _ = job(4, 300)
        table = StepTable(
            0,
            [(code["spin"], int(args.ctypes.data), 4)] * 10,
            pool=pool.state_address,
            release_gil=release,
        )
        for _ in range(200):
            if walk(table.words):
                wrong.append("stopped")
        if (counts != 2000).any():
            wrong.append(counts.tolist())

    threads = [threading.Thread(target=work, args=(n != 0,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_different_jobs_follow_each_other(code: dict[str, int], pool: IntraOpPool) -> None:
    """A helper that comes late must not run an old job's code over a new one's block."""
    walk = table_executor.get()
    jobs = [job(2 + n % 3) for n in range(50)]
    rows = [
        (code["mark" if n % 2 else "spin"], int(args.ctypes.data), len(counts))
        for n, (args, counts, _) in enumerate(jobs)
    ]
    table = StepTable(0, rows, pool=pool.state_address, release_gil=True)
    for _ in range(500):
        assert walk(table.words) == 0
    assert all((counts == 500).all() for _, counts, _ in jobs)


def test_status_of_a_chunk_stops_the_step(code: dict[str, int], pool: IntraOpPool) -> None:
    walk = table_executor.get()
    for failing in range(6):
        args = np.zeros(8, np.int64)
        args[2] = failing
        after, counts, _ = job(1)
        table = StepTable(
            0,
            [
                (code["fail_in"], int(args.ctypes.data), 6),
                (code["mark"], int(after.ctypes.data), 1),
            ],
            pool=pool.state_address,
        )
        assert walk(table.words) == 1
        assert args[:2].tolist() == [3, failing] and counts[0] == 0


def test_helpers_flush_denormals(code: dict[str, int], pool: IntraOpPool) -> None:
    values = np.full(64, 1.5e-38, np.float32)
    args = np.zeros(8, np.int64)
    args[2:4] = values.ctypes.data, 20_000
    pool.run(code["halve"], int(args.ctypes.data), 64)
    assert not values.any()
    assert np.float32(1.5e-38) * np.float32(0.5) != 0


def test_spin_is_bounded_and_sleepers_wake(code: dict[str, int], pool: IntraOpPool) -> None:
    assert wait_until(lambda: pool.asleep() == 2)
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in pool._threads if thread.ident]
    used = sum(map(time.clock_gettime, clocks))
    time.sleep(0.3)
    assert len(clocks) == 2 and sum(map(time.clock_gettime, clocks)) - used < 0.1
    args, counts, _ = job(8, 2_000_000)
    pool.run(code["spin"], int(args.ctypes.data), 8)
    assert (counts == 1).all()
    assert wait_until(lambda: pool.asleep() == 2)


def test_sleep_and_work_many_times(code: dict[str, int]) -> None:
    """Posting while helpers fall asleep: no wake-up is lost, no chunk either."""
    pool = IntraOpPool(3, spin_us=5.0)
    args, counts, _ = job(3)
    for n in range(3000):
        pool.run(code["mark"], int(args.ctypes.data), 3)
        if n % 3 == 0:
            end = time.perf_counter() + 1e-6 * (n % 13)
            while time.perf_counter() < end:
                pass
    assert (counts == 3000).all()
    pool.stop(60.0)
    assert not any(
        thread.name.startswith("tfjit-intraop") and thread in pool._threads
        for thread in threading.enumerate()
    )


def test_stopped_pool_still_runs_jobs(code: dict[str, int]) -> None:
    pool = IntraOpPool(2)
    (helper,) = pool._threads
    pool.stop(60.0)
    assert not helper.is_alive()
    args, counts, _ = job(5)
    pool.run(code["mark"], int(args.ctypes.data), 5)
    assert (counts == 1).all()
    pool.stop()


def test_dropped_pool_ends_its_helpers() -> None:
    pools = [IntraOpPool(2) for _ in range(10)]
    helpers = [pool._threads[0] for pool in pools]
    del pools
    assert wait_until(lambda: not any(helper.is_alive() for helper in helpers))


def test_get_pool_is_shared_and_not_larger_than_the_machine() -> None:
    assert get_pool(1) is get_pool(1)
    assert get_pool(1).num_threads == 1
    cpus = len(os.sched_getaffinity(0))
    assert get_pool(0) is get_pool(cpus) is get_pool(10 * cpus)
    with pytest.raises(ValueError, match="at least one thread"):
        IntraOpPool(0)


def run_python(body: str) -> None:
    script = f"""if True:
        import ctypes, os, sys, threading
        sys.path.insert(0, {str(Path(__file__).parents[3])!r})
        import numpy as np
        from tfjit.kernels.executor import table_executor
        from tfjit.kernels.executor.thread_pool import IntraOpPool, get_pool, _pools
        from tfjit.kernels.jit.store import store
        from tests.kernels.executor.pool_jobs import SOURCE, job, wait_until
        store.compile([SOURCE])
        code = store.lookup(SOURCE)
        {body}
    """
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "done\n")


def test_exit_does_not_hang() -> None:
    run_python("""
        pools = [IntraOpPool(3) for _ in range(5)] + [get_pool(2)]
        args, counts, _ = job(3)
        for pool in pools:
            pool.run(code["mark"], args.ctypes.data, 3)
        print("done")
    """)


def test_exit_while_a_thread_runs_a_step() -> None:
    run_python("""
        args, counts, _ = job(4, 1000)
        table = table_executor.StepTable(0, [(code["spin"], args.ctypes.data, 4)] * 10, pool=get_pool(2).state_address, release_gil=True)
        def work():
            while True:
                table_executor.get()(table.words)
        threading.Thread(target=work, daemon=True).start()
        assert wait_until(lambda: counts[0] > 100)
        for kept in (args, counts, table):  # the thread runs on while globals are dropped
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        print("done", flush=True)
    """)


def test_fork() -> None:
    run_python("""
        pool = get_pool(2) if len(os.sched_getaffinity(0)) > 1 else IntraOpPool(2)
        _pools[pool.num_threads, True] = pool
        args, counts, _ = job(4, 1000)
        run = lambda: pool.run(code["spin"], args.ctypes.data, 4)
        run()
        child = os.fork()
        run()  # in the child without helpers
        assert counts.tolist() == [2] * 4
        if not child:
            assert not pool._threads and pool._state[33] == 0
            assert get_pool(pool.num_threads) is pool and pool._threads[0].is_alive()
        run()
        assert counts.tolist() == [3] * 4
        if child:
            assert os.waitpid(child, 0)[1] == 0
            print("done")
    """)


def test_offsets_of_state() -> None:
    """The words that thread_pool.py fills in are those that the compiled loop reads (see both
    files' layout).
    """
    pool = IntraOpPool(2, spin_us=10.0)
    assert pool.state_address % 64 == 0
    assert pool._state[33] == 1
    assert pool._state[34] == pytest.approx(10e-6 * table_executor.ticks_per_second(), rel=0.5)
    assert all(pool._state[35:38]) and pool._state[41]
    assert thread_pool.DEFAULT_SPIN_US <= 100
    pool.stop()
