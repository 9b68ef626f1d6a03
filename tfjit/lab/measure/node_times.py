"""Match the measured nodes of two plans and compare their times."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.runtime.profiling.explain import Explanation


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """Nodes that both plans compute, perhaps in other groups, with their times.

    nodes: of the user's graph. kernels, base_kernels: the nodes of each plan that compute these,
    fused ones among them. Times are of a run, in microseconds, medians over the sessions;
    difference_us is the candidate's less the base's. apart: the sessions' times do not overlap.
    """

    candidate: str
    base: str
    nodes: tuple[str, ...]
    kernels: tuple[str, ...]
    base_kernels: tuple[str, ...]
    us: float
    base_us: float
    apart: bool

    @property
    def difference_us(self) -> float:
        """Return the time that the candidate takes more."""
        return self.us - self.base_us


def node_differences(
    candidate: str,
    explanations: Sequence[Explanation],
    base: str,
    base_explanations: Sequence[Explanation],
) -> list[NodeDifference]:
    """Return the measured parts of two plans, the largest difference first.

    A part is the smallest set of user nodes that no group of either plan cuts. explanations,
    base_explanations: of each session, with measured times. A node that only one plan has is a part
    by itself.
    """
    plans = [[_measured(one) for one in side] for side in (explanations, base_explanations)]
    parent: dict[str, str] = {}
    for side in plans:
        for session in side:
            for _, members, _ in session:
                for member in members:
                    parent[_root(parent, member)] = _root(parent, members[0])
    nodes: dict[str, set[str]] = defaultdict(set)
    kernels: list[dict[str, dict[str, None]]] = []
    times: list[list[dict[str, float]]] = []
    for side in plans:
        kernels.append(defaultdict(dict))
        times.append([defaultdict(float) for _ in side])
        for session, of_times in zip(side, times[-1], strict=True):
            for name, members, us in session:
                root = _root(parent, members[0])
                nodes[root].update(members)
                kernels[-1][root][name] = None
                of_times[root] += us
    found = []
    for root, names in nodes.items():
        mine, others = ([session[root] for session in side] for side in times)
        found.append(
            NodeDifference(
                candidate,
                base,
                tuple(sorted(names)),
                tuple(kernels[0][root]),
                tuple(kernels[1][root]),
                statistics.median(mine),
                statistics.median(others),
                min(mine) > max(others) or max(mine) < min(others),
            )
        )
    return sorted(found, key=lambda part: (-abs(part.difference_us), part.nodes))


def _measured(explanation: Explanation) -> list[tuple[str, Sequence[str], float]]:
    """Return (node, its user nodes, time) of each measured node."""
    return [
        (node.name, node.members or (node.name,), node.measured_us)
        for node in explanation.nodes
        if node.measured_us is not None
    ]


def _root(parent: dict[str, str], name: str) -> str:
    while (above := parent.setdefault(name, name)) != name:
        parent[name] = parent[above]
        name = parent[name]
    return name


__all__ = ["NodeDifference", "node_differences"]
