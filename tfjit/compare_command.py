"""Run `tfjit compare`: pipelines and runtimes on one graph."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfjit.arguments import (
    FEED,
    UsageError,
    add_several,
    feeds_of,
    fetches_of,
    read_model_of,
    shapes_of,
    signature_of,
    tensor_name,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tfjit.client.session.model_file import ModelFile
    from tfjit.passes.manager.pipeline_spec import Pipeline

PEERS = "tensorflow, xla, onnxruntime"


TEXT: Final = (
    "Compare pipelines of passes, and other runtimes, on one graph: outputs first, then times in "
    "random order, with their noise, then the parts of the graph that differ."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tfjit compare`."""
    parser.add_argument("model", metavar="MODEL", help="a model, as the other commands take it")
    for option, default in (("--a", "default"), ("--b", "default without fuse")):
        parser.add_argument(
            option,
            metavar="CANDIDATE",
            default=default,
            help=f"a pipeline, as text or file, or one of {PEERS} (default: {default!r})",
        )
    parser.add_argument(
        "--with",
        dest="others",
        metavar="CANDIDATE",
        action="append",
        default=[],
        help="one more candidate; may be repeated. All ratios are to that of --a",
    )
    add_run_arguments(parser)
    parser.add_argument(
        "--threads", metavar="N", type=int, help="threads of every candidate (default: all cores)"
    )
    add_result_arguments(parser)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the run, and those of the measurement."""
    for option, metavar, text in (
        ("--fetch", "NAME", "tensor to compute, or operation to run (default: the signature's)"),
        ("--feed", "NAME=FILE", FEED),
        ("--shape", "NAME=SIZES", "shape of a made-up value: uniform numbers, integers 0 and 1"),
        ("--setup", "NAME", "operation to run first, such as the initializer of variables"),
    ):
        add_several(parser, option, metavar, text)
    parser.add_argument(
        "--rounds",
        metavar="N",
        type=int,
        help="rounds of blocks in random order (default 20; of a script 8)",
    )
    parser.add_argument(
        "--sessions", metavar="N", type=int, default=4, help="of each candidate (default 4)"
    )
    parser.add_argument(
        "--tolerance",
        metavar="T",
        type=float,
        help="difference of outputs, over the largest element (default: by dtype, float32 1e-4)",
    )


def add_result_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--plot`."""
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures as JSON")
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="draw a picture (needs matplotlib: tfjit[plot])"
    )


def run_compare(args: argparse.Namespace) -> int:
    """Run the command; return 1 where outputs differ."""
    from tfjit.demo.progress import Progress
    from tfjit.lab.compare_candidates import compare

    check_results(args)
    candidates = [candidate_of(name) for name in (args.a, args.b, *args.others)]
    run = run_of(args)
    work = ["reading"]
    with Progress(f"comparing {args.model}", detail=lambda: f", {work[0]}"):
        found = compare(
            candidates=candidates,
            threads=args.threads,
            report=lambda text: work.__setitem__(0, text),
            **run,
        )
    print(found)
    write_results(args, found)
    if not found.agrees:
        print("tfjit compare: the outputs differ", file=sys.stderr)
    return 0 if found.agrees else 1


def run_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `tfjit.lab.compare` that name the run."""
    model = read_model_of(args.model)
    return {
        "model": model,
        "fetches": fetches_or_signature(model, args.fetch),
        "feeds": {tensor_name(model, n): v for n, v in feeds_of(args.feed).items()},
        "shapes": {tensor_name(model, n): v for n, v in shapes_of(args.shape).items()},
        "setup": args.setup,
        **({} if args.rounds is None else {"rounds": args.rounds}),
        "sessions": args.sessions,
        "tolerance": args.tolerance,
    }


def fetches_or_signature(model: ModelFile, names: Sequence[str]) -> list[str]:
    """Return the fetches, by default the outputs of the signature."""
    chosen = signature_of(model)
    if not names and chosen is not None:
        found = [info.name for _, info in sorted(chosen.outputs.items()) if info.name]
        if found:
            return found
    return [tensor_name(model, name) for name in fetches_of(names)]


def candidate_of(argument: str) -> str | Pipeline:
    """Return a candidate: a pipeline in a file, or the text itself."""
    from tfjit.passes_command import pipeline_of

    path = Path(argument)
    if len(argument.split()) == 1 and path.is_file():
        found = pipeline_of(argument)
        assert found is not None
        return found
    return argument


def check_results(args: argparse.Namespace) -> None:
    """Raise UsageError for unwritable files and a missing matplotlib."""
    from tfjit.lab.peers.presence import installed

    for option in ("json", "plot"):
        path = getattr(args, option)
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise UsageError(f"--{option} {path}: expected a file in a folder that exists")
    if args.plot is not None and not installed("matplotlib"):
        raise UsageError("--plot needs matplotlib: pip install tfjit[plot]")


def write_results(args: argparse.Namespace, found: Any) -> None:
    """Write the files that `--json` and `--plot` ask for."""
    if args.json is not None:
        args.json.write_text(json.dumps(found.as_json(), indent=1), encoding="utf-8")
    if args.plot is not None:
        found.plot(args.plot)


__all__ = [
    "add_arguments",
    "add_result_arguments",
    "add_run_arguments",
    "candidate_of",
    "check_results",
    "run_compare",
    "run_of",
    "write_results",
]
