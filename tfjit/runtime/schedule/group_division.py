"""Divide the groups that have a refused kernel.

A refused kernel is compiled in another way (`KernelSource.attempt`). A group that is refused again
is cut in two, and each half again that is refused, down to single nodes. The neighbours on either
side of a refused single node then form one group each. The kernel of a single node is compiled in
further ways; where all are refused, the node stays on its reference. Decisions follow from the
kernels' states alone, so all plans of a process decide alike: a caller asks again once the kernels
of the parts have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_def import registry
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, Ref
from tfjit.kernels.registry import Pointer
from tfjit.kernels.source import FAST_ATTEMPT, LAST_ATTEMPT
from tfjit.passes.fusion.divide_group import GroupDivider, Members, Part
from tfjit.passes.ir.node import Node
from tfjit.runtime.lowering.lowered_pickle import NodeOrder
from tfjit.runtime.lowering.lowering import DividedGroup, Instruction, Lowered, Value
from tfjit.runtime.schedule.kernel_selection import CallMemo, group_of, sources

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall, Word
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

Refused = Callable[["KernelSource"], str | None]
"""Return the reason why a kernel cannot be compiled, or None."""


class KernelStates(Protocol):
    """Tell the states of kernels, as the kernel store does."""

    @property
    def refused(self) -> Refused:
        """Return the function that gives the reason of a refused kernel."""

    @property
    def are_final(self) -> Callable[[Iterable[KernelSource]], bool]:
        """Return the function that tells whether kernels keep their states."""

    @property
    def has_refusals(self) -> Callable[[], bool]:
        """Return the function that tells whether any kernel is refused."""

    @property
    def compiles(self) -> Callable[[], bool]:
        """Return the function that tells whether the process can compile at all.

        Without compiler a group is cut into its members at once: archives hold their kernels.
        """


def _why_refused(call: NativeCall | None, refused: Refused) -> str:
    """Return the reason of a call's refused kernel, or ""."""
    for source in call.sources() if call is not None else ():
        why = refused(source)
        if why is not None:
            return why
    return ""


class _Division:
    """Find the parts of one refused group."""

    def __init__(
        self, instruction: Instruction, divider: GroupDivider, memo: CallMemo, states: KernelStates
    ) -> None:
        self.instruction = instruction
        self.divider = divider
        self._memo = memo
        self._states = states
        self._made: dict[Members, tuple[Part, NativeCall | None, str] | None] = {}

    def made(self, members: Members) -> tuple[Part, NativeCall | None, str] | None:
        """Return (part, call, reason for none); None for no valid group."""
        if members not in self._made:
            yield_interpreter()
            part = self.divider.part(members)
            found = None
            if part is not None:
                call, reason = self._memo.call(part.spec, group_of(part.spec))
                if call is not None:
                    last = LAST_ATTEMPT if len(members) == 1 else FAST_ATTEMPT
                    call = compiled_otherwise(call, self._states.refused, last)
                found = part, call, reason
            self._made[members] = found
        return self._made[members]

    def _serves(self, members: Members) -> bool:
        """Return whether fast code serves or may serve the members."""
        found = self.made(members)
        call = found[1] if found is not None else None
        return (
            call is not None
            and not _why_refused(call, self._states.refused)
            and all(source.attempt <= FAST_ATTEMPT for source in call.sources())
        )

    def parts(self) -> list[Members]:
        """Return the parts that the kernels' states ask for."""
        whole = self.divider.work
        if not self._states.compiles():
            return [(number,) for number in whole]
        found = self._cut(whole) if len(whole) > 1 else [whole] if whole else []
        return found if self.missing(found) else self._joined(found)

    def _cut(self, members: Members) -> list[Members]:
        """Return the halves, and those of halves that nothing serves."""
        found: list[Members] = []
        for half in self.divider.halves(members):
            found += [half] if len(half) == 1 or self._serves(half) else self._cut(half)
        return found

    def _joined(self, parts: Sequence[Members]) -> list[Members]:
        """Join the neighbours between single members of refused kernels."""
        alone = [len(part) == 1 and not self._serves(part) for part in parts]
        if not any(alone):
            return list(parts)
        found: list[Members] = []
        run: list[Members] = []
        for part, is_alone in [*zip(parts, alone, strict=True), ((), True)]:
            if not is_alone:
                run.append(part)
                continue
            union = tuple(number for members in run for number in members)
            found += [union] if len(run) > 1 and self._serves(union) else run
            run = []
            if part:
                found.append(part)
        return found

    def missing(self, parts: Iterable[Members]) -> list[KernelSource]:
        """Return the parts' kernels that may still arrive."""
        found: dict[KernelSource, None] = {}
        for members in parts:
            made = self.made(members)
            call = made[1] if made is not None else None
            for source in call.sources() if call is not None else ():
                if not self._states.are_final([source]):
                    found[source] = None
        return list(found)


