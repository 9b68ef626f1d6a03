"""Select the kernels and find the variables of an offloaded graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework.op_defs.op_traits import ASSIGN
from tfjit.kernels.registry import NativeCall, Pointer, Unsupported
from tfjit.runtime.lowering.lowering import compilable
from tfjit.runtime.resources.migrating_variable import MigratingVariable
from tfjit.runtime.schedule.kernel_selection import CallMemo, group_of

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value


def program_steps(lowered: Lowered) -> list[tuple[Instruction, NativeCall | None]]:
    """Return the instructions with their calls, None for a copy.

    Raises Unsupported.
    """
    memo = CallMemo(lowered.backend)
    compiled = {id(instruction) for instruction in compilable(lowered)}
    calls: dict[int, NativeCall] = {}  # iterations of a loop share their specs
    found: list[tuple[Instruction, NativeCall | None]] = []
    for instruction in lowered.instructions:
        node = instruction.node
        if instruction.role is not None:
            raise Unsupported(f"{node.name} ({node.op}) is a loop or branch")
        if instruction.serving == "copy":
            found.append((instruction, None))
            continue
        if id(instruction) not in compiled and not node.has_trait(ASSIGN):
            raise Unsupported(f"{node.name} ({node.op}) needs the host")
        known = calls.get(id(instruction.spec))
        if known is not None:
            found.append((instruction, known))
            continue
        group = group_of(instruction.spec)
        call, reason = memo.call(instruction.spec, group)
        if call is None and group is not None:
            call = memo.members(group, instruction.spec)
        if call is None:
            raise Unsupported(f"{node.name} ({node.op}): {reason}")
        calls[id(instruction.spec)] = call
        for launch in call.launches:
            for item in launch.words:
                if isinstance(item, Pointer) and item.kind in ("code", "cancel"):
                    raise Unsupported(f"{node.name} ({node.op}) needs its {item.kind}")
        found.append((instruction, call))
    return found


def used_variables(
    lowered: Lowered, steps: Sequence[tuple[Instruction, NativeCall | None]]
) -> tuple[list[MigratingVariable], list[tuple[MigratingVariable, tuple[int, ...], bool]]]:
    """Return the variables that a program writes, and all of them.

    The latter with their shapes, and whether the first use is an assignment.
    """
    used: dict[int, tuple[MigratingVariable, tuple[int, ...], bool]] = {}
    written: dict[int, MigratingVariable] = {}

    def meet(value: Value, initializes: bool) -> None:
        root = value.root
        if root.storage not in ("variable", "handle") or root.variable is None:
            return
        if not isinstance(root.variable, MigratingVariable):
            raise Unsupported(f"variable {root.variable.name} is in host memory")
        used.setdefault(id(root.variable), (root.variable, root.shape, initializes))

    for instruction, _ in steps:
        assigns = instruction.node.has_trait(ASSIGN)
        for index, value in reversed(list(enumerate(instruction.inputs))):
            meet(value, assigns and index == 0)
            variable = value.variable
            if value.storage == "handle" and isinstance(variable, MigratingVariable):
                written[id(variable)] = variable
    for value in lowered.fetches:
        meet(value, False)
    return list(written.values()), list(used.values())


def first_uses(
    lowered: Lowered, steps: Sequence[tuple[Instruction, NativeCall | None]]
) -> dict[int, int]:
    """Return the first step that uses each feed.

    Feeds have the index of the root value. A feed without users has the number of the steps.
    """
    found = {value.root.index: len(steps) for value in lowered.feeds.values()}
    for position, (instruction, _) in enumerate(steps):
        for value in instruction.inputs:
            if value.root.index in found:
                found[value.root.index] = min(found[value.root.index], position)
    return found


__all__ = ["first_uses", "program_steps", "used_variables"]
