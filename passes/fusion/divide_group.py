"""Divide a fused group into parts that compute its results together.

The parts of a group without a kernel are smaller groups, down to single nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.op_defs.op_traits import IDENTITY, REDUCTION, RESHAPE
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.ir.op_forms import ROW_OPS
from tfjit.kernels.registry import NodeSpec, Unsupported
from tfjit.passes.fusion.fuse import MAX_INPUTS, MAX_OUTPUTS
from tfjit.passes.fusion.fused_group_builder import described

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import FusionRules

Members = tuple[int, ...]
"""Numbers of a group's members that compute something, in execution order."""


@dataclass(frozen=True, slots=True)
class Part:
    """A node that computes values of a divided group.

    spec: of a `_Fused` node, of a member, or of a copy. inputs: the values of the group that it
    reads. outputs: those that it computes. members: the numbers of its members.
    """

    spec: NodeSpec
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]
    members: Members


class GroupDivider:
    """Make parts of one group.

    Identities and reshapes compute nothing: those between members of one part belong to the part,
    and the others are views of a part's result. known: values of the group's external inputs.
    """

    def __init__(
        self, group: FusedGroup, known: Mapping[int, np.ndarray], rules: FusionRules
    ) -> None:
        self.group = group
        self._known = known
        self._rules = rules
        free = [m.spec.has_trait(IDENTITY | RESHAPE) for m in group.members]
        self._free = {number for number, is_free in enumerate(free) if is_free}
        self.work: Members = tuple(n for n in range(len(free)) if n not in self._free)
        self._results = set(group.outputs)
        # by the member behind them that computes something, or the source outside
        self._free_results: dict[Ref, list[int]] = {}
        for number in sorted(self._free):
            if Ref(number) in self._results:
                self._free_results.setdefault(self._computed(Ref(number)), []).append(number)
        self._users: dict[Ref, list[int]] = {}
        for number in self.work:
            for ref in group.members[number].inputs:
                self._users.setdefault(self._stored(ref), []).append(number)

    def is_free(self, ref: Ref) -> bool:
        """Return whether a value is an identity or a reshape of another."""
        return ref.member in self._free

    def source(self, ref: Ref) -> Ref:
        """Return the value that a free one renames."""
        return self.group.members[ref.member].inputs[0]

    def _computed(self, ref: Ref) -> Ref:
        """Return the value behind identities and reshapes."""
        while ref.member in self._free:
            ref = self.source(ref)
        return ref

    def _stored(self, ref: Ref) -> Ref:
        """Return the value behind identities and reshapes that are no results."""
        while ref.member in self._free and ref not in self._results:
            ref = self.source(ref)
        return ref

    def halves(self, members: Members) -> tuple[Members, Members]:
        """Cut members in two near the middle, where the fewest bytes cross."""
        count = len(members)
        least = max(count // 3, 1)
        cut = min(
            range(least, count - least + 1),
            key=lambda k: (self._crossing(members[:k], members[k:]), abs(2 * k - count)),
        )
        return members[:cut], members[cut:]

    def _crossing(self, first: Members, second: Members) -> int:
        """Return the bytes that the second members read from the first."""
        before = set(first)
        refs = {self._computed(r) for n in second for r in self.group.members[n].inputs}
        return sum(self.group.tensor(r).nbytes for r in refs if r.member in before)

    def part(self, members: Members) -> Part | None:
        """Return the node that computes these members.

        None where no template takes them as a group.
        """
        if len(members) == 1:
            return self._single(members[0])
        chosen = self._with_free(members)
        outputs = self._outputs(chosen)
        for kind, anchor in self._kinds(members):
            group, inputs = self._group(chosen, outputs, kind, anchor)
            if len(outputs) > MAX_OUTPUTS or len(inputs) > MAX_INPUTS:
                return None
            template = self._rules.template_of(kind)
            try:
                if template is None:
                    continue
                template.accepts(group)
            except Unsupported:
                continue
            name = self.group.members[chosen[-1]].spec.name
            known = self._values(inputs)
            return Part(described(group).node_spec(name, known), inputs, outputs, members)
        return None

    def copies(self, parts: Sequence[Members]) -> Iterator[Part]:
        """Yield copies for results that no part computes.

        They are identities and reshapes of a value from outside, or of a single member.
        """
        joined = {number for members in parts if len(members) > 1 for number in members}
        for computed, numbers in self._free_results.items():
            if computed.member not in joined:
                yield from (self._copy(number) for number in numbers)

    def _copy(self, number: int) -> Part:
        spec = self.group.members[number].spec
        made = NodeSpec(spec.name, "DeepCopy", {}, spec.outputs, spec.outputs)
        return Part(made, (self._stored(self.source(Ref(number))),), (Ref(number),), ())

    def _single(self, number: int) -> Part:
        member = self.group.members[number]
        known = self._values(member.inputs)
        spec = replace(member.spec, constants={**member.spec.constants, **known})
        outputs = tuple(Ref(number, k) for k in range(len(spec.outputs)))
        return Part(spec, member.inputs, outputs, (number,))

    def _values(self, inputs: Sequence[Ref]) -> dict[int, np.ndarray]:
        """Return the known values among inputs."""
        found = {}
        for k, ref in enumerate(inputs):
            if ref.member == CONSTANT:
                found[k] = self.group.constants[ref.index]
            elif ref.member < 0 and ref.index in self._known:
                found[k] = self._known[ref.index]
        return found

    def _with_free(self, members: Members) -> list[int]:
        """Return the members with the identities and reshapes that belong to them."""
        inside = set(members)
        wanted = [ref for number in members for ref in self.group.members[number].inputs]
        for number in members:
            for k in range(len(self.group.members[number].spec.outputs)):
                wanted += [Ref(n) for n in self._free_results.get(Ref(number, k), ())]
        chosen = set(members)
        for ref in wanted:
            if self._computed(ref).member in inside:
                while ref.member in self._free:
                    chosen.add(ref.member)
                    ref = self.source(ref)
        return sorted(chosen)

    def _outputs(self, chosen: Sequence[int]) -> tuple[Ref, ...]:
        """Return the values of members that others or the group's users read."""
        inside = set(chosen)
        found = []
        for number in chosen:
            for k in range(len(self.group.members[number].spec.outputs)):
                ref = Ref(number, k)
                if ref in self._results or not inside.issuperset(self._users.get(ref, ())):
                    found.append(ref)
        return tuple(found)

    def _kinds(self, members: Members) -> Iterator[tuple[str, int]]:
        """Yield the kinds of group that members may form, with their anchors."""
        group = self.group
        if group.kind != "loop" and group.anchor in members:
            yield group.kind, group.anchor
        anchors = [n for n in members if group.members[n].spec.op in self._rules.anchors]
        for number in anchors[:2]:
            yield self._rules.anchors[group.members[number].spec.op], number
        if anchors:
            return
        heads = [n for n in members if _reduces(group.members[n].spec)]
        if heads:
            yield "rows", heads[0]
            yield "reduce", heads[0]
        else:
            yield "loop", members[0]

    def _group(
        self, chosen: Sequence[int], outputs: Sequence[Ref], kind: str, anchor: int
    ) -> tuple[FusedGroup, tuple[Ref, ...]]:
        """Return the group of some members, and its inputs.

        The inputs are values of the whole group.
        """
        place = {number: k for k, number in enumerate(chosen)}
        order = [anchor, *chosen] if kind != "loop" else chosen
        inputs = dict.fromkeys(
            ref
            for number in order
            for ref in self.group.members[number].inputs
            if ref.member not in place and ref.member != CONSTANT
        )
        numbers = {ref: k for k, ref in enumerate(inputs)}
        constants: list[np.ndarray] = []
        members = []
        for number in chosen:
            member = self.group.members[number]
            refs = []
            for ref in member.inputs:
                if ref.member in place:
                    refs.append(Ref(place[ref.member], ref.index))
                elif ref.member == CONSTANT:
                    refs.append(Ref(CONSTANT, len(constants)))
                    constants.append(self.group.constants[ref.index])
                else:
                    refs.append(Ref(INPUT, numbers[ref]))
            members.append(Member(member.spec, tuple(refs)))
        made = FusedGroup(
            kind,
            tuple(members),
            tuple(self.group.tensor(ref) for ref in inputs),
            tuple(Ref(place[ref.member], ref.index) for ref in outputs),
            tuple(constants),
            _anchor=place[anchor] if kind != "loop" else 0,
        )
        return made, tuple(inputs)


def _reduces(spec: NodeSpec) -> bool:
    return spec.has_trait(REDUCTION) or spec.op in ROW_OPS or spec.op in ("BiasAddGrad", "L2Loss")


__all__ = ["GroupDivider", "Members", "Part"]
