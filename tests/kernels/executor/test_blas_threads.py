"""References leave the cores to background work, and the user's number of BLAS threads stays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tfjit.compat.v1 as tf1
from tfjit.framework import cooperative_yield
from tfjit.framework.types import dtypes
from tfjit.kernels.executor import blas_threads
from tfjit.kernels.executor.blas_threads import (
    ThreadLimits,
    busy_cores,
    on_free_cores,
    on_session_threads,
)
from tfjit.kernels.jit.store import KernelStore
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_reference


class Library:
    """A BLAS that only has a number of threads."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.limits = ThreadLimits(lambda: self.number, self.put)

    def put(self, number: int) -> None:
        self.number = number


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """A BLAS of four threads, on four cores of which one is busy."""
    made = Library(4)
    monkeypatch.setattr(blas_threads, "thread_limits", lambda: made.limits)
    monkeypatch.setattr(blas_threads, "available_cpus", lambda: 4)
    monkeypatch.setattr(blas_threads, "busy_cores", lambda: 1)
    return made


def test_a_call_is_limited_to_the_free_cores(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_free_cores
    def number() -> int:
        return library.number

    assert number() == 3
    assert library.number == 4
    for busy, expected in ((0, 4), (2, 2), (4, 1), (9, 1)):
        monkeypatch.setattr(blas_threads, "busy_cores", lambda busy=busy: busy)
        assert number() == expected
        assert library.number == 4
    monkeypatch.setattr(blas_threads, "busy_cores", lambda: 1)
    library.number = 2  # the user's own is lower
    assert number() == 2
    assert library.number == 2


def test_a_session_of_few_threads_has_as_many_of_blas(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_free_cores
    def number() -> int:
        return library.number

    assert on_session_threads(number, 4) is number
    assert on_session_threads(number, 2)() == 2
    assert library.number == 4
    monkeypatch.setattr(blas_threads, "busy_cores", lambda: 0)
    assert on_session_threads(number, 1)() == 1
    assert number() == library.number == 4


def test_the_number_comes_back_behind_an_exception(library: Library) -> None:
    @on_free_cores
    def fails() -> None:
        assert library.number == 3
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert library.number == 4


def test_the_lowest_limit_of_calls_in_progress_holds() -> None:
    library = Library(8)
    library.limits.enter(4)
    library.limits.enter(2)
    library.limits.enter(4)
    assert library.number == 2
    library.limits.leave(4)
    assert library.number == 2
    library.limits.leave(2)
    assert library.number == 4
    library.limits.leave(4)
    assert library.number == 8


def test_a_number_set_meanwhile_stays() -> None:
    library = Library(8)
    library.limits.enter(2)
    library.number = 5
    library.limits.enter(1)
    library.limits.leave(1)
    library.limits.leave(2)
    assert library.number == 5


def test_calls_of_many_threads_leave_the_number_as_it_was() -> None:
    library = Library(8)
    start = threading.Barrier(4)

    def calls(limit: int) -> None:
        start.wait()
        for _ in range(2000):
            library.limits.enter(limit)
            assert library.number <= limit
            library.limits.leave(limit)

    threads = [threading.Thread(target=calls, args=(limit,)) for limit in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert library.number == 8


def test_compiler_processes_and_plan_building_are_busy_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Worker:
        def __init__(self, *kernels: str) -> None:
            self.in_flight = kernels

    store = KernelStore()
    monkeypatch.setattr(blas_threads, "store", store)
    assert busy_cores() == 0
    monkeypatch.setattr(
        store.compilations.queue, "workers", [Worker("a", "b"), Worker(), Worker("c")]
    )
    assert busy_cores() == 2
    with cooperative_yield.background():
        assert busy_cores() == 3
    assert busy_cores() == 2


def test_another_blas_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_threads, "thread_limits", lambda: None)
    monkeypatch.setattr(blas_threads, "busy_cores", lambda: 1)
    assert on_free_cores(lambda x: x + 1)(1) == 2


def numpys_blas() -> ThreadLimits:
    """The limits of NumPy's BLAS; skips where that is another than OpenBLAS."""
    limits = blas_threads.thread_limits()
    if limits is None:
        pytest.skip("NumPy's BLAS is no OpenBLAS")
    return limits


@pytest.fixture
def two_threads() -> Iterator[Callable[[], int]]:
    """NumPy's BLAS with two threads; gives the function that reads their number."""
    limits = numpys_blas()
    before = limits._get()
    limits._put(2)
    yield limits._get
    limits._put(before)


def test_references_run_on_one_blas_thread_beside_the_compiler(
    monkeypatch: pytest.MonkeyPatch, two_threads: Callable[[], int]
) -> None:
    monkeypatch.setattr(blas_threads, "available_cpus", lambda: 2)
    numbers = []
    matmul = np.matmul

    def spied(*args: object, **kwargs: object) -> object:
        numbers.append(two_threads())
        return matmul(*args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(np, "matmul", spied)
    value = np.ones((2, 2), np.float32)
    spec = TensorSpec(dtypes.float32, (2, 2))
    for op in ("MatMul", "BatchMatMulV2"):
        kernel = find_reference(op)
        assert kernel is not None
        node = NodeSpec("product", op, {}, (spec, spec), (), {})
        kernel(node, [value, value])
        with cooperative_yield.background():
            kernel(node, [value, value])
        assert numbers[-2:] == [2, 1]
        assert two_threads() == 2


@pytest.mark.parametrize("straight_line", [True, False])
@pytest.mark.parametrize(("threads", "expected"), [(1, 1), (0, 2)])
def test_a_session_runs_references_on_its_own_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
    two_threads: Callable[[], int],
    straight_line: bool,
    threads: int,
    expected: int,
) -> None:
    monkeypatch.setenv("TFJIT_JIT", "off")
    monkeypatch.delenv("TFJIT_THREADS", raising=False)
    if not straight_line:
        monkeypatch.setenv("TFJIT_DISABLE", "straight_line")
    monkeypatch.setattr(blas_threads, "available_cpus", lambda: 2)
    monkeypatch.setattr("tfjit.runtime.session.session_config.cores", lambda: 2)
    monkeypatch.setattr(blas_threads, "busy_cores", lambda: 0)
    numbers = []
    matmul = np.matmul

    def spied(*args: object, **kwargs: object) -> object:
        numbers.append(two_threads())
        return matmul(*args, **kwargs)  # type: ignore[call-overload]

    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf1.float32, [2, 2])
        y = tf1.nn.relu(tf1.matmul(x, x))  # fused: the group's reference runs its members
    config = tf1.ConfigProto(intra_op_parallelism_threads=threads)
    monkeypatch.setattr(np, "matmul", spied)
    with tf1.Session(graph=graph, config=config) as session:
        for _ in range(2):
            session.run(y, {x: np.ones((2, 2), np.float32)})
    assert set(numbers) == {expected}
    assert two_threads() == 2


def test_a_forked_child_has_the_users_number(two_threads: Callable[[], int]) -> None:
    """The thread that lowered it in the parent does not exist there."""
    limits = numpys_blas()
    limits.enter(1)
    try:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            limits.enter(1)
            number = two_threads()
            limits.leave(1)
            a = np.ones((300, 300), np.float32)
            sound = bool((a @ a == 300).all())
            os.write(writing, f"{number} {two_threads()} {sound}".encode())
            os._exit(0)
        assert two_threads() == 1
        os.waitpid(child, 0)
        assert os.read(reading, 100) == b"1 2 True"
        os.close(reading)
        os.close(writing)
    finally:
        limits.leave(1)
    assert two_threads() == 2
