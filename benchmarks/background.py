"""Measure the throughput that background compilation takes from a program.

`python -m benchmarks.background [--nodes N]`. A small graph that keeps the interpreter busy, and a
product that keeps one or two kernel threads busy, run in a loop: alone, then while the compiler
process compiles kernels that the cache lacks, then while a big graph of another session is
optimised in this process, then while another process builds the machine's archive. Throughput beside each, as a share of the throughput before and after.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_SLICE_S = 0.25


def _rate(run: Callable[[], Any], seconds: float) -> float:
    """Runs a second."""
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        run()
        count += 1
    return count / elapsed


def _until(run: Callable[[], Any], done: Callable[[], bool], limit_s: float) -> tuple[float, float]:
    """(runs a second, seconds) until `done`."""
    count, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < limit_s:
        run()
        count += 1
        if done():
            break
    return count / elapsed, elapsed


def _ready(session: Any) -> Any:
    (plan,) = session._runtime_session.plan_cache.plans()
    (variant,) = plan.variants.values()
    return variant


def _programs(threads: int) -> dict[str, tuple[Any, Callable[[], Any]]]:
    import tfjit

    found: dict[str, tuple[Any, Callable[[], Any]]] = {}
    config = tfjit.ConfigProto(intra_op_parallelism_threads=threads)
    for name, size in (
        ("small chain", 0),
        (f"product, {threads} thread{'s' * (threads > 1)}", 512),
    ):
        graph = tfjit.Graph()
        with graph.as_default():
            x = tfjit.placeholder(tfjit.float32, [size, size] if size else [4], name="x")
            y = tfjit.matmul(x, x) if size else tfjit.tanh(x * x + x) * x
        session = tfjit.Session(graph=graph, config=config)
        value = np.full(x.shape.as_list(), 0.1, np.float32)
        run = session.make_callable(y, [x])
        run(value)
        assert session.wait_until_compiled(60)
        found[name] = session, lambda run=run, value=value: run(value)
    return found


def _beside(
    run: Callable[[], Any], start: Callable[[], Callable[[], bool]], limit_s: float
) -> tuple[float, float, float]:
    """(rate alone, rate beside, seconds beside)."""
    before = _rate(run, 4 * _SLICE_S)
    done = start()
    beside, seconds = _until(run, done, limit_s)
    return (before + _rate(run, 4 * _SLICE_S)) / 2, beside, seconds


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.background", description=__doc__)
    parser.add_argument(
        "--nodes",
        type=int,
        default=10_000,
        help="size of the graph that is optimised (default 10000)",
    )
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each (default 20)")
    parser.add_argument(
        "--what",
        nargs="*",
        default=["compiler", "passes", "archive"],
        help="compiler, passes, archive",
    )
    args = parser.parse_args()
    os.environ["TFJIT_CACHE_DIR"] = tempfile.mkdtemp()
    os.environ["TFJIT_PRECOMPILED"] = "0"  # the compiler is measured
    import tfjit
    from benchmarks.scripts.scale import random_dag
    from tfjit.kernels.jit.archive_job import COMMAND
    from tfjit.kernels.jit.build_lock import BuildLock
    from tfjit.kernels.jit.precompiled import archive_level
    from tfjit.kernels.jit.store import store
    from tfjit.kernels.source import KernelSource

    message = tfjit.GraphDef()
    message.ParseFromString(random_dag(args.nodes))
    big = tfjit.Graph()
    with big.as_default():
        tfjit.import_graph_def(message, name="")
    fresh = iter(range(1_000_000))
    kept: list[Any] = []  # keeps the session alive: an unreferenced session closes itself

    # the compiler is up
    store.compile([KernelSource("def kernel(args, chunk, nchunks):\n    return\n")])

    def compile_kernels() -> Callable[[], bool]:
        lines = "\n".join(f"        y = y * x + {k}.5" for k in range(40))
        text = (
            "def kernel(args, chunk, nchunks):\n    y = 1.0\n    for x in range(args):\n{}\n   "
            " "
            "return\n"
        )
        sources = [KernelSource(f"# {next(fresh)}\n" + text.format(lines)) for _ in range(12)]
        store.request(sources)
        return lambda: store.are_final(sources)

    def optimise() -> Callable[[], bool]:
        session = tfjit.Session(graph=big)
        feeds = {
            op.outputs[0]: np.zeros(16, np.float32)
            for op in big.get_operations()
            if op.type == "Placeholder"
        }
        session.run("y:0", feeds)
        kept.append(session)
        variant = _ready(session)
        return lambda: variant.step is not None

    def build_archive() -> Callable[[], bool]:
        folder = Path(tempfile.mkdtemp())
        subprocess.run([sys.executable, "-m", COMMAND, str(folder)], check=True)
        lock = BuildLock(folder, archive_level())
        end = time.perf_counter() + args.limit

        def done() -> bool:
            if time.perf_counter() < end:
                return False
            os.kill(lock.holder(), signal.SIGTERM)
            return True

        return done

    print(
        f"{'program':<22} {'beside':<12} {'alone, us':>10} {'beside, us':>11} {'share':>6} "
        f"{'seconds':>8}"
    )
    for threads in (1, 2):
        for name, (_, run) in _programs(threads).items():
            if threads > 1 and name == "small chain":
                continue
            for what, start in (
                ("compiler", compile_kernels),
                ("passes", optimise),
                ("archive", build_archive),
            ):
                if what not in args.what:
                    continue
                alone, beside, seconds = _beside(run, start, args.limit)
                print(
                    f"{name:<22} {what:<12} {1e6 / alone:10.1f} {1e6 / beside:11.1f} "
                    f"{beside / alone:6.2f} {seconds:8.2f}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
