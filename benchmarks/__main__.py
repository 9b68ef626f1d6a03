"""Run benchmark scripts: `python -m benchmarks [name ...]`.

Prints a table, writes JSON and (with matplotlib) a picture. `python -m benchmarks programs` runs
whole programs instead, `python -m benchmarks gpu` graphs on a GPU, `python -m benchmarks cluster`
the servers of a cluster, `python -m benchmarks experiments` experiments with passes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import traceback
from dataclasses import asdict, replace
from pathlib import Path

# Both halve NumPy's matrix products; they are read when NumPy is first imported.
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import benchmarks.scripts  # noqa: E402  after the environment is set
from benchmarks.candidates import PEERS  # noqa: E402
from benchmarks.harness import Options, measure  # noqa: E402
from benchmarks.machine import measure_limits  # noqa: E402
from benchmarks.report import TargetTable, WideTable  # noqa: E402
from benchmarks.workload import Workload  # noqa: E402
from tfjit.lab.peers.presence import installed  # noqa: E402


def scripts() -> dict[str, list[Workload]]:
    """Return workloads by script name.

    Workloads that TensorFlow must build are there only where it is installed.
    """
    found = {}
    for module in pkgutil.iter_modules(benchmarks.scripts.__path__):
        workloads = importlib.import_module(f"benchmarks.scripts.{module.name}").workloads()
        found[module.name] = [
            w for w in workloads if installed("tensorflow") or not w.needs_tensorflow
        ]
    return found


def _parser() -> argparse.ArgumentParser:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="scripts, or workloads by the start of their names; all when none is given",
    )
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--rounds", type=int, default=7, help="alternating rounds (default 7)")
    parser.add_argument(
        "--threads", type=int, default=cores, help="threads of every candidate (default: all cores)"
    )
    parser.add_argument(
        "--feeds",
        choices=("round", "run"),
        default="round",
        help="when the values fed change (default: each round)",
    )
    parser.add_argument(
        "--peers",
        default=",".join(PEERS),
        help=f"which of {','.join(PEERS)} take part, where installed (default: all)",
    )
    parser.add_argument("--no-peers", action="store_true", help="tfjit and NumPy only")
    parser.add_argument(
        "--only-targets",
        action="store_true",
        help="the rows that a ratio is wanted of, in a compact table",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the ratios (needs matplotlib)"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    Returns 1 when tfjit failed in a workload, 2 for unknown names.
    """
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["programs"]:
        from benchmarks.programs import command

        return command.main(argv[1:])
    if argv[:1] == ["gpu"]:
        from benchmarks.gpu import command as gpu_command

        return gpu_command.main(argv[1:])
    if argv[:1] == ["cluster"]:
        from benchmarks.cluster import command as cluster_command

        return cluster_command.main(argv[1:])
    if argv[:1] == ["experiments"]:
        from benchmarks.experiments import command as experiments_command

        return experiments_command.main(argv[1:])
    parser = _parser()
    args = parser.parse_args(argv)
    known = scripts()
    if args.list:
        for script, workloads in known.items():
            print(
                f"{script}:",
                *(
                    f"  {w.name}" + (f" (wanted: {w.wanted} of TensorFlow)" if w.wanted else "")
                    for w in workloads
                ),
                sep="\n",
            )
        return 0
    everything = [(script, w) for script, workloads in known.items() for w in workloads]
    unknown = [
        n
        for n in args.names
        if not any(n == script or w.name.startswith(n) for script, w in everything)
    ]
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return 2
    peers = () if args.no_peers else tuple(args.peers.split(","))
    if set(peers) - set(PEERS):
        parser.error(f"--peers takes {', '.join(PEERS)}")
    chosen = [
        w
        for script, w in everything
        if not args.names or any(n == script or w.name.startswith(n) for n in args.names)
    ]
    if args.only_targets:
        chosen = [w for w in chosen if w.wanted is not None]
    if args.threads < len(os.sched_getaffinity(0)):  # JAX and XLA take their threads from it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    options = Options(args.rounds, args.threads, args.feeds, peers)
    limits = measure_limits(args.threads)
    print(limits)
    print(
        f"{args.threads} threads, {args.rounds} alternating rounds, feeds changed each "
        f"{args.feeds}, outputs checked before and after"
    )
    if installed("tensorflow") and not args.no_peers:
        from benchmarks.peers.other_mode import mode_name, uses_onednn

        print(
            f"TensorFlow: tf is {mode_name(uses_onednn())}, tf other is "
            f"{mode_name(not uses_onednn())}"
        )
    first = next(w for w in known["dispatch"] if w.callables)
    # imports, pools and compiler processes are not the first row's
    measure(first, replace(options, rounds=1))
    table = TargetTable() if args.only_targets else WideTable()
    print(*table.heading(), sep="\n", flush=True)
    results, failed = [], 0
    for workload in chosen:
        try:
            result = measure(workload, options, limits)
        except Exception:  # one workload's failure must not lose the others' figures
            failed += 1
            print(f"{workload.name}: FAILED", traceback.format_exc(), sep="\n", flush=True)
            continue
        results.append(result)
        failed += result.failed
        print(*table.row(result), sep="\n", flush=True)
    if args.json:
        figures = {
            "machine": asdict(limits),
            "options": asdict(options),
            "results": [r.as_json() for r in results],
        }
        args.json.write_text(json.dumps(figures, indent=1))
    if args.plot:
        from benchmarks.plot import draw

        draw(results, args.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
