"""Run TensorFlow 1 programs many times and count failures.

`python -m benchmarks.tf1_programs [NAME ...]`. A run fails if it ends with an error or too late, or
prints something else than under TensorFlow. Each run is a separate process; with --cold, it has an
empty cache of compiled kernels too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[1] / "tests" / "programs" / "tf1_programs"
LIBRARIES: Final = ("tensorflow", "tfjit")
_BUSY: Final = "x = 0\nwhile True: x += 1"


@dataclass(frozen=True, slots=True)
class Run:
    """Hold one run of a program.

    status: of the process; None if it took too long.
    """

    printed: str
    errors: str
    status: int | None
    seconds: float

    def failure(self, expected: str) -> str:
        """Return why this run failed, or ""."""
        if self.status is None:
            return f"took more than {self.seconds:.0f} s"
        if self.status:
            return f"ended with status {self.status}"
        return "" if self.printed == expected else "printed something else"


def programs() -> list[str]:
    """Return the names of the programs."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


def arguments(name: str, library: str, folder: Path) -> list[str]:
    """Return Python's arguments to run a program on a library's sessions.

    The program writes into `folder`.
    """
    return [
        *([] if library == "tensorflow" else ["-m", "tfjit"]),
        str(FOLDER / f"{name}.py"),
        str(folder),
    ]


def run(
    name: str, library: str, folder: Path, cache: Path | None = None, limit_s: float = 240.0
) -> Run:
    """Run a program on the sessions of a library.

    The program writes into `folder`.
    """
    environment = dict(os.environ)
    if cache is not None:
        environment["TFJIT_CACHE_DIR"] = str(cache)
    begin = time.monotonic()
    command = [sys.executable, *arguments(name, library, folder)]
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        texts = [
            text.decode(errors="replace") if isinstance(text, bytes) else text or ""
            for text in (error.stdout, error.stderr)
        ]
        return Run(texts[0], texts[1], None, limit_s)
    return Run(done.stdout, done.stderr, done.returncode, time.monotonic() - begin)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep that many cores busy inside the block."""
    running = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def _repeated(name: str, times: int, cold: bool, keep: Path) -> int:
    """Run a program `times` times.

    Prints the failures, and returns their number.
    """
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        expected = run(name, "tensorflow", place / "tensorflow")
        if expected.status:
            print(f"{name}: fails under TensorFlow\n{expected.errors}", file=sys.stderr)
            return times
        failed, seconds = 0, []
        for i in range(times):
            made = run(name, "tfjit", place / f"run{i}", place / f"cache{i}" if cold else None)
            seconds.append(made.seconds)
            reason = made.failure(expected.printed)
            if reason:
                failed += 1
                keep.mkdir(parents=True, exist_ok=True)
                record = keep / f"{name}-{i}.txt"
                record.write_text(
                    f"{reason}\n\nexpected:\n{expected.printed}\nprinted:\n{made.printed}\n"
                    f"{made.errors}"
                )
                print(f"{name}, run {i}: {reason} ({record})", flush=True)
    print(
        f"{name}: {failed} of {times} failed, {sorted(seconds)[len(seconds) // 2]:.1f} s",
        flush=True,
    )
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns 1 if a run failed, 2 for unknown names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tf1_programs", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(programs())}; all when none is given",
    )
    parser.add_argument("--times", type=int, default=10, help="runs of each program (default 10)")
    parser.add_argument(
        "--load", type=int, default=0, help="processes that keep cores busy meanwhile (default 0)"
    )
    parser.add_argument(
        "--cold", action="store_true", help="an empty cache of compiled kernels for each run"
    )
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("build/tf1_programs"),
        help="folder for what failing runs printed",
    )
    args = parser.parse_args(argv)
    unknown = set(args.names) - set(programs())
    if unknown:
        print(
            f"unknown program {', '.join(sorted(unknown))}; there are {', '.join(programs())}",
            file=sys.stderr,
        )
        return 2
    with busy(args.load):
        failed = sum(
            _repeated(name, args.times, args.cold, args.keep) for name in args.names or programs()
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
