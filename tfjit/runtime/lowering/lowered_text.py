"""Print a lowered partition as text, for dumps and tests.

    lowered feeds=2
    %0 = const 'one' int32<>[1]
    %1: int32<> = feed 0 'n'
    %2: float32<2,3> = feed 1 'x'
    %3: float32<6> = view %2 'flat'
    %4: int32<> level=1 from 'while' = move 'while' %1
    %5: float32<6> level=1 from 'while' = move 'while' %3
    loop 'while' StatelessWhile
        %6: bool<> = reference 'more' Greater(%4, %0)
    test %6
        %7: int32<> = reference 'less' Sub(%4, %0)
        %8: float32<6> = reference 'twice' AddV2(%5, %5)
        %4 = move 'while' %7
        %5 = move 'while' %8
    repeat
    fetch %5

Values have the numbers of `Lowered.values`, and a type at their definition. Variables are
`handle 'v' resource` (with `uninitialised` while they have no value, with `of 'w'` for a name that
differs from the node's). Their values are `read %k 'node'` or `read_at_end %k 'node'`. The bodies
of a branch lie between `branch 'b' StatelessIf %p`, `case` and `join`. `copy 'node' %k` keeps the
value of a variable. Three fields appear only if they differ from the value that follows from the
line's place: `level=` the number of loops that may redefine a value, `from` the node that has the
value as an output, `in` the body that contains an instruction's node.

The text contains neither the graph nor the code of instructions: `select_kernels` selects the code
again. Comments show the selected code, and the path of the region that a marker begins
(`passes/ir/region_path.py`). `lowered_parser.py` parses the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.passes.ir.graph_def import derived_attrs
from tfjit.passes.ir.region_path import branch_part, region_path
from tfjit.passes.text.group_text import tensor_text
from tfjit.passes.text.value_text import Full, format_value
from tfjit.runtime.lowering.lowered import Instruction, Lowered, Value
from tfjit.runtime.lowering.structured_control_flow import Construct

_TAB: Final = "    "


def print_lowered(lowered: Lowered, *, full: Full = False, kernels: bool = True) -> str:
    """Return a lowered partition as text.

    full: as in `print_graph`. kernels: add the code of each instruction as a comment.
    """
    return "".join(f"{line}\n" for line in _Printer(lowered, full, kernels).lines())


@dataclass(slots=True)
class Region:
    """Track an open loop or branch of the text.

    path: of its markers. part, case: of the present body; the case is its number in a branch.
    """

    construct: Construct
    path: str
    part: str
    case: int = 0

    @property
    def inner_path(self) -> str:
        """Return the path of the nodes of the present body."""
        return region_path(self.path, self.construct.node.name, self.part)

    def pass_marker(self, role: str) -> None:
        """Advance to the body after a marker."""
        if role == "test":
            self.part = "body"
        elif role == "case":
            self.case += 1
            self.part = branch_part(self.case, self.construct.boolean)


def begun(construct: Construct, regions: list[Region]) -> Region:
    """Return the region of a construct at its first body."""
    path = regions[-1].inner_path if regions else ""
    return Region(
        construct, path, "cond" if construct.is_loop else branch_part(0, construct.boolean)
    )


def expected_path(instruction: Instruction, regions: list[Region]) -> str:
    """Return the path of an instruction that was not moved."""
    if not regions:
        return ""
    return regions[-1].path if instruction.moves else regions[-1].inner_path


class _Printer:
    """Print one partition."""

    def __init__(self, lowered: Lowered, full: Full, kernels: bool) -> None:
        self.lowered, self.full, self.kernels = lowered, full, kernels
        self.defined: set[int] = set()
        self.regions: list[Region] = []
        self.reads = sorted(
            (v for v in lowered.values if v.storage == "variable" and v.base is None),
            key=lambda v: (v.read_at_end, v.sequence, v.index),
        )

    @property
    def level(self) -> int:
        """Return the number of loops around the next line."""
        return sum(region.construct.is_loop for region in self.regions)

    def lines(self) -> Iterator[str]:
        """Yield all lines."""
        lowered = self.lowered
        flags = [word for word, on in (("body", lowered.is_body), ("part", lowered.is_shard)) if on]
        yield " ".join([f"lowered feeds={lowered.feed_count}", *flags])
        for value in lowered.values:
            if value.storage in ("const", "feed", "handle") and value.base is None:
                yield self.leaf(value)
        waiting = [value for value in self.reads if not value.read_at_end]
        for instruction in lowered.instructions:
            while waiting and waiting[0].sequence < instruction.sequence:
                yield from self.declared(waiting.pop(0))
            for value in (*instruction.inputs, *instruction.outputs):
                if value.base is not None or value.storage == "variable":
                    yield from self.declared(value)
            yield from self.instruction(instruction)
        for value in lowered.values:
            if value.base is not None or value.storage == "variable":
                yield from self.declared(value)
        yield f"fetch {_names(lowered.fetches)}".rstrip()

    def indent(self) -> str:
        """Return the indentation of the next line."""
        return _TAB * len(self.regions)

    def leaf(self, value: Value) -> str:
        """Return the line of a value that exists before the first instruction."""
        self.defined.add(value.index)
        name = f"{value.producer!r}"
        if value.storage == "const":
            return f"%{value.index} = const {name} {format_value(value.array, full=self.full)}"
        head = self.typed(value, 0)
        if value.storage == "feed":
            return f"{head} = feed {value.feed} {name}"
        variable = value.variable
        assert variable is not None
        words = [f"{head} = handle {name}"]
        words += ["resource"] if variable.is_resource else []
        words += ["uninitialised"] if variable.value_shape is None else []
        words += [f"of {variable.name!r}"] if variable.name != value.producer else []
        return " ".join(words)

    def typed(self, value: Value, level: int, producer: str | None = None) -> str:
        """Return a value with its type, if defined here.

        level, producer: the expected ones.
        """
        if value.index in self.defined and value.storage not in ("feed", "handle"):
            return f"%{value.index}"
        self.defined.add(value.index)
        text = f"%{value.index}: {tensor_text(value.spec)}"
        if value.level != level:
            text += f" level={value.level}"
        if producer is not None and value.producer != producer:
            text += f" from {value.producer!r}"
        return text

    def declared(self, value: Value) -> Iterator[str]:
        """Yield the missing definitions of a view or variable value.

        The definitions of its base come first.
        """
        if value.index in self.defined:
            return
        if value.base is not None:
            if value.base.base is not None or value.base.storage == "variable":
                yield from self.declared(value.base)
            head = self.typed(value, value.base.level)
            yield f"{self.indent()}{head} = view %{value.base.index} {value.producer!r}"
            return
        of = next(
            v for v in self.lowered.values if v.storage == "handle" and v.variable is value.variable
        )
        how = "read_at_end" if value.read_at_end else "read"
        head = self.typed(value, 0 if value.read_at_end else self.level)
        yield f"{self.indent()}{head} = {how} %{of.index} {value.producer!r}"

    def instruction(self, instruction: Instruction) -> Iterator[str]:
        """Yield the line of an instruction."""
        role, construct = instruction.role, instruction.construct
        if role is not None:
            assert construct is not None
            text: str = role
            if role in ("loop", "branch"):
                text += f" {construct.node.name!r} {construct.node.op}"
            if role in ("test", "branch"):
                text += f" {_names(instruction.inputs)}"
            if role == "loop" and construct.changes_variables:
                text += " changes variables"
            indent = self.indent()[: None if role in ("loop", "branch") else -len(_TAB)]
            if role in ("loop", "branch"):
                self.regions.append(begun(construct, self.regions))
            elif role in ("repeat", "join"):
                self.regions.pop()
            else:
                self.regions[-1].pass_marker(role)
            if self.kernels and role not in ("repeat", "join"):
                text += f"  # {self.regions[-1].inner_path}"
            yield indent + text
            return
        name = instruction.node.name
        heads = [
            f"%{v.index}" if v.storage == "handle" else self.typed(v, self.level, name)
            for v in instruction.outputs
        ]
        text = f"{', '.join(heads)} = " if heads else ""
        if instruction.serving == "copy":
            how = "move" if instruction.moves else "copy"
            text += f"{how} {name!r} {_names(instruction.inputs)}"
        else:
            text += f"{instruction.serving} {name!r} {self.call(instruction)}"
        if instruction.path != expected_path(instruction, self.regions):
            text += f" in {instruction.path!r}"
        yield self.indent() + (text + self.comment(instruction)).replace("\n", "\n" + self.indent())

    def call(self, instruction: Instruction) -> str:
        """Return op type, inputs and attrs.

        Attrs that follow from the inputs are left out."""
        spec, op_def = instruction.spec, instruction.node.op_def
        derived = (
            derived_attrs(op_def, [v.dtype for v in instruction.inputs])
            if op_def is not None
            else {}
        )
        given = [f"%{value.index}" for value in instruction.inputs]
        given += [
            f"{key}={format_value(value, full=self.full)}"
            for key, value in sorted(spec.attrs.items())
            if key not in derived or not attr_forms.equal(derived[key], value)
        ]
        return f"{spec.op}({', '.join(given)})"

    def comment(self, instruction: Instruction) -> str:
        """Return the code of an instruction, as a comment."""
        call = instruction.call
        if not self.kernels or (call is None and not instruction.reason):
            return ""
        if call is None:
            return f"  # not compiled: {instruction.reason}".replace("\n", " ")
        titles = dict.fromkeys(launch.source.title or launch.entry for launch in call.launches)
        return f"  # compiled: {'; '.join(titles) or 'nothing to do'}"


def _names(values: list[Value]) -> str:
    return ", ".join(f"%{value.index}" for value in values)


__all__ = ["print_lowered"]
