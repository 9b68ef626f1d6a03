"""Select the compiled code of each instruction, within a plan's budget.

A kernel takes a fifth of a second to compile. The kernel of a group of small tensors saves some
hundred nanoseconds a run over its members' own kernels, which are few, shared by all graphs and run
by the table executor at a few nanoseconds each. So a plan has kernels compiled for the
`MAX_SMALL_KERNELS` small groups that gain most; the others run *member by member* (`NativeCall` of
the members' launches in order).

Any group without a loaded kernel may run member by member meanwhile (`add_member_calls`). A group
with a refused kernel is divided (group_division.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.kernels.ir.kernel_keys import attrs_key, constants_key, signature
from tfjit.kernels.registry import NativeCall, NodeSpec, Unsupported
from tfjit.runtime.lowering.lowering import compilable, native_call
from tfjit.runtime.schedule.loop_parallelization import calls_of, find_splits

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowered import Instruction, Lowered

MAX_SMALL_KERNELS: Final = 64
"""Distinct kernels compiled for groups of small tensors, in one plan.

They take at most some 20 s of a background process.
"""
SMALL_GAIN_NS: Final = 2000.0
"""Saving of a kernel, per run, below which its group is small.

100,000 runs pay for the compilation of such a kernel.
"""
SMALL_BYTES: Final = 1 << 14
"""Largest value that is worth a buffer between members.

Member by member, each value between members has a buffer.
"""
MEMBER_BYTES: Final = 1 << 26
"""Scratch memory that any group may take member by member.

More is allowed up to twice the group's inputs and outputs.
"""
_LAUNCH_NS: Final = 8.0  # of the table executor and of a kernel's prologue
_KEY_BYTES: Final = 256  # the largest known input that is part of a call's key


@dataclass(frozen=True, slots=True)
class CallReport:
    """Count a plan's kernels and groups.

    kernels: distinct texts that the plan's calls need. groups: fused groups. shared: groups that
    share a kernel with another group of the plan. unfused: groups without a kernel.
    """

    kernels: int = 0
    groups: int = 0
    shared: int = 0
    unfused: int = 0


def select_kernels(lowered: Lowered, threads: int = 1) -> CallReport:
    """Ask the native builders for compiled code of each instruction.

    Instructions that a builder declines keep their reference. Sets `call`; a small group over the
    plan's budget has its members' call as `call` and as `unfused`. Sets `splits`: the divisions
    that pay on `threads` threads.
    """
    backend = lowered.backend
    memo = CallMemo(backend)
    waiting = [i for i in compilable(lowered) if i.call is None and not i.reason]
    small: dict[Hashable, list[tuple[Instruction, FusedGroup]]] = {}
    for instruction in waiting:
        yield_interpreter()
        group = group_of(instruction.spec)
        if group is not None and is_small(backend, group):
            small.setdefault(signature(group), []).append((instruction, group))
        else:
            instruction.call, instruction.reason = memo.call(instruction.spec, group)
    ranked = sorted(
        small.values(), key=lambda alike: -sum(gain_ns(backend, group) for _, group in alike)
    )
    for rank, alike in enumerate(ranked):
        for instruction, group in alike:
            yield_interpreter()
            if rank >= MAX_SMALL_KERNELS:
                _add_member_call(instruction, group, memo)
                instruction.call = instruction.unfused
            if instruction.call is None:
                instruction.call, instruction.reason = memo.call(instruction.spec, group)
    return finish_selection(lowered, threads)


def finish_selection(lowered: Lowered, threads: int) -> CallReport:
    """Set `splits`, the divisions that pay on some threads; count the calls."""
    lowered.splits = find_splits(lowered, threads)
    return _report(lowered)


def group_of(spec: NodeSpec) -> FusedGroup | None:
    """Return a `_Fused` node's group for the shapes of its inputs.

    Return None for other nodes, and for shapes that the group cannot have.
    """
    if spec.op != "_Fused":
        return None
    group: FusedGroup = spec.attrs["group"]
    try:
        return group.for_inputs(spec.inputs)
    except Unsupported:
        return None  # the builder reports the reason


def select_some(lowered: Lowered, instructions: Iterable[Instruction]) -> None:
    """Ask the native builders for the calls of some instructions.

    `select_kernels` adds the others.
    """
    memo = CallMemo(lowered.backend)
    for instruction in instructions:
        if instruction.call is None and not instruction.reason:
            group = group_of(instruction.spec)
            instruction.call, instruction.reason = memo.call(instruction.spec, group)


def add_member_calls(
    lowered: Lowered,
    lacks: Callable[[NativeCall], bool],
    instructions: Iterable[Instruction] | None = None,
    memo: CallMemo | None = None,
) -> list[NativeCall]:
    """Return new members' calls of groups without own code.

    lacks: returns whether some code of a call is not loaded. instructions: those to look at; None
    selects all. memo: of earlier calls. Sets `unfused`. Groups whose members have no compiled form,
    or need too much memory between them, are left alone.
    """
    memo = memo or CallMemo(lowered.backend)
    made: list[NativeCall] = []
    for instruction in compilable(lowered) if instructions is None else instructions:
        yield_interpreter()
        group = group_of(instruction.spec)
        if group is None or instruction.unfused is not None:
            continue
        if instruction.call is None or lacks(instruction.call):
            _add_member_call(instruction, group, memo)
            if instruction.unfused is not None:
                made.append(instruction.unfused)
    return made


def drop_member_calls(lowered: Lowered, lacks: Callable[[NativeCall], bool]) -> None:
    """Forget the members' calls of groups with loaded code."""
    for instruction in lowered.instructions:
        call = instruction.call
        if call is not None and call is not instruction.unfused and not lacks(call):
            instruction.unfused = None


