"""Keep the bindings of the sizes that a generic variant serves."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tfjit.runtime.plan.size_class import Binding, SizeClass
    from tfjit.runtime.sizes.size_samples import Shapes

MAX_BINDINGS: Final = 256
"""Bindings that a plan keeps, at most."""
MAX_BOUND_BYTES: Final = 1 << 22
"""Bytes of the words and constants that are kept."""


class SizeBindings:
    """Hold the bindings made last, by feed shapes.

    count: the number of bindings that were ever added. The variant holds its lock while it changes
    them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._bindings: OrderedDict[Shapes, Binding] = OrderedDict()
        self._bytes = 0

    def get(self, shapes: Shapes) -> Binding | None:
        """Return the binding of these feed shapes, or None."""
        return self._bindings.get(shapes)

    def add(self, shapes: Shapes, binding: Binding) -> bool:
        """Keep a binding; return whether its feed shapes had none.

        Old bindings are dropped where there are too many.
        """
        is_new = shapes not in self._bindings
        if is_new:
            self._bindings[shapes] = binding
            self._bytes += binding.nbytes
            self.count += 1
        while len(self._bindings) > MAX_BINDINGS or (
            self._bytes > MAX_BOUND_BYTES and len(self._bindings) > 1
        ):
            self._bytes -= self._bindings.popitem(last=False)[1].nbytes
        return is_new

    def drop_class(self, size_class: SizeClass) -> None:
        """Drop the bindings of a size class."""
        for shapes in [s for s, b in self._bindings.items() if b.size_class is size_class]:
            self._bytes -= self._bindings.pop(shapes).nbytes

    def clear(self) -> None:
        """Drop all bindings."""
        self._bindings.clear()


__all__ = ["MAX_BINDINGS", "SizeBindings"]
