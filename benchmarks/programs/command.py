"""`python -m benchmarks programs [NAME ...]`: whole programs beside TensorFlow.

Each program runs in fresh processes: on TensorFlow, on tfjit with an empty kernel cache, on tfjit
with the cache that this run left and, if asked for, from a pack. The empty cache has the archive of
generic kernels that this machine has built, if it has; the first line names the archives that
serve, and no run builds one. tfjit's modules are compiled before, as those of installed packages
are. The status says when outputs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.programs import archives
from benchmarks.programs.catalogue import BY_NAME, PROGRAMS
from benchmarks.programs.figures import figures
from benchmarks.programs.report import LEGEND, heading, machine, profile_lines, rows
from benchmarks.programs.runner import (
    COLD,
    OTHER_MODE,
    PACKED,
    TENSORFLOW,
    WARM,
    Options,
    compile_modules,
    onednn_mode,
    run,
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks programs", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BY_NAME)}; all when none is given"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="a quarter of the steps or fewer")
    length.add_argument("--tiny", action="store_true", help="a few steps of small models")
    state = parser.add_mutually_exclusive_group()
    state.add_argument("--cold", action="store_true", help="no run with the cache that is left")
    state.add_argument("--warm", action="store_true", help="report the run with a full cache only")
    parser.add_argument(
        "--packed", action="store_true", help="also run from a pack, with an empty cache"
    )
    parser.add_argument(
        "--both-modes", action="store_true", help="TensorFlow with and without oneDNN"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="a program stops after the step that passes it (default 300)",
    )
    parser.add_argument(
        "--profile",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="sample tfjit's first seconds, and print where they go",
    )
    parser.add_argument(
        "--no-archive",
        action="store_true",
        help="without generic kernels: as the first program on a machine that has no wheel",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and stamps")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 1 when outputs differ or a program failed, 2 for unknown names.
    """
    args = _parser().parse_args(argv)
    unknown = [name for name in args.names if name not in BY_NAME]
    if unknown:
        print(
            f"unknown program {', '.join(unknown)}; there are {', '.join(BY_NAME)}",
            file=sys.stderr,
        )
        return 2
    kinds = [TENSORFLOW]
    kinds += [OTHER_MODE] if args.both_modes else []
    kinds += [WARM] if args.warm else [COLD] if args.cold else [COLD, WARM]
    kinds += [PACKED] if args.packed else []
    length = "tiny" if args.tiny else "quick" if args.quick else "full"
    options = Options(
        length, args.threads, args.limit, tuple(kinds), args.profile, not args.no_archive
    )
    with_onednn = "without" if onednn_mode(TENSORFLOW) == "0" else "with"
    print(f"{machine()}; {args.threads} threads; {length} length; TensorFlow {with_onednn} oneDNN")
    print("generic kernels:", "none" if args.no_archive else archives.describe())
    print(LEGEND, heading(), sep="\n", flush=True)
    compile_modules()
    wrong, results = False, []
    for program in PROGRAMS:
        if args.names and program.name not in args.names:
            continue
        records = {record.library: record for record in run(program, options)}
        reference = records[TENSORFLOW]
        by_kind = {kind: figures(r, reference, program) for kind, r in records.items()}
        wrong |= any(f.problems for f in by_kind.values())
        print(*rows(program.name, by_kind), sep="\n", flush=True)
        if args.packed and program.unpacked:
            print(f"  not packed: {program.unpacked}", flush=True)
        for record in records.values():
            print(
                *profile_lines(record), sep="\n", end="\n" if record.step_wall else "", flush=True
            )
        results.append(
            {
                "program": program.name,
                "tolerances": {
                    "strict": program.strict,
                    "rtol": program.rtol,
                    "atol": program.atol,
                    "late": program.late,
                    "spared": program.spared,
                },
                "figures": {kind: f.as_json() for kind, f in by_kind.items()},
                "records": {kind: asdict(r) for kind, r in records.items()},
            }
        )
        if args.json:  # after each program: a long run that is cut off keeps its figures
            args.json.write_text(
                json.dumps(
                    {
                        "options": asdict(options),
                        "machine": machine(),
                        "archives": archives.describe() if options.archives else "none",
                        "results": results,
                    }
                )
            )
    return 1 if wrong else 0
