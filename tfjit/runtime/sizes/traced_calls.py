"""Run the builders on formulas of sizes.

The answers of the builders hold for all sizes for which they decide alike. The words of their
calls are formulas (kernels/ir/symbolic_size.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Final

from tfjit.framework import cooperative_yield, settings
from tfjit.kernels.ir.symbolic_size import Size, SizeTrace, at_most, predicted
from tfjit.kernels.jit.store import store
from tfjit.kernels.registry import Launch, NativeCall, Pointer, Unsupported
from tfjit.runtime.lowering.lowering import native_call
from tfjit.runtime.schedule.group_division import compiled_otherwise
from tfjit.runtime.schedule.kernel_selection import MEMBER_BYTES, sources
from tfjit.runtime.sizes.size_formulas import NotGeneric

if TYPE_CHECKING:
    from tfjit.kernels.ir.backend import Backend
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.registry import NodeSpec
    from tfjit.kernels.source import KernelSource
    from tfjit.runtime.sizes.size_formulas import GenericLowered
    from tfjit.runtime.sizes.size_samples import Sizes

_LEAST_BITS: Final = 2
_WIDE_BITS: Final = 3
_WIDE_BYTES: Final = 1 << 24
"""Bytes of all values, for the greatest sizes, of a wide class."""


@dataclass(frozen=True, slots=True)
class TracedCalls:
    """Hold the answers of the builders for the sizes of a class.

    sizes: that the builders ran for. trace: with their decisions. calls: of the instructions by
    number, with formulas as words. wanted: kernels of groups that run member by member meanwhile.
    """

    sizes: Sizes
    trace: SizeTrace
    calls: Mapping[int, NativeCall]
    wanted: tuple[KernelSource, ...]

    def sources(self) -> list[KernelSource]:
        """Return the kernels of the calls."""
        return sources(self.calls.values())


def trace_calls(
    partition: GenericLowered,
    backend: Backend,
    ranges: Sequence[tuple[int, int]],
    sizes: Sizes,
) -> TracedCalls:
    """Run the builders for these sizes. Raises NotGeneric.

    ranges: the (least, greatest) size of each symbol of the partition.
    """
    trace = SizeTrace(sizes, _bounds(partition, ranges, sizes))
    wanted: list[KernelSource] = []
    found: dict[int, NativeCall] = {}
    for number, one in enumerate(partition.instructions):
        cooperative_yield.yield_interpreter()
        node = one.instruction.node
        if one.spec is None:
            if one.instruction.call is not None:
                found[number] = _present(
                    backend, one.instruction.spec, one.instruction.call, wanted
                )
            continue
        alike = found.get(one.alike)
        # an error's text may name the node
        if alike is not None and not any(launch.errors for launch in alike.launches):
            found[number] = alike
            continue
        spec: NodeSpec = one.spec(trace.symbols)
        try:
            call, why = native_call(backend, spec)
        except (AttributeError, TypeError, ValueError) as error:
            # The builder asks more of a size than a formula can say.
            call, why = None, f"{type(error).__name__}: {error}"
        if call is None:
            raise NotGeneric(f"{node.name} ({node.op}) has no compiled form: {why}")
        if _has_sized_offset(call):
            call = _with_unknown_begin(backend, spec) or call
        call = _present(backend, spec, call, wanted)
        call = replace(call, launches=tuple(map(_with_numbers, call.launches)))
        if trace.pinned:
            raise NotGeneric(f"the builder of {node.name} ({node.op}) needs numbers")
        found[number] = call
    return TracedCalls(sizes, trace, found, tuple(wanted))


def _present(
    backend: Backend, spec: NodeSpec, call: NativeCall, wanted: list[KernelSource]
) -> NativeCall:
    """Return the call, or the members' call where only that is present.

    wanted: gets the missing kernels then.
    """
    if spec.op != "_Fused":  # groups have been divided
        call = compiled_otherwise(call, store.refused)
    missing = [source for source in call.sources() if not is_present(source)]
    members = _member_call(backend, spec) if missing else None
    if members is None:
        return call
    wanted += [source for source in missing if store.refused(source) is None]
    return members


def _bounds(
    partition: GenericLowered, ranges: Sequence[tuple[int, int]], sizes: Sizes
) -> list[tuple[int, int]]:
    """Return the (least, greatest) size of each symbol in a class.

    The class serves these sizes. The ends span a factor of 8 where memory for the greatest is
    small, else a factor of 2.
    """
    wide, narrow = [], []
    for n, (low, high) in zip(sizes, ranges, strict=True):
        exponent = max(n.bit_length() - 1, _LEAST_BITS)
        exponent -= (exponent - _LEAST_BITS) % _WIDE_BITS
        start = 1 << exponent if exponent > _LEAST_BITS else low
        wide.append((max(start, low), min((1 << exponent + _WIDE_BITS) - 1, high)))
        narrow.append((max(1 << n.bit_length() - 1, low), min((1 << n.bit_length()) - 1, high)))
    greatest = tuple(high for _, high in wide)
    total = sum(
        prod(one.shape(greatest)) * one.value.dtype.size
        for one in partition.values
        if one.shape is not None
    )
    return wide if total <= _WIDE_BYTES else narrow


def is_present(source: KernelSource) -> bool:
    """Return whether a kernel is loaded; load it from disk."""
    return store.lookup(source) is not None or store.load_present([source])


def _member_call(backend: Backend, spec: NodeSpec) -> NativeCall | None:
    """Return the call of a group's members if their kernels are present."""
    if spec.op != "_Fused":
        return None
    group: FusedGroup = spec.attrs["group"]

    def built(member: NodeSpec) -> NativeCall:
        call, why = native_call(backend, member)
        if call is None:
            raise Unsupported(why)
        return call

    try:
        call = backend.member_call(group, spec.constants, built)
    # an array of formulas is no array of numbers to the builder of a member
    except (AttributeError, TypeError, ValueError, Unsupported) as why:
        settings.say("executor", "%s does not run member by member: %s", spec.name, why)
        return None
    if sum(map(at_most, call.temp_bytes)) > MEMBER_BYTES:
        return None
    # a kernel does not read formulas among the numbers of a constant
    formulas = {id(array) for array in group.constants if array.dtype == object}
    if any(id(call.constants[k]) in formulas for k in _constants_read(call)):
        return None
    return call if all(map(is_present, call.sources())) else None