def next_attempt(source: KernelSource, refused: Refused, last: int = LAST_ATTEMPT) -> KernelSource:
    """Return the kernel with the first attempt that is not refused yet.

    last: the last attempt that is made.
    """
    while refused(source) is not None and source.attempt < last:
        source = replace(source, attempt=source.attempt + 1)
    return source


def compiled_otherwise(call: NativeCall, refused: Refused, last: int = LAST_ATTEMPT) -> NativeCall:
    """Return the call with the refused kernels compiled in another way."""
    if all(refused(source) is None for source in call.sources()):
        return call

    def word(old: Word) -> Word:
        if isinstance(old, Pointer) and old.source is not None:
            return replace(old, source=next_attempt(old.source, refused, last))
        return old

    return replace(
        call,
        launches=tuple(
            replace(
                launch,
                source=next_attempt(launch.source, refused, last),
                words=tuple(map(word, launch.words)),
            )
            for launch in call.launches
        ),
    )


def refused_instructions(lowered: Lowered, states: KernelStates) -> list[Instruction]:
    """Return the instructions with a refused kernel that other kernels may replace."""
    found: list[Instruction] = []
    for instruction in lowered.instructions if states.has_refusals() else ():
        if instruction.spec.op != "_Fused" and not states.compiles():
            continue
        for source in instruction.call.sources() if instruction.call is not None else ():
            if source.attempt < LAST_ATTEMPT and states.refused(source) is not None:
                found.append(instruction)
                break
    return found


def divide_refused(
    lowered: Lowered, memo: CallMemo, states: KernelStates, waits: bool = True
) -> tuple[Lowered, list[KernelSource]]:
    """Return the partition without refused kernels, and kernels that may arrive.

    Kernels are compiled in another way; groups that are refused again are divided. While kernels
    may arrive, the partition itself is returned; without `waits`, a changed one all the same.
    """
    divisions: list[_Division] = []
    calls: dict[int, NativeCall] = {}
    rules = lowered.backend.fusion
    for instruction in refused_instructions(lowered, states):
        assert instruction.call is not None
        group = group_of(instruction.spec) if rules is not None else None
        last = LAST_ATTEMPT if group is None else FAST_ATTEMPT
        call = compiled_otherwise(instruction.call, states.refused, last)
        is_refused = _why_refused(call, states.refused) or not states.compiles()
        if group is not None and rules is not None and is_refused:
            divider = GroupDivider(group, instruction.spec.constants, rules)
            divisions.append(_Division(instruction, divider, memo, states))
        else:
            calls[id(instruction)] = call
    chosen = [(division, division.parts()) for division in divisions]
    missing = dict.fromkeys(
        source for division, parts in chosen for source in division.missing(parts)
    )
    for source in sources(calls.values()):
        if not states.are_final([source]):
            missing[source] = None
    if not (chosen or calls) or (missing and waits):
        return lowered, list(missing)
    return _Splice(lowered, states, calls).run(chosen), list(missing)


