"""Define the items of a pipeline: passes, and passes until a fixpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.passes.manager.user_passes import UserPass


@dataclass(frozen=True, slots=True)
class Step:
    """A place of a pipeline: the pass and the reason.

    user: the pass itself where it is not built in.
    """

    name: str
    why: str = field(default="", compare=False)
    user: UserPass | None = None


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Steps that run again until they change nothing, `limit` times at most."""

    steps: tuple[Step, ...]
    limit: int


Item = Step | Fixpoint
Items = tuple[Item, ...]
"""Items in the order in which they run."""


def flat(items: Iterable[Item]) -> Iterator[Step]:
    """Yield the steps of items, those of fixpoints once."""
    for item in items:
        if isinstance(item, Fixpoint):
            yield from item.steps
        else:
            yield item


__all__ = ["Fixpoint", "Item", "Items", "Step", "flat"]
