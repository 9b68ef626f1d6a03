"""Run `tfjit warm`: compile the generic kernels into this machine's archive."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from tfjit.arguments import UsageError

if TYPE_CHECKING:
    import argparse

TEXT: Final = (
    "Compile the kernels that most graphs need into an archive in this machine's cache, on all "
    "cores. An installed wheel has them; elsewhere a background process compiles them slowly."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--processes", metavar="N", type=int, default=0, help="compilers at a time (default: cores)"
    )


def warm(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code."""
    from tfjit.kernels.jit.store import store
    from tfjit.kernels.jit.target import available_cpus
    from tfjit.kernels.precompile.own_archive import build_own_archive, building_alone, own_folder

    if args.processes < 0:
        raise UsageError(f"--processes {args.processes}: expected a positive number")
    if store.has_all_generic():
        print(f"the generic kernels are there: {store.archives()}")
        return 0
    terminal = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        if terminal:
            print(f"\rtfjit: {done} of {total} kernels", end="", file=sys.stderr, flush=True)

    folder = own_folder()
    try:
        with building_alone(folder):
            built = build_own_archive(folder, args.processes or available_cpus(), show)
    finally:
        if terminal:
            print(file=sys.stderr)
    print(f"{built.path}: {built.present} kernels were there, {built.compiled} are compiled")
    for reason in built.refused:
        print(f"tfjit: refused: {reason}", file=sys.stderr)
    return 1 if built.refused else 0
