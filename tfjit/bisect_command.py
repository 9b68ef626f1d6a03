"""Run `tfjit bisect`: find the rewrite that is at fault."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tfjit.arguments import (
    FEED,
    UsageError,
    add_several,
    feeds_of,
    fetches_of,
    read_model_of,
    tensor_name,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tfjit.lab.rewrites.search import Bisection

TEXT = (
    "Find the pass, and in it the rewrite or fused group, from which on a run is wrong or slow; "
    "or a script fails, judged by its exit status."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "model",
        metavar="MODEL|SCRIPT.py",
        help="a GraphDef or MetaGraphDef file, or the folder of a SavedModel; or a script, with "
        "its arguments behind a --",
    )
    add_several(parser, "--feed", "NAME=FILE", FEED)
    add_several(parser, "--fetch", "NAME", "tensor whose value is judged; at least one")
    add_several(parser, "--first", "NAME", "operation to run before, such as an initializer")
    parser.add_argument(
        "--against",
        choices=("unoptimised", "tensorflow"),
        default="unoptimised",
        help="the right values: those without optional rewrites (default), or TensorFlow's",
    )
    judged = parser.add_mutually_exclusive_group()
    judged.add_argument(
        "--tolerance",
        metavar="T",
        type=float,
        help="x is wrong where |x - y| > T * (1 + |y|) (default 0.001)",
    )
    judged.add_argument(
        "--slower-than",
        metavar="R",
        type=float,
        help="a run is bad that takes longer than R times the run without optional rewrites",
    )
    parser.add_argument(
        "--time-limit", metavar="S", type=float, help="a script that runs longer fails"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def split_arguments(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command line, and a script's arguments behind "--"."""
    if given[:1] != ["bisect"] or "--" not in given:
        return list(given), []
    at = given.index("--")
    return list(given[:at]), list(given[at + 1 :])


def bisect(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code.

    args.arguments: of a script.
    The code is 0 where a rewrite was found, or where the run is good.
    """
    found = _of_script(args) if args.model.endswith(".py") else _of_model(args)
    print(json.dumps(found.as_json(), indent=1) if args.json else found)
    return 0 if found.culprit is not None or found.trials[0].good else 1


def _of_script(args: argparse.Namespace) -> Bisection:
    from tfjit.lab.rewrites.bisect_script import bisect_script

    if args.feed or args.fetch or args.first or args.slower_than or args.tolerance is not None:
        raise UsageError("a script is judged by its exit status: it has no feeds and fetches")
    try:
        return bisect_script(args.model, args.arguments, time_limit_s=args.time_limit)
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None


def _of_model(args: argparse.Namespace) -> Bisection:
    from tfjit.lab.rewrites import bisect as lab
    from tfjit.lab.rewrites.judges import TOLERANCE

    if args.arguments:
        raise UsageError(f"unexpected {' '.join(args.arguments)}: a model has no arguments")
    for option in ("tolerance", "slower_than"):
        value = getattr(args, option)
        if value is not None and not value > 0:
            raise UsageError(f"--{option.replace('_', '-')} {value}: expected a positive number")
    fetches, feeds = fetches_of(args.fetch), feeds_of(args.feed)
    model = read_model_of(args.model)
    if model.pack is not None:
        raise UsageError(f"{args.model} is a pack: bisect the model that it was made of")
    print(f"bisecting {model.path.name}", file=sys.stderr)
    return lab.bisect(
        model,
        [tensor_name(model, name) for name in fetches],
        {tensor_name(model, name): value for name, value in feeds.items()},
        first=args.first,
        against=args.against,
        tolerance=TOLERANCE if args.tolerance is None else args.tolerance,
        slower_than=args.slower_than,
    )


__all__ = ["TEXT", "add_arguments", "bisect", "split_arguments"]
