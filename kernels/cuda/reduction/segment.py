"""Build reductions of sorted segments of rows, and their gradients, for GPUs.

A thread combines an element of all rows of a segment, which it finds by binary search, in the order
of the rows. Ids that fall give other results and no error, as on TensorFlow's GPUs. A row at an
index out of range counts as zeros.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.data_movement.scatter import combined
from tfjit.kernels.cpu.template.indexed_rows import index_kind
from tfjit.kernels.cuda.data_movement.strided_copy import fill_launch
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported

_SUMS: Final = ("Sum", "Mean", "SqrtN")
_COMPLEX: Final = ("complex64", "complex128")
_NARROW: Final = ("float16", "bfloat16")


def _combination(kind: str) -> str:
    """Return the scatter that combines two rows."""
    return {"Prod": "Prod", "Max": "SegmentMax", "Min": "SegmentMin"}.get(kind, "Add")


def _empty(kind: str, dtype: DType, keeps_ends: bool) -> str:
    """Return the text of the value of a segment without rows.

    keeps_ends: whether an extreme of nothing is the other end of the type.
    """
    value: object = 1 if kind == "Prod" else 0
    if keeps_ends and kind in ("Max", "Min"):
        value = dtype.min if kind == "Max" else dtype.max
    return expressions.literal(value, dtype)


def _reduction(spec: NodeSpec, kind: str, ids_at: int, keeps_ends: bool = False) -> NativeCall:
    """Return the launch that reduces segments.

    ids_at: the input with the ids; rows are those of an index vector where it is the third one.
    """
    data, ids, out = spec.inputs[0], spec.inputs[ids_at], spec.outputs[0]
    indexed = ids_at == 2
    if not data.shape or len(ids.shape) != 1 or out.shape[1:] != data.shape[1:]:
        raise Unsupported("shapes do not fit: the reference tells")
    if ids.shape != (spec.inputs[1].shape if indexed else data.shape[:1]):
        raise Unsupported("shapes do not fit: the reference tells")
    dtype = data.dtype
    if not element_kinds.is_supported(dtype) or (dtype.is_complex and kind in ("Max", "Min")):
        raise Unsupported(f"segments of {dtype.name}")
    if not out.size:
        return NativeCall(())
    inner, total = prod(data.shape[1:]), ids.size
    text = KernelText(fits_32_bits([out.size, total * inner]))
    sizes = (("count", out.size), ("inner", inner), ("total", total), ("limit", data.shape[0]))
    for name, size in sizes:
        text.argument(name, size)
    text.line(f"id_p = ptr_{index_kind(ids)}({text.argument('ids', Pointer('in', ids_at))})")
    if indexed:
        kind_of = index_kind(spec.inputs[1])
        text.line(f"index_p = ptr_{kind_of}({text.argument('indices', Pointer('in', 1))})")
    for name, place in (("x", Pointer("in", 0)), ("y", Pointer("out", 0))):
        text.line(f"{name}_p = {element_kinds.pointer(dtype, text.argument(f'{name}_at', place))}")
    with grid_stride(text, "u", "count"):
        text.split("u", "segment", "column", "inner")
        _write_first(text, "row", "segment")
        text.line("first = row")
        text.line(f"t = {_empty(kind, dtype, keeps_ends)}")
        with text.block("while row < total and int64(ld_ro(id_p, row)) == segment:"):
            _write_value(text, dtype, indexed)
            with text.block("if row == first:"):
                text.line("t = v")
            with text.block("else:"):
                text.line(f"t = {combined(_combination(kind), dtype)}")
            text.line("row += 1")
        if kind in ("Mean", "SqrtN"):
            with text.block("if row > first + 1:"):
                text.line(f"v = {_divisor(kind, dtype, 'row - first')}")
                text.line(f"t = {combined('Div', dtype)}")
        text.line(f"st(y_p, u, {expressions.stored(dtype, 't')})")
    by = f"{index_kind(ids)}{', rows at ' + index_kind(spec.inputs[1]) if indexed else ''}"
    ends = ", ends of the type" if keeps_ends else ""
    title = f"{kind.lower()} of segments of {dtype.name} by {by}{ends}"
    launch = text.launch(title, title, __name__, grid_for(out.size))
    moved = total * inner * dtype.size + out.nbytes + ids.nbytes
    return NativeCall((launch,), bytes_moved=moved)


def _write_first(text: KernelText, name: str, segment: str) -> None:
    """Set a variable to the first place of a segment."""
    text.line(f"{name} = int64(0)")
    text.line("hi = total")
    with text.block(f"while {name} < hi:"):
        text.line(f"middle = ({name} + hi) >> 1")
        text.line(f"before = int64(ld_ro(id_p, middle)) < {segment}")
        text.line(f"{name} = select(before, middle + 1, {name})")
        text.line("hi = select(before, hi, middle)")


def _write_value(text: KernelText, dtype: DType, indexed: bool) -> None:
    """Set `v` to the element of a row."""
    if not indexed:
        text.line(f"v = {expressions.loaded(dtype, 'ld(x_p, row * inner + column)')}")
        return
    text.line("place = int64(ld_ro(index_p, row))")
    text.line(f"v = {expressions.literal(0, dtype)}")
    with text.block("if place >= 0 and place < limit:"):
        text.line(f"v = {expressions.loaded(dtype, 'ld(x_p, place * inner + column)')}")


def _divisor(kind: str, dtype: DType, count: str) -> str:
    """Return the text of the divisor of a segment with some rows."""
    name = expressions.register_type(dtype)
    if kind == "Mean":
        return f"{name}({count})"
    suffix = element_kinds.math_suffix(dtype)
    return f"vm.sqrt_{suffix}({name}({count}))"


@device_native("SegmentSum", "SegmentProd")
def _segment(spec: NodeSpec) -> NativeCall:
    return _reduction(spec, spec.op.removeprefix("Segment"), 1)


@device_native("SegmentMax", "SegmentMin", "SegmentMean", without=_COMPLEX)
def _segment_extreme(spec: NodeSpec) -> NativeCall:
    kind = spec.op.removeprefix("Segment")
    if kind == "Mean" and not spec.inputs[0].dtype.is_floating:
        raise Unsupported(f"means of {spec.inputs[0].dtype.name}")
    return _reduction(spec, kind, 1)


@device_native("SegmentSumV2", "SegmentProdV2", "SegmentMaxV2", "SegmentMinV2", without=_COMPLEX)
def _segment_v2(spec: NodeSpec) -> NativeCall:
    return _reduction(spec, spec.op.removeprefix("Segment").removesuffix("V2"), 1, True)


@device_native(*(f"SparseSegment{kind}{n}" for kind in _SUMS for n in ("", "WithNumSegments")))
def _sparse_segment(spec: NodeSpec) -> NativeCall:
    kind = spec.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    return _reduction(spec, kind, 2)


@device_native(*(f"SparseSegment{kind}Grad" for kind in _SUMS), without=_NARROW)
def _gradient(spec: NodeSpec) -> NativeCall:
    """Return launches that add each segment's gradient to its rows.

    Sums have any order. The rows of each segment are counted first for a mean.
    """
    dy, indices, ids = spec.inputs[:3]
    out = spec.outputs[0]
    kind = spec.op.removeprefix("SparseSegment").removesuffix("Grad")
    if not dy.shape or len(ids.shape) != 1 or ids.shape != indices.shape:
        raise Unsupported("shapes do not fit: the reference tells")
    if out.shape[1:] != dy.shape[1:] or out.dtype not in (d.float32, d.float64):
        raise Unsupported(f"the gradient of segments of {out.dtype.name}")
    launches = [fill_launch(out.dtype, out.size, Pointer("const", 0), Pointer("out", 0))]
    temp_bytes: tuple[int, ...] = ()
    if ids.size and out.size:
        if kind != "Sum":
            temp_bytes = (4 * max(dy.shape[0], 1),)
            launches.append(
                fill_launch(d.int32, dy.shape[0], Pointer("const", 1), Pointer("temp", 0))
            )
            launches.append(_counts_launch(ids, dy.shape[0]))
        launches.append(_gradient_launch(spec, kind))
    zero = np.zeros(1, out.dtype.as_numpy_dtype), np.zeros(1, np.int32)
    return NativeCall(
        tuple(launch for launch in launches if launch is not None),
        temp_bytes=temp_bytes,
        constants=zero,
        bytes_moved=out.nbytes + 3 * ids.size * prod(dy.shape[1:]) * dy.dtype.size,
    )


def _counts_launch(ids: TensorSpec, segments: int) -> CudaLaunch:
    """Return the launch that counts the rows of each segment."""
    text = KernelText()
    text.argument("total", ids.size)
    text.argument("segments", segments)
    text.line(f"id_p = ptr_{index_kind(ids)}({text.argument('ids', Pointer('in', 2))})")
    text.line(f"count_p = ptr_i32({text.argument('counts', Pointer('temp', 0))})")
    with grid_stride(text, "u", "total"):
        text.line("segment = int64(ld_ro(id_p, u))")
        with text.block("if segment >= 0 and segment < segments:"):
            text.line("atomic_add(count_p, segment, int32(1))")
    title = f"rows of segments by {index_kind(ids)}"
    return text.launch(title, title, __name__, grid_for(ids.size))


def _gradient_launch(spec: NodeSpec, kind: str) -> CudaLaunch:
    """Return the launch that adds one element a thread."""
    dy, indices, ids = spec.inputs[:3]
    out, dtype = spec.outputs[0], dy.dtype
    inner = prod(dy.shape[1:])
    text = KernelText(fits_32_bits([ids.size * inner, out.size]))
    for name, size in (
        ("count", ids.size * inner), ("inner", inner), ("segments", dy.shape[0]),
        ("rows", out.shape[0]),
    ):  # fmt: skip
        text.argument(name, size)
    text.line(f"id_p = ptr_{index_kind(ids)}({text.argument('ids', Pointer('in', 2))})")
    text.line(f"index_p = ptr_{index_kind(indices)}({text.argument('index', Pointer('in', 1))})")
    for name, place in (("x", Pointer("in", 0)), ("y", Pointer("out", 0))):
        text.line(f"{name}_p = {element_kinds.pointer(dtype, text.argument(f'{name}_at', place))}")
    if kind != "Sum":
        text.line(f"count_p = ptr_i32({text.argument('counts', Pointer('temp', 0))})")
    with grid_stride(text, "u", "count"):
        text.split("u", "place", "column", "inner")
        text.line("segment = int64(ld_ro(id_p, place))")
        text.line("row = int64(ld_ro(index_p, place))")
        inside = "segment >= 0 and segment < segments and row >= 0 and row < rows"
        with text.block(f"if {inside}:"):
            text.line("v = ld_ro(x_p, segment * inner + column)")
            if kind != "Sum":
                divisor = _divisor(kind, dtype, "ld(count_p, segment)")
                text.line(f"v = v * ({expressions.literal(1, dtype)} / {divisor})")
            text.line("atomic_add(y_p, row * inner + column, v)")
    by = f"{index_kind(ids)}, rows at {index_kind(indices)}"
    title = f"gradient of {kind.lower()} of segments of {dtype.name} by {by}"
    return text.launch(title, title, __name__, grid_for(ids.size * inner))