def _constants_read(call: NativeCall) -> set[int]:
    """Return the numbers of the constants that launches point at."""
    words = (word for launch in call.launches for word in launch.words)
    return {w.index for w in words if isinstance(w, Pointer) and w.kind == "const"}


def _has_sized_offset(call: NativeCall) -> bool:
    """Return whether an offset into an array depends on a size."""
    words = (word for launch in call.launches for word in launch.words)
    return any(isinstance(word, Pointer) and isinstance(word.offset, Size) for word in words)


def _with_unknown_begin(backend: Backend, spec: NodeSpec) -> NativeCall | None:
    """Return the call of a slice that reads its begin, or None."""
    if spec.op not in ("StridedSlice", "StridedSliceGrad"):
        return None
    known = {k: value for k, value in spec.constants.items() if k not in (1, 2)}
    call, _ = native_call(backend, replace(spec, constants=known))
    return call


def _with_numbers(launch: Launch) -> Launch:
    """Return the launch with numbers where the table executor takes no formula."""
    words = tuple(
        replace(word, offset=int(word.offset))
        if isinstance(word, Pointer)
        and isinstance(word.offset, Size)
        and word.kind not in ("in", "out", "temp")
        else word
        for word in launch.words
    )
    return replace(
        launch, words=words, chunks=int(launch.chunks), cost_ns=predicted(launch.cost_ns)
    )


__all__ = ["TracedCalls", "is_present", "trace_calls"]
