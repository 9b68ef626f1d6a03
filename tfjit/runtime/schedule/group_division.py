"""Divide the groups that have a refused kernel.

A refused kernel is compiled in another way (`KernelSource.attempt`). A group that is refused again
is cut in two, and each half again that is refused, down to single nodes. The neighbours on either
side of a refused single node then form one group each. The kernel of a single node is compiled in
further ways; where all are refused, the node stays on its reference. Decisions follow from the
kernels' states alone, so all plans of a process decide alike: a caller asks again once the kernels
of the parts have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.kernels.registry import Pointer
from tfjit.kernels.source import FAST_ATTEMPT, LAST_ATTEMPT
from tfjit.passes.fusion.divide_group import GroupDivider, Members
from tfjit.runtime.lowering.lowered import Instruction, Lowered
from tfjit.runtime.schedule.divided_lowering import (
    BuiltPart,
    DividedInstruction,
    DividedLowering,
    Refused,
)
from tfjit.runtime.schedule.kernel_selection import CallMemo, group_of, sources

if TYPE_CHECKING:
    from tfjit.kernels.registry import NativeCall, Word
    from tfjit.kernels.source import KernelSource


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
        self._made: dict[Members, BuiltPart | None] = {}

    def made(self, members: Members) -> BuiltPart | None:
        """Return the part of these members; None for no valid group."""
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
    divided = [
        DividedInstruction(
            division.instruction,
            division.divider,
            [made for made in map(division.made, parts) if made is not None],
            _why_refused(division.instruction.call, states.refused),
        )
        for division, parts in chosen
    ]
    return DividedLowering(lowered, states.refused, calls).run(divided), list(missing)


__all__ = [
    "KernelStates",
    "divide_refused",
    "refused_instructions",
    "compiled_otherwise",
    "next_attempt",
]
