"""Build scatters and sums of segments.

An index out of range changes nothing, as on TensorFlow's GPUs. Sums and extremes of the types that
memory can combine are atomic: updates of one element have any order, which sums of floats may show.
All other updates have the order of the indices, as on the host. No update is checked for zero: a
quotient of floats may be infinite, and integers are divided on the host alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final, cast

from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.data_movement import variable_scatter
from tfjit.kernels.cpu.data_movement.scatter import (
    COPY_OPS,
    SEGMENT_OPS,
    Scatter,
    combined,
    scatter_into_copy,
    segment_scatter,
    start_launch,
)
from tfjit.kernels.cpu.data_movement.strided_copy import copies_by
from tfjit.kernels.cuda.data_movement.gather import refuse_policies, widest_words
from tfjit.kernels.cuda.data_movement.strided_copy import copy_launch
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.cuda.template.row_order import RowIndex, ordered_updates, row_index
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_ATOMIC_TYPES: Final = frozenset({"float32", "float64", "int32", "int64"})
Launches = tuple[tuple[CudaLaunch, ...], tuple[int, ...]]
"""Launches, and the bytes of their temporary memory."""


@dataclass(frozen=True, slots=True)
class _Combination:
    """Combine elements of a target with updates.

    one_value: a single update serves all rows.
    """

    kind: str
    dtype: DType
    target: Pointer
    updates: Pointer
    one_value: bool
    replaces: bool = False

    @property
    def atomic(self) -> str:
        """Return the name of the atomic form, or "" without one."""
        # extremes of segments keep a NaN by its place
        by_order = self.kind.startswith("Segment") and self.dtype.is_floating
        if by_order or self.dtype.name not in _ATOMIC_TYPES:
            return ""
        forms = {"Add": "atomic_add", "Sub": "atomic_add", "Max": "atomic_max", "Min": "atomic_min"}
        return forms.get(self.kind.removeprefix("Segment"), "")

    def write_head(self, text: KernelText) -> None:
        pointer = element_kinds.pointer(self.dtype, text.argument("target", self.target))
        text.line(f"to_p = {pointer}")
        pointer = element_kinds.pointer(self.dtype, text.argument("updates", self.updates))
        text.line(f"from_p = {pointer}")

    def write_load(self, text: KernelText) -> None:
        text.line(f"t = {expressions.loaded(self.dtype, 'ld(to_p, at)')}")

    def write_value(self, text: KernelText) -> None:
        """Append the load of an update."""
        place = "0" if self.one_value else "from_at"
        text.line(f"v = {expressions.loaded(self.dtype, f'ld(from_p, {place})')}")

    def write_update(self, text: KernelText) -> None:
        self.write_value(text)
        text.line(f"t = {combined(self.kind, self.dtype)}")

    def write_store(self, text: KernelText) -> None:
        text.line(f"st(to_p, at, {expressions.stored(self.dtype, 't')})")


@dataclass(frozen=True, slots=True)
class _Replacement:
    """Replace words of a target by those of the last update.

    size: bytes of a word. one_value: a single update serves all rows.
    """

    size: int
    target: Pointer
    updates: Pointer
    one_value: bool
    replaces: bool = True

    def write_head(self, text: KernelText) -> None:
        kind = element_kinds.raw_kind(self.size)
        text.line(f"to_p = ptr_{kind}({text.argument('target', self.target)})")
        text.line(f"from_p = ptr_{kind}({text.argument('updates', self.updates)})")

    def write_load(self, text: KernelText) -> None:
        """Append nothing: the element is replaced."""

    def write_update(self, text: KernelText) -> None:
        """Append nothing: the store names the update."""

    def write_store(self, text: KernelText) -> None:
        place = "0" if self.one_value else "from_at"
        text.line(f"st(to_p, at, ld(from_p, {place}))")


def _scattered(
    kind: str, dtype: DType, index: RowIndex, inner: int, target: Pointer, updates: Pointer,
    one_value: bool = False,
) -> Launches:  # fmt: skip
    """Return the launches of updates by rows. inner: elements of a row."""
    by = f"by vectors of {len(index.limits)} {index.kind}{', one value' if one_value else ''}"
    if kind == "Update":
        size = dtype.size
        if not one_value:
            size, inner = widest_words(size, inner)
        what = f"scatter update of words of {size} bytes {by}"
        replacement = _Replacement(size, target, updates, one_value)
        return ordered_updates(index, inner, replacement, what, __name__)
    if not element_kinds.is_supported(dtype):
        raise Unsupported(f"scatter of {dtype.name}")
    what = f"scatter {kind.lower()} of {dtype.name} {by}"
    combination = _Combination(kind, dtype, target, updates, one_value)
    if combination.atomic:
        return (_atomic_launch(combination, index, inner, what),), ()
    return ordered_updates(index, inner, combination, what, __name__)


def _atomic_launch(combination: _Combination, index: RowIndex, inner: int, what: str) -> CudaLaunch:
    """Return the launch that combines updates in any order."""
    count = index.count * inner
    text = KernelText(fits_32_bits([count]))
    text.argument("count", count)
    text.argument("inner", inner)
    index.write_head(text)
    combination.write_head(text)
    with grid_stride(text, "from_at", "count"):
        text.split("from_at", "number", "column", "inner")
        index.write_row(text, "number")
        with text.block("if target_row < rows:"):
            combination.write_value(text)
            value = "-v" if combination.kind == "Sub" else "v"
            text.line(f"{combination.atomic}(to_p, target_row * inner + column, {value})")
    return text.launch(what, what, __name__, grid_for(count))


@device_native(*variable_scatter.OPS)
def _into_variable(spec: NodeSpec) -> NativeCall:
    refuse_policies(spec)
    variable = spec.inputs[0]
    scatter = variable_scatter.scatter_into_variable(spec)
    if scatter.refuses_zeros and scatter.dtype.is_integer:
        raise Unsupported(f"{spec.op} of {variable.dtype.name} fails for zeros")
    index = row_index(spec, 1, variable.shape, scatter.depth)
    inner = prod(variable.shape[scatter.depth :])
    if index.count * inner == 0:
        return NativeCall(())
    launches, temp_bytes = _scattered(
        scatter.kind, scatter.dtype, index, inner, Pointer("in", 0), Pointer("in", 2),
        scatter.one_value,
    )  # fmt: skip
    moved = 3 * index.count * inner * variable.dtype.size
    return NativeCall(launches, temp_bytes=temp_bytes, bytes_moved=moved)


def _into_copy(spec: NodeSpec, scatter: Scatter) -> NativeCall:
    """Return the call of a start and its updates."""
    out = spec.outputs[0]
    index = row_index(spec, scatter.indices.index, out.shape, scatter.depth)
    inner = prod(out.shape[scatter.depth :])
    with copies_by(copy_launch):
        first = cast("CudaLaunch", start_launch(spec, scatter))
    launches: Launches = ((), ())
    if index.count * inner:
        launches = _scattered(
            scatter.kind, out.dtype, index, inner, Pointer("out", 0), scatter.updates
        )
    return NativeCall(
        (first, *launches[0]),
        temp_bytes=launches[1],
        constants=scatter.constants,
        bytes_moved=scatter.bytes_moved,
    )


@device_native(*COPY_OPS)
def _scatter_nd(spec: NodeSpec) -> NativeCall:
    refuse_policies(spec)
    return _into_copy(spec, scatter_into_copy(spec))


@device_native(*SEGMENT_OPS, without=("float16", "bfloat16"))
def _unsorted_segment(spec: NodeSpec) -> NativeCall:
    if not spec.outputs[0].size:
        return NativeCall(())
    return _into_copy(spec, segment_scatter(spec))
