"""Build reductions of sorted segments of rows, and their gradients.

The number of segments is the first dim of the output: it is known where the caller knows the
output's shape.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.data_movement.scatter import combined
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import index_kind, write_imports
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import (
    BoundedCall,
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    bounded,
    native,
)
from tfjit.kernels.source import KernelSource, Source

_KINDS: Final = {
    "Sum": "Add", "Mean": "Add", "SqrtN": "Add", "Prod": "Prod", "Max": "SegmentMax",
    "Min": "SegmentMin",
}  # fmt: skip
"""The scatter that combines two rows, by reduction."""
_ROW_NS: Final = 3.0
_COLUMN_BYTES: Final = 256
_MAX_CHUNKS: Final = 8
_REPORT_BYTES: Final = 24
_KIND: Final = "InvalidArgumentError"


class _Values(str):
    """A message with {0}, {1} and {2}.

    The detail is the address of these numbers.
    """

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        return super().format(*(ctypes.c_int64 * 3).from_address(int(str(kwargs["detail"]))))


def _write_columns(s: Source) -> None:
    s.line("first = inner * chunk // nchunks")
    s.line("width = inner * (chunk + 1) // nchunks - first")


def _write_failure(s: Source, code: int, values: Sequence[str] = ()) -> None:
    for k, value in enumerate(values):
        s.line(f"store_word(report + {8 * k}, {value})")
    s.line(f"fail(args, {code}, report)")
    s.line("return")


def _write_scan(s: Source, pointer: str, count: str, limit: str) -> None:
    """Set `wrong` to the place of the first number outside [0, limit).

    It is the count where there is none.
    """
    s.line("bad = 0")
    with s.block(f"for u in range({count}):"):
        s.line(f"k = int(ld({pointer}, u))")
        s.line(f"bad |= int(k < 0) | int(k >= {limit})")
    s.line(f"wrong = {count}")
    with s.block("if bad != 0:"), s.block(f"for u in range({count}):"):
        s.line(f"k = int(ld({pointer}, u))")
        with s.block(f"if k < 0 or k >= {limit}:"):
            s.line("wrong = u")
            s.line("break")


def segment_source(kind: str, dtype: DType, ids: str, index: str = "") -> KernelSource:
    """Write a reduction of sorted segments.

    Words: rows of the data, elements of a row, segments, rows of the source, report memory, data,
    ids, output, and indices if the rows are those of an index vector. A chunk computes some
    columns.
    """
    s = Source()
    by = f"by {ids}" + (f", rows at {index}" if index else "")
    write_imports(s, f"{kind} of sorted segments of {dtype.name} {by}")
    names = ["total", "inner", "segments", "limit", "report", "data", "ids", "out"]
    size, start = dtype.size, expressions.literal(1 if kind == "Prod" else 0, dtype)
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate([*names, *(["indices"] if index else [])]):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"id_p = ptr_{ids}(ids)")
        with s.block("if total > 0:"):
            s.line("least = int(ld(id_p, 0))")
            s.line("most = int(ld(id_p, total - 1))")
            with s.block("if least < 0:"):
                if not index:
                    with s.block("if most >= -1:"):
                        _write_failure(s, 2, ("least", "most + 1"))
                _write_failure(s, 1)
            s.line("falls = 0")
            with s.block("for u in range(total - 1):"):
                s.line("falls |= int(ld(id_p, u + 1) < ld(id_p, u))")
            with s.block("if falls != 0:"):
                _write_failure(s, 3)
            with s.block("if most >= segments:"):
                _write_failure(s, 4, ("most", "segments"))
        if index:
            s.line(f"index_p = ptr_{index}(indices)")
            _write_scan(s, "index_p", "total", "limit")
            with s.block("if wrong < total:"):
                _write_failure(s, 5, ("wrong", "int(ld(index_p, wrong))", "limit"))
        _write_columns(s)
        s.line("done = 0")  # rows of the output so far
        s.line("u = 0")
        with s.block("while u < total:"):
            s.line("k = int(ld(id_p, u))")
            _write_empty_rows(s, "k", start, dtype)
            s.line(f"t_p = {typed_pointers.pointer(dtype, f'out + (k * inner + first) * {size}')}")
            s.line("count = 0")
            with s.block("while u < total and int(ld(id_p, u)) == k:"):
                s.line(f"row = {'int(ld(index_p, u))' if index else 'u'}")
                address = f"data + (row * inner + first) * {size}"
                s.line(f"v_p = {typed_pointers.pointer(dtype, address)}")
                with s.block("if count == 0:"), s.block("for i in range(width):"):
                    s.line("st_out(t_p, i, ld(v_p, i), 0)")
                with s.block("else:"), s.block("for i in range(width):"):
                    s.line("v = ld(v_p, i)")
                    s.line("t = ld_out(t_p, i, 0)")
                    s.line(f"st_out(t_p, i, {combined(_KINDS[kind], dtype)}, 0)")
                s.line("count += 1")
                s.line("u += 1")
            if kind in ("Mean", "SqrtN"):
                s.line(f"v = {_scale(kind, dtype)}")
                with s.block("if count > 1:"), s.block("for i in range(width):"):
                    s.line("t = ld_out(t_p, i, 0)")
                    s.line(f"st_out(t_p, i, {combined('Div', dtype)}, 0)")
            s.line("done = k + 1")
        _write_empty_rows(s, "segments", start, dtype)
    return KernelSource(s.text(), title=f"segment {kind.lower()}", module=__name__)


def _write_empty_rows(s: Source, end: str, start: str, dtype: DType) -> None:
    """Fill the output's rows from `done` to `end` with the neutral element."""
    with s.block(f"for e in range({end} - done):"):
        address = f"out + ((done + e) * inner + first) * {dtype.size}"
        s.line(f"e_p = {typed_pointers.pointer(dtype, address)}")
        with s.block("for i in range(width):"):
            s.line(f"st_out(e_p, i, {start}, 0)")


