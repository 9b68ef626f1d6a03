"""Interleave elements of several datasets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit.runtime.datasets.dataset import Elements, as_dataset
from tfjit.runtime.datasets.element import Element

if TYPE_CHECKING:
    from tfjit.runtime.datasets.dataset import Dataset
    from tfjit.runtime.datasets.dataset_function import DatasetFunction
    from tfjit.runtime.datasets.element_context import ElementContext


class Interleaved(Elements):
    """Alternate between datasets that a function makes, `block` elements each.

    cycle: datasets that are open at a time. begin: starts one of them. A dataset that ends
    leaves its place open; the next one gets it when the cycle comes there again.
    """

    __slots__ = ("_at", "_begin", "_block", "_function", "_is_over", "_open", "_run", "_taken")

    def __init__(
        self,
        source: Elements,
        run: ElementContext,
        function: DatasetFunction,
        cycle: int,
        block: int,
        begin: Callable[[Dataset, ElementContext], Elements] | None = None,
    ) -> None:
        super().__init__(source)
        self._run, self._function, self._block = run, function, block
        self._begin = begin
        self._open: list[Elements | None] = [None] * cycle
        self._at = self._taken = 0
        self._is_over = False

    def __next__(self) -> Element:
        opened = self._open
        while True:
            current = opened[self._at]
            if current is None:
                if self._is_over:
                    if not any(opened):
                        raise StopIteration
                    self._advance()
                    continue
                current = opened[self._at] = self._next_dataset()
                if current is None:
                    continue
            try:
                element = next(current)
            except StopIteration:
                current.close()
                opened[self._at] = None
                self._advance()
                continue
            except Exception:
                self._count()
                raise
            self._count()
            return element

    def open_all(self) -> None:
        """Open the first datasets of the cycle."""
        for i in range(len(self._open)):
            self._open[i] = self._next_dataset()
            if self._open[i] is None:
                break

    def advance_to_ready(self) -> None:
        """Advance to the next dataset that has an element ready, if any."""
        for i in range(len(self._open)):
            at = (self._at + i) % len(self._open)
            current = self._open[at]
            if current is not None and current.is_ready:
                if i:
                    self._at, self._taken = at, 0
                break

    def _next_dataset(self) -> Elements | None:
        """Return the next dataset's elements; None at the end."""
        try:
            element = next(self.sources[0])
        except StopIteration:
            self._is_over = True
            return None
        made = as_dataset(self._function(self._run, element)[0])
        return made.start(self._run) if self._begin is None else self._begin(made, self._run)

    def _count(self) -> None:
        self._taken += 1
        if self._taken == self._block:
            self._advance()

    def _advance(self) -> None:
        self._taken = 0
        self._at = (self._at + 1) % len(self._open)

    @property
    def is_ready(self) -> bool:
        current = self._open[self._at]
        return super().is_ready and (current is None or current.is_ready)

    @property
    def has_threads(self) -> bool:
        return super().has_threads or any(one is not None and one.has_threads for one in self._open)

    def close(self) -> None:
        """Free the open datasets, too."""
        super().close()
        for current in self._open:
            if current is not None:
                current.close()


__all__ = ["Interleaved"]
