"""Coordinator: threads that stop together.

It keeps the error of the first thread that failed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tfjit.framework import errors


class Coordinator:
    """A flag that several threads watch.

    Each asks `should_stop` and ends when it says so; any may call `request_stop`, with an exception
    that `join` raises then. clean_stop_exception_types: exceptions that only mean the end
    (OutOfRangeError by default).
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        clean = (
            (errors.OutOfRangeError,)
            if clean_stop_exception_types is None
            else tuple(clean_stop_exception_types)
        )
        self._clean = clean
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._failure: BaseException | None = None
        self._joined = False
        self._registered: set[threading.Thread] = set()

    def request_stop(self, ex: object = None) -> None:
        """Ask the threads to stop.

        ex: an exception, or a result of `sys.exc_info()`, for `join` to raise. Only the first one
        counts; after `join` has returned it is raised at once.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        if isinstance(error, self._clean):
            error = None
        with self._lock:
            if self._joined:
                if isinstance(error, BaseException):
                    raise error
                return
            if not self._stop_event.is_set():
                if error is not None and not isinstance(error, BaseException):
                    raise TypeError(f"request_stop takes an exception, got {type(error).__name__}")
                self._failure = error
                self._stop_event.set()

    def clear_stop(self) -> None:
        """Forget that a stop was asked for, and its exception."""
        with self._lock:
            self._joined = False
            self._failure = None
            self._stop_event.clear()

    def should_stop(self) -> bool:
        """Return whether a stop was asked for."""
        return self._stop_event.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turn exceptions of the block into a request to stop."""
        try:
            yield
        except Exception:
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is asked for, at most `timeout` seconds.

        Returns whether a stop was asked for.
        """
        return self._stop_event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let `join` wait for a thread too."""
        with self._lock:
            self._registered.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for the threads, and raise the exception of the stop request.

        Once a stop was asked for, threads have the grace period to end. Raises RuntimeError, naming
        them, when some do not, unless ignore_live_threads.
        """
        with self._lock:
            waited_for = self._registered.union(threads or ())
        while any(thread.is_alive() for thread in waited_for) and not self.wait_for_stop(1.0):
            pass
        asked = self._stop_event.is_set()
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waited_for:
            thread.join(max(0.0, deadline - time.monotonic()) if asked else None)
        left = [thread.name for thread in waited_for if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._registered.clear()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if left and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {' '.join(left)}")

    @property
    def joined(self) -> bool:
        """Return whether `join` has returned."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raise the exception of the stop request, if there is one."""
        with self._lock:
            failure = self._failure
        if failure is not None:
            raise failure


class LooperThread(threading.Thread):
    """A thread that calls `run_loop` again and again until the coordinator stops.

    timer_interval_secs: between the beginnings of calls; None: one after the other. target, args,
    kwargs: the call of `run_loop`.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:
        super().__init__(daemon=True)
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        self._coord = coord
        self._interval = timer_interval_secs
        self._looped, self._loop_args, self._loop_kwargs = (
            target,
            tuple(args or ()),
            dict(kwargs or {}),
        )
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object],
        args: object = None,
        kwargs: object = None,
    ) -> Any:
        """Start such a thread."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Do the thread's work."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.monotonic()
                while not self._coord.wait_for_stop(max(0.0, due - time.monotonic())):
                    due += self._interval
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Prepare; called once before the first loop."""

    def stop_loop(self) -> None:
        """Clean up; called once after the last loop."""

    def run_loop(self) -> None:
        """Do one loop; called again and again."""
        if self._looped is not None:
            self._looped(*self._loop_args, **self._loop_kwargs)
