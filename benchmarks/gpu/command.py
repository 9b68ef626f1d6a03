"""`python -m benchmarks gpu [NAME ...]`: graphs on a GPU, beside other libraries.

The card's limits come first, then tfjit: fused, by its own kernels without NVIDIA's libraries, and
unfused; then PyTorch, torch.compile, JAX and CuPy where they are installed. A note tells how many
launches are by a library. Each candidate runs in processes of its own and under time limits.
Outputs are compared with those of a session of the host before a time is taken. With --json the
figures are written after each of them, and with --resume, too, a later run adds those that the file
lacks. The status is 1 when tfjit fails or is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu.report import LEGEND, limits_line, row, sessions_line
from benchmarks.gpu.runner import Part, Record, run_part
from benchmarks.gpu.workloads import workloads

OURS: Final = ("tfjit", "kernels", "unfused")
SHARES: Final = {
    "tfjit": (60.0, 180.0),
    "kernels": (40.0, 120.0),
    "unfused": (40.0, 90.0),
    "torch": (30.0, 60.0),
    "torch.compile": (45.0, 110.0),
    "jax": (30.0, 70.0),
    "cupy": (20.0, 40.0),
}
"""Time limits of each candidate: of one workload, and of all."""
_MODULES: Final = {"torch": "torch", "torch.compile": "torch", "jax": "jax", "cupy": "cupy"}
_SESSIONS: Final = "MLP"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="starts of workloads' names; all when none"
    )
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument(
        "--candidates",
        default=",".join(SHARES),
        help=f"which of {','.join(SHARES)} take part, where installed (default: all)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=450.0,
        metavar="SECONDS",
        help="of the whole command; what is left then is left out (default 450)",
    )
    parser.add_argument(
        "--peer-python",
        default=sys.executable,
        metavar="FILE",
        help="the interpreter that has the other libraries (default: this one)",
    )
    parser.add_argument("--tiny", action="store_true", help="small shapes, to try the command")
    parser.add_argument(
        "--simulated", action="store_true", help="on the simulated GPU, to try the command"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument(
        "--resume", action="store_true", help="keep the figures of the file, and add those it lacks"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw the times (needs matplotlib)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 1 when tfjit fails or is wrong, 2 for unknown names; 0 without a GPU.
    """
    args = _parser().parse_args(argv)
    known = [workload.name for workload in workloads(args.tiny)]
    if args.list:
        print(*known, sep="\n")
        return 0
    unknown = [n for n in args.names if not any(name.startswith(n) for name in known)]
    candidates = args.candidates.split(",")
    unknown += [name for name in candidates if name not in SHARES]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; --list shows all", file=sys.stderr)
        return 2
    reason = "" if args.simulated else _no_gpu()
    if reason:
        print(f"no GPU, so nothing is measured: {reason}")
        return 0
    names = tuple(name for name in known if not args.names or any(map(name.startswith, args.names)))
    figures = _Figures(args.json, args.resume)
    if args.resume and args.json:
        # the outputs of the host, which a candidate measured later is compared with
        folder = args.json.with_suffix(".outputs")
        folder.mkdir(parents=True, exist_ok=True)
        _measure(args, names, candidates, folder, figures)
    else:
        with tempfile.TemporaryDirectory(prefix="tfjit-gpu-") as temporary:
            _measure(args, names, candidates, Path(temporary), figures)
    if args.plot:
        from benchmarks.gpu.plot import draw

        if importlib.util.find_spec("matplotlib") is None:
            print("no picture: matplotlib is not installed (extra `plot`)")
        else:
            draw(figures.results, args.plot)
    return 1 if figures.failed else 0


def _no_gpu() -> str:
    """Return the reason for having no GPU, "" where there is one."""
    from tfjit.kernels.cuda.device import driver

    return driver.device_count()[1]


def _measure(
    args: argparse.Namespace,
    names: tuple[str, ...],
    candidates: Sequence[str],
    folder: Path,
    figures: _Figures,
) -> None:
    deadline = time.monotonic() + args.limit
    options = [
        *(["--tiny"] if args.tiny else []),
        *(["--simulated"] if args.simulated else []),
    ]

    def run(part: Part) -> None:
        run_part(part, folder, options, deadline, figures.add)

    if not figures.card:
        run(Part("limits", ("limits",), 60.0, 60.0))
    print(LEGEND, flush=True)
    for candidate in candidates:
        python = sys.executable
        if candidate in _MODULES:
            python = args.peer_python
            if not _imports(python, _MODULES[candidate]):
                figures.skip(candidate, f"{_MODULES[candidate]} is not installed")
                continue
        workload_s, whole_s = SHARES[candidate]
        run(Part(candidate, figures.lacking(candidate, names), workload_s, whole_s, python))
        if candidate == "tfjit":
            chosen = [n for n in names if n.startswith(_SESSIONS)] or list(names[:1])
            run(Part("sessions", figures.lacking("sessions", chosen[:1]), 60.0, 60.0))


def _imports(python: str, module: str) -> bool:
    """Return whether an interpreter finds a module."""
    if shutil.which(python) is None:
        return False
    test = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", test], check=False).returncode == 0


class _Figures:
    """Collect records; print each, and write all of them after each."""

    def __init__(self, path: Path | None, resume: bool = False) -> None:
        self.path = path
        self.card: dict[str, Any] = {}
        self.results: list[Record] = []
        self.skipped: dict[str, str] = {}
        self.failed = False
        if resume and path is not None and path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            self.card = {} if "error" in found["card"] else found["card"]
            # a failure is tried again
            self.results = [record for record in found["results"] if "error" not in record]

    def lacking(self, candidate: str, names: Sequence[str]) -> tuple[str, ...]:
        """Return the workloads without a record of a candidate."""
        known = {r["workload"] for r in self.results if r["candidate"] == candidate}
        return tuple([name for name in names if name not in known])

    def add(self, record: Record) -> None:
        """Take one record."""
        candidate = record["candidate"]
        if candidate == "limits":
            self.card = record
            print(limits_line(record), flush=True)
        elif candidate == "sessions":
            self.results.append(record)
            print(sessions_line(record), flush=True)
        else:
            self.results.append(record)
            print(row(record, self.card), flush=True)
        self.failed |= "error" in record and candidate in (*OURS, "sessions", "limits")
        self._write()

    def skip(self, candidate: str, reason: str) -> None:
        """Note that a candidate takes no part."""
        self.skipped[candidate] = reason
        print(f"{candidate}: left out, {reason}", flush=True)
        self._write()

    def _write(self) -> None:
        if self.path is not None:
            figures = {"card": self.card, "skipped": self.skipped, "results": self.results}
            new = self.path.with_name(f"{self.path.name}.new")
            new.write_text(json.dumps(figures, indent=1), encoding="utf-8")
            new.replace(self.path)  # a run that is ended meanwhile loses nothing
