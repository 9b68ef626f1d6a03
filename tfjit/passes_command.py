"""Run `tfjit passes`, and read `--passes` of other commands."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.arguments import UsageError
from tfjit.framework.errors import OpError

if TYPE_CHECKING:
    import argparse

    from tfjit.passes.manager.pipeline_spec import Pipeline


TEXT: Final = (
    "Print the passes in order, each with its group and the reason for its place, in a form that "
    "--passes reads."
)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--passes` to a command."""
    parser.add_argument(
        "--passes",
        metavar="PIPELINE",
        default="",
        help="the passes: a file as `tfjit passes` prints it, or a text as in 'default without "
        "cse, fuse' (default: the built-in ones)",
    )


def pipeline_of(argument: str) -> Pipeline | None:
    """Return the pipeline that `--passes` asks for, None for no argument.

    Raises UsageError.
    """
    if not argument:
        return None
    from tfjit.passes.manager.pipeline_spec import Pipeline

    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for "module:function"
    try:
        path = Path(argument)
        is_file = len(argument.split()) == 1 and path.is_file()
        return Pipeline.from_file(path) if is_file else Pipeline.parse(argument)
    except OpError as error:
        raise UsageError(f"--passes: {error.message}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--passes {argument}: it cannot be read: {error}") from None


def show_passes(args: argparse.Namespace) -> int:
    """Print a pipeline with groups and reasons."""
    from tfjit.passes.manager.pipeline_spec import Pipeline
    from tfjit.passes.manager.pipeline_text import described

    pipeline = pipeline_of(args.passes) or Pipeline.default()
    print(described(pipeline, groups=True), end="")
    return 0


__all__ = ["add_option", "pipeline_of", "show_passes"]
