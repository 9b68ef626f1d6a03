"""Build optimizer updates by sparse gradients for GPUs.

The rules are those of the dense updates. A row that comes several times is updated as often, in the
order of the indices, as on the host. An index out of range is skipped, as on TensorFlow's GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from tfjit.kernels.cpu.elementwise.optimizer_updates import (
    UPDATES,
    Update,
    array_names,
    body_lines,
    input_names,
    write_scalars,
    written_names,
)
from tfjit.kernels.cpu.elementwise.sparse_updates import SPARSE, SparseUpdate, sparse_update
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.cuda.template.row_order import ordered_updates, row_index
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer


@dataclass(frozen=True, slots=True)
class _Rule:
    """Apply a rule to an element of variable and slots."""

    update: Update
    parts: SparseUpdate
    replaces: bool = False

    def lines(self) -> list[str]:
        return body_lines(self.update, self.parts.kind, self.parts.flag, self.parts.square_root)

    def write_head(self, text: KernelText) -> None:
        addresses = {
            name: text.argument(f"{name}_at", Pointer("in", number))
            for name, number in zip(input_names(self.update), self.parts.numbers, strict=True)
        }
        for name in array_names(self.update):
            text.line(f"{name}_p = ptr_{self.parts.kind}({addresses[name]})")
        write_scalars(text, self.update, self.parts.kind, addresses)

    def write_load(self, text: KernelText) -> None:
        for name in written_names(self.update):
            text.line(f"{name} = ld({name}_p, at)")

    def write_update(self, text: KernelText) -> None:
        for name in array_names(self.update):
            if name not in written_names(self.update):
                text.line(f"{name} = ld({name}_p, from_at)")
        for line in self.lines():
            text.line(line)

    def write_store(self, text: KernelText) -> None:
        changed = {line.split(" = ")[0] for line in self.lines()}
        for name in written_names(self.update):
            if name in changed:
                text.line(f"st({name}_p, at, {name})")


def _build(name: str, node: NodeSpec) -> NativeCall:
    update, var = UPDATES[name], node.inputs[0]
    parts = sparse_update(update, node)
    index = row_index(node, parts.indices, var.shape)
    inner = prod(var.shape[1:])
    elements = index.count * inner
    if elements == 0:
        return NativeCall(())
    flag = f" {update.flag}" if parts.flag else ""
    what = f"sparse {name} update {parts.kind}{flag}"
    launches, temp_bytes = ordered_updates(index, inner, _Rule(update, parts), what, __name__)
    moved = (2 * len(written_names(update)) + 1) * elements * var.dtype.size
    return NativeCall(launches, temp_bytes=temp_bytes, bytes_moved=moved, flops=8 * elements)


def _builder(name: str) -> Callable[[NodeSpec], NativeCall]:
    def build(node: NodeSpec) -> NativeCall:
        return _build(name, node)

    return build


for _name in SPARSE:
    device_native(f"ResourceSparseApply{_name}")(_builder(_name))
    if _name != "KerasMomentum":
        device_native(f"SparseApply{_name}")(_builder(_name))
