"""Build TopK, NthElement and InTopK for GPUs.

The order of elements is the host's, by the same integer keys: NaN comes above all other values, and
equal elements keep their places. The rows are sorted as `sort` describes, tile by tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction.top_k import WIDE, in_top_k_extents, key_lines, top_k_extents
from tfjit.kernels.cuda.reduction import steps
from tfjit.kernels.cuda.reduction.steps import WARP
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.cuda.template.launches import MAX_BLOCKS, THREADS, CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.cuda.template.sort import sort_rows
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_LONG: Final = 1024
"""Scores of a row from which on a block counts."""


@dataclass(frozen=True, slots=True)
class _Elements:
    """Sort elements by rising or falling keys."""

    dtype: DType
    length: int
    falling: bool

    def write_head(self, text: KernelText) -> None:
        text.line(f"x_p = {element_kinds.pointer(self.dtype, text.argument('elements', _X))}")
        text.argument("row_length", self.length)

    def write_element(self, text: KernelText) -> None:
        element = "ld_ro(x_p, row * row_length + place)"
        text.line(f"x = {expressions.loaded(self.dtype, element)}")
        for line in key_lines(self.dtype):
            text.line(line)
        if self.falling:
            text.line(f"key = ixor(key, int{64 if self.dtype in WIDE else 32}(-1))")


_X: Final = Pointer("in", 0)


@dataclass(frozen=True, slots=True)
class _Results:
    """Store the values and places of the first `k` elements."""

    dtype: DType
    index: DType
    length: int
    k: int

    def write_head(self, text: KernelText) -> None:
        x = element_kinds.pointer(self.dtype, text.argument("values_from", _X))
        values = element_kinds.pointer(self.dtype, text.argument("values", Pointer("out", 0)))
        places = element_kinds.pointer(self.index, text.argument("indices", Pointer("out", 1)))
        for name, pointer in (("from_x", x), ("values_p", values), ("indices_p", places)):
            text.line(f"{name} = {pointer}")
        text.argument("x_length", self.length)
        text.argument("k", self.k)

    def write_element(self, text: KernelText) -> None:
        text.line("st(values_p, row * k + rank, ld_ro(from_x, row * x_length + place))")
        text.line(f"st(indices_p, row * k + rank, {self.index.name}(place))")


@device_native("TopK", "TopKV2")
def _top_k(spec: NodeSpec) -> NativeCall:
    x, values, places = spec.inputs[0], *spec.outputs
    rows, length, k = top_k_extents(spec)
    if not rows * k:
        return NativeCall(())
    elements = _Elements(x.dtype, length, falling=True)
    results = _Results(x.dtype, places.dtype, length, k)
    what = f"largest of {x.dtype.name} by {places.dtype.name}"
    made = sort_rows(rows, length, k, elements, results, what, __name__, wide=x.dtype in WIDE)
    moved = x.nbytes + values.nbytes + places.nbytes
    return NativeCall(made.launches, temp_bytes=made.temp_bytes, bytes_moved=moved)


@dataclass(frozen=True, slots=True)
class _Element:
    """Store the element of one rank."""

    dtype: DType
    length: int
    rank: int

    def write_head(self, text: KernelText) -> None:
        x = element_kinds.pointer(self.dtype, text.argument("value_from", _X))
        text.line(f"from_x = {x}")
        y = element_kinds.pointer(self.dtype, text.argument("value", Pointer("out", 0)))
        text.line(f"value_p = {y}")
        text.argument("x_length", self.length)
        text.argument("wanted", self.rank)

    def write_element(self, text: KernelText) -> None:
        with text.block("if rank == wanted:"):
            text.line("st(value_p, row, ld_ro(from_x, row * x_length + place))")


@device_native("NthElement")
def _nth_element(spec: NodeSpec) -> NativeCall:
    x = spec.inputs[0]
    if 1 not in spec.constants:
        raise Unsupported("n is not known while planning")
    n = int(np.asarray(spec.constants[1]).reshape(-1)[0])
    if not x.shape or not 0 <= n < x.shape[-1]:
        raise Unsupported("n is out of range")
    rows, length = prod(x.shape[:-1]), x.shape[-1]
    if not rows:
        return NativeCall(())
    elements = _Elements(x.dtype, length, falling=bool(spec.attrs.get("reverse", False)))
    what, wide = f"one element of {x.dtype.name} by rank", x.dtype in WIDE
    end = _Element(x.dtype, length, n)
    made = sort_rows(rows, length, n + 1, elements, end, what, __name__, wide=wide)
    return NativeCall(made.launches, temp_bytes=made.temp_bytes, bytes_moved=x.nbytes)


def _in_top_launch(index: DType, rows: int, length: int, k: int) -> CudaLaunch:
    """Return the launch that counts better scores than the target's.

    A warp or a block counts in a row. The upper half of its number counts scores that are not
    finite: beside them nothing is among the best.
    """
    threads = THREADS if length >= _LONG else WARP
    text = KernelText()
    for name, number in (("rows", rows), ("length", length), ("k", k)):
        text.argument(name, number)
    text.line(f"x_p = ptr_f32({text.argument('predictions', _X)})")
    targets = text.argument("targets", Pointer("in", 1))
    text.line(f"t_p = {element_kinds.pointer(index, targets)}")
    text.line(f"y_p = ptr_u8({text.argument('out', Pointer('out', 0))})")
    if threads > WARP:
        text.line(f"counts = shared_i64({threads // WARP})")
    text.line("lane = thread()")
    text.line("row = block()")
    with text.block("while row < rows:"):
        text.line("target = int64(ld_ro(t_p, row))")
        text.line("known = (target >= 0) & (target < length)")
        text.line("score = ld_ro(x_p, row * length + select(known, target, 0))")
        text.line("better = int64(0)")
        text.line("i = lane")
        with text.block("while i < length:"):
            text.line("v = ld_ro(x_p, row * length + i)")
            text.line("better += select(v > score, 1, 0)")
            text.line(f"better += select(v - v == float32(0), 0, {1 << 32})")
            text.line(f"i += {threads}")
        steps.write_block_exchange(text, "sum", d.int64, "better", threads, "counts")
        with text.block("if lane == 0:"):
            text.line("inside = known and better < k and better >> 32 == 0")
            text.line("st(y_p, row, uint8(inside))")
        if threads > WARP:
            text.line("sync_threads()")
        text.line("row += blocks()")
    title = f"in top k of {index.name} targets"
    grid = grid_for(rows, 1, MAX_BLOCKS * THREADS // threads)
    return text.launch(f"{title}, {threads} threads a row", title, __name__, grid, (threads, 1, 1))


@device_native("InTopK", "InTopKV2")
def _in_top_k(spec: NodeSpec) -> NativeCall:
    predictions, targets = spec.inputs[0], spec.inputs[1]
    rows, length, k = in_top_k_extents(spec)
    if not rows:
        return NativeCall(())
    if not length:
        raise Unsupported("rows without scores")
    launch = _in_top_launch(targets.dtype, rows, length, k)
    return NativeCall((launch,), bytes_moved=predictions.nbytes, flops=2 * predictions.size)
