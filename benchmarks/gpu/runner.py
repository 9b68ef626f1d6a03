"""Run children under time limits; go on behind a workload that fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Record = dict[str, Any]
_ROOT: Final = Path(__file__).resolve().parents[2]
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Part:
    """The workloads of one candidate.

    names: of workloads, in order. workload_s, whole_s: time limits of one and of all. python: the
    interpreter.
    """

    candidate: str
    names: tuple[str, ...]
    workload_s: float
    whole_s: float
    python: str = sys.executable


def run_part(
    part: Part,
    folder: Path,
    options: Sequence[str],
    deadline: float,
    report: Callable[[Record], None],
) -> None:
    """Measure a part and report each record.

    A workload that passes its limit, or ends its process, is reported as failed, and a new process
    goes on with the next. options: of the child. deadline: by `time.monotonic`; what is left then is
    reported as left out.
    """
    end = min(deadline, time.monotonic() + part.whole_s)
    left = list(part.names)
    log = folder / f"{part.candidate}.log"
    while left:
        if time.monotonic() >= end:
            for name in left:
                report(_failed(part, name, "left out: the time of this part is over"))
            return
        done, reason = _run(part, left, folder, options, end, log, report)
        left = left[done:]
        if reason and left:
            report(_failed(part, left.pop(0), reason))


def _failed(part: Part, name: str, reason: str) -> Record:
    return {"candidate": part.candidate, "workload": name, "error": reason}


def _run(
    part: Part,
    names: Sequence[str],
    folder: Path,
    options: Sequence[str],
    end: float,
    log: Path,
    report: Callable[[Record], None],
) -> tuple[int, str]:
    """Run one process.

    Returns how many workloads are done, and why the next one is not.
    """
    lines = folder / f"{part.candidate}.jsonl"
    lines.unlink(missing_ok=True)
    command = [part.python, "-m", "benchmarks.gpu.child", part.candidate, str(folder), *names]
    # another interpreter has libraries of its own
    own = os.environ.get("PYTHONPATH", "") if part.python == sys.executable else ""
    path = os.pathsep.join(filter(None, [str(_ROOT), own]))
    with log.open("ab") as output:
        child = subprocess.Popen(
            [*command, *options],
            stdout=output,
            stderr=output,
            cwd=_ROOT,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
    done, seen, since = 0, 0, time.monotonic()
    try:
        while True:
            running = child.poll() is None
            for record in _records(lines)[seen:]:
                seen += 1
                since = time.monotonic()
                if not record.get("started"):
                    done += 1
                    report(record)
            if done == len(names):
                return done, ""
            if not running:
                return done, f"the process ended with status {child.returncode}: {_tail(log)}"
            now = time.monotonic()
            if now - since > part.workload_s:
                return done, f"no result after {part.workload_s:.0f} s"
            if now > end:
                return done, "the time of this part is over"
            time.sleep(_POLL_S)
    finally:
        _stop(child)


def _records(path: Path) -> list[Record]:
    """Return the whole lines that a child has written."""
    if not path.is_file():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a child with the processes that it has started."""
    try:
        child.wait(2.0)  # one that is done ends by itself
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
