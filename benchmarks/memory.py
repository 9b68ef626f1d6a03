"""Measure the memory of runs: `python -m benchmarks.memory [NAME ...]`.

Each candidate runs each workload in a fresh process. Faults: minor page faults of a warmed-up run,
the result before still held, as a loop holds it. Running: peak resident memory during warmed-up
runs, over the memory that the process held before the session was made, with a tiny graph run by
then, so that imports and pools do not count. Loading: the same up to the first compiled run,
constants and compilation included. Linux only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.__main__ import scripts
from benchmarks.candidates import Candidate, candidates_for
from benchmarks.harness import graph_bytes
from benchmarks.workload import Workload

CANDIDATES = ("tfjit", "unfused", "tf")
DEFAULT = (
    *(
        "10-op mul/add/relu chain, 1e7, outputs kept",
        "[4096,1]",
        "chain with a transposed",
        "15-op tanh/sigmoid chain, 1e6",
    ),
    *(
        "softmax 4096",
        "layer norm",
        "variance along axis 0",
        "MLP 784-512-512-10, batch 256",
        "transformer",
        "CNN 28x28",
    ),
    *("MobileNetV2, batch 1", "training"),
)
RUNS = 20


def _chosen(names: list[str] | tuple[str, ...]) -> list[Workload]:
    everything = [(script, w) for script, workloads in scripts().items() for w in workloads]
    return [
        w for script, w in everything if any(n == script or w.name.startswith(n) for n in names)
    ]


def _status_mb(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise KeyError(key)


def _restart_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class _Made:
    """Return a warmed-up candidate, its feeds, and memory.

    The memory: held by the process before the candidate, and the peak since over that.
    """

    candidate: Candidate
    bound: list[Any]
    before_mb: float
    loading_mb: float


def _made(workload: Workload, name: str, threads: int) -> _Made:
    kind = next(k for k in candidates_for(workload, ("tf",)) if k.name == name)
    rng = np.random.default_rng(0)
    feeds = [workload.feeds(rng) for _ in range(2)]
    data = graph_bytes(workload)
    gc.collect()
    before = _status_mb("VmRSS")
    _restart_peak()
    candidate = kind(workload, data, feeds[0], threads, {})
    return _Made(
        candidate, [candidate.bind(f) for f in feeds], before, _status_mb("VmHWM") - before
    )


def measure_one(workload: Workload, name: str, threads: int) -> dict[str, float]:
    """The figures of one candidate, in this process."""
    tiny = next(w for w in scripts()["dispatch"] if w.name.startswith("15-op"))
    _made(tiny, name, threads).candidate.close()
    made = _made(workload, name, threads)
    run, bound = made.candidate.run, made.bound
    held = [run(bound[0])]
    # holding one result needs a buffer more than dropping it, as the warm-up did
    for n in range(4):
        held[0] = run(bound[n % 2])
    _restart_peak()
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for n in range(RUNS):
        held[0] = run(bound[n % 2])
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    running = _status_mb("VmHWM") - made.before_mb
    made.candidate.close()
    return {"faults": faults / RUNS, "running_mb": running, "loading_mb": made.loading_mb}


def main(argv: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="scripts, or workloads by the start of their names (default: a dozen)",
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument(
        "--one", choices=CANDIDATES, help="measure this candidate in this process and print JSON"
    )
    args = parser.parse_args(argv)
    chosen = _chosen(args.names or DEFAULT)
    if not chosen:
        print("no such benchmark; python -m benchmarks --list shows all", file=sys.stderr)
        return 2
    if args.one:
        print(json.dumps(measure_one(chosen[0], args.one, args.threads)))
        return 0
    print(
        f"{'page faults a run; MB while running; MB while loading':<50}"
        + "".join(f"{name:>24}" for name in CANDIDATES)
    )
    results: dict[str, dict[str, dict[str, float]]] = {}
    failed = 0
    for workload in chosen:
        cells, row = "", results.setdefault(workload.name, {})
        for name in CANDIDATES:
            command = [
                sys.executable,
                "-m",
                "benchmarks.memory",
                "--one",
                name,
                "--threads",
                str(args.threads),
                workload.name,
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                failed += 1
                cells += f"{'FAILED':>24}"
                print(done.stderr[-1000:], file=sys.stderr)
                continue
            row[name] = json.loads(done.stdout.splitlines()[-1])
            cells += f"{row[name]['faults']:>10.1f}{row[name]['running_mb']:>7.0f}{row[name]['loading_mb']:>7.0f}"
        least = min((row[n]["running_mb"] for n in row if n != "tfjit"), default=0.0)
        over = (
            " MORE than a peer" if "tfjit" in row and row["tfjit"]["running_mb"] > least + 1 else ""
        )
        print(f"{workload.name:<50}{cells}{over}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
