"""Build copies and sums of rows at computed places.

They serve GatherNd, scatters, unsorted segments and inverse permutations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.data_movement.strided_copy import View, copy_launch
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import place_text
from tfjit.kernels.cpu.template.iteration_space import c_strides
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)
from tfjit.kernels.source import KernelSource, Source

_MAX_DEPTH: Final = 8
_INDEX: Final = {"int32": "i32", "int64": "i64"}
_BAND_BYTES: Final = 256
"""Least bytes of a row's share.

It holds where threads share columns of every row instead of targets.
"""
_SHARED_BYTES: Final = 64
_SCATTER_CHUNKS: Final = 8


class PlaceMessage(str):
    """TensorFlow's message for an index vector out of range.

    The detail is the address of [its number, its values].
    """

    shape: tuple[int, ...]
    target: tuple[int, ...]
    tail: str
    more: str

    def __new__(
        cls, shape: Sequence[int], target: Sequence[int], tail: str, more: str = ""
    ) -> PlaceMessage:
        made = super().__new__(cls, f"indices do not index into {tail}")
        made.shape, made.target, made.tail, made.more = tuple(shape), tuple(target), tail, more
        return made

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        report = (ctypes.c_int64 * (1 + self.shape[-1])).from_address(int(kwargs["detail"]))  # type: ignore[call-overload]
        place = place_text(report[0], self.shape[:-1])
        values = ", ".join(str(value) for value in report[1:])
        return (
            f"indices[{place}] = [{values}] does not index into {self.tail} "
            f"{format_shape(self.target)}{self.more}"
        )


class SegmentMessage(str):
    """TensorFlow's message for a segment number that is too large.

    The detail is the address of [its place, its value].
    """

    shape: tuple[int, ...]
    segments: int

    def __new__(cls, shape: Sequence[int], count: int) -> SegmentMessage:
        made = super().__new__(cls, "a segment number is out of range")
        made.shape, made.segments = tuple(shape), count
        return made

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        place, value = (ctypes.c_int64 * 2).from_address(int(kwargs["detail"]))  # type: ignore[call-overload]
        where = place_text(place, self.shape)
        return f"segment_ids[{where}] = {value} is out of range [0, {self.segments})"


def _head(s: Source, title: str, imports: Sequence[str] = ()) -> None:
    s.line(f"# {title}")
    for line in (*imports, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)


def _words(s: Source, names: Sequence[str]) -> None:
    for k, name in enumerate(names):
        s.line(f"{name} = word(args, {2 + k})")


def _write_place(s: Source, depth: int) -> None:
    """Set `row` to the place of index vector `u`, and `bad`.

    `bad` is whether the place is out of range.
    """
    for k in range(depth):
        s.line(f"k{k} = int(ld(index_p, u * {depth} + {k}))")
    s.line("bad = " + " or ".join(f"k{k} < 0 or k{k} >= limit{k}" for k in range(depth)))
    row = "k0"
    for k in range(1, depth):
        row = f"({row}) * limit{k} + k{k}"
    s.line(f"row = {row}")


def _write_report(s: Source, depth: int) -> None:
    """Remember the first index vector that is out of range."""
    with s.block("if failed == 0:"):
        s.line("failed = 1")
        s.line("store_word(report, u)")
        for k in range(depth):
            s.line(f"store_word(report + {8 * (k + 1)}, k{k})")


def gather_nd_source(size: int, index: str, depth: int, run: bool) -> KernelSource:
    """Write GatherNd.

    Words: count, bytes of a row, the limits, report memory and its bytes a chunk, params, indices,
    output.
    """
    s = Source()
    _head(
        s, f"gather {'runs' if run else f'elements of {size} bytes'} by vectors of {depth} {index}"
    )
    limits = [f"limit{k}" for k in range(depth)]
    with s.block("def kernel(args, chunk, nchunks):"):
        _words(s, ["total", "inner", *limits, "reports", "report_size", "params", "indices", "out"])
        s.line("report = reports + chunk * report_size")
        s.line(f"index_p = ptr_{index}(indices)")
        s.line("failed = 0")
        s.line("first = total * chunk // nchunks")
        s.line("count = total * (chunk + 1) // nchunks - first")
        with s.block("for j in range(count):"):
            s.line("u = first + j")
            _write_place(s, depth)
            with s.block("if bad:"):
                _write_report(s, depth)
                s.line("row = 0")
            if run:
                s.line("copy_bytes(out + u * inner, params + row * inner, inner)")
            else:
                s.line(f"src_p = {typed_pointers.raw_pointer(size, 'params + row * inner')}")
                s.line(f"dst_p = {typed_pointers.raw_pointer(size, 'out + u * inner')}")
                with s.block(f"for i in range(inner // {size}):"):
                    s.line("st(dst_p, i, ld(src_p, i))")
        with s.block("if failed != 0:"):
            s.line("fail(args, 1, report)")
    return KernelSource(s.text(), title="gather_nd", module=__name__)


def refuse_policies(spec: NodeSpec) -> None:
    """Raise Unsupported where indices out of range are no error.

    The reference kernels skip such indices.
    """
    policy = spec.attrs.get("bad_indices_policy", b"")
    if policy not in (b"", b"DEFAULT", b"ERROR"):
        raise Unsupported(f"bad_indices_policy {policy.decode(errors='replace')}")


def gather_nd_extents(spec: NodeSpec) -> tuple[int, tuple[int, ...], int]:
    """Return the number of index vectors, their limits, inner elements.

    Raises Unsupported for index vectors that do not fit, and where there are no elements.
    """
    params, indices, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    depth = indices.shape[-1] if indices.shape else 0
    if not 0 < depth <= min(len(params.shape), _MAX_DEPTH) or indices.dtype.name not in _INDEX:
        raise Unsupported(f"index vectors of {depth}")
    if not out.size or not params.size:
        raise Unsupported("the input or output has no elements")
    return prod(indices.shape[:-1]), params.shape[:depth], prod(params.shape[depth:])


@native("GatherNd", "ResourceGatherNd")
def _gather_nd(spec: NodeSpec) -> NativeCall:
    refuse_policies(spec)
    params, indices, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    total, limits, inner = gather_nd_extents(spec)
    depth, size = len(limits), params.dtype.size
    inner *= size
    cost = (
        cost_model.FIXED_NS + cost_model.traffic_ns(2 * out.nbytes + indices.nbytes) + 3.0 * total
    )
    chunks = cost_model.chunks_for(cost, total)
    report = 8 * (1 + depth)
    ends = Pointer("in", 0), Pointer("in", 1), Pointer("out", 0)
    words: tuple[Word, ...] = (total, inner, *limits, Pointer("temp", 0), report, *ends)
    source = gather_nd_source(size, _INDEX[indices.dtype.name], depth, inner >= 48)
    errors = {
        1: (
            "InvalidArgumentError",
            PlaceMessage(indices.shape, params.shape, "param shape", f", node name: {spec.name}"),
        )
    }
    launch = Launch(source, words, chunks=chunks, cost_ns=cost, errors=errors)
    return NativeCall(
        (launch,), temp_bytes=(report * chunks,), bytes_moved=2 * out.nbytes + indices.nbytes
    )


# Combinations of a scattered value with the target's; the extremes keep NaNs as TensorFlow's
# functors of either op do.
_SCATTERED: Final = {
    "Add": ("AddV2", ""), "Sub": ("Sub", ""), "Prod": ("Mul", ""), "Update": ("", "v"),
    "Max": ("", "v if t < v else t"), "Min": ("", "v if v < t else t"),
    "SegmentMax": ("", "t if t > v else v"), "SegmentMin": ("", "t if t < v else v"),
    "Mul": ("Mul", ""), "Div": ("Div", ""),
}  # fmt: skip


def combined(kind: str, dtype: DType) -> str:
    """Return the expression of target value `t` after an update by `v`.

    Raises Unsupported for the extreme of complex numbers.
    """
    op, text = _SCATTERED[kind]
    if dtype.is_complex and text not in ("", "v"):
        raise Unsupported(f"{kind} of {dtype.name}")
    return expressions.emit_op(op, ("t", "v"), (dtype, dtype), dtype) if op else text


def scatter_source(
    kind: str,
    dtype: DType,
    index: str,
    depth: int,
    by_column: bool,
    drop: bool,
    single: bool = False,
) -> KernelSource:
    """Write a scatter.

    Words: number of updates, elements of a row, rows of the target, the limits, report memory and
    its bytes a chunk, target, indices, updates. A chunk works on some columns of every row, or on
    some rows of the target. drop: negative indices are skipped. single: a row is one element.
    """
    s = Source()
    how = "columns" if by_column else "single elements" if single else "rows"
    _head(s, f"{kind} of {dtype.name} rows by vectors of {depth} {index}, shared by "
             f"{how}{', negative ones dropped' if drop else ''}",
          expressions.IMPORTS)  # fmt: skip
    limits = [f"limit{k}" for k in range(depth)]
    size = dtype.size
    with s.block("def kernel(args, chunk, nchunks):"):
        _words(
            s,
            [
                "total",
                "inner",
                "rows",
                *limits,
                "reports",
                "report_size",
                "target",
                "indices",
                "updates",
            ],
        )
        s.line("report = reports + chunk * report_size")
        s.line(f"index_p = ptr_{index}(indices)")
        s.line("failed = 0")
        shared = "inner" if by_column else "rows"
        s.line(f"lo = {shared} * chunk // nchunks")
        s.line(f"hi = {shared} * (chunk + 1) // nchunks")
        with s.block("for u in range(total):"):
            _write_place(s, depth)
            with s.block("if bad:"):
                if drop:
                    with s.block("if k0 >= 0:"):
                        _write_report(s, depth)
                else:
                    _write_report(s, depth)
            with s.block("else:" if by_column else "elif row >= lo and row < hi:"):
                start, length = ("lo", "hi - lo") if by_column else ("0", "inner")
                s.line(
                    "t_p = "
                    f"{typed_pointers.pointer(dtype, f'target + (row * inner + {start}) * {size}')}"
                )
                s.line(
                    "v_p = "
                    f"{typed_pointers.pointer(dtype, f'updates + (u * inner + {start}) * {size}')}"
                )
                with ExitStack() as loop:
                    if single:
                        # A loop over one element would test each time whether vectors are worth it.
                        s.line("i = 0")
                    else:
                        loop.enter_context(s.block(f"for i in range({length}):"))
                    s.line(f"v = {expressions.loaded(dtype, 'ld(v_p, i)')}")
                    if kind == "Update":
                        value = "v"
                    else:
                        s.line(f"t = {expressions.loaded(dtype, 'ld_out(t_p, i, 0)')}")
                        value = combined(kind, dtype)
                    s.line(f"st_out(t_p, i, {expressions.stored(dtype, value)}, 0)")
        with s.block("if failed != 0:"):
            s.line("fail(args, 1, report)")
    return KernelSource(s.text(), title=f"scatter {kind.lower()}", module=__name__)


def _scatter_launch(
    kind: str, values: TensorSpec, indices: TensorSpec, depth: int, limits: Sequence[int], drop: bool, at: tuple[Pointer, Pointer],
    message: str,
) -> tuple[Launch, int]:  # fmt: skip
    """Return the launch and the bytes of report memory.

    values: shape and type of the target. at: pointers to indices and updates.
    """
    if (
        indices.dtype.name not in _INDEX
        or not 0 < depth <= _MAX_DEPTH
        or not typed_pointers.is_supported(values.dtype)
    ):
        raise Unsupported(f"{depth} indices of {indices.dtype.name} for {values.dtype.name}")
    rows = prod(limits)
    inner = prod(values.shape) // max(rows, 1)
    total = indices.size // depth
    cost = (
        cost_model.FIXED_NS
        + cost_model.traffic_ns(3 * total * inner * values.dtype.size + indices.nbytes)
        + 2.0 * total
    )
    by_column = inner * values.dtype.size >= 2 * _BAND_BYTES
    # Every chunk reads all indices: short rows are not worth that, and the branch on their place is
    # hard to predict.
    limit = (
        inner * values.dtype.size // _BAND_BYTES
        if by_column
        else rows
        if inner * values.dtype.size >= _SHARED_BYTES
        else 1
    )
    chunks = cost_model.chunks_for(cost, max(1, min(limit, _SCATTER_CHUNKS)))
    report = 8 * (1 + depth)
    words: tuple[Word, ...] = (
        total,
        inner,
        rows,
        *limits,
        Pointer("temp", 0),
        report,
        Pointer("out", 0),
        *at,
    )
    source = scatter_source(
        kind, values.dtype, _INDEX[indices.dtype.name], depth, by_column, drop, inner == 1
    )
    launch = Launch(
        source, words, chunks=chunks, cost_ns=cost, errors={1: ("InvalidArgumentError", message)}
    )
    return launch, report * chunks


def filled_launch(out: TensorSpec, value: Pointer) -> Launch:
    """Fill output 0 with the one element at `value`."""
    made = copy_launch(
        out.dtype.size,
        View(out.shape, (0,) * len(out.shape)),
        View(out.shape, c_strides(out.shape, out.dtype.size)),
        value,
        Pointer("out", 0),
    )
    assert made is not None
    return made


@dataclass(frozen=True, slots=True)
class Scatter:
    """Describe a scatter into a filled or copied tensor.

    kind: of `combined`. depth: of index vectors. constants: the value of a filled one, none for a
    copy of input 0.
    """

    kind: str
    depth: int
    indices: Pointer
    updates: Pointer
    constants: tuple[np.ndarray, ...]
    bytes_moved: int


def scatter_into_copy(spec: NodeSpec) -> Scatter:
    """Return the parts of a ScatterNd or TensorScatter op.

    Raises Unsupported for sums of bool, where shapes do not fit, and where there are no elements.
    """
    plain = spec.op == "ScatterNd"
    at = Pointer("in", 0 if plain else 1), Pointer("in", 1 if plain else 2)
    indices, updates, out = spec.inputs[at[0].index], spec.inputs[at[1].index], spec.outputs[0]
    depth = indices.shape[-1] if indices.shape else 0
    if (
        depth > len(out.shape)
        or updates.shape != indices.shape[:-1] + out.shape[depth:]
        or not out.size
        or not indices.size
    ):
        raise Unsupported("shapes do not fit")
    kind = "Add" if spec.op.startswith("ScatterNd") else spec.op.removeprefix("TensorScatter")
    if out.dtype is d.bool:
        if spec.op == "ScatterNdNonAliasingAdd":
            raise Unsupported("sums of bool")
        # a sum is true where a term is
        kind = "Max" if plain else "Update"
    constants = (np.zeros(1, np.dtype(out.dtype.as_numpy_dtype)),) if plain else ()
    moved = (1 if plain else 2) * out.nbytes + 3 * updates.nbytes + indices.nbytes
    return Scatter(kind, depth, *at, constants, moved)


def start_launch(spec: NodeSpec, scatter: Scatter) -> Launch:
    """Return the launch that fills the output before the updates."""
    out = spec.outputs[0]
    if scatter.constants:
        return filled_launch(out, Pointer("const", 0))
    flat = View((out.size,), (out.dtype.size,))
    made = copy_launch(out.dtype.size, flat, flat, Pointer("in", 0), Pointer("out", 0))
    assert made is not None
    return made


COPY_OPS: Final = (
    *("ScatterNd", "ScatterNdNonAliasingAdd", "TensorScatterAdd", "TensorScatterSub"),
    *("TensorScatterMax", "TensorScatterMin", "TensorScatterUpdate"),
)
"""Op types of scatters into a filled or copied tensor."""


@native(*COPY_OPS)
def _scatter_nd(spec: NodeSpec) -> NativeCall:
    refuse_policies(spec)
    scatter = scatter_into_copy(spec)
    indices, out = spec.inputs[scatter.indices.index], spec.outputs[0]
    at = (scatter.indices, scatter.updates)
    message = PlaceMessage(indices.shape, out.shape, "shape")
    launch, report = _scatter_launch(
        scatter.kind, out, indices, scatter.depth, out.shape[: scatter.depth], False, at, message
    )
    first = start_launch(spec, scatter)
    return NativeCall(
        (first, launch),
        temp_bytes=(report,),
        constants=scatter.constants,
        bytes_moved=scatter.bytes_moved,
    )


def segment_scatter(spec: NodeSpec) -> Scatter:
    """Return the scatter that an UnsortedSegment op is.

    Raises Unsupported for narrow floats, and where shapes do not fit.
    """
    data, ids, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    if data.dtype in (d.float16, d.bfloat16):
        raise Unsupported("sums of narrow floats are kept in float32")
    if data.shape[: len(ids.shape)] != ids.shape or not out.size:
        raise Unsupported("shapes do not fit")
    kind = spec.op.removeprefix("UnsortedSegment")
    low, high = (0, 0) if data.dtype.is_complex else (data.dtype.min, data.dtype.max)
    start = {"Sum": 0, "Prod": 1, "Max": low, "Min": high}[kind]
    constant = np.full(1, start, np.dtype(out.dtype.as_numpy_dtype))
    combination = {"Sum": "Add", "Prod": "Prod", "Max": "SegmentMax", "Min": "SegmentMin"}[kind]
    moved = out.nbytes + 3 * data.nbytes + ids.nbytes
    return Scatter(combination, 1, Pointer("in", 1), Pointer("in", 0), (constant,), moved)


SEGMENT_OPS: Final = tuple(f"UnsortedSegment{kind}" for kind in ("Sum", "Prod", "Max", "Min"))
"""Op types of sums and extremes of segments in any order."""


@native(*SEGMENT_OPS)
def _unsorted_segment(spec: NodeSpec) -> NativeCall:
    scatter = segment_scatter(spec)
    first = start_launch(spec, scatter)
    data, ids, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    if not data.size:
        return NativeCall((first,), constants=scatter.constants, bytes_moved=out.nbytes)
    count = out.shape[0]
    at = (scatter.indices, scatter.updates)
    launch, report = _scatter_launch(
        scatter.kind, out, ids, 1, (count,), True, at, SegmentMessage(ids.shape, count)
    )
    return NativeCall(
        (first, launch),
        temp_bytes=(report,),
        constants=scatter.constants,
        bytes_moved=scatter.bytes_moved,
    )


def invert_source(index: str) -> KernelSource:
    """Write an inverse permutation. Words: count, input, output."""
    s = Source()
    _head(s, f"inverse permutation of {index}")
    with s.block("def kernel(args, chunk, nchunks):"):
        _words(s, ["count", "x_at", "y_at"])
        s.line(f"x_p = ptr_{index}(x_at)")
        s.line(f"y_p = ptr_{index}(y_at)")
        s.line("code = 0")
        s.line("found = 0")
        with s.block("for i in range(count):"):
            s.line("st_any(y_p, i, -1)")
        with s.block("for i in range(count):"):
            s.line("place = int(ld_any(x_p, i))")
            with s.block("if place < 0 or place >= count:"), s.block("if code == 0:"):
                s.line("code = 1")
                s.line("found = place")
            with s.block("elif int(ld_any(y_p, place)) != -1:"), s.block("if code == 0:"):
                s.line("code = 2")
                s.line("found = place")
            with s.block("else:"):
                s.line("st_any(y_p, place, i)")
        with s.block("if code != 0:"):
            s.line("fail(args, code, found)")
    return KernelSource(s.text(), title="inverse permutation", module=__name__)


@native("InvertPermutation")
def _invert_permutation(spec: NodeSpec) -> NativeCall:
    (x,) = spec.inputs
    if len(x.shape) != 1 or x.dtype.name not in _INDEX:
        raise Unsupported("no vector of integers")
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(3 * x.nbytes) + 1.5 * x.size
    kind = "InvalidArgumentError"
    errors = {
        1: (kind, f"{{detail}} is not between 0 and {x.size}"),
        2: (kind, "{detail} is duplicated in the input."),
    }
    words = (x.size, Pointer("in", 0), Pointer("out", 0))
    return NativeCall(
        (Launch(invert_source(_INDEX[x.dtype.name]), words, cost_ns=cost, errors=errors),),
        bytes_moved=3 * x.nbytes,
    )