class _Splice:
    """Put parts in the place of divided groups.

    Instructions and values of the partition itself stay as they are: a step may be running them.
    """

    def __init__(
        self, lowered: Lowered, states: KernelStates, calls: Mapping[int, NativeCall]
    ) -> None:
        """Take the calls of single nodes, by id of the instruction."""
        self._states = states
        self._calls = calls
        self._made = replace(
            lowered,
            values=list(lowered.values),
            kernel_kinds={},
            divided=list(lowered.divided),
            splits=[],
        )
        self._kinds = lowered.kernel_kinds
        self._instructions = lowered.instructions
        self._names = {(i.path, i.node.name) for i in lowered.instructions}

    def run(self, chosen: Sequence[tuple[_Division, list[Members]]]) -> Lowered:
        """Return the partition with the parts."""
        by_id = {id(division.instruction): (division, parts) for division, parts in chosen}
        instructions: list[Instruction] = []
        parts_of: dict[tuple[int, str], list[Instruction]] = {}
        for instruction in self._instructions:
            found = by_id.get(id(instruction))
            if found is None:
                instructions.append(self._compiled_again(instruction))
                continue
            made = self._parts(*found)
            instructions += made
            parts_of[id(instruction.graph), instruction.node.name] = made
        self._replace_kinds(by_id.values(), parts_of)
        self._made.instructions = self._reordered(instructions, parts_of)
        if self._made.graph is not None:
            order = self._orders.get(id(self._made.graph))
            if order is not None:
                self._made.graph = order  # type: ignore[assignment]
        return self._made

    def _compiled_again(self, instruction: Instruction) -> Instruction:
        call = self._calls.get(id(instruction))
        if call is None:
            return instruction
        made = replace(instruction, call=call, unfused=None)
        self._note_attempt(made)
        return made

    def _note_attempt(self, instruction: Instruction) -> None:
        """Note a node of which a kernel is compiled in another way."""
        for source in instruction.call.sources() if instruction.call is not None else ():
            if source.attempt:
                why = self._states.refused(replace(source, attempt=0)) or ""
                self._made.divided.append(DividedGroup(instruction.node_path, why, ()))
                break

    def _parts(self, division: _Division, parts: list[Members]) -> list[Instruction]:
        """Return the instructions of a group's parts, in order."""
        instruction, divider = division.instruction, division.divider
        made = [found for found in map(division.made, parts) if found is not None]
        copies = [(part, None, "") for part in divider.copies(parts)]
        values = _GroupValues(self._made.values, instruction, divider)
        self._names.discard((instruction.path, instruction.node.name))
        found: list[Instruction] = []
        for part, call, reason in _in_order([*made, *copies], divider):
            found.append(self._instruction(instruction, part, call, reason, values))
        why = _why_refused(instruction.call, self._states.refused)
        name = instruction.node_path
        self._made.divided.append(DividedGroup(name, why, tuple(part.node_path for part in found)))
        for one in found:
            self._note_attempt(one)
        return found

    def _instruction(
        self,
        whole: Instruction,
        part: Part,
        call: NativeCall | None,
        reason: str,
        values: _GroupValues,
    ) -> Instruction:
        spec = part.spec
        inputs = [values.of(ref) for ref in part.inputs]
        if spec.op == "DeepCopy":
            inputs = [values.view(inputs[0], spec.outputs[0].shape)]
        outputs = [values.new(ref) for ref in part.outputs]
        name, number = spec.name, 1
        while (whole.path, name) in self._names:  # a rematerialized member has a group elsewhere
            number += 1
            name = f"{spec.name}_{number}"
        self._names.add((whole.path, name))
        spec = replace(spec, name=name)
        backend = self._made.backend
        if spec.op == "DeepCopy":
            call, reason = CallMemo(backend).call(spec, None)
        node = _node(whole.node, spec, part, values.divider)
        made = Instruction(node, "reference", inputs, outputs, spec, backend.kernel(spec.op), call)
        made.reason, made.construct = reason, whole.construct
        made.graph, made.path, made.sequence = whole.graph, whole.path, whole.sequence
        return made

    def _replace_kinds(
        self,
        divided: Iterable[tuple[_Division, list[Members]]],
        parts_of: dict[tuple[int, str], list[Instruction]],
    ) -> None:
        names = {}
        for division, _ in divided:
            whole = division.instruction
            parts = parts_of[id(whole.graph), whole.node.name]
            names[whole.node_path] = [part.node_path for part in parts]
        for name, kind in self._kinds.items():
            for one in names.get(name, [name]):
                self._made.kernel_kinds[one] = kind

    def _reordered(
        self,
        instructions: list[Instruction],
        parts_of: dict[tuple[int, str], list[Instruction]],
    ) -> list[Instruction]:
        """Give the instructions graphs with the parts in the groups' place."""
        graphs = {id(i.graph): i.graph for i in instructions if i.graph is not None}
        self._orders: dict[int, NodeOrder] = {}
        for scope, graph in graphs.items():
            parts = {name: made for (owner, name), made in parts_of.items() if owner == scope}
            if parts:
                self._orders[scope] = _order(graph, parts)
        made = []
        for instruction in instructions:
            order = self._orders.get(id(instruction.graph))
            if order is not None:
                instruction = replace(instruction, graph=order)  # type: ignore[arg-type]
            made.append(instruction)
        return made


