"""Find the rewrite from which on a script fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfjit.lab.rewrites.search import Bisection, Culprit, Search


def bisect_script(
    script: str | Path, arguments: Sequence[str] = (), *, time_limit_s: float | None = None
) -> Bisection:
    """Return the first rewrite with which a script fails.

    A script fails by an exit status other than 0.

    The script runs as `tfjit script.py arguments...` does, once for each tried limit. Its rewrites
    are counted over all plans of a process, in the order of planning: a script that plans in
    several threads, or at random, may count differently from run to run. Each process that the
    script starts counts anew. time_limit_s: a run that takes longer is bad.
    Raises FileNotFoundError for a script that is not there.
    """
    path = Path(script)
    if not path.is_file():
        raise FileNotFoundError(f"there is no script {path}")
    return _ScriptBisector(path, list(arguments), time_limit_s).run()


class _ScriptBisector:
    """One bisection of a script."""

    def __init__(self, path: Path, arguments: list[str], time_limit_s: float | None) -> None:
        self.path, self.arguments, self.time_limit_s = path, arguments, time_limit_s
        self.events: dict[int | None, dict[int, dict[str, Any]]] = {}  # by limit

    def run(self) -> Bisection:
        """Return the answer."""
        search = Search(self._judge)
        whole = search.try_limit(None)
        rewrites = max(self.events[None], default=0)
        if whole.good:
            note = f"nothing to find: with all {rewrites} rewrites the script succeeds"
            return Bisection(None, rewrites, tuple(search.trials), note=note)
        without = search.try_limit(0)
        if not without.good:
            note = f"no rewrite is at fault: without any the script fails too, {without.detail}"
            return Bisection(None, rewrites, tuple(search.trials), note=note)
        if not rewrites or search.try_limit(rewrites).good:
            note = f"the script fails from time to time: with all {rewrites} rewrites it succeeded"
            return Bisection(None, rewrites, tuple(search.trials), note=note)
        found = search.first_bad(rewrites)
        exceptions = search.exceptions(found, rewrites, further=1)
        judged = search.try_limit(found)
        event = self.events[found].get(found, {})
        culprit = Culprit(
            found,
            event.get("pass", "unknown"),
            event.get("where", ""),
            event.get("rule", ""),
            event.get("node", ""),
            event.get("reason", ""),
            changes=event.get("changes", ""),
        )
        return Bisection(
            culprit, rewrites, tuple(search.trials), exceptions, f"bad: {judged.detail}"
        )

    def _judge(self, limit: int | None) -> tuple[bool, str]:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "events.jsonl"
            variables = {**os.environ, "TFJIT_EVENT_LOG": str(log), "TFJIT_STORED_PLANS": "0"}
            variables.pop("TFJIT_EVENT_LIMIT", None)
            if limit is not None:
                variables["TFJIT_EVENT_LIMIT"] = str(limit)
            try:
                done = subprocess.run(
                    [sys.executable, "-m", "tfjit", str(self.path), *self.arguments],
                    env=variables,
                    capture_output=True,
                    text=True,
                    timeout=self.time_limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                good, detail = False, f"it ran for more than {self.time_limit_s} s"
            else:
                good = done.returncode == 0
                lines = done.stderr.strip().splitlines()
                detail = "" if good else f"exit status {done.returncode}"
                detail += f": {lines[-1]}" if lines and not good else ""
            self.events[limit] = _events(log)
        return good, detail


def _events(log: Path) -> dict[int, dict[str, Any]]:
    """Return the rewrites of the process that made the most, by number."""
    by_process: dict[int, dict[int, dict[str, Any]]] = {}
    text = log.read_text(encoding="utf-8") if log.is_file() else ""
    for line in text.splitlines():
        event = json.loads(line)
        by_process.setdefault(event["process"], {})[event["number"]] = event
    return max(by_process.values(), key=len, default={})


__all__ = ["bisect_script"]
