"""Store generic variants on disk, for later processes.

A file holds the partition over symbols, the nodes that compute constants from sizes, and the
builders' calls of each size class, whose words are formulas. A process that finds the file runs
neither the passes for samples nor builders: a size class costs the layout of its step. The file is
named by the key of a run without feed shapes (`PlanKey.all_sizes`).
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from tfjit.framework import settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.kernels.jit.store import store
from tfjit.runtime.stored_plans import plan_file, stored_plan
from tfjit.runtime.stored_plans.plan_file import DAMAGED, NotStorable
from tfjit.runtime.stored_plans.plan_key import PlanKey

if TYPE_CHECKING:
    from tfjit.runtime.sizes.size_constants import SizeGraph
    from tfjit.runtime.sizes.size_formulas import GenericLowered
    from tfjit.runtime.sizes.size_samples import Shapes
    from tfjit.runtime.sizes.traced_calls import TracedCalls
    from tfjit.runtime.stored_plans.keyed_session import KeyedSession

log = logging.getLogger("tfjit.plan")

_STORE_AFTER_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class StoredGeneric:
    """Hold all that a generic variant has found out.

    met: the feed shapes that gave its symbols. bounds: (least, greatest) size of each symbol.
    """

    met: Sequence[Shapes]
    bounds: Sequence[tuple[int, int]]
    device: str
    partition: GenericLowered
    size_graph: SizeGraph
    classes: Sequence[TracedCalls]


class KeyedPlan(Protocol):
    """Describe a plan to its stored generic variant."""

    @property
    def session(self) -> KeyedSession:
        """Return the session of the plan."""

    def key_of_all_sizes(self) -> PlanKey:
        """Return the key; it has no `all_sizes` where none is ever stored."""


class Stored(Protocol):
    """A variant that may be stored."""

    ready: bool
    is_divided: bool

    @property
    def plan(self) -> KeyedPlan:
        """Return the plan that the variant serves."""

    def found(self) -> StoredGeneric:
        """Return all that a later process needs."""

    def submit(self, job: Callable[[], None]) -> None:
        """Queue a job of the background thread."""


class Storage:
    """Store a variant, and again after it has made size classes."""

    def __init__(self, variant: Stored) -> None:
        self._variant = weakref.ref(variant)  # pending work must not keep a session alive
        self._key = _key(variant.plan)
        self._is_pending = False

    @property
    def is_used(self) -> bool:
        """Return whether the variant is ever stored."""
        return bool(self._key.all_sizes)

    def store(self) -> bool:
        """Store the variant; return whether it is stored.

        The key is made again: only what today's session would make the same is stored. No variant
        with divided groups is: the next process may compile more.
        """
        variant, name = self._variant(), self._key.all_sizes
        if variant is None or not variant.ready or variant.is_divided or not name:
            return False
        session = variant.plan.session
        with session.settings():
            key = _key(variant.plan)
            return key.all_sizes == name and _write(session, key, variant.found())

    def store_later(self) -> None:
        """Store the variant in the background, a moment later."""
        if not self.is_used or self._is_pending:
            return
        self._is_pending = True

        def store_it() -> None:
            self._is_pending = False
            try:
                self.store()
            # a fault here must not end the thread that serves all sessions
            except Exception as error:
                log.debug("a generic variant is not stored: %s", error)

        def submit() -> None:
            variant = self._variant()
            if variant is not None and not variant.plan.session.closed:
                variant.submit(store_it)

        timer = threading.Timer(_STORE_AFTER_S, submit)
        timer.daemon = True
        timer.start()


def _key(plan: KeyedPlan) -> PlanKey:
    """Return the key of a plan's generic variant.

    It has no name where none is ever stored.
    """
    return plan.key_of_all_sizes() if stored_plan.are_used() else PlanKey("")


def _write(session: KeyedSession, key: PlanKey, found: StoredGeneric) -> bool:
    name = key.all_sizes
    backend = session.devices.lookup(found.device).backend
    try:
        with collection_paused():
            data = plan_file.contents(name, (), found, key, backend, stored_plan.MAX_BYTES)
            # so that no process reads it in vain
            plan_file.opened(plan_file.at_boundary(data), name).root(StoredGeneric, key, backend)
    except (NotStorable, *DAMAGED) as why:
        log.debug("a generic variant is not stored: %s", why)
        return False
    # a closed session takes its graphs apart
    return not session.closed and stored_plan.write(name, data)


def read(plan: KeyedPlan) -> StoredGeneric | None:
    """Return a plan's stored generic variant, with its kernels loaded, or None."""
    key = _key(plan)
    path = stored_plan.path_of(key.all_sizes) if key.all_sizes else None
    data = plan_file.read_file(path) if path is not None else None
    if data is None:
        return None
    with collection_paused():
        try:
            file = plan_file.opened(data, key.all_sizes)
            found = file.root(StoredGeneric, key, plan.session.devices.default.backend)
        except DAMAGED as error:
            settings.say("cache", "%s is made again: %s", path, error)
            return None
        store.load_named(file.kernels, file.assembly_names)
    return found


__all__ = ["Storage", "StoredGeneric", "read"]
