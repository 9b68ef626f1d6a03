"""What a benchmark measures: a graph, what is fed and fetched, and what the arithmetic is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Feeds = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """One row of the table.

    build: takes a TF1-style module (tensorflow.compat.v1 or tfjit), adds the graph to the default graph.
    graph_def: bytes of a GraphDef instead of `build`.
    fetches: tensor names. feeds: random generator -> one set of values by tensor name; several sets are used in turn.
    reference: the same in NumPy, feeds -> list of outputs, or None where that would say nothing.
    bytes_moved, flops: what the graph must move and compute at least, for GB/s and GF/s; 0 = not said.
    xla: also measure tf.function(jit_compile=True) over the same graph.
    """

    name: str
    fetches: Sequence[str]
    feeds: Callable[[np.random.Generator], Feeds]
    build: Callable[[Any], None] | None = None
    graph_def: Callable[[], bytes] | None = None
    reference: Callable[[Feeds], Sequence[np.ndarray]] | None = None
    bytes_moved: int = 0
    flops: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5
    xla: bool = False


def uniform(shape: Sequence[int], low: float = -1.0, high: float = 1.0) -> Callable[[np.random.Generator], np.ndarray]:
    """A maker of float32 arrays."""
    return lambda rng: rng.uniform(low, high, tuple(shape)).astype(np.float32)


def feeds_of(**makers: Callable[[np.random.Generator], Any]) -> Callable[[np.random.Generator], Feeds]:
    """Feeds by placeholder name: x=uniform([3]) feeds "x:0"."""
    return lambda rng: {f"{name}:0": make(rng) for name, make in makers.items()}
