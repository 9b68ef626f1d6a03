"""Run `tfjit view`: write a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tfjit.arguments import UsageError, feeds_of, fetches_of, shapes_of, tensor_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from tfjit.client.session.base_session import BaseSession
    from tfjit.client.session.model_file import ModelFile

    AddSeveral = Callable[[argparse.ArgumentParser, str, str, str], None]


def add_arguments(parser: argparse.ArgumentParser, several: AddSeveral, model: str) -> None:
    """Add the arguments of the command.

    several: adds an option of several values. model: the help of MODEL.
    """
    parser.add_argument("model", metavar="MODEL", help=model)
    several(parser, "--fetch", "NAME", "tensor to compute; at least one")
    several(parser, "--feed", "NAME=FILE", "value of the tensor NAME: FILE.npy, or FILE.npz:ARRAY")
    several(
        parser,
        "--shape",
        "NAME=SIZES",
        "shape of a feed instead of a value, as in images:0=1,8,8,1",
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="time each kernel in place, beside its prediction and the machine's limits",
    )
    parser.add_argument("--title", metavar="TEXT", default="", help="of the page (default: MODEL)")
    parser.add_argument(
        "-o", "--out", metavar="FILE", type=Path, required=True, help="the page, as in page.html"
    )


def check(args: argparse.Namespace) -> None:
    """Raise UsageError for arguments that are wrong whatever the model is."""
    fetches_of(args.fetch)
    shapes_of(args.shape)
    if args.out.is_dir() or not args.out.parent.is_dir():
        raise UsageError(f"--out {args.out}: expected the name of a file in a folder that exists")


def write_page(args: argparse.Namespace, model: ModelFile, session: BaseSession) -> int:
    """Write the page of a run; return the exit code.

    session: over the model.
    """
    from tfjit.lab import view

    sizes: dict[object, object] = {
        tensor_name(model, name): shape for name, shape in shapes_of(args.shape).items()
    }
    values = {tensor_name(model, name): value for name, value in feeds_of(args.feed).items()}
    shown = view(
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


__all__ = ["add_arguments", "check", "write_page"]
