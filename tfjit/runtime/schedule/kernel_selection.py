"""Select the compiled code of each instruction, within a plan's budget.

A kernel takes a fifth of a second to compile. The kernel of a group of small tensors saves some
hundred nanoseconds a run over its members' own kernels, which are few, shared by all graphs and run
by the table executor at a few nanoseconds each. So such a group runs *member by member*
(`NativeCall` of its members' launches in order) until its kernel is loaded. A plan has kernels
compiled for the `MAX_SMALL_KERNELS` small groups that gain most; the others keep running member by
member.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.scalar import elementwise
from tfjit.kernels.registry import NativeCall, NodeSpec, Unsupported
from tfjit.runtime.lowering.lowering import compilable, native_call
from tfjit.runtime.schedule.loop_parallelization import calls_of, find_splits

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.lowering.lowering import Instruction, Lowered

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
_LAUNCH_NS: Final = 8.0  # of the table executor and of a kernel's prologue


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

    Instructions that a builder declines keep their reference. Sets `call`, and for small groups
    `unfused`; a small group over the plan's budget has the latter as its `call`. Sets `splits`: the
    divisions that pay on `threads` threads.
    """
    backend = lowered.backend
    memo = _Memo(backend)
    waiting = [i for i in compilable(lowered) if i.call is None and not i.reason]
    small: dict[Hashable, list[tuple[Instruction, FusedGroup]]] = {}
    for instruction in waiting:
        yield_interpreter()
        group = _group_of(instruction.spec)
        if group is None:
            instruction.call, instruction.reason = memo.call(instruction.spec)
        elif (
            group.kind == "loop"
            and gain_ns(backend, group) < SMALL_GAIN_NS
            and all(t.nbytes <= SMALL_BYTES for t in _tensors(group))
        ):
            small.setdefault(signature(group), []).append((instruction, group))
        else:
            instruction.call, instruction.reason = native_call(backend, instruction.spec)
    ranked = sorted(
        small.values(), key=lambda alike: -sum(gain_ns(backend, group) for _, group in alike)
    )
    for rank, alike in enumerate(ranked):
        for instruction, group in alike:
            yield_interpreter()
            _build_small(instruction, group, memo, rank < MAX_SMALL_KERNELS)
    lowered.splits = find_splits(lowered, threads)
    return _report(lowered)


def _group_of(spec: NodeSpec) -> FusedGroup | None:
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


def _build_small(instruction: Instruction, group: FusedGroup, memo: _Memo, wanted: bool) -> None:
    """Build both calls of a small group.

    Without `wanted`, only the members' call is built.
    """
    spec = instruction.spec
    try:
        instruction.unfused = memo.backend.member_call(group, spec.constants, memo.build)
    except Unsupported:
        wanted = True
    if wanted:
        instruction.call, instruction.reason = native_call(memo.backend, spec)
    else:
        instruction.call = instruction.unfused


class _Memo:
    """Cache the calls of elementwise nodes.

    They depend on op, attrs, dtypes and shapes alone: a big graph has few different ones.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._calls: dict[Hashable, NativeCall] = {}

    def build(self, spec: NodeSpec) -> NativeCall:
        """Return the call of a node.

        Raises Unsupported.
        """
        key = _spec_key(spec)
        found = self._calls.get(key) if key is not None else None
        if found is None:
            made, reason = native_call(self.backend, spec)
            if made is None:
                raise Unsupported(reason)
            found = made
            if key is not None:
                self._calls[key] = found
        return found

    def call(self, spec: NodeSpec) -> tuple[NativeCall | None, str]:
        """Return (call, "") or (None, reason)."""
        try:
            return self.build(spec), ""
        except Unsupported as unsupported:
            return None, str(unsupported)


def _spec_key(spec: NodeSpec) -> Hashable:
    """Return the key of an elementwise node's call; None for other ops."""
    if spec.constants or elementwise.lookup(spec.op) is None:
        return None
    key = (spec.op, tuple(spec.attrs.items()), spec.inputs, spec.outputs)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def signature(group: FusedGroup) -> Hashable:
    """Return the signature of a group.

    Groups of one signature share a kernel. Such groups have the same members, wired alike, over
    tensors of the same dtypes and shapes.
    """
    members = tuple(
        (m.spec.op, _attrs(m.spec.attrs), m.inputs, m.spec.outputs) for m in group.members
    )
    return (
        group.kind,
        members,
        group.inputs,
        group.outputs,
        tuple((c.dtype.str, c.tobytes()) for c in group.constants),
    )


def _attrs(attrs: Any) -> Hashable:
    return tuple(sorted((name, repr(value)) for name, value in attrs.items()))


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
    "CallReport",
    "all_calls",
    "select_kernels",
    "gain_ns",
    "signature",
    "sources",
]
