"""Check the invariants of a lowered partition for memory, jumps and kernels."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, NoReturn

from tfjit.framework.errors import InternalError
from tfjit.runtime.lowering.variable_reads import overwritten_reads

if TYPE_CHECKING:
    from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
    from tfjit.runtime.lowering.structured_control_flow import Construct

_GIVEN: Final = frozenset({"const", "feed", "handle", "variable"})
"""Storage kinds of values that need no instruction."""


def verify_lowered(lowered: Lowered) -> None:
    """Check that a lowered partition can run.

    Values are numbered by position. Each is written before it is read, on all paths through loops
    and branches, and by copies alone if it is written twice. Copies and views keep types and sizes.
    Markers enclose loops and branches. A value's level is at most the number of loops around its
    writes. Handles have variables, and no value of a resource variable is used after a change of
    the variable. Raises InternalError naming the instruction or value.
    """
    _check_values(lowered)
    _Verifier(lowered).run()
    for value in overwritten_reads(lowered):
        if value.variable is not None and value.variable.is_resource:
            _fail(f"value %{value.index} of '{value.producer}' is used after its variable changed")


def _fail(text: str) -> NoReturn:
    raise InternalError(None, None, f"lowered partition: {text}")


def _check_values(lowered: Lowered) -> None:
    for place, value in enumerate(lowered.values):
        name = f"value %{value.index} of '{value.producer}'"
        if value.index != place:
            _fail(f"{name} stands at place {place}")
        if value.base is not None:
            if lowered.values[value.base.index] is not value.base:
                _fail(f"{name} is a view of a value that is not listed")
            if prod(value.shape) != prod(value.base.shape):
                _fail(f"{name} is a view of another size: {value.base.shape}, {value.shape}")
        elif value.storage == "const" and value.array is None:
            _fail(f"{name} is a constant without elements")
        elif value.storage in ("handle", "variable") and value.variable is None:
            _fail(f"{name} has no variable")
    for index, value in lowered.feeds.items():
        if value.feed != index or not 0 <= index < lowered.feed_count:
            _fail(
                f"feed {index} of {lowered.feed_count} is value %{value.index}, feed {value.feed}"
            )


class _Region:
    """Track an open loop or branch.

    before: roots written in front of the construct, or up to a loop's test. cases: the roots
    written by each finished case.
    """

    def __init__(self, construct: Construct, written: set[int]) -> None:
        self.construct = construct
        self.before = set(written)
        self.cases: list[set[int]] = []
        self.tested = False


class _Verifier:
    """Check the instructions in order."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.written: set[int] = set()  # roots written on all paths to the present instruction
        self.levels: dict[int, int] = {}  # root -> loops around the innermost write
        self.makers: dict[int, Instruction] = {}  # root -> the instruction that computes it
        self.regions: list[_Region] = []

    def run(self) -> None:
        """Check every instruction and the fetches."""
        for instruction in self.lowered.instructions:
            for value in instruction.inputs:
                self._read(value, instruction)
            if instruction.role is not None:
                self._marker(instruction, instruction.construct)
            else:
                self._instruction(instruction)
        if self.regions:
            _fail(f"'{self.regions[-1].construct.node.name}' does not end")
        for value in self.lowered.fetches:
            self._read(value, None)
        for index, level in self.levels.items():
            value = self.lowered.values[index]
            if value.level > level:
                _fail(
                    f"value %{index} of '{value.producer}' has level {value.level}, "
                    f"but is written in {level} loops"
                )

    def _read(self, value: Value, instruction: Instruction | None) -> None:
        of = f"'{instruction.node_path}'" if instruction is not None else "a fetch"
        if not value.index < len(self.lowered.values) or (
            self.lowered.values[value.index] is not value
        ):
            _fail(f"{of} takes value %{value.index}, which is not listed")
        root = value.root
        if root.storage not in _GIVEN and root.index not in self.written:
            _fail(f"{of} reads value %{root.index} of '{root.producer}' before it is written")

    def _instruction(self, instruction: Instruction) -> None:
        name = f"'{instruction.node_path}'"
        around = self.regions[-1].construct if self.regions else None
        if instruction.construct is not around:
            _fail(f"{name} stands in another loop or branch than it says")
        level = around.level if around is not None else 0
        copies = instruction.serving == "copy"
        if copies and instruction.inputs[0].spec != instruction.outputs[0].spec:
            _fail(f"{name} copies {instruction.inputs[0].spec} to {instruction.outputs[0].spec}")
        for value in instruction.outputs:
            root = value.root
            if root.storage == "handle" and any(v.root is root for v in instruction.inputs):
                continue  # the output is the input's reference
            if root.storage in _GIVEN:
                _fail(f"{name} writes %{root.index}, a {root.storage}")
            if not copies and root.index in self.makers:
                other = self.makers[root.index].node.name
                _fail(f"{name} writes %{root.index}, which '{other}' has written")
            if not copies:
                self.makers[root.index] = instruction
            if root.level < level and (not copies or instruction.moves):
                _fail(f"{name} writes %{root.index} of level {root.level} in {level} loops")
            self.levels[root.index] = max(level, self.levels.get(root.index, 0))
            self.written.add(root.index)

    def _marker(self, marker: Instruction, construct: Construct | None) -> None:
        if construct is None:
            _fail(f"a marker of '{marker.node.name}' has no loop or branch")
        name, role = construct.node.name, marker.role
        if role in ("loop", "branch"):
            parent = self.regions[-1].construct if self.regions else None
            level = (parent.level if parent is not None else 0) + construct.is_loop
            if construct.parent is not parent or construct.level != level:
                _fail(f"'{name}' says that it stands in other loops than it does")
            if construct.is_loop != (role == "loop"):
                _fail(f"'{name}' begins by '{role}'")
            self.regions.append(_Region(construct, self.written))
            return
        if not self.regions or self.regions[-1].construct is not construct:
            _fail(f"'{role}' of '{name}' stands outside of it")
        region = self.regions[-1]
        if construct.is_loop != (role in ("test", "repeat")) or (role == "repeat") != (
            construct.is_loop and region.tested
        ):
            _fail(f"'{role}' of '{name}' stands in the wrong place")
        if role == "test":
            region.tested, region.before = True, set(self.written)
        elif role == "repeat":  # the body may never run
            self.written = region.before
            self.regions.pop()
        else:
            region.cases.append(self.written)
            self.written = set(region.before)
            if role == "join":
                if len(region.cases) != construct.cases:
                    _fail(f"'{name}' has {len(region.cases)} cases, not {construct.cases}")
                self.written = set.intersection(*region.cases)
                self.regions.pop()


__all__ = ["verify_lowered"]