def _scale(kind: str, dtype: DType) -> str:
    """Return the divisor of a segment of `count` rows."""
    if kind == "Mean":
        return f"{expressions.register_type(dtype)}(count)"
    suffix = "f32" if dtype is d.float32 else "f64"
    return f"vm.sqrt_{suffix}({suffix.replace('f', 'float')}(count))"


def _split(width_bytes: int, cost: float, inner: int) -> int:
    limit = inner * width_bytes // _COLUMN_BYTES
    return cost_model.chunks_for(cost, limit if limit < _MAX_CHUNKS else _MAX_CHUNKS)


def _require(dtype: DType, *, holds: bool) -> None:
    if dtype in (d.float16, d.bfloat16):
        raise Unsupported("sums of narrow floats are kept in float32")
    if not typed_pointers.is_supported(dtype):
        raise Unsupported(f"segments of {dtype.name}")
    if not holds:
        raise Unsupported("shapes do not fit")


def _reduction(
    kind: str, data: TensorSpec, ids: TensorSpec, out: TensorSpec, indices: TensorSpec | None = None
) -> NativeCall:
    _require(
        data.dtype,
        holds=bool(data.shape)
        and len(ids.shape) == 1
        and (ids.shape == indices.shape if indices else ids.shape == data.shape[:1])
        and out.shape[1:] == data.shape[1:],
    )
    if kind in ("Max", "Min") and data.dtype.is_complex:
        raise Unsupported(f"{kind} of {data.dtype.name}")
    inner, total = prod(data.shape[1:]), ids.shape[0]
    moved = (total * inner * data.dtype.size) + out.nbytes + ids.nbytes
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(moved) + _ROW_NS * total
    at = [Pointer("in", 0), Pointer("in", 2 if indices else 1), Pointer("out", 0)]
    words: tuple[Word, ...] = (total, inner, out.shape[0], data.shape[0], Pointer("temp", 0), *at,
             *([Pointer("in", 1)] if indices else []))  # fmt: skip
    tail = "possibly because 'segment_ids' input is not sorted."
    errors = {
        1: (_KIND, "segment ids must be >= 0"),
        2: (_KIND, _Values(f"Segment id {{0}} out of range [0, {{1}}), {tail}")),
        3: (_KIND, "segment ids are not increasing"),
        4: (_KIND, "segment ids must be < num_segments"),
    }
    if indices:
        errors[5] = (_KIND, _Values("Bad: indices[{0}] == {1} out of range [0, {2})"))
    else:
        errors[4] = (_KIND, _Values(f"Segment id {{0}} out of range [0, {{1}}), {tail}"))
    source = segment_source(
        kind, data.dtype, index_kind(ids), index_kind(indices) if indices else ""
    )
    chunks = _split(data.dtype.size, cost, inner)
    launch = Launch(source, words, chunks=chunks, cost_ns=cost, errors=errors)
    return NativeCall((launch,), temp_bytes=(_REPORT_BYTES,), bytes_moved=moved)


