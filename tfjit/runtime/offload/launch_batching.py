"""Bundle independent launches of one kernel: they become a single one.

The updates of an optimizer are examples: each of a small variable takes less time than its launch.
A kernel with a *table form* computes many launches at once, whose words are rows of a table in
device memory. This file only decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, cast

from tfjit.runtime.offload.library_forms import RoutineLaunch, sources_of_call

if TYPE_CHECKING:
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Value
    from tfjit.runtime.offload.library_forms import ProgramCall

    Step = tuple[Instruction, ProgramCall | None]

LARGEST_BYTES: Final = 8 << 20
"""Traffic of a launch from which on it stays alone.

It takes longer than a launch costs, and its gradient would live until the last one of the bundle.
"""


class DeviceLaunch(Protocol):
    """A launch on a grid, as builders of accelerators make it.

    table_form: the kernel of several such launches, or None. Its words are the address of a table
    and the number of rows. A row has the launch's first block in the common grid, the number of its
    blocks, and its words.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    table_form: KernelSource | None


@dataclass(slots=True)
class _Bundle:
    """Positions of the members so far, with the memory they use."""

    members: list[int] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)

    def add(self, position: int, reads: set[int], writes: set[int]) -> None:
        self.members.append(position)
        self.reads |= reads
        self.writes |= writes

    def allows(self, reads: set[int], writes: set[int]) -> bool:
        """Return whether the members may run behind an instruction."""
        return not (self.writes & reads or self.writes & writes or self.reads & writes)


def bundle_launches(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    """Return instructions in execution order, those of one launch together.

    Members of a tuple run at the place of the last one: no instruction in between reads what they
    write, or writes what they read or write. All else keeps its order.
    """
    open_bundles: dict[object, _Bundle] = {}
    closed: list[_Bundle] = []
    for position, (instruction, call) in enumerate(steps):
        reads, writes = _effects(instruction)
        for key in [k for k, bundle in open_bundles.items() if not bundle.allows(reads, writes)]:
            closed.append(open_bundles.pop(key))
        kernel = _table_kernel(instruction, call)
        if kernel is not None:
            open_bundles.setdefault(kernel, _Bundle()).add(position, reads, writes)
    closed += open_bundles.values()
    place: dict[int, tuple[int, ...]] = {position: (position,) for position in range(len(steps))}
    for bundle in closed:
        for member in bundle.members:
            del place[member]
        place[bundle.members[-1]] = tuple(bundle.members)
    return [tuple(steps[member] for member in place[position]) for position in sorted(place)]


def sources_of(steps: Sequence[Step]) -> tuple[KernelSource, ...]:
    """Return the kernels of an instruction, or of instructions with one launch."""
    call = steps[0][1]
    if call is None:
        return ()
    if len(steps) == 1:
        return sources_of_call(call)
    table_form = cast("DeviceLaunch", call.launches[0]).table_form
    assert table_form is not None
    return (table_form,)


def table_words(steps: Sequence[Step]) -> int:
    """Return the words of a bundle's table; 0 for a single instruction."""
    if len(steps) == 1:
        return 0
    return sum(2 + len(call.launches[0].words) for _, call in steps if call is not None)


def _effects(instruction: Instruction) -> tuple[set[int], set[int]]:
    """Return the memory that an instruction reads, and that it writes."""
    written = [value for value in instruction.inputs if value.storage == "handle"]
    return _memory(instruction.inputs), _memory([*instruction.outputs, *written])


def _memory(values: Iterable[Value]) -> set[int]:
    roots = [value.root for value in values]
    return {id(root) if root.variable is None else id(root.variable) for root in roots}


def _table_kernel(instruction: Instruction, call: ProgramCall | None) -> object | None:
    """Return (kernel, block) of an instruction's bundle, or None."""
    if call is None or len(call.launches) != 1 or call.temp_bytes:
        return None
    if isinstance(call.launches[0], RoutineLaunch):
        return None
    launch = cast("DeviceLaunch", call.launches[0])
    if launch.table_form is None or call.bytes_moved > LARGEST_BYTES:
        return None
    # memory of the arena that one member frees could be another's result
    if any(value.root.variable is None for value in instruction.outputs):
        return None
    return (launch.table_form, launch.block, launch.shared_bytes)


__all__ = ["LARGEST_BYTES", "DeviceLaunch", "bundle_launches", "sources_of", "table_words"]
