"""Run `tfjit explain`: show where time and memory go in a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.arguments import (
    FEED,
    MODEL,
    SHAPE,
    add_several,
    feeds_of,
    fetches_of,
    read_model_of,
    shapes_of,
    tensor_name,
)
from tfjit.model_session import open_session, progress
from tfjit.passes_command import add_option as add_passes_option
from tfjit.passes_command import pipeline_of

if TYPE_CHECKING:
    import argparse

TEXT: Final = (
    "Show where time and memory go, and what is not fused or compiled; with --details each pass, "
    "fused group and kernel."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    add_several(parser, "--fetch", "NAME", "tensor to compute; at least one")
    add_several(parser, "--feed", "NAME=FILE", FEED)
    add_several(parser, "--shape", "NAME=SIZES", SHAPE)

    add_passes_option(parser)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="time each kernel in place, beside its prediction and the machine's limits",
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="print each pass, node, fused group and remark behind the summary",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def explain(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code."""
    fetches = fetches_of(args.fetch)
    shapes = shapes_of(args.shape)
    feeds = feeds_of(args.feed)
    passes = pipeline_of(args.passes)
    model = read_model_of(args.model)
    with (
        progress(f"explaining {model.path.name}"),
        open_session(model, passes=passes) as session,
    ):
        wanted = [tensor_name(model, name) for name in fetches]
        sizes, values = (
            {tensor_name(model, name): value for name, value in given.items()}
            for given in (shapes, feeds)
        )
        explanation = session.explain(wanted, sizes or None, args.measure, values or None)
    if args.json:
        import json

        print(json.dumps(explanation.as_json(), indent=1))
    else:
        print(explanation.summary(), end="")
        if args.details:
            print(f"\n{explanation.details()}", end="")
        else:
            print("\n--details adds each pass, node, fused group and remark")
    return 0
