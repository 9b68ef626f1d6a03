"""`python -m tfjit.kernels.precompile`: compile the generic kernels into archives."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tfjit.kernels.jit.precompiled import FOLDER
from tfjit.kernels.jit.target import LEVELS, available_cpus
from tfjit.kernels.precompile.archive_builder import Failed, build_archive


def _show(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total} kernels", end="", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 1 when a kernel does not compile."""
    parser = argparse.ArgumentParser(
        prog="python -m tfjit.kernels.precompile",
        description="Compile the generic kernels for levels of x86-64, one archive each.",
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        action="append",
        help="a level to compile for; may be repeated (default: all)",
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where the archives go (default: the package)"
    )
    parser.add_argument(
        "--processes", type=int, default=available_cpus(), help="compiler processes at a time"
    )
    args = parser.parse_args(argv)
    for level in args.level or LEVELS:
        try:
            built = build_archive(args.folder, level, args.processes, progress=_show)
        except Failed as error:
            print(f"precompile: {error}", file=sys.stderr)
            return 1
        if sys.stderr.isatty():
            print(file=sys.stderr)
        print(
            f"{built.path}: {built.kernels} kernels, {built.code_bytes / 1e6:.2f} MB of code in "
            f"{built.file_bytes / 1e6:.2f} MB, {built.cpu_s:.0f} s of processor time",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
