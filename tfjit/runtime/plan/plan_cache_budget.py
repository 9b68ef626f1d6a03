"""Limit the memory of a session's plans by eviction of old variants.

The variants longest unused are dropped first, over all plans.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.runtime.host.fork_safety import release_lock

if TYPE_CHECKING:
    from tfjit.runtime.plan.variant import Variant

NODE_BYTES: Final = 8_000
"""Bytes of a variant's Python objects for each node.

The objects are the working graph, lowering, argument blocks and tables (4 to 7.5 kB by tracemalloc,
for 100 and 250 nodes).
"""
_COUNTED_BYTES: Final = 1 << 12  # smaller constants are part of NODE_BYTES


class VariantBudget:
    """Track the variants of a session and their memory. Thread-safe.

    Evicting one variant does not free an array that several variants hold (mostly the graph's own
    constants), so such an array counts for none of them. A run only marks its variant, which is
    free. Each new variant raises the age of all others by one; a marked variant's age is reset
    instead.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.evicted = 0
        self._lock = threading.Lock()
        self._entries: dict[Variant, tuple[int, tuple[np.ndarray, ...]]] = {}
        # id of an array -> number of variants that hold the array
        self._holders: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def charge(self, variant: Variant, nbytes: int, arrays: Iterable[np.ndarray]) -> None:
        """Record that the variant takes nbytes and holds these arrays.

        A second call replaces the first. Above the limit, other variants are evicted.
        """
        unique = tuple({id(a): a for a in arrays if a.nbytes >= _COUNTED_BYTES}.values())
        with self._lock:
            if variant not in self._entries:
                self._grow_older()
            self._drop(variant)
            self._entries[variant] = (nbytes, unique)
            self._count(nbytes, unique, 1)
            if self.held_bytes > self.limit_bytes:
                self._evict(variant)

    def forget(self, variant: Variant) -> None:
        """Forget a variant that its plan has dropped."""
        with self._lock:
            self._drop(variant)

    def after_fork(self) -> None:
        """Reset the lock in a forked child."""
        release_lock(self._lock)

    def _grow_older(self) -> None:
        for variant in self._entries:
            variant.idle = 0 if variant.used else variant.idle + 1
            variant.used = False

    def _evict(self, newest: Variant) -> None:
        for variant in sorted(self._entries, key=lambda v: v.idle, reverse=True):
            if self.held_bytes <= self.limit_bytes:
                break
            if variant is not newest:
                self._drop(variant)
                variant.plan.drop(variant)
                self.evicted += 1

    def _drop(self, variant: Variant) -> None:
        entry = self._entries.pop(variant, None)
        if entry is not None:
            self._count(*entry, -1)

    def _count(self, nbytes: int, arrays: Sequence[np.ndarray], step: int) -> None:
        self.held_bytes += step * nbytes
        for array in arrays:
            before = self._holders.get(id(array), 0)
            now = before + step
            self.held_bytes += array.nbytes * ((now == 1) - (before == 1))
            if now:
                self._holders[id(array)] = now
            else:
                del self._holders[id(array)]
