"""Search for likely label sequences with a beam of prefixes.

Source: Graves 2012, "Supervised Sequence Labelling with Recurrent Neural Networks", 7.5.
"""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

_NEVER = -math.inf
_MARGIN = 1e-4  # for rounding, relative


class Prefix:
    """Hold a prefix of labels and its log probabilities.

    They are those of this step and of the one before. `blank` counts paths that end in a blank,
    `label` those that end in the last label, `total` both.
    """

    __slots__ = (
        "blank",
        "children",
        "label",
        "last",
        "old_blank",
        "old_total",
        "parent",
        "total",
    )

    def __init__(self, parent: Prefix | None, last: int) -> None:
        self.parent = parent
        self.last = last
        self.children: dict[int, Prefix] = {}
        self.forget()

    def forget(self) -> None:
        """Give the prefix probability 0: it has left the beam."""
        self.total = self.blank = self.label = _NEVER
        self.old_total = self.old_blank = _NEVER

    def child(self, label: int) -> Prefix:
        """Return the prefix that is longer by a label."""
        found = self.children.get(label)
        if found is None:
            found = self.children[label] = Prefix(self, label)
        return found

    def labels(self, merge_repeated: bool) -> list[int]:
        """Return the labels, with neighbours that are equal as one if merge_repeated."""
        out: list[int] = []
        at, before = self, -1
        while at.parent is not None:
            if not merge_repeated or at.last != before:
                out.append(at.last)
            before = at.last
            at = at.parent
        return out[::-1]


class BeamSearch:
    """Keep the likeliest prefixes while steps are read.

    width: the number of prefixes. The last class is the blank. Probabilities are rounded to `dtype`
    in each operation.
    """

    def __init__(self, classes: int, width: int, dtype: np.dtype[Any]) -> None:
        self._blank = classes - 1
        self._width = width
        self._round = dtype.type
        root = Prefix(None, -1)
        root.total = root.blank = 0.0
        self._beam = [root]

    def _sum(self, a: float, b: float) -> float:
        if a == _NEVER:
            return b
        if b == _NEVER:
            return a
        return float(np.logaddexp(self._round(a), self._round(b)))

    def _product(self, a: float, b: float) -> float:
        return float(self._round(a) + self._round(b))

    def step(self, logits: np.ndarray) -> None:
        """Read one step's logits, [classes]."""
        top = logits.max()
        scores = logits - (top + np.log(np.exp(logits - top).sum()))
        shares = scores.tolist()
        beam = sorted(self._beam, key=lambda prefix: -prefix.total)
        for prefix in beam:
            prefix.old_total, prefix.old_blank = prefix.total, prefix.blank
        for prefix in beam:
            self._extend_in_place(prefix, shares)
        order = 0
        leaves: list[tuple[float, int, Prefix]] = []
        for prefix in beam:
            order += 1
            heapq.heappush(leaves, (prefix.total, -order, prefix))
        for prefix in beam:
            if not self._enters(leaves, prefix.old_total):
                continue
            for label in self._candidates(leaves, prefix, scores):
                child = prefix.child(label)
                if child.total != _NEVER:
                    continue
                before = prefix.old_blank if label == prefix.last else prefix.old_total
                child.blank = _NEVER
                child.label = child.total = self._product(shares[label], before)
                if not self._enters(leaves, child.total):
                    child.forget()
                    continue
                order += 1
                entry = (child.total, -order, child)
                if len(leaves) == self._width:
                    lowest = heapq.heapreplace(leaves, entry)[2]
                    lowest.total = lowest.blank = lowest.label = _NEVER
                else:
                    heapq.heappush(leaves, entry)
        self._beam = [prefix for _, _, prefix in sorted(leaves, key=lambda e: (-e[0], -e[1]))]

    def _candidates(
        self, leaves: list[tuple[float, int, Prefix]], prefix: Prefix, scores: np.ndarray
    ) -> list[int]:
        """Return the labels by which a longer prefix may enter the beam.

        The least probability in a full beam only rises, so other labels need no prefix. Prefixes
        that are there are looked at in any case: one that has left the beam does not grow.
        """
        if len(leaves) < self._width:
            return list(range(self._blank))
        least = leaves[0][0] - prefix.old_total
        likely = scores[: self._blank] >= least - _MARGIN * (1 + abs(least))
        return sorted({*np.flatnonzero(likely).tolist(), *prefix.children})

    def _extend_in_place(self, prefix: Prefix, shares: list[float]) -> None:
        """Let a prefix stay as it is for a step.

        The step is a blank, or its last label once more.
        """
        parent = prefix.parent
        if parent is not None:
            if parent.total != _NEVER:
                same = prefix.last == parent.last
                before = parent.old_blank if same else parent.old_total
                prefix.label = self._sum(prefix.label, before)
            prefix.label = self._product(prefix.label, shares[prefix.last])
        prefix.blank = self._product(prefix.old_total, shares[self._blank])
        prefix.total = self._sum(prefix.blank, prefix.label)

    def _enters(self, leaves: list[tuple[float, int, Prefix]], total: float) -> bool:
        """Return whether a prefix of this probability enters the beam."""
        return total > _NEVER and (len(leaves) < self._width or total > leaves[0][0])

    def best(self, count: int) -> list[Prefix]:
        """Return the likeliest prefixes, the first first."""
        return sorted(self._beam, key=lambda prefix: -prefix.total)[:count]
