"""Keep the plans and runners of a session, by signature."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.runtime.plan.plan import Plan
    from tfjit.runtime.session_interface import Runner

MAX_PLANS = 256
_RUNNERS_FOR_A_PLAN: Final = 4  # one for each order of names

Key = tuple[Any, ...]


class PlanCache:
    """Plans of the signatures in use. Thread-safe.

    Beyond MAX_PLANS those longest unused are dropped. hits, misses, evictions: counts of plans
    found, made and dropped.
    """

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self._lock = threading.Lock()
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._runners: dict[Key, Runner] = {}

    def find(self, key: Key, make: Callable[[], Plan]) -> Plan:
        """Return the plan of a signature, or a new one of `make`."""
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                self.hits += 1
                return found
            self.misses += 1
        made = make()
        with self._lock:  # made outside the lock: a racing loser's plan is dropped
            found = self._plans.setdefault(key, made)
            while len(self._plans) > MAX_PLANS:
                _, dropped = self._plans.popitem(last=False)
                self.evictions += 1
                dropped.drop_all()
                self._runners.clear()  # runners hold plans
            return found

    def runner(self, key: Key) -> Runner | None:
        """Return the runner for an order of names, or None."""
        return self._runners.get(key)

    def keep_runner(self, key: Key, runner: Runner) -> None:
        """Keep a runner for later runs with the same order of names."""
        if len(self._runners) >= _RUNNERS_FOR_A_PLAN * MAX_PLANS:
            self._runners.clear()
        self._runners[key] = runner

    def plans(self) -> list[Plan]:
        """Return the plans, those longest unused first."""
        with self._lock:
            return list(self._plans.values())

    def take_all(self) -> list[Plan]:
        """Empty the cache and return its plans."""
        with self._lock:
            plans = list(self._plans.values())
            self._plans.clear()
            self._runners.clear()
            return plans

    def after_fork(self) -> None:
        """Release the lock in a forked child, and tell the plans."""
        release_lock(self._lock)
        for plan in self._plans.values():
            plan.after_fork()