def _add_member_call(instruction: Instruction, group: FusedGroup, memo: CallMemo) -> None:
    """Set the members' call of a group's instruction, if there is one."""
    try:
        call = memo.members(group, instruction.spec)
    except Unsupported:
        return
    tensors = (*instruction.spec.inputs, *instruction.spec.outputs)
    if sum(call.temp_bytes) <= max(MEMBER_BYTES, 2 * sum(t.nbytes for t in tensors)):
        instruction.unfused = call


class CallMemo:
    """Cache the calls of nodes and groups.

    A call depends on op, attrs, dtypes, shapes and known inputs alone. The layers of a big graph
    repeat few different ones.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._calls: dict[Hashable, NativeCall] = {}

    def build(self, spec: NodeSpec) -> NativeCall:
        """Return the call of a node that is no group.

        Raises Unsupported.
        """
        return self._found(_spec_key(spec), lambda: self._built(spec))

    def call(self, spec: NodeSpec, group: FusedGroup | None) -> tuple[NativeCall | None, str]:
        """Return (call, "") or (None, reason). group: that of a `_Fused` node."""
        try:
            return self._found(call_key(spec, group), lambda: self._built(spec)), ""
        except Unsupported as unsupported:
            return None, str(unsupported)

    def members(self, group: FusedGroup, spec: NodeSpec) -> NativeCall:
        """Return the members' call of a group. Raises Unsupported."""
        return self._found(
            _group_key("members", group, spec),
            lambda: self.backend.member_call(group, spec.constants, self.build),
        )

    def _built(self, spec: NodeSpec) -> NativeCall:
        made, reason = native_call(self.backend, spec)
        if made is None:
            raise Unsupported(reason)
        return made

    def _found(self, key: Hashable, build: Callable[[], NativeCall]) -> NativeCall:
        found = self._calls.get(key) if key is not None else None
        if found is None:
            found = build()
            # An error's text may name the node.
            if key is not None and not any(launch.errors for launch in found.launches):
                self._calls[key] = found
        return found


def call_key(spec: NodeSpec, group: FusedGroup | None) -> Hashable:
    """Return the key of an instruction's own call, or None.

    There is none with large known inputs. group: that of a `_Fused` node.
    """
    return _spec_key(spec) if group is None else _group_key("own", group, spec)


def _spec_key(spec: NodeSpec) -> Hashable:
    """Return the key of a node's call; None with large known inputs."""
    known = _known_key(spec)
    if known is None or spec.op == "_Fused" or spec.op == "_Loop":
        return None
    return spec.op, attrs_key(spec.attrs), spec.inputs, spec.outputs, known


def _group_key(form: str, group: FusedGroup, spec: NodeSpec) -> Hashable:
    """Return the key of a group's call; None with large known inputs."""
    known = _known_key(spec)
    return None if known is None else (form, signature(group), known)


def _known_key(spec: NodeSpec) -> Hashable:
    """Return the known inputs as a key, None if one is large."""
    if any(value.nbytes > _KEY_BYTES or value.dtype == object for value in spec.constants.values()):
        return None
    return constants_key(spec.constants)


def is_small(backend: Backend, group: FusedGroup) -> bool:
    """Return whether a group's own kernel saves little over its members'."""
    return (
        group.kind == "loop"
        and gain_ns(backend, group) < SMALL_GAIN_NS
        and all(t.nbytes <= SMALL_BYTES for t in _tensors(group))
    )


def gain_ns(backend: Backend, group: FusedGroup) -> float:
    """Return the predicted time that a group's kernel saves in a run.

    The alternative is its members' kernels.
    """
    return (
        _LAUNCH_NS * (len(group.members) - 1)
        + backend.traffic_ns(group.bytes_unfused)
        - backend.traffic_ns(group.bytes_moved)
    )


def _tensors(group: FusedGroup) -> Iterable[Any]:
    yield from group.inputs
    for member in group.members:
        yield from member.spec.outputs


def sources(calls: Iterable[NativeCall | None]) -> list[KernelSource]:
    """Return the distinct sources of the calls, in a fixed order."""
    found: dict[KernelSource, None] = {}
    for call in {id(c): c for c in calls if c is not None}.values():
        yield_interpreter()
        found.update(dict.fromkeys(call.sources()))
    return list(found)


def all_calls(lowered: Lowered) -> Iterator[NativeCall | None]:
    """Yield the calls of all instructions and of all parts."""
    yield from (instruction.call for instruction in lowered.instructions)
    yield from calls_of(lowered.splits)


def _report(lowered: Lowered) -> CallReport:
    groups = [i for i in lowered.instructions if i.node.op == "_Fused" and i.call is not None]
    own = [i for i in groups if i.call is not i.unfused]
    texts = {i.call.launches[-1].source for i in own if i.call is not None and i.call.launches}
    total = len(sources(all_calls(lowered)))
    return CallReport(total, len(groups), len(own) - len(texts), len(groups) - len(own))


__all__ = [
    "MAX_SMALL_KERNELS",
    "CallMemo",
    "CallReport",
    "add_member_calls",
    "all_calls",
    "call_key",
    "drop_member_calls",
    "finish_selection",
    "gain_ns",
    "group_of",
    "is_small",
    "select_kernels",
    "select_some",
    "sources",
]
