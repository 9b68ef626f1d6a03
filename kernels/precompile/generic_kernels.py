"""Enumerate the generic kernels, which run a graph node by node.

The set is written down by op, dtype and layout, and the CPU's builders turn it into texts. Texts
depend on the machine only by its vector registers (`target.host`): the set of a level of x86-64 is
the same on all machines.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from tfjit.kernels.executor.table_executor_ir import machine_text
from tfjit.kernels.precompile.build_order import by_use
from tfjit.kernels.precompile.elementwise_kernels import elementwise_nodes
from tfjit.kernels.precompile.fused_kernels import fused_nodes
from tfjit.kernels.precompile.movement_kernels import movement_sources, placed_nodes
from tfjit.kernels.precompile.product_kernels import product_nodes, tile_sources
from tfjit.kernels.precompile.reduction_kernels import reduction_nodes
from tfjit.kernels.precompile.sparse_kernels import sparse_sources
from tfjit.kernels.precompile.string_kernels import string_sources
from tfjit.kernels.precompile.training_kernels import (
    random_nodes,
    sparse_update_sources,
    update_sources,
)
from tfjit.kernels.registry import NodeSpec, find_native
from tfjit.kernels.source import KernelSource

USUAL_OFFSETS = (8, 16)
"""Places of type and data pointer in ndarrays of usual CPython."""


def generic_nodes() -> Iterator[NodeSpec]:
    """Yield the nodes that builders turn into kernels of the set."""
    return chain(
        elementwise_nodes(),
        reduction_nodes(),
        product_nodes(),
        fused_nodes(),
        placed_nodes(),
        random_nodes(),
    )


def generic_kernels() -> tuple[KernelSource, ...]:
    """Return the distinct sources of all generic kernels, the most used first.

    Raises Unsupported when a builder declines a node of the set.
    """
    found: dict[KernelSource, None] = {}
    for spec in generic_nodes():
        builder = find_native(spec.op)
        assert builder is not None, spec.op
        found.update(dict.fromkeys(builder(spec).sources()))
    found.update(dict.fromkeys(movement_sources()))
    found.update(dict.fromkeys(update_sources()))
    found.update(dict.fromkeys(sparse_update_sources()))
    found.update(dict.fromkeys(sparse_sources()))
    found.update(dict.fromkeys(tile_sources()))
    found.update(dict.fromkeys(string_sources()))
    return by_use(found)


def machine_texts() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (LLVM assembly, its functions): the table executor with the thread pool."""
    return tuple(machine_text(offsets) for offsets in (USUAL_OFFSETS, None))
