"""Make the tables and argument blocks of one instance of a step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.kernels.executor import table_executor
from tfjit.kernels.registry import Pointer
from tfjit.runtime.lowering.lowering import SHARDS
from tfjit.runtime.step.arena import Arena, Placement
from tfjit.runtime.step.native_failures import raise_failure

if TYPE_CHECKING:
    from tfjit.runtime.step.layout import Layout
    from tfjit.runtime.step.native_run import Owned, PlacedShard

# A native run predicted shorter keeps the GIL: releasing it lets another thread in for a whole
# switch interval.
_KEEP_GIL_NS: Final = 10_000.0


def instance_scope(layout: Layout) -> dict[str, Any]:
    """Return the globals of one instance.

    The instance has separate argument blocks, tables and views, and an arena unless the session
    lends one.
    """
    scope = dict(layout.scope)
    words = np.array(layout.words, np.int64)
    views = {
        name: (offset, value.shape, np.dtype(value.dtype.as_numpy_dtype))
        for name, (offset, value) in layout.views.items()
    }
    scope["placement"] = placement = Placement(words, layout.arena_words, views, scope)
    if not layout.shares_arena:
        scope["arena"] = arena = Arena(layout.arena_bytes)
        placement.bind(arena)
    address = words.ctypes.data
    for word, block in layout.block_words:
        words[word] = address + 8 * block
    pool = layout.env.pool() if layout.native_runs else None
    ticks_per_ns = table_executor.ticks_per_second() * 1e-9 if pool is not None else 0.0
    scope["w"], scope["constants"], scope["native_failure"] = (
        words,
        layout.constants,
        partial(raise_failure, layout),
    )
    tables = scope["parts"] = [_shard_table(shard, address) for _, shard in layout.table_words]
    for (word, _), shard_table in zip(layout.table_words, tables, strict=True):
        words[word] = shard_table.words.ctypes.data
    for k, native_run in enumerate(layout.native_runs):
        arrays = layout.scope[f"arrays{k}"]
        index = {name: i for i, name in enumerate(arrays)}
        table = table_executor.StepTable(
            len(arrays),
            instructions=[
                (code, address + 8 * block, chunks) for code, block, chunks in native_run.rows
            ],
            patches=[
                *(
                    (index[patch.array], address + 8 * patch.word, patch.offset)
                    for patch in native_run.patches
                ),
                *((index["flag"], table.cancel_address, 0) for table in tables if "flag" in index),
            ],
            costs=[
                int(sum(one.launch.cost_ns for one in owned) * ticks_per_ns)
                for owned in native_run.owners
            ],
            cancellable=[
                bool(owned) and all(_is_cancellable(layout, one) for one in owned)
                for owned in native_run.owners
            ],
            release_gil=native_run.loops or native_run.cost_ns > _KEEP_GIL_NS,
            cancel_array=index.get("flag", -1),
            pool=pool.state_address if pool is not None else 0,
        )
        scope[f"t{k}"] = table.words
    return scope


def _shard_table(shard: PlacedShard, address: int) -> table_executor.StepTable:
    """Return the table that one thread runs.

    address: of the instance's argument blocks.
    """
    blocks = address + 8 * shard.words
    return table_executor.StepTable(
        0, [(code, blocks + 8 * block, chunks) for code, block, chunks in shard.native_run.rows]
    )


def _is_cancellable(layout: Layout, owned: Owned) -> bool:
    """Return whether a cancelled launch may end between two chunks.

    Such a launch writes nothing that outlives the run.
    """
    instruction = owned.instruction
    if instruction.spec.op == SHARDS or any(
        isinstance(w, Pointer) and w.kind == "state" for w in owned.launch.words
    ):
        return False
    roots = [layout.liveness.root(value) for value in (*instruction.inputs, *instruction.outputs)]
    written = roots[len(instruction.inputs) :]
    return all(root.storage != "handle" for root in roots) and all(
        root.storage == "buffer" for root in written
    )