class _GroupValues:
    """Find and make the values inside of a divided group."""

    def __init__(
        self, values: list[Value], instruction: Instruction, divider: GroupDivider
    ) -> None:
        self._values = values
        self._instruction = instruction
        self.divider = divider
        self._found: dict[Ref, Value] = {}
        for ref, value in zip(divider.group.outputs, instruction.outputs, strict=True):
            self._found.setdefault(ref, value)

    def of(self, ref: Ref) -> Value:
        """Return the value that a member reads."""
        if ref.member == INPUT:
            return self._instruction.inputs[ref.index]
        found = self._found.get(ref)
        if found is None and ref.member == CONSTANT:
            array = np.ascontiguousarray(self.divider.group.constants[ref.index])
            found = self._value(ref, "const", array=array, level=0)
        elif found is None:
            assert self.divider.is_free(ref)
            source = self.of(self.divider.source(ref))
            found = self.view(source, self.divider.group.tensor(ref).shape)
        self._found[ref] = found
        return found

    def view(self, source: Value, shape: tuple[int, ...]) -> Value:
        """Return a value with its elements in another shape."""
        if source.shape == shape:
            return source
        made = replace(
            source,
            index=len(self._values),
            shape=shape,
            base=source,
            array=None,
            feed=-1,
            variable=None,
            fetched=False,
            read_at_end=False,
            sequence=self._instruction.sequence,
        )
        self._values.append(made)
        return made

    def new(self, ref: Ref) -> Value:
        """Return the value that a part computes."""
        found = self._found.get(ref)
        if found is None:
            construct = self._instruction.construct
            found = self._value(ref, "buffer", construct.level if construct is not None else 0)
            self._found[ref] = found
        return found

    def _value(self, ref: Ref, storage: str, level: int, array: np.ndarray | None = None) -> Value:
        tensor = self.divider.group.tensor(ref)
        member = self.divider.group.members[ref.member] if ref.member >= 0 else None
        made = Value(
            len(self._values),
            as_dtype(tensor.dtype),
            tensor.shape,
            storage,  # type: ignore[arg-type]
            array=array,
            producer=member.spec.name if member is not None else self._instruction.node.name,
            level=level,
            sequence=self._instruction.sequence,
        )
        self._values.append(made)
        return made


_Made = tuple[Part, "NativeCall | None", str]


def _in_order(parts: Sequence[_Made], divider: GroupDivider) -> list[_Made]:
    """Return the parts, each behind the makers of its inputs."""
    place: dict[Ref, int] = {}
    for k, (part, _, _) in enumerate(parts):
        place.update(dict.fromkeys(part.outputs, k))
    found: dict[int, None] = {}

    def add(k: int) -> None:
        for ref in parts[k][0].inputs:
            while ref not in place and divider.is_free(ref):
                ref = divider.source(ref)
            if place.get(ref, k) not in (k, *found):
                add(place[ref])
        found[k] = None

    for k in range(len(parts)):
        if k not in found:
            add(k)
    return [parts[k] for k in found]


def _node(whole: Node, spec: object, part: Part, divider: GroupDivider) -> Node:
    """Return the node of a part."""
    made = part.spec
    names = {divider.group.members[number].spec.name for number in part.members}
    origin = tuple(name for name in whole.origin if name in names)
    return Node(
        NodeOrder((), ()),  # type: ignore[arg-type]
        spec.name,  # type: ignore[attr-defined]
        whole.id,
        made.op,
        dict(made.attrs),
        registry.lookup(made.op) if not made.op.startswith("_") else None,
        tuple(t.dtype for t in made.inputs),
        tuple(t.dtype for t in made.outputs),
        whole.device,
        whole.assigned_device,
        origin or whole.origin,
        tuple(t.shape for t in made.outputs),
    )


def _order(graph: DataflowGraph | NodeOrder, parts: dict[str, list[Instruction]]) -> NodeOrder:
    """Return the order of a graph with parts in the groups' place.

    Parts follow their group's predecessors and each other's values, and precede its successors.
    """
    names: list[str] = []
    first: dict[str, list[str]] = {}
    for name in graph:
        first[name] = [i.node.name for i in parts[name]] if name in parts else [name]
        names += first[name]
    place = {name: k for k, name in enumerate(names)}
    after: list[list[int]] = [[] for _ in names]
    for name in graph:
        yield_interpreter()
        followers = [place[one] for next_ in graph.successors(name) for one in first[next_]]
        for one in first[name]:
            after[place[one]] += followers
    for made in parts.values():
        writers = {v.root.index: i for i in made for v in i.outputs}
        for later in made:
            before = {id(w): w for v in later.inputs if (w := writers.get(v.root.index))}
            for earlier in before.values():
                after[place[earlier.node.name]].append(place[later.node.name])
    return NodeOrder(names, after)


__all__ = [
    "KernelStates",
    "divide_refused",
    "refused_instructions",
    "compiled_otherwise",
    "next_attempt",
]
