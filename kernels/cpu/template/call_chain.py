"""Chain the launches of a group's members through scratch buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfjit.framework.cooperative_yield import yield_interpreter
from tfjit.framework.op_defs.op_traits import IDENTITY, RESHAPE
from tfjit.kernels.cpu.template.call_builder import moved_pointer
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Ref, node_suffix
from tfjit.kernels.registry import Builder, Launch, NativeCall, Pointer, Unsupported, find_native


class CallChain:
    """Calls in order, with scratch buffers for values between them."""

    def __init__(self, group: FusedGroup) -> None:
        self.group = group
        self.places = {ref: Pointer("out", k) for k, ref in enumerate(group.outputs)}
        self.launches: list[Launch] = []
        self.temps: list[int] = []
        self.constants: list[np.ndarray] = []
        self.bytes_moved = 0
        self.flops = 0
        # After its last use a value gives its scratch buffer to another value.
        self._last_use: dict[Ref, int] = {}
        for number, member in enumerate(group.members):
            for ref in member.inputs:
                self._last_use[ref] = number
        self._free: dict[int, list[int]] = {}  # size -> free scratch buffers

    def place(self, ref: Ref) -> Pointer:
        """Return the pointer to a value of the group."""
        if ref.member == INPUT:
            return Pointer("in", ref.index)
        if ref not in self.places:
            if ref.member == CONSTANT:
                self.constants.append(np.ascontiguousarray(self.group.constants[ref.index]))
                self.places[ref] = Pointer("const", len(self.constants) - 1)
            else:
                self.places[ref] = Pointer(
                    "temp", self._scratch(max(self.group.tensor(ref).nbytes, 64))
                )
        return self.places[ref]

    def _scratch(self, nbytes: int) -> int:
        free = self._free.get(nbytes)
        if free:
            return free.pop()
        self.temps.append(nbytes)
        return len(self.temps) - 1

    def forward(self, ref: Ref, source: Ref) -> None:
        """Place a value in another one's buffer, which is not reused."""
        self.places[ref] = self.place(source)
        self._last_use[ref] = self._last_use[source] = len(self.group.members)

    def release(self, number: int) -> None:
        """Free the scratch buffers that no member after `number` reads."""
        for ref in dict.fromkeys(self.group.members[number].inputs):
            place = self.places.get(ref)
            if place is not None and place.kind == "temp" and self._last_use[ref] == number:
                self._free.setdefault(self.temps[place.index], []).append(place.index)

    def append(
        self, call: NativeCall, ins: Sequence[Pointer], outs: Sequence[Pointer], member: str
    ) -> None:
        """Add the launches of a member.

        ins, outs: places of its inputs and outputs. Errors name the member.
        """
        for launch in call.launches:
            after = len(self.temps), len(self.constants)
            words = tuple(
                [
                    moved_pointer(w, ins, outs, *after) if isinstance(w, Pointer) else w
                    for w in launch.words
                ]
            )
            errors = launch.errors
            if errors:
                # the suffix goes through str.format
                suffix = node_suffix(member).replace("{", "{{").replace("}", "}}")
                errors = {
                    code: (kind, message + suffix) for code, (kind, message) in errors.items()
                }
            # a launch of another device has fields of its kind
            self.launches.append(replace(launch, words=words, errors=errors, fills=None))
        self.temps += call.temp_bytes
        self.constants += call.constants
        self.bytes_moved += call.bytes_moved
        self.flops += call.flops


def chained_call(
    group: FusedGroup, known: Mapping[int, np.ndarray], build: Builder | None = None
) -> NativeCall:
    """Run every member by a separate kernel, one after the other.

    This serves a group that its template refuses, or that is not worth a kernel. build: makes the
    call of a member. Raises Unsupported when a member has no compiled form either.
    """
    if len(set(group.outputs)) != len(group.outputs):
        raise Unsupported("one value is several outputs")
    chain = CallChain(group)
    for number, member in enumerate(group.members):
        yield_interpreter()
        builder = build if build is not None else find_native(member.spec.op)
        if member.spec.has_trait(IDENTITY | RESHAPE):
            if Ref(number) not in chain.places:
                chain.forward(Ref(number), member.inputs[0])
                continue
            # the value is an output of the group: copy it to the output's buffer
            builder = find_native("DeepCopy")
        if builder is None:
            raise Unsupported(f"{member.spec.op} ({member.spec.name}) has no compiled kernel")
        values = {
            k: known[r.index]
            for k, r in enumerate(member.inputs)
            if r.member == INPUT and r.index in known
        }
        values |= {
            k: group.constants[r.index] for k, r in enumerate(member.inputs) if r.member == CONSTANT
        }
        ins = [chain.place(ref) for ref in member.inputs]
        outs = [chain.place(Ref(number, k)) for k in range(len(member.spec.outputs))]
        spec = (
            replace(member.spec, constants=values)
            if values or member.spec.constants
            else member.spec
        )
        chain.append(builder(spec), ins, outs, member.spec.name)
        chain.release(number)
    return NativeCall(
        tuple(chain.launches),
        temp_bytes=tuple(chain.temps),
        constants=tuple(chain.constants),
        bytes_moved=chain.bytes_moved,
        flops=chain.flops,
    )
