"""Hold the part of a partition that an accelerator runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.passes.ir.node import SINK, SOURCE

if TYPE_CHECKING:
    from tfjit.passes.ir.function_library import Function


@dataclass(frozen=True, eq=False)
class OffloadedGraph:
    """The nodes of an `_Offload` node, as a function.

    device: the accelerator's full name.
    """

    function: Function
    device: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the nodes in an order of execution."""
        graph = self.function.graph
        return tuple(
            name
            for name in graph.topological_order()
            if name not in (SOURCE, SINK) and graph.node(name).op not in ("_Arg", "_Retval")
        )

    def explain(self) -> str:
        """Return one line on the device and the nodes."""
        counts = Counter(self.function.graph.node(name).op for name in self.names)
        ops = ", ".join(f"{op} {count}" for op, count in counts.most_common())
        return f"{sum(counts.values())} nodes on {self.device}: {ops}"
