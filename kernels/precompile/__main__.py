"""`python -m tfjit.kernels.precompile`: compile the generic kernels into archives."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tfjit.kernels.jit.precompiled import FOLDER
from tfjit.kernels.jit.target import LEVELS, available_cpus
from tfjit.kernels.precompile.archive_builder import Failed, build_archive


class _Shown:
    """Show progress: one line on a terminal, ten lines elsewhere."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, total: int) -> None:
        """Show the numbers of compiled and of all kernels."""
        if sys.stderr.isatty():
            end = "\n" if done == total else ""
            print(f"\r{done} of {total} kernels", end=end, file=sys.stderr, flush=True)
        elif 10 * done // total > self._tenths:
            self._tenths = 10 * done // total
            print(f"{done} of {total} kernels", file=sys.stderr, flush=True)


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
            built = build_archive(args.folder, level, args.processes, progress=_Shown())
        except Failed as error:
            print(f"precompile: {error}", file=sys.stderr)
            return 1
        print(
            f"{built.path}: {built.kernels} kernels, {built.code_bytes / 1e6:.2f} MB of code in "
            f"{built.file_bytes / 1e6:.2f} MB, {built.cpu_s:.0f} s of processor time",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
