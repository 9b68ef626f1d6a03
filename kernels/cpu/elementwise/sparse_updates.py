"""Build optimizer updates of the rows that a sparse gradient names.

The rules are those of the dense updates. Rows are updated one after the other, in the order of the
indices: a row that comes twice is updated twice. A faulty index ends the update: the rows before it
have changed, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.elementwise.optimizer_updates import (
    KINDS,
    UPDATES,
    Update,
    array_names,
    body_lines,
    has_flag,
    has_square_root,
    input_names,
    write_body,
    write_scalars,
    written_names,
)
from tfjit.kernels.cpu.template.indexed_rows import (
    each_row,
    rows_call,
    write_head,
    write_imports,
    write_share,
)
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

SPARSE: Final = (
    "Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "CenteredRMSProp", "Ftrl", "FtrlV2",
    "KerasMomentum", "Momentum", "ProximalAdagrad", "ProximalGradientDescent", "RMSProp",
)  # fmt: skip
"""Rules with a form for sparse gradients."""
_ELEMENT_NS: Final = 1.0


def sparse_update_source(
    name: str, kind: str, flag: bool, index: str, single: bool, square_root: bool = False
) -> KernelSource:
    """Write the kernel of one rule, dtype and index type.

    Words: those of `write_head`; the arrays are the rule's inputs. single: a row is one element.
    """
    update, s = UPDATES[name], Source()
    dtype = d.float32 if kind == "f32" else d.float64
    rows = "single elements" if single else "rows"
    write_imports(s, f"{name} update of {kind} {rows} by {index}")
    with s.block("def kernel(args, chunk, nchunks):"):
        write_head(s, index, 1, input_names(update))
        write_scalars(s, update, kind, {plain: f"{plain}_at" for plain in input_names(update)})
        write_share(s)
        written = written_names(update)
        at_index = [plain for plain in array_names(update) if plain not in written]
        with each_row(s, 1, [(x, dtype) for x in written], [(x, dtype) for x in at_index], single):
            write_body(s, update, body_lines(update, kind, flag, square_root), repeats=True)
        with s.block("if stop < total:"):
            s.line("fail(args, 1, report)")
    title = f"sparse {name} update {kind}{' ' + update.flag if flag else ''}"
    return KernelSource(s.text(), title=title, module=__name__)


@dataclass(frozen=True, slots=True)
class SparseUpdate:
    """Describe an update of the rows that a sparse gradient names.

    numbers: the node's input for each of the rule's. indices: the input that names rows. flag,
    square_root: of the rule.
    """

    kind: str
    numbers: tuple[int, ...]
    indices: int
    flag: bool
    square_root: bool


def sparse_update(update: Update, node: NodeSpec) -> SparseUpdate:
    """Return the parts of a node with a sparse gradient.

    Raises Unsupported for types and shapes that do not fit.
    """
    var, roles = node.inputs[0], update.inputs.split()
    kind = KINDS.get(var.dtype.name)
    if kind is None:
        raise Unsupported(f"{node.op} of {var.dtype.name} has no compiled form")
    place = next(k for k, role in enumerate(roles) if role.endswith("[]"))
    gradient, indices = node.inputs[place], node.inputs[place + 1]
    if (
        not var.shape
        or len(indices.shape) != 1
        or gradient.shape != indices.shape + var.shape[1:]
        or any(slot.shape != var.shape for slot in node.inputs[: len(written_names(update))])
    ):
        raise Unsupported("shapes do not fit")
    numbers = tuple(k + (k > place) for k in range(len(roles)))
    for role, number in zip(roles, numbers, strict=True):
        if role.strip("*[]") == role and node.inputs[number].shape != ():
            raise Unsupported(f"{node.op}: {role.strip('#')} is no scalar")
    flag, square_root = has_flag(update, node), has_square_root(update, node, 1)
    return SparseUpdate(kind, numbers, place + 1, flag, square_root)


def _build(name: str, update: Update, node: NodeSpec) -> NativeCall:
    var, parts = node.inputs[0], sparse_update(update, node)

    def write(index: str, single: bool) -> KernelSource:
        return sparse_update_source(name, parts.kind, parts.flag, index, single, parts.square_root)

    return rows_call(
        write, var, node.inputs[parts.indices], parts.indices,
        [Pointer("in", number) for number in parts.numbers],
        "Index {value} at offset {place} in indices is out of range",
        padded=bool(node.attrs.get("_padded")),
        traffic=2 * len(written_names(update)) + 1, element_ns=_ELEMENT_NS,
    )  # fmt: skip


def _builder(name: str) -> Callable[[NodeSpec], NativeCall]:
    def build(node: NodeSpec) -> NativeCall:
        return _build(name, UPDATES[name], node)

    return build


for _name in SPARSE:
    native(f"ResourceSparseApply{_name}")(_builder(_name))
    if _name != "KerasMomentum":
        native(f"SparseApply{_name}")(_builder(_name))
