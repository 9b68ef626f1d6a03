"""Test sessions under load: races, and growth over many sessions.

`python -m benchmarks.soak [--sessions N] [--threads N] [--runs N]`.

Races: threads run one session, of compiled steps, updates of a variable, waiting queue operations,
callables and runs with options, and it is closed under them; each call must end with the right
value, as cancelled, or as used after the closing. Sessions: many are made, run and closed, or
merely dropped, one after the other with the garbage collector off, and memory, threads and file
handles must not grow. The suite runs both in small (`tests/benchmarks/test_soak.py`).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tfjit

CLOSED = "Attempted to use a closed Session."


class Shop:
    """A graph with something of everything: compiled, stateful, waiting."""

    def __init__(self) -> None:
        self.graph = tfjit.Graph()
        with self.graph.as_default():
            self.x = tfjit.placeholder(tfjit.float32, [None], name="x")
            self.y = tfjit.tanh(self.x * 2.0) + 1.0
            self.count = tfjit.Variable(0, name="count")
            self.bump = self.count.assign_add(1, use_locking=True)
            self.queue = tfjit.FIFOQueue(100, [tfjit.float32], shapes=[[]])
            self.put, self.take = self.queue.enqueue(3.0), self.queue.dequeue()
            self.init = tfjit.global_variables_initializer()


@dataclass
class Race:
    """Count the ends of one race's calls.

    wrong: descriptions of those that ended otherwise.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    stuck: int = 0
    elapsed_s: float = 0.0


def race(threads: int, runs: int, close_after: float | None) -> Race:
    """Race `threads` threads of `runs` calls each on one session.

    close_after: the share of the calls after which it is closed; None: at the end.
    """
    shop = Shop()
    session = tfjit.Session(graph=shop.graph)
    session.run(shop.init)
    values = np.linspace(-1, 1, 7, dtype=np.float32)
    expected = session.run(shop.y, {shop.x: values})
    result = Race()
    lock = threading.Lock()
    started = threading.Barrier(threads + 1)
    calls = [0] * threads
    function = session.make_callable(shop.y, [shop.x])
    checks: list[tuple[Callable[[], Any], Callable[[Any], bool]]] = [
        (lambda: session.run(shop.y, {shop.x: values}), lambda v: np.allclose(v, expected)),
        (lambda: session.run(shop.bump), lambda v: v >= 1),
        (lambda: function(values), lambda v: np.allclose(v, expected)),
        (lambda: session.run(shop.put), lambda v: v is None),
        (lambda: session.run(shop.take), lambda v: v == 3),
        (
            lambda: session.run([shop.y, shop.count], {shop.x: values}, tfjit.RunOptions()),
            lambda v: np.allclose(v[0], expected),
        ),
    ]

    def work(index: int) -> None:
        outcomes: Counter[str] = Counter()
        wrong: list[str] = []
        started.wait()
        for i in range(runs):
            call, right = checks[i % len(checks)]
            calls[index] = i
            try:
                value = call()
                if right(value):
                    outcomes["right"] += 1
                else:
                    wrong.append(f"call {i}: {value!r}")
            except tfjit.errors.CancelledError:
                outcomes["cancelled"] += 1
            except RuntimeError as error:
                if str(error) == CLOSED:
                    outcomes["closed"] += 1
                else:
                    wrong.append(f"call {i}: {error!r}")
            except Exception as error:
                wrong.append(f"call {i}: {error!r}")
        with lock:
            result.outcomes += outcomes
            result.wrong += wrong

    pool = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(threads)]
    for thread in pool:
        thread.start()
    started.wait()
    began = time.perf_counter()
    if close_after is not None:
        while sum(calls) < close_after * runs * threads:
            time.sleep(0.001)
        session.close()
    for thread in pool:
        thread.join(600)
    result.stuck = sum(thread.is_alive() for thread in pool)
    result.elapsed_s = time.perf_counter() - began
    session.close()
    return result


