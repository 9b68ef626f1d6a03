"""Check and measure tfjit on a machine with a GPU, part by part: `python -m tests.gpu_parts`.

The most important parts come first, and each writes as it goes, so that a run that is cut off keeps
what it has. Another run goes on with the parts that are not done. Nothing is installed: a part
whose program or package is missing says so. FOLDER gets `parts.json` (a record a part), a log a
part with a line a test, and the figures of the benchmarks (`figures.json`, written after each).
The status is 1 when a part failed or has failing tests.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
_DONE: Final = ("passed", "failed", "timeout")
"""States of a part that a later run leaves as it is, unless the part is named."""
_LEAST_S: Final = 20.0
"""Seconds below which no further part is started."""
_ENDING_S: Final = 5.0
_TESTS: Final = (
    *("-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider"),
    # a test that hangs tells where
    *("-o", "faulthandler_timeout=60"),
)
_SANITIZER: Final = ("--error-exitcode", "9", "--target-processes", "application-only")
_OF_TOOLS: Final = {"memcheck": " --report-api-errors no"}  # some calls are asked whether they fail
_RESULT: Final = re.compile(r"^\[gw\d+\] (?:\[ *\d+%\] )?(PASSED|FAILED|ERROR) (.+?) *$", re.M)
_RESULT_ALONE: Final = re.compile(r"^(\S+::\S.*?) (PASSED|FAILED|ERROR)\b", re.M)
_CUDA: Final = "tests/kernels/cuda"
_ROOMS: Final = {
    "device": ("device", "template", "libraries"),
    "loops": ("elementwise", "reduction"),
    "products": ("gemm", "conv"),
    "movement": ("data_movement", "images", "random"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """One command. limit_s: its time. needs: a program that is started first, "" for none."""

    name: str
    arguments: tuple[str, ...]
    limit_s: float
    needs: str = ""

    @property
    def has_tests(self) -> bool:
        """Return whether the log has a line a test."""
        return "pytest" in self.arguments

    def is_done(self, state: str | None) -> bool:
        """Return whether a later run leaves the part as it is.

        One that adds to its own results has some that are missing as long as it fails.
        """
        return state == "passed" or (state in _DONE and "--resume" not in self.arguments)


def _tests(name: str, limit_s: float, *paths: str) -> Part:
    return Part(name, (*_TESTS, "-n", "8", "--max-worker-restart", "100", *paths), limit_s)


def _rooms(name: str) -> list[str]:
    return [f"{_CUDA}/{room}" for room in _ROOMS[name]]


def _sanitized(tool: str, limit_s: float, *rooms: str) -> Part:
    paths = [path for room in rooms for path in _rooms(room)]
    return Part(
        f"{tool} {' '.join(rooms)}",
        # its own process would be checked alone; it costs a context on purpose
        (*_TESTS, "-n", "0", "-k", "not illegal_address", *paths),
        limit_s,
        f"compute-sanitizer --tool {tool}{_OF_TOOLS.get(tool, '')}",
    )


def parts(folder: Path, peer_python: str) -> list[Part]:
    """Return the parts, the most important ones first."""

    def figures(limit_s: float, *candidates: str) -> Part:
        return Part(
            f"figures {' '.join(candidates)}",
            (
                *("-m", "benchmarks", "gpu", "--candidates", ",".join(candidates)),
                *("--json", str(folder / "figures.json"), "--resume"),
                *("--plot", str(folder / "figures.png")),
                *("--limit", str(limit_s - 10), "--peer-python", peer_python),
            ),
            limit_s,
        )

    return [
        Part("machine", ("-m", "tests.gpu_facts"), 120.0),
        _tests("device", 150.0, *_rooms("device"), "tests/runtime/resources"),
        figures(190.0, "tfjit"),
        _tests("products", 240.0, *_rooms("products")),
        _tests("loops", 180.0, *_rooms("loops")),
        _tests("movement", 150.0, *_rooms("movement")),
        figures(120.0, "torch.compile"),
        figures(100.0, "kernels"),
        _tests("programs", 300.0, "tests/programs", "tests/runtime/offload", *_files()),
        figures(80.0, "jax"),
        figures(70.0, "torch"),
        _sanitized("memcheck", 240.0, "products", "movement"),
        _sanitized("racecheck", 240.0, "loops", "products"),
        figures(100.0, "unfused"),
        figures(50.0, "cupy"),
        _sanitized("memcheck", 240.0, "device", "loops"),
        _sanitized("racecheck", 240.0, "device", "movement"),
        _tests("conformance", 600.0, "tests/contract", "tests/client", "tests/ops",
               "tests/public_api", "tests/passes", "tests/runtime/op_kernels",
               "tests/runtime/session"),
    ]  # fmt: skip


def _files() -> list[str]:
    """Return the test modules beside the rooms of kernels."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / _CUDA).glob("test_*.py"))


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of parts.

    Python finds this tree first. A toolkit on the path is named to numba-cuda, which looks for
    libNVVM there where no wheel has it.
    """
    found = dict(given)
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), given.get("PYTHONPATH", "")]))
    found["PYTHONUNBUFFERED"] = "1"
    compiler = shutil.which("nvcc", path=_with_toolkit(given.get("PATH", "")))
    if compiler is not None:
        found.setdefault("CUDA_HOME", str(Path(compiler).resolve().parent.parent))
    return found


def _with_toolkit(path: str) -> str:
    return os.pathsep.join(filter(None, [path, "/usr/local/cuda/bin"]))


def results(log: str) -> tuple[int, list[str]]:
    """Return how many tests of a log passed, and the names of those that did not."""
    found = {name: state for state, name in _RESULT.findall(log)}
    found |= dict(_RESULT_ALONE.findall(log))
    failed = sorted(name for name, state in found.items() if state != "PASSED")
    return len(found) - len(failed), failed


def run_part(part: Part, folder: Path, python: str, seconds: float) -> dict[str, Any]:
    """Run a part for some seconds at most; return its record."""
    command = [python, *part.arguments]
    surroundings = environment(os.environ)
    if part.needs:
        program, *options = part.needs.split()
        place = shutil.which(program, path=_with_toolkit(surroundings.get("PATH", "")))
        if place is None:
            return {"state": "left out", "reason": f"{program} is not installed"}
        command = [place, *options, *_SANITIZER, *command]
    log = folder / f"{part.name.replace(' ', '_')}.log"
    limit = min(part.limit_s, seconds)
    began = time.monotonic()
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, cwd=ROOT, env=surroundings, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        status = _wait(child, limit)
    record: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1), "status": status}
    text = log.read_text(encoding="utf-8", errors="replace")
    if part.has_tests:
        record["passed"], record["failures"] = results(text)
    record["last"] = next(reversed(text.strip().splitlines()), "")[:2000]
    if status is None:
        record["state"] = "timeout" if limit >= part.limit_s else "cut off"
    elif part.has_tests and not status and not record["passed"]:
        record |= {"state": "left out", "reason": "no test was chosen"}
    elif part.has_tests and status == 5:
        record |= {"state": "left out", "reason": "no test was chosen (is TensorFlow missing?)"}
    else:
        record["state"] = "failed" if status else "passed"
    return record


def _wait(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return a child's status, None where it took too long and was ended."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    # pytest sums up at the first; a process in the background may ignore it
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(_ENDING_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # processes that outlived it
    return None


def line(name: str, record: Mapping[str, Any]) -> str:
    """Return a record as a line of the report."""
    text = f"{name:28} {record['state']:9}"
    if "seconds" in record:
        text += f" {record['seconds']:6.1f} s"
    if "passed" in record:
        text += f"  {record['passed']} passed, {len(record['failures'])} failed"
    reason = record.get("reason") or ("" if record["state"] == "passed" else record.get("last", ""))
    return f"{text}  {reason}".rstrip()


def run(
    chosen: Sequence[Part], named: bool, folder: Path, python: str, seconds: float
) -> dict[str, Any]:
    """Run parts in order while there is time; return the records of all parts so far.

    named: parts that are done are run again. The first part is that of the machine: without it, the
    others have nothing to run on.
    """
    place = folder / "parts.json"
    known: dict[str, Any] = json.loads(place.read_text()) if place.is_file() else {}
    end = time.monotonic() + seconds
    for part in chosen:
        is_done = part.is_done(known.get(part.name, {}).get("state"))
        if is_done and not named and part.name != "machine":
            continue
        left = end - time.monotonic()
        if left < _LEAST_S:
            print(f"the time is over before {part.name!r}: run again to go on", flush=True)
            break
        print(f"{part.name} ...", flush=True)
        known[part.name] = record = run_part(part, folder, python, left)
        new = place.with_suffix(".new")
        new.write_text(json.dumps(known, indent=1))
        new.replace(place)
        print(line(part.name, record), *(f"    {name}" for name in record.get("failures", ())[:20]),
              sep="\n", flush=True)  # fmt: skip
        if part.name == "machine" and record["state"] != "passed":
            break
    return known


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu_parts", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="PART", help="these alone, done or not")
    parser.add_argument("--list", action="store_true", help="print the parts and stop")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--minutes", type=float, default=60.0, help="for all of it (default 60)")
    parser.add_argument(
        "--peer-python", default=sys.executable, metavar="FILE",
        help="the interpreter with PyTorch, JAX and CuPy (default: this one)",
    )  # fmt: skip
    args = parser.parse_args(argv)
    folder = args.folder.resolve()
    every = parts(folder, args.peer_python)
    if args.list:
        print(*(part.name for part in every), sep="\n")
        return 0
    unknown = set(args.names) - {part.name for part in every}
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; --list shows all", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("tensorflow") is None:
        print("without TensorFlow: its comparisons are left out")
    chosen = [part for part in every if not args.names or part.name in args.names]
    found = run(chosen, bool(args.names), folder, sys.executable, 60 * args.minutes)
    print("", *(line(name, record) for name, record in found.items()), sep="\n")
    return int(any(record["state"] in ("failed", "timeout") for record in found.values()))


if __name__ == "__main__":
    sys.exit(main())
