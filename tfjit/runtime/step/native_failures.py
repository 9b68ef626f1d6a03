"""Report the errors of compiled kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework import errors
from tfjit.runtime.host.cancellation import cancelled_step
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.lowering.lowering import SHARDS

if TYPE_CHECKING:
    import numpy as np

    from tfjit.runtime.lowering.lowered import Instruction
    from tfjit.runtime.step.layout import Layout
    from tfjit.runtime.step.native_run import Owned


def raise_failure(layout: Layout, native_run: int, result: int, words: np.ndarray) -> None:
    """Raise the error that a compiled kernel reported.

    result: 1 + row of the native run.
    """
    if result < 0:
        raise cancelled_step()
    row = result - 1
    owners = layout.native_runs[native_run].owners[row]
    failed: list[tuple[Owned, int, int]] = []
    for shard in layout.shards.get(id(owners[0].instruction), ()):
        if words[shard.result] < 0:
            words[layout.native_runs[native_run].rows[row][1]] = 0
            raise cancelled_step()
    for one, block in [
        *((one, one.block) for one in owners),
        *_failed_in_shards(layout, owners[0].instruction, words),
    ]:
        status, detail = int(words[block]), int(words[block + 1])
        words[block] = words[block + 1] = 0
        if status and one.instruction.spec.op != SHARDS:
            failed.append((one, status, detail))
    words[layout.native_runs[native_run].rows[row][1]] = 0  # the status of a bundle
    one, status, detail = failed[0]
    name = one.instruction.node.name
    if status not in one.launch.errors:  # failures of several kinds are bits; one is reported
        status &= -status
    if status not in one.launch.errors:
        raise errors.InternalError(
            None, None, f"kernel of {name} stopped with status {status}, detail {detail}"
        )
    kind, message = one.launch.errors[status]
    raise at_node(getattr(errors, kind)(None, None, message.format(detail=detail)), name)


def _failed_in_shards(
    layout: Layout, instruction: Instruction, words: np.ndarray
) -> list[tuple[Owned, int]]:
    """Return the failed launches of the parallel shards.

    Each is (launch, first word of its argument block). The first failure stops all shards.
    """
    found = []
    for shard in layout.shards.get(id(instruction), ()):
        if words[shard.result] > 0:
            found += [
                (one, shard.words + one.block)
                for one in shard.native_run.owners[int(words[shard.result]) - 1]
            ]
    return found
