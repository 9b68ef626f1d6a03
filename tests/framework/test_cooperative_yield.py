"""Background work leaves the interpreter to others in slices, and costs nobody else anything."""

from __future__ import annotations

import sys
import threading

import pytest

from tfjit.framework import cooperative_yield


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times slept, on a clock that moves by itself."""
    slept: list[float] = []
    clock = iter(range(1, 1_000_000))

    class Clock:
        busy_s = 0.0
        perf_counter = staticmethod(lambda: next(clock) * 60e-6)
        sleep = staticmethod(slept.append)
        process_time = staticmethod(lambda: Clock.busy_s)
        thread_time = staticmethod(lambda: 0.0)

    monkeypatch.setattr(cooperative_yield, "time", Clock)
    return slept


def test_only_background_work_sleeps(naps: list[float]) -> None:
    for _ in range(100):
        cooperative_yield.yield_interpreter()
    assert not naps
    with cooperative_yield.background():
        other = threading.Thread(
            target=lambda: [cooperative_yield.yield_interpreter() for _ in range(100)]
        )
        other.start()
        other.join()
        assert not naps
        for _ in range(100):
            cooperative_yield.yield_interpreter()
    assert naps
    count = len(naps)
    cooperative_yield.yield_interpreter()
    assert len(naps) == count


def test_slices_are_longer_while_nobody_else_is_busy(naps: list[float]) -> None:
    def slept_in(loops: int) -> int:
        before = len(naps)
        for _ in range(loops):
            cooperative_yield.yield_interpreter()
        return len(naps) - before

    with cooperative_yield.background():
        slept_in(10)
        idle = slept_in(200)
        now = 0.0

        def busy() -> float:
            nonlocal now
            now += 1.0
            return now

        cooperative_yield.time.process_time = staticmethod(busy)  # type: ignore[misc, assignment]
        slept_in(200)
        assert slept_in(200) > 4 * idle > 0


def test_a_larger_share_means_longer_slices(naps: list[float]) -> None:
    counts = []
    for share in (0.1, 0.9):
        with cooperative_yield.background(lambda share=share: share):  # type: ignore[misc]
            ticks = iter(range(1_000_000))
            cooperative_yield.time.process_time = staticmethod(
                lambda ticks=ticks: float(next(ticks))
            )  # type: ignore[misc, assignment]
            before = len(naps)
            for _ in range(400):
                cooperative_yield.yield_interpreter()
            counts.append(len(naps) - before)
    assert counts[0] > 2 * counts[1] > 0


@pytest.mark.parametrize(
    ("share", "slice_s"), [(0.1, 5e-3 / 9), (0.4, 2e-3), (0.5, 5e-3), (0.8, 5e-3)]
)
def test_half_of_the_time_is_as_long_as_other_threads_take(
    monkeypatch: pytest.MonkeyPatch, share: float, slice_s: float
) -> None:
    """Another thread holds the interpreter for 5 ms each time that it gets it."""
    clock = iter([0.0, 5e-3])

    class Clock:
        perf_counter = staticmethod(lambda: next(clock))
        sleep = staticmethod(lambda seconds: None)
        process_time = staticmethod(iter([0.0, 5e-3]).__next__)
        thread_time = staticmethod(lambda: 0.0)

    monkeypatch.setattr(cooperative_yield, "time", Clock)
    state = cooperative_yield._YieldState(lambda: share)
    state.end_slice()
    assert state.slice_s == pytest.approx(slice_s)


def test_an_exception_ends_the_background(naps: list[float]) -> None:
    with pytest.raises(KeyError), cooperative_yield.background():
        raise KeyError
    for _ in range(100):
        cooperative_yield.yield_interpreter()
    assert not naps


def test_imports_shorten_the_switch_interval() -> None:
    usual = sys.getswitchinterval()
    try:
        with cooperative_yield.prompt_interpreter():
            assert sys.getswitchinterval() < usual
        assert sys.getswitchinterval() == usual
        with cooperative_yield.prompt_interpreter():
            sys.setswitchinterval(0.5)  # the program's own choice stays
        assert sys.getswitchinterval() == 0.5
        sys.setswitchinterval(1e-4)
        with cooperative_yield.prompt_interpreter():  # it never makes the interval longer
            assert sys.getswitchinterval() == pytest.approx(1e-4, rel=0.1)
    finally:
        sys.setswitchinterval(usual)
