"""Count the optional rewrites of plans, and stop them at a limit.

A wrong or slow plan is bisected by such limits, as LLVM's are by opt-bisect-limit.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfjit.framework import settings

if TYPE_CHECKING:
    from collections.abc import Mapping


class EventBudget:
    """The optional rewrites that some plans have made, and may make.

    limit: the most rewrites, None for any number. used: the rewrites so far. path: a file to which
    each rewrite is written as a line of JSON, None for no file. Plans that share a budget are
    counted in the order in which their passes run.
    """

    def __init__(self, limit: int | None = None, path: Path | None = None) -> None:
        if limit is not None and limit < 0:
            raise ValueError(f"an event limit is a number of rewrites, 0 or more, not {limit}")
        self.limit, self.used, self.path = limit, 0, path
        self._lock = threading.Lock()

    @property
    def shows_last(self) -> bool:
        """Return whether the file has the last rewrite's changed lines."""
        return self.limit is not None and self.path is not None

    def allows(self, ahead: int = 0) -> bool:
        """Return whether another rewrite may be made.

        ahead: rewrites that are decided and not yet made.
        """
        return self.limit is None or self.used + ahead < self.limit

    def spend(self) -> int:
        """Count one rewrite and return its number, from 1."""
        with self._lock:
            self.used += 1
            return self.used

    def write(self, event: Mapping[str, object]) -> None:
        """Append one rewrite to the file, if there is one."""
        if self.path is None:
            return
        line = json.dumps({"process": os.getpid(), **event})
        with self._lock, self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


_PROCESS: Final[dict[tuple[str, str], EventBudget]] = {}


def process_budget() -> EventBudget | None:
    """Return the budget that TFJIT_EVENT_LIMIT and TFJIT_EVENT_LOG set.

    All plans of the process share it. None where neither is set.
    Raises ValueError for a limit that is no number.
    """
    limit, log = settings.text("TFJIT_EVENT_LIMIT"), settings.text("TFJIT_EVENT_LOG")
    if not limit and not log:
        return None
    found = _PROCESS.get((limit, log))
    if found is None:
        number = settings.integer("TFJIT_EVENT_LIMIT") if limit else None
        made = EventBudget(number, settings.path("TFJIT_EVENT_LOG"))
        found = _PROCESS.setdefault((limit, log), made)
    return found


__all__ = ["EventBudget", "process_budget"]