@dataclass(frozen=True)
class Footprint:
    """Hold the process's resident memory, Python's blocks of memory, threads and file handles.

    blocks: those that Python's allocator has handed out, about one an object. They tell a leak of
    objects from a step of the allocator, which takes a megabyte at once.
    """

    memory_kb: int
    blocks: int
    threads: int
    handles: int

    @classmethod
    def now(cls) -> Footprint:
        """As the system counts them (Linux only)."""
        with open("/proc/self/status") as status:
            memory = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        blocks = sys.getallocatedblocks()
        return cls(
            memory, blocks, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        )

    @classmethod
    def settled(cls, before: Footprint, timeout_s: float = 10.0) -> Footprint:
        """Read the footprint once background work has let go of its files and threads.

        The store of kernels writes a file, and a thread ends, a moment after the run that asked.
        before: the footprint to return to. Returns the last reading when `timeout_s` have passed.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            found = cls.now()
            at_rest = found.threads <= before.threads and found.handles <= before.handles
            if at_rest or time.monotonic() > deadline:
                return found
            time.sleep(0.02)


def sessions(
    count: int,
    report: Callable[[int, Footprint], None] = lambda i, footprint: None,
    every: int = 1000,
) -> list[Footprint]:
    """Make, run and end `count` sessions over one graph.

    The garbage collector is off. Returns the process's resources before the first of them, after
    each `every`, and at the end, settled.
    """
    shop = Shop()
    config = tfjit.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2)
    values = np.linspace(-1, 1, 7, dtype=np.float32)

    def one(i: int) -> None:
        session = tfjit.Session(graph=shop.graph, config=config if i % 3 == 0 else None)
        session.run(shop.init)
        session.run(shop.put)
        session.run([shop.take, shop.bump, shop.y], {shop.x: values})
        if i % 2:
            session.partial_run_setup([shop.y], [shop.x])
        if i % 5:
            session.close()

    for i in range(30):  # imports, caches
        one(i)
    with tfjit.Session(graph=shop.graph) as session:  # compiled kernels, the compiler's threads
        session.run(shop.init)
        session.run(shop.put)
        session.run([shop.take, shop.bump, shop.y], {shop.x: values})
        session.wait_until_compiled(60)
    gc.collect()
    found = [Footprint.now()]
    was = gc.isenabled()
    gc.disable()
    try:
        for i in range(1, count + 1):
            one(i)
            if i % every == 0:
                found.append(Footprint.now())
                report(i, found[-1])
    finally:
        if was:
            gc.enable()
    found.append(Footprint.settled(found[0]))
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Returns 1 when a call ended wrongly or something has grown.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--runs", type=int, default=10_000, help="calls of each thread")
    args = parser.parse_args(argv)
    failed = False
    for close_after in (None, 0.1, 0.5, 0.9) if args.runs else ():
        result = race(args.threads, args.runs, close_after)
        outcomes = ", ".join(f"{count} {name}" for name, count in sorted(result.outcomes.items()))
        when = "at the end" if close_after is None else f"after {close_after:.0%} of the calls"
        print(
            f"{args.threads} threads x {args.runs} runs, closed {when}: {outcomes}, "
            f"{len(result.wrong)} wrong, {result.stuck} threads stuck"
        )
        print(f"  in {result.elapsed_s:.1f} s", *result.wrong[:5], sep="\n  ", flush=True)
        failed |= bool(result.wrong or result.stuck)
    if args.sessions:
        print("sessions    memory kB    blocks  threads  handles")

        def report(i: int, footprint: Footprint) -> None:
            print(
                f"{i:8}  {footprint.memory_kb:11}  {footprint.blocks:8}"
                f"  {footprint.threads:7}  {footprint.handles:7}",
                flush=True,
            )

        found = sessions(args.sessions, report, max(args.sessions // 10, 1))
        first, last = found[0], found[-1]
        grown = last.memory_kb - first.memory_kb
        print(f"from {first} to {last}: {grown / args.sessions:.3f} kB a session")
        failed |= (
            last.threads > first.threads
            or last.handles > first.handles
            or grown > 0.2 * args.sessions
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
