"""Remember the variants that wait for their fastest form."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from tfjit.runtime.host import fork_safety

if TYPE_CHECKING:
    from tfjit.runtime.plan.host import PlanHost
    from tfjit.runtime.plan.variant import Variant

_LOCK = threading.Lock()
fork_safety.hold(_LOCK, fork_safety.EXTENSION)
_STARTED: weakref.WeakSet[Variant] = weakref.WeakSet()


def started(variant: Variant) -> None:
    """Remember a variant from the start of its upgrade."""
    with _LOCK:
        _STARTED.add(variant)


def unfinished(session: PlanHost) -> list[Variant]:
    """Return the session's variants with an upgrade that has not ended.

    Variants of bodies of loops, branches and functions are among them.
    """
    with _LOCK:
        for variant in [v for v in _STARTED if v.compile_done.is_set()]:
            _STARTED.discard(variant)
        return [variant for variant in _STARTED if variant.plan.session is session]
