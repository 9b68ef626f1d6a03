"""Select the kernels and find the variables of an offloaded graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfjit.framework.errors import OpError
from tfjit.framework.op_defs.op_traits import ASSIGN, IDENTITY, RESHAPE
from tfjit.kernels.registry import Pointer, Unsupported
from tfjit.runtime.kernel_api.kernel_errors import at_node
from tfjit.runtime.lowering.lowering import compilable
from tfjit.runtime.offload.library_forms import Postponed, ProgramCall, chosen_form
from tfjit.runtime.resources.migrating_variable import MigratingVariable
from tfjit.runtime.schedule.kernel_selection import CallMemo, group_of
from tfjit.runtime.step.step import Reroute

if TYPE_CHECKING:
    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.runtime.lowering.lowering import Instruction, Lowered, Value


class RefusedNodes(Unsupported):
    """Nodes that an accelerator has no kernels for.

    names: of the nodes, members of groups included.
    """

    def __init__(self, reasons: Sequence[str], names: Collection[str]) -> None:
        more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
        super().__init__(f"{reasons[0]}{more}")
        self.names = frozenset(names)


@dataclass(frozen=True)
class UsedVariable:
    """A variable of a program.

    shape: of its value. initializes: its first use is an assignment. node: that uses it first.
    """

    variable: MigratingVariable
    shape: tuple[int, ...]
    initializes: bool
    node: str

    def address(self) -> int:
        """Return the address of the value, in device memory.

        Raises FailedPreconditionError, which names the node, for a variable without a value, and
        Reroute for one that an assignment has given another shape.
        """
        found = self.variable.value_shape
        if not self.initializes and found not in (None, self.shape):
            raise Reroute(f"variable {self.variable.name} has shape {found}, planned {self.shape}")
        try:
            return self.variable.device_address(self.shape, self.initializes)
        except OpError as error:
            raise at_node(error, self.node) from None


def program_steps(
    lowered: Lowered, accelerator: Accelerator, postponed: Postponed | None = None
) -> list[tuple[Instruction, ProgramCall | None]]:
    """Return the instructions with their calls, None for a copy.

    Calls are in the form that the accelerator takes. postponed: as `chosen_form` has it. Raises
    RefusedNodes for nodes without a kernel, Unsupported for loops and branches.
    """
    memo = CallMemo(lowered.backend)
    refused: list[str] = []
    names: set[str] = set()

    def refuse(instruction: Instruction, reason: str) -> None:
        node, group = instruction.node, group_of(instruction.spec)
        refused.append(f"{node.name} ({node.op}){reason}")
        specs = [member.spec for member in group.members] if group is not None else []
        views = IDENTITY | RESHAPE  # they have no kernel of their own
        alone = [s for s in specs if not s.has_trait(views) and memo.call(s, None)[0] is None]
        names.update([spec.name for spec in alone or specs] or [node.name])

    compiled = {id(instruction) for instruction in compilable(lowered)}
    calls: dict[int, ProgramCall] = {}  # iterations of a loop share their specs
    found: list[tuple[Instruction, ProgramCall | None]] = []
    for instruction in lowered.instructions:
        node = instruction.node
        if instruction.role is not None:
            raise Unsupported(f"{node.name} ({node.op}) is a loop or branch")
        if instruction.serving == "copy":
            found.append((instruction, None))
            continue
        if id(instruction) not in compiled and not node.has_trait(ASSIGN):
            refuse(instruction, " needs the host")
            continue
        known = calls.get(id(instruction.spec))
        if known is not None:
            found.append((instruction, known))
            continue
        group = group_of(instruction.spec)
        call, reason = memo.call(instruction.spec, group)
        if call is None and group is not None:
            with suppress(Unsupported):
                call = memo.members(group, instruction.spec)
        if call is None:
            refuse(instruction, f": {reason}")
            continue
        made = calls[id(instruction.spec)] = chosen_form(call, accelerator, postponed)
        for launch in made.launches:
            for item in launch.words:
                if isinstance(item, Pointer) and item.kind in ("code", "cancel"):
                    refuse(instruction, f" needs its {item.kind}")
        found.append((instruction, made))
    if refused:
        raise RefusedNodes(refused, names)
    return found


def used_variables(
    lowered: Lowered, steps: Sequence[tuple[Instruction, ProgramCall | None]]
) -> tuple[list[MigratingVariable], list[UsedVariable]]:
    """Return the variables that a program writes, and all of them."""
    used: dict[int, UsedVariable] = {}
    written: dict[int, MigratingVariable] = {}

    def meet(value: Value, initializes: bool, user: str) -> None:
        root = value.root
        if root.storage not in ("variable", "handle") or root.variable is None:
            return
        if not isinstance(root.variable, MigratingVariable):
            raise Unsupported(f"variable {root.variable.name} is in host memory")
        node = root.producer if root.storage == "variable" else user
        use = UsedVariable(root.variable, root.shape, initializes, node)
        used.setdefault(id(root.variable), use)

    for instruction, _ in steps:
        name, assigns = instruction.node.name, instruction.node.has_trait(ASSIGN)
        for index, value in reversed(list(enumerate(instruction.inputs))):
            meet(value, assigns and index == 0, name)
            variable = value.variable
            if value.storage == "handle" and isinstance(variable, MigratingVariable):
                written[id(variable)] = variable
    for value in lowered.fetches:
        meet(value, False, value.producer)
    return list(written.values()), list(used.values())


def first_uses(
    lowered: Lowered, steps: Sequence[tuple[Instruction, ProgramCall | None]]
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


__all__ = ["RefusedNodes", "UsedVariable", "first_uses", "program_steps", "used_variables"]
