"""Run `tfjit bench`: a model or script, fused, unfused, under TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.arguments import UsageError, tensor_name
from tfjit.compare_command import (
    add_result_arguments,
    add_run_arguments,
    candidate_of,
    check_results,
    run_of,
    write_results,
)

if TYPE_CHECKING:
    import argparse

    from tfjit.client.session.model_file import ModelFile
    from tfjit.lab.sweep import Sweep

# Arguments that only a model has; a script's own have to stand behind "--".
_OF_A_MODEL = ("fetch", "feed", "shape", "setup", "sweep", "threads", "save", "compare", "plot")


TEXT: Final = (
    "Time a model or a script.py fused, unfused and under TensorFlow, and against a saved "
    "measurement."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tfjit bench`."""
    parser.add_argument(
        "model",
        metavar="MODEL|SCRIPT.py",
        help="a model, or a TensorFlow 1 program, which is run in fresh processes",
    )
    parser.add_argument("arguments", metavar="ARGUMENT", nargs="*", help="of the script, behind --")
    add_run_arguments(parser)
    parser.add_argument(
        "--with",
        dest="others",
        metavar="CANDIDATE",
        action="append",
        default=[],
        help="one more candidate, as of `tfjit compare`; may be repeated",
    )
    parser.add_argument(
        "--sweep",
        metavar="NAME.AXIS=SIZES",
        action="append",
        default=[],
        help="sizes of an axis of a feed, as in images.0=1,4,16, or of several feeds alike, as in "
        "images.0,labels.0=1,4; may be repeated. Dtypes are the model's own and are not swept",
    )
    parser.add_argument(
        "--threads", metavar="N,...", default="", help="numbers of threads (default: all cores)"
    )
    parser.add_argument("--save", metavar="NAME", help="keep the figures under a name")
    parser.add_argument(
        "--compare", metavar="NAME", help="show the changes since the figures of that name"
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        type=Path,
        help="folder of saved figures (default: tfjit/bench in XDG_STATE_HOME or ~/.local/state)",
    )
    parser.add_argument(
        "--check-output", action="store_true", help="of a script: compare printed lines, too"
    )
    add_result_arguments(parser)


def run_bench(args: argparse.Namespace) -> int:
    """Run the command; return 1 where outputs differ."""
    check_results(args)
    return _bench_script(args) if args.model.endswith(".py") else _bench_model(args)


def _bench_model(args: argparse.Namespace) -> int:
    from tfjit.demo.progress import Progress
    from tfjit.lab import saved
    from tfjit.lab.bench_cases import CANDIDATES, bench

    if args.arguments or args.check_output:
        given = " ".join(args.arguments) or "--check-output"
        raise UsageError(f"{given}: for a script only, and {args.model} is none")
    run = run_of(args)
    sweeps = [_sweep_of(text, run["model"]) for text in args.sweep]
    threads = _threads_of(args.threads)
    earlier = None
    try:
        if args.save is not None:
            saved.saved_path(args.save, args.dir)
        if args.compare is not None:
            earlier = saved.load_bench(args.compare, args.dir)
    except ValueError as error:
        raise UsageError(str(error)) from None
    work = ["reading"]
    with Progress(f"timing {args.model}", detail=lambda: f", {work[0]}"):
        found = bench(
            sweeps=sweeps,
            threads=threads,
            candidates=[*CANDIDATES, *map(candidate_of, args.others)],
            report=lambda text: work.__setitem__(0, text),
            **run,
        )
    print(found)
    write_results(args, found)
    if not found.agrees:
        print("tfjit bench: the outputs differ", file=sys.stderr)
        return 1
    if earlier is not None:
        print(f"\n{saved.changes_since(found, earlier, args.compare)}")
    if args.save is not None:
        print(f"saved: {saved.save_bench(found, args.save, args.dir)}", file=sys.stderr)
    return 0


def _bench_script(args: argparse.Namespace) -> int:
    from tfjit.demo.progress import Progress
    from tfjit.lab.bench_processes import bench_script

    wrong = [name for name in _OF_A_MODEL if getattr(args, name)]
    if args.others or wrong:
        raise UsageError(f"--{wrong[0] if wrong else 'with'}: for a model only, not for a script")
    if not Path(args.model).is_file():
        raise UsageError(f"there is no script {args.model}")
    work = [""]
    with Progress(f"timing {args.model}", detail=lambda: f", {work[0]}"):
        found = bench_script(
            args.model,
            args.arguments,
            **({} if args.rounds is None else {"rounds": args.rounds}),
            check_output=args.check_output,
            report=lambda text: work.__setitem__(0, text),
        )
    print(found)
    write_results(args, found)
    return 0 if found.agrees else 1


def _sweep_of(text: str, model: ModelFile) -> Sweep:
    from tfjit.lab.sweep import Sweep, parse_sweep

    try:
        sweep = parse_sweep(text)
    except ValueError as error:
        raise UsageError(f"--sweep: {error}") from None
    axes = tuple((tensor_name(model, name), axis) for name, axis in sweep.axes)
    return Sweep(axes, sweep.sizes)


def _threads_of(text: str) -> list[int]:
    """Return the numbers of threads that "1,2" spells."""
    numbers = [part.strip() for part in text.split(",")] if text else []
    if not all(part.isdecimal() and int(part) > 0 for part in numbers):
        raise UsageError(f"--threads {text}: expected positive numbers, as in 1,2")
    return list(dict.fromkeys(map(int, numbers)))


__all__ = ["add_arguments", "run_bench"]
