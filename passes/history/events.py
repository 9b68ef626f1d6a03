"""Define events: rewrites and ends of passes, with the changed nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tfjit.passes.history.recording import Changed, GraphRecord

PASS: Final = "pass"
"""`Event.kind` of the end of a pass."""
REWRITE: Final = "rewrite"
"""`Event.kind` of one rewrite."""


@dataclass(slots=True)
class Event:
    """One rewrite, or the end of one run of a pass.

    The end has the changes for which the pass gave no reason.

    number: in the history, from 1. count: of an optional rewrite, as `PassOptions.event_limit`
    counts; None for others. pass_name, rule: the pass, and its part. where: the path of the region,
    or the partition's device, "" for the whole graph. node: the rewritten node, "" for many.
    nodes_before, nodes_after: the numbers of nodes of the changed graphs. depth: the number of
    enclosing passes. changes: of each changed graph.
    """

    number: int
    plan: int
    kind: str
    pass_name: str
    where: str
    rule: str
    node: str
    reason: str
    count: int | None = None
    depth: int = 0
    nodes_before: int = 0
    nodes_after: int = 0
    changes: list[tuple[GraphRecord, Changed]] = field(default_factory=list, repr=False)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the changed nodes."""
        return tuple(dict.fromkeys(name for _, changed in self.changes for name in changed))

    def __str__(self) -> str:
        title = f"{self.pass_name}{f' ({self.rule})' if self.rule else ''}"
        place = self.where.rpartition("/device:")[2]
        at = f" in {place}" if place else ""
        sizes = f"{self.nodes_before} -> {self.nodes_after} nodes"
        text = f"{self.number}: {title}{at}: "
        if self.kind == PASS:
            return f"{text}end, {sizes if self.changes else 'no further change'}"
        return f"{text}{self.node + ' ' if self.node else ''}{self.reason}, {sizes}"


__all__ = ["PASS", "REWRITE", "Event"]
