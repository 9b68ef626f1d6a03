"""Run `tfjit view`: write a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.arguments import (
    FEED,
    MODEL,
    SHAPE,
    UsageError,
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

    from tfjit.client.session.base_session import BaseSession
    from tfjit.client.session.model_file import ModelFile


TEXT: Final = (
    "Write one HTML file that shows the graph, what each pass changed, fused groups, kernels with "
    "their source and times."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    add_several(parser, "--fetch", "NAME", "tensor to compute; at least one")
    add_several(parser, "--feed", "NAME=FILE", FEED)
    add_several(parser, "--shape", "NAME=SIZES", SHAPE)
    parser.add_argument(
        "--measure",
        action="store_true",
        help="time each kernel in place, beside its prediction and the machine's limits",
    )
    parser.add_argument("--title", metavar="TEXT", default="", help="of the page (default: MODEL)")
    parser.add_argument(
        "-o", "--out", metavar="FILE", type=Path, required=True, help="the page, as in page.html"
    )
    add_passes_option(parser)


def view(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code."""
    _check(args)
    passes = pipeline_of(args.passes)
    model = read_model_of(args.model)
    with (
        progress(f"explaining {model.path.name}"),
        open_session(model, passes=passes) as session,
    ):
        return _write_page(args, model, session)


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for arguments that are wrong whatever the model is."""
    fetches_of(args.fetch)
    shapes_of(args.shape)
    if args.out.is_dir() or not args.out.parent.is_dir():
        raise UsageError(f"--out {args.out}: expected the name of a file in a folder that exists")


def _write_page(args: argparse.Namespace, model: ModelFile, session: BaseSession) -> int:
    """Write the page of a run; return the exit code.

    session: over the model.
    """
    from tfjit.lab import view as lab_view

    sizes: dict[object, object] = {
        tensor_name(model, name): shape for name, shape in shapes_of(args.shape).items()
    }
    values = {tensor_name(model, name): value for name, value in feeds_of(args.feed).items()}
    shown = lab_view(
        session,
        [tensor_name(model, name) for name in fetches_of(args.fetch)],
        sizes or None,
        feed_dict=values or None,
        measure=args.measure,
        title=args.title or model.path.name,
    )
    path = shown.save(args.out)
    print(f"{path}: {path.stat().st_size / 1e3:,.0f} kB; a browser opens it from disk")
    return 0


__all__ = ["TEXT", "add_arguments", "view"]
