"""Seeds of random ops from the graph's seed and the op's own."""

from __future__ import annotations

from typing import Final

from tfjit.framework import settings
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph import Graph

DEFAULT_GRAPH_SEED: Final = 87654321
_MAX_INT32: Final = 2**31 - 1


def get_seed(op_seed: int | None, graph: Graph | None = None) -> tuple[int | None, int | None]:
    """Return the attrs (seed, seed2) of a random op.

    (None, None) means a stream that differs each time. Under a graph seed an op without its own
    takes a number: the count of such requests before in this graph (TensorFlow 2), or, with
    TFJIT_SEED_RULE=1, the count of operations in the graph (TensorFlow 1.15).
    """
    graph = get_default_graph() if graph is None else graph
    graph_seed = graph.seed
    if graph_seed is None:
        if op_seed is None:
            return None, None
        seeds = DEFAULT_GRAPH_SEED, op_seed
    else:
        if op_seed is None:
            if settings.text("TFJIT_SEED_RULE") == "1":
                op_seed = graph.version
            else:
                op_seed = graph._seed_counter
                graph._seed_counter += 1
        seeds = graph_seed, op_seed
    if any(not isinstance(seed, int) for seed in seeds):
        seeds = int(seeds[0]), int(seeds[1])
    truncated = seeds[0] % _MAX_INT32, seeds[1] % _MAX_INT32
    # (0, 0) would mean another stream each time.
    return (0, _MAX_INT32) if truncated == (0, 0) else truncated


def set_random_seed(seed: int | None) -> None:
    """Set the default graph's seed."""
    get_default_graph().seed = seed