@native("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def _segment(spec: NodeSpec) -> NativeCall:
    data, ids = spec.inputs
    return _reduction(spec.op.removeprefix("Segment"), data, ids, spec.outputs[0])


@native(
    "SparseSegmentSum",
    "SparseSegmentMean",
    "SparseSegmentSqrtN",
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
)
def _sparse_segment(spec: NodeSpec) -> NativeCall:
    data, indices, ids = spec.inputs[:3]
    kind = spec.op.removeprefix("SparseSegment").removesuffix("WithNumSegments")
    return _reduction(kind, data, ids, spec.outputs[0], indices)


def _sized_by_values(
    kind: str, data: TensorSpec, ids: TensorSpec, indices: TensorSpec | None = None
) -> BoundedCall:
    """Return the call for outputs that end at the last id."""
    out = TensorSpec(data.dtype, (0, *data.shape[1:]))
    call = _reduction(kind, data, ids, out, indices)
    (launch,) = call.launches
    words = (*launch.words[:2], Pointer("rows"), *launch.words[3:])
    place = 2 if indices else 1
    numpy_dtype = data.dtype.as_numpy_dtype

    def rows(arrays: Sequence[np.ndarray]) -> int:
        found = arrays[place]
        count = int(found[-1]) + 1 if found.size else 0
        check_fits_in_memory((max(count, 0), *out.shape[1:]), numpy_dtype)
        return count

    return BoundedCall(replace(launch, words=words), (out,), (), call.temp_bytes, rows)


@bounded("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def _segments_of_values(spec: NodeSpec) -> BoundedCall:
    data, ids = spec.inputs
    return _sized_by_values(spec.op.removeprefix("Segment"), data, ids)


@bounded("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def _sparse_segments_of_values(spec: NodeSpec) -> BoundedCall:
    data, indices, ids = spec.inputs
    return _sized_by_values(spec.op.removeprefix("SparseSegment"), data, ids, indices)


def segment_grad_source(kind: str, dtype: DType, ids: str, index: str) -> KernelSource:
    """Write the gradient of a reduction of rows at indices.

    Words: indices, elements of a row, segments, rows of the output, report memory, memory for
    counts and its bytes a chunk, gradient, ids, indices, output. A chunk computes some columns.
    """
    s = Source()
    write_imports(s, f"gradient of {kind} of segments of {dtype.name} by {ids}, rows at {index}")
    names = ("total", "inner", "segments", "rows", "report", "counts", "counts_size", "data", "ids",
             "indices", "out")  # fmt: skip
    size = dtype.size
    one = expressions.literal(1, dtype)
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(names):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"id_p = ptr_{ids}(ids)")
        s.line(f"index_p = ptr_{index}(indices)")
        for code, pointer, limit in ((1, "id_p", "segments"), (2, "index_p", "rows")):
            _write_scan(s, pointer, "total", limit)
            with s.block("if wrong < total:"):
                _write_failure(s, code, (f"int(ld({pointer}, wrong))", limit))
        _write_columns(s)
        if kind != "Sum":
            s.line("count_p = ptr_i64(counts + chunk * counts_size)")
            with s.block("for k in range(segments):"):
                s.line("st_any(count_p, k, 0)")
            with s.block("for u in range(total):"):
                s.line("k = int(ld(id_p, u))")
                s.line("st_any(count_p, k, ld_any(count_p, k) + 1)")
        with s.block("for r in range(rows):"):
            s.line(f"e_p = {typed_pointers.pointer(dtype, f'out + (r * inner + first) * {size}')}")
            with s.block("for i in range(width):"):
                s.line(f"st_out(e_p, i, {expressions.literal(0, dtype)}, 0)")
        with s.block("for u in range(total):"):
            s.line("k = int(ld(id_p, u))")
            s.line("r = int(ld(index_p, u))")
            if kind != "Sum":
                s.line("count = ld_any(count_p, k)")
                s.line(f"scale = {one} / {_scale(kind, dtype)}")
            for name, base, row in (("t", "out", "r"), ("v", "data", "k")):
                address = f"{base} + ({row} * inner + first) * {size}"
                s.line(f"{name}_p = {typed_pointers.pointer(dtype, address)}")
            with s.block("for i in range(width):"):
                scale = "" if kind == "Sum" else " * scale"
                s.line(f"st_out(t_p, i, ld_out(t_p, i, 0) + ld(v_p, i){scale}, 0)")
    return KernelSource(s.text(), title=f"segment {kind.lower()} gradient", module=__name__)


@native("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _sparse_segment_grad(spec: NodeSpec) -> NativeCall:
    dy, indices, ids = spec.inputs[:3]
    out = spec.outputs[0]
    _require(
        dy.dtype,
        holds=bool(dy.shape)
        and len(ids.shape) == 1
        and ids.shape == indices.shape
        and out.shape[1:] == dy.shape[1:],
    )
    kind = spec.op.removeprefix("SparseSegment").removesuffix("Grad")
    inner, total, segments = prod(dy.shape[1:]), ids.shape[0], dy.shape[0]
    moved = 3 * (total * inner * dy.dtype.size) + out.nbytes + 2 * ids.nbytes
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(moved) + _ROW_NS * total
    chunks = _split(dy.dtype.size, cost, inner)
    counts = 8 * segments if kind != "Sum" else 0
    words: tuple[Word, ...] = (
        total, inner, segments, out.shape[0], Pointer("temp", 0), Pointer("temp", 1), counts,
        Pointer("in", 0), Pointer("in", 2), Pointer("in", 1), Pointer("out", 0),
    )  # fmt: skip
    errors = {
        1: (_KIND, _Values("Segment id {0} out of range [0, {1}).")),
        2: (_KIND, _Values("Index {0} out of range [0, {1}).")),
    }
    source = segment_grad_source(kind, dy.dtype, index_kind(ids), index_kind(indices))
    launch = Launch(source, words, chunks=chunks, cost_ns=cost, errors=errors)
    temp = (_REPORT_BYTES, chunks * counts + 8)
    return NativeCall((launch,), temp_bytes=temp, bytes_moved=moved)
