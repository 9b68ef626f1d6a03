"""`python -m benchmarks [name ...]`: run benchmark scripts, print a table, write JSON and (with matplotlib) a picture."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
from pathlib import Path

# Both halve NumPy's matrix products; they are read when NumPy is first imported.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import benchmarks.scripts  # noqa: E402  after the environment is set
from benchmarks.harness import Result, measure  # noqa: E402
from benchmarks.machine import measure_limits  # noqa: E402
from benchmarks.workload import Workload  # noqa: E402


def scripts() -> dict[str, list[Workload]]:
    """Workloads by script name."""
    found = {}
    for module in pkgutil.iter_modules(benchmarks.scripts.__path__):
        found[module.name] = importlib.import_module(f"benchmarks.scripts.{module.name}").workloads()
    return found


def row(result: Result) -> str:
    """One line of the table."""
    parts = [f"{result.name:<34}"]
    for name, timing in result.timings.items():
        ratio = "" if name == "tfjit" else f" ({result.ratios[name]:.3f})"
        parts.append(f"{name} {timing.us:10.1f} us ±{timing.spread * 50:3.0f}%{ratio}")
    mine = result.timings["tfjit"]
    rates = []
    if result.bytes_moved:
        rates.append(f"{result.bytes_moved / mine.us / 1e3:.1f} GB/s")
    if result.flops:
        rates.append(f"{result.flops / mine.us / 1e3:.1f} GF/s")
    rates.append(f"first {mine.first_s:.2f} s, compiled {mine.ready_s:.2f} s")
    return " | ".join([*parts, ", ".join(rates)])


def main(argv: list[str] | None = None) -> int:
    """The command. Returns 1 when a workload failed, 2 for unknown names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scripts or workloads; all when none is given")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds (default 7)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of every candidate (default: all cores)")
    parser.add_argument("--no-peers", action="store_true", help="tfjit and NumPy only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios (needs matplotlib)")
    args = parser.parse_args(argv)
    known = scripts()
    if args.list:
        for script, workloads in known.items():
            print(f"{script}: {', '.join(w.name for w in workloads)}")
        return 0
    chosen = [w for script, workloads in known.items() for w in workloads if not args.names or script in args.names or w.name in args.names]
    unknown = [n for n in args.names if n not in known and not any(n == w.name for ws in known.values() for w in ws)]
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return 2
    limits = measure_limits()
    print(limits)
    print("medians; ± half the quartile range; in brackets tfjit's time over theirs, median of the rounds' ratios", flush=True)
    results, failed = [], 0
    for workload in chosen:
        try:
            result = measure(workload, args.rounds, args.threads, not args.no_peers)
        except (AssertionError, RuntimeError) as error:  # one workload's failure must not lose the others' figures
            failed += 1
            print(f"{workload.name:<34} | FAILED: {str(error).strip()[:500]}", flush=True)
            continue
        results.append(result)
        print(row(result), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"machine": str(limits), "results": [r.as_json() for r in results]}, indent=1))
    if args.plot:
        from benchmarks.plot import draw

        draw(results, args.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
