"""Put the parts of divided groups into a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, Ref
from tfjit.passes.fusion.divide_group import GroupDivider, Part
from tfjit.passes.ir.node import Node
from tfjit.runtime.lowering.lowered import DividedGroup, Instruction, Lowered, Value
from tfjit.runtime.lowering.lowered_pickle import NodeOrder
from tfjit.runtime.schedule.kernel_selection import CallMemo

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall, NodeSpec
    from tfjit.kernels.source import KernelSource
    from tfjit.passes.ir.dataflow_graph import DataflowGraph

Refused = Callable[["KernelSource"], str | None]
"""Return the reason why a kernel cannot be compiled, or None."""
BuiltPart = tuple[Part, "NativeCall | None", str]
"""A part, its call, and the reason for having none."""


@dataclass(frozen=True, slots=True)
class DividedInstruction:
    """Name the parts that replace a group's instruction.

    reason: of the refusal of the group's kernel.
    """

    instruction: Instruction
    divider: GroupDivider
    parts: list[BuiltPart]
    reason: str


class DividedLowering:
    """Put parts in the place of divided groups.

    Instructions and values of the partition itself stay as they are: a step may be running them.
    """

    def __init__(self, lowered: Lowered, refused: Refused, calls: Mapping[int, NativeCall]) -> None:
        """Take the calls that replace those of other instructions, by id."""
        self._refused = refused
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

    def run(self, divided: Sequence[DividedInstruction]) -> Lowered:
        """Return the partition with the parts."""
        by_id = {id(one.instruction): one for one in divided}
        instructions: list[Instruction] = []
        parts_of: dict[tuple[int, str], list[Instruction]] = {}
        for instruction in self._instructions:
            found = by_id.get(id(instruction))
            if found is None:
                instructions.append(self._compiled_again(instruction))
                continue
            made = self._parts(found)
            instructions += made
            parts_of[id(instruction.graph), instruction.node.name] = made
        self._replace_kinds(divided, parts_of)
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
                why = self._refused(replace(source, attempt=0)) or ""
                self._made.divided.append(DividedGroup(instruction.node_path, why, ()))
                break

    def _parts(self, divided: DividedInstruction) -> list[Instruction]:
        """Return the instructions of a group's parts, in order."""
        instruction, divider = divided.instruction, divided.divider
        copies = [
            (part, None, "") for part in divider.copies([p.members for p, _, _ in divided.parts])
        ]
        values = _GroupValues(self._made.values, instruction, divider)
        self._names.discard((instruction.path, instruction.node.name))
        found: list[Instruction] = []
        for part, call, reason in _in_order([*divided.parts, *copies], divider):
            found.append(self._instruction(instruction, part, call, reason, values))
        paths = tuple(part.node_path for part in found)
        self._made.divided.append(DividedGroup(instruction.node_path, divided.reason, paths))
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
        divided: Iterable[DividedInstruction],
        parts_of: dict[tuple[int, str], list[Instruction]],
    ) -> None:
        names = {}
        for one in divided:
            whole = one.instruction
            parts = parts_of[id(whole.graph), whole.node.name]
            names[whole.node_path] = [part.node_path for part in parts]
        for name, kind in self._kinds.items():
            for path in names.get(name, [name]):
                self._made.kernel_kinds[path] = kind

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


def _in_order(parts: Sequence[BuiltPart], divider: GroupDivider) -> list[BuiltPart]:
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


def _node(whole: Node, spec: NodeSpec, part: Part, divider: GroupDivider) -> Node:
    """Return the node of a part."""
    names = {divider.group.members[number].spec.name for number in part.members}
    origin = tuple(name for name in whole.origin if name in names)
    return Node(
        NodeOrder((), ()),  # type: ignore[arg-type]
        spec.name,
        whole.id,
        spec.op,
        dict(spec.attrs),
        registry.lookup(spec.op) if not spec.op.startswith("_") else None,
        tuple(t.dtype for t in spec.inputs),
        tuple(t.dtype for t in spec.outputs),
        whole.device,
        whole.assigned_device,
        origin or whole.origin,
        tuple(t.shape for t in spec.outputs),
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


__all__ = ["BuiltPart", "DividedInstruction", "DividedLowering", "Refused"]
