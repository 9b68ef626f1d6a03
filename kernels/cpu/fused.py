"""The kernel of a `_Fused` node: from a group to the template that serves it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.cooperative_yield import breathe
from tfjit.kernels.cpu.template.call_builder import moved_pointer
from tfjit.kernels.cpu.template.region import FORWARDING, RESHAPING, Operand, RegionBuilder, c_strides, identity_map, single
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Ref, node_suffix
from tfjit.kernels.registry import (
    Builder,
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    find_native,
    native,
)

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue, Pattern

ANCHORS: Final[Mapping[str, str]] = {
    "MatMul": "matmul",
    "BatchMatMul": "matmul",
    "BatchMatMulV2": "matmul",
    "BatchMatMulV3": "matmul",
    "Conv2D": "conv2d",
    "DepthwiseConv2dNative": "depthwise",
}
"""Op types whose kernels take an epilogue, and the kind of group they make."""


def epilogue_of(group: FusedGroup) -> tuple[Epilogue, tuple[Ref, ...]]:
    """The epilogue of a group around its anchor, and the operands it reads.

    Raises Unsupported when a member is no scalar function of the product and operands that are a scalar, a vector along the last
    axis, a vector along the rows or of the product's shape.
    """
    from tfjit.kernels.cpu.elementwise.loop import MAX_OUTPUTS
    from tfjit.kernels.cpu.template.epilogue import Epilogue

    product = Ref(group.anchor)
    if any(ref.member != INPUT for ref in group.members[group.anchor].inputs):
        raise Unsupported("what a matmul or convolution reads is computed by a kernel of its own")
    shape = group.tensor(product).shape
    index = identity_map(len(shape))
    builder = RegionBuilder(group, shape, is_leaf=lambda ref: ref == product)
    builder.value(product, index)  # so that it is operand 0
    outputs = []
    for ref in group.outputs:
        if group.tensor(ref).shape != shape:
            raise Unsupported(f"{group.members[ref.member].spec.name} has another shape than the product {list(shape)}")
        outputs.append(builder.value(ref, index))
    if len(outputs) > MAX_OUTPUTS:
        raise Unsupported(f"{len(outputs)} results")
    region = builder.finish(outputs)
    refs: list[Ref] = []
    patterns: list[Pattern] = []
    for operand in region.operands[1:]:
        if operand.ref == product:
            raise Unsupported("the product is read at other places than its own")
        patterns.append(_pattern(operand, shape, group.tensor(operand.ref)))
        refs.append(operand.ref)
    return Epilogue(region.program, tuple(patterns)), tuple(refs)


def _pattern(operand: Operand, shape: Sequence[int], tensor: TensorSpec) -> Pattern:
    size = operand.dtype.size
    full = tuple(0 if n == 1 else s for n, s in zip(shape, c_strides(shape, size)))
    row = tuple(0 if n == 1 or d == len(shape) - 1 else s for d, (n, s) in enumerate(zip(shape, c_strides([*shape[:-1], 1], size))))
    channel = tuple(s if d == len(shape) - 1 else 0 for d, s in enumerate(full))
    if operand.offset == 0:
        if tensor.size == 1 and not any(operand.strides):
            return "scalar"
        if operand.strides == full and tensor.size == prod(shape):
            return "full"
        if operand.strides == channel and tensor.size == shape[-1]:
            return "channel"
        if operand.strides == row and tensor.size == prod(shape[:-1]):
            return "row"
    raise Unsupported(f"an operand of shape {list(tensor.shape)} beside products of shape {list(shape)}")


def remap_inputs(call: NativeCall, order: Sequence[int]) -> NativeCall:
    """A call whose input k is input order[k] of another node."""

    def moved(word: Word) -> Word:
        return replace(word, index=order[word.index]) if isinstance(word, Pointer) and word.kind == "in" else word

    return replace(
        call,
        launches=tuple(replace(launch, words=tuple(moved(w) for w in launch.words)) for launch in call.launches),
        in_place=tuple((out, order[k]) for out, k in call.in_place),
    )


# module of a group's template, by kind
_ANCHORED: Final = {"matmul": "gemm.matmul", "conv2d": "conv.conv", "depthwise": "conv.depthwise"}


def _anchored(group: FusedGroup, known: Mapping[int, np.ndarray]) -> NativeCall:
    epilogue, operands = epilogue_of(group)
    anchor = group.members[group.anchor]
    refs = [*anchor.inputs, *operands]
    order = [ref.index for ref in refs]
    inputs = [group.tensor(ref) for ref in refs]
    constants = {k: known[i] for k, i in enumerate(order) if i in known}
    attrs = anchor.spec.attrs
    module = importlib.import_module(f"tfjit.kernels.cpu.{_ANCHORED[group.kind]}")
    if group.kind == "matmul":
        if anchor.spec.op == "MatMul":
            transposes = {f"transpose_{k}": bool(attrs.get(f"transpose_{k}", False)) for k in "ab"}
            call = module.matmul_call(inputs, **transposes, epilogue=epilogue, constants=constants)
        else:
            if anchor.spec.outputs[0].dtype is not anchor.spec.inputs[0].dtype:
                raise Unsupported(f"product as {anchor.spec.outputs[0].dtype.name}")
            adjoints = {f"adj_{k}": bool(attrs.get(f"adj_{k}", False)) for k in "xy"}
            call = module.batch_matmul_call(inputs, **adjoints, epilogue=epilogue, constants=constants)
    else:
        layout = module.native_layout(anchor.spec)
        call = (module.conv2d_call if group.kind == "conv2d" else module.depthwise_call)(
            inputs,
            strides=layout.strides,
            padding=layout.padding,
            explicit=layout.explicit,
            dilations=layout.dilations,
            epilogue=epilogue,
            constants=constants,
        )
    return remap_inputs(call, order)


class _Chain:
    """Calls put one after the other, with scratch buffers for what passes between them."""

    def __init__(self, group: FusedGroup) -> None:
        self.group = group
        self.places = {ref: Pointer("out", k) for k, ref in enumerate(group.outputs)}
        self.launches: list[Launch] = []
        self.temps: list[int] = []
        self.constants: list[np.ndarray] = []
        self.bytes_moved = 0
        self.flops = 0
        self._last_use: dict[Ref, int] = {}  # what is used by no later member gives its scratch buffer to another value
        for number, member in enumerate(group.members):
            for ref in member.inputs:
                self._last_use[ref] = number
        self._free: dict[int, list[int]] = {}  # size -> scratch buffers

    def place(self, ref: Ref) -> Pointer:
        """Where a value of the group lies."""
        if ref.member == INPUT:
            return Pointer("in", ref.index)
        if ref not in self.places:
            if ref.member == CONSTANT:
                self.constants.append(np.ascontiguousarray(self.group.constants[ref.index]))
                self.places[ref] = Pointer("const", len(self.constants) - 1)
            else:
                self.places[ref] = Pointer("temp", self._scratch(max(self.group.tensor(ref).nbytes, 64)))
        return self.places[ref]

    def _scratch(self, nbytes: int) -> int:
        free = self._free.get(nbytes)
        if free:
            return free.pop()
        self.temps.append(nbytes)
        return len(self.temps) - 1

    def forward(self, ref: Ref, source: Ref) -> None:
        """Let a value lie where another one does; their buffer is not handed on."""
        self.places[ref] = self.place(source)
        self._last_use[ref] = self._last_use[source] = len(self.group.members)

    def release(self, number: int) -> None:
        """Member `number` has run: scratch buffers of values that no later one reads are free."""
        for ref in dict.fromkeys(self.group.members[number].inputs):
            place = self.places.get(ref)
            if place is not None and place.kind == "temp" and self._last_use[ref] == number:
                self._free.setdefault(self.temps[place.index], []).append(place.index)

    def append(self, call: NativeCall, ins: Sequence[Pointer], outs: Sequence[Pointer], member: str) -> None:
        """Add the launches of a member, whose name errors give, its inputs and outputs lying at these places."""
        for launch in call.launches:
            after = len(self.temps), len(self.constants)
            words = tuple([moved_pointer(w, ins, outs, *after) if isinstance(w, Pointer) else w for w in launch.words])
            errors = launch.errors
            if errors:
                suffix = node_suffix(member).replace("{", "{{").replace("}", "}}")  # it goes through str.format
                errors = {code: (kind, message + suffix) for code, (kind, message) in errors.items()}
            self.launches.append(Launch(launch.source, words, launch.entry, launch.chunks, launch.cost_ns, errors))
        self.temps += call.temp_bytes
        self.constants += call.constants
        self.bytes_moved += call.bytes_moved
        self.flops += call.flops


def chained_call(group: FusedGroup, known: Mapping[int, np.ndarray], build: Builder | None = None) -> NativeCall:
    """Every member by its own kernel, one after the other: what serves a group that its template refuses, or that is not worth a kernel.

    build: makes the call of a member. Raises Unsupported when a member has no compiled form either.
    """
    if len(set(group.outputs)) != len(group.outputs):
        raise Unsupported("one value is several outputs")
    chain = _Chain(group)
    for number, member in enumerate(group.members):
        breathe()
        builder = build if build is not None else find_native(member.spec.op)
        if member.spec.op in FORWARDING or member.spec.op in RESHAPING:
            if Ref(number) not in chain.places:
                chain.forward(Ref(number), member.inputs[0])
                continue
            builder = _copy
        if builder is None:
            raise Unsupported(f"{member.spec.op} ({member.spec.name}) has no compiled kernel")
        values = {k: known[r.index] for k, r in enumerate(member.inputs) if r.member == INPUT and r.index in known}
        values |= {k: group.constants[r.index] for k, r in enumerate(member.inputs) if r.member == CONSTANT}
        ins = [chain.place(ref) for ref in member.inputs]
        outs = [chain.place(Ref(number, k)) for k in range(len(member.spec.outputs))]
        spec = replace(member.spec, constants=values) if values or member.spec.constants else member.spec
        chain.append(builder(spec), ins, outs, member.spec.name)
        chain.release(number)
    return NativeCall(
        tuple(chain.launches),
        temp_bytes=tuple(chain.temps),
        constants=tuple(chain.constants),
        bytes_moved=chain.bytes_moved,
        flops=chain.flops,
    )


def _copy(spec: NodeSpec) -> NativeCall:
    from tfjit.kernels.cpu.elementwise.loop import loop_call

    return loop_call(single(spec))


def group_call(group: FusedGroup, known: Mapping[int, np.ndarray]) -> NativeCall:
    """Launches of a group through the template of its kind. known: values of external inputs. Raises Unsupported."""
    # one template each, imported when a group of its kind comes up
    if group.kind == "loop":
        from tfjit.kernels.cpu.elementwise.loop import loop_call

        return loop_call(group)
    if group.kind == "rows":
        from tfjit.kernels.cpu.reduction.row_reduction import rows_call

        return rows_call(group)
    if group.kind == "reduce":
        from tfjit.kernels.cpu.reduction.reduction import reduce_call

        return reduce_call(group)
    if group.kind == "attention":
        from tfjit.kernels.cpu.gemm.attention import attention_call

        return attention_call(group)
    if group.kind == "pool_gradient":
        from tfjit.kernels.cpu.conv.max_pool_grad import pool_gradient_call

        return pool_gradient_call(group)
    return _anchored(group, known)


def specialized(group: FusedGroup, inputs: Sequence[TensorSpec]) -> FusedGroup:
    """The group for inputs of these shapes; the group itself when it was made for them."""
    if all(own.shape == given.shape for own, given in zip(group.inputs, inputs)):
        return group
    try:
        return group.with_input_shapes([t.shape for t in inputs])
    except ValueError as error:  # the members' own kernels say it as TensorFlow does
        raise Unsupported(str(error)) from error


@native("_Fused")
def _fused(spec: NodeSpec) -> NativeCall:
    group = specialized(spec.attrs["group"], spec.inputs)
    try:
        return group_call(group, spec.constants)
    except Unsupported as refused:
        try:
            return chained_call(group, spec.constants)
        except Unsupported as also:
            raise Unsupported(f"{refused}; and one by one: {also}") from None
