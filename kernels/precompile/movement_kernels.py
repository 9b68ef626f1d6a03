"""List sources and nodes that cover copies, transposes, slices, gathers and scatters."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.data_movement.gather import gather_source, one_hot_source
from tfjit.kernels.cpu.data_movement.range_and_band import band_source, range_source
from tfjit.kernels.cpu.data_movement.scatter import (
    gather_nd_source,
    invert_source,
    scatter_source,
)
from tfjit.kernels.cpu.data_movement.strided_copy import View, copy_launch
from tfjit.kernels.cpu.data_movement.variable_scatter import variable_scatter_source
from tfjit.kernels.cpu.elementwise.assign import add_source, move_source
from tfjit.kernels.cpu.images.crop import crop_source
from tfjit.kernels.cpu.images.resize import bilinear_source, resampling_source
from tfjit.kernels.cpu.template.epilogue import repeat_source
from tfjit.kernels.precompile.nodes import Input, integers, node, tensor
from tfjit.kernels.registry import NodeSpec, Pointer
from tfjit.kernels.source import KernelSource

_SIZES: Final = (1, 4, 8)
"""Bytes of an element: bool, the usual numbers, wide numbers."""
_SEGMENTS: Final = ("Add", "SegmentMax", "SegmentMin", "Prod")


def movement_sources() -> Iterator[KernelSource]:
    """Yield the sources."""
    yield from _copies()
    for size, index, run in itertools.product(_SIZES, ("i32", "i64"), (False, True)):
        yield gather_source(size, index, run)
        for depth in (1, 2, 3):
            yield gather_nd_source(size, index, depth, run)
    for size, index in itertools.product((1, 4, 8), ("u8", "i32", "i64")):
        yield one_hot_source(size, index)
    yield from _scatters()
    yield from _variable_scatters()
    for index in ("i32", "i64"):
        yield invert_source(index)
    for dtype in (d.int32, d.int64, d.float32, d.float64):
        yield range_source(dtype)
    for size in (4, 8):
        yield band_source(size)
    for name in ("float32", "uint8"):
        yield crop_source(name)
    for channels in (0, 1, 3):
        yield resampling_source(d.float32, channels)
        for dtype in (d.float32, d.uint8):
            yield bilinear_source(dtype, channels)
    yield repeat_source()
    yield move_source()
    for (kind, size), sign in itertools.product(
        (("f32", 4), ("f64", 8), ("i32", 4), ("i64", 8)), "+-"
    ):
        yield add_source(kind, size, sign)


def _copies() -> Iterator[KernelSource]:
    """Yield copies of every inner pattern with 0 to 3 outer dims.

    The outer strides are prime numbers, so that no two dims merge.
    """
    for size, outer in itertools.product(_SIZES, range(4)):
        sizes = (5, 3, 4)[:outer]
        apart = tuple(size * n for n in (10007, 1009, 499)[:outer])
        other = tuple(size * n for n in (10009, 1013, 503)[:outer])
        steps = (size, 3 * size, 0)
        for length, read, write in itertools.product((100, 3), steps, steps[:2]):
            views = (
                View((*sizes, length), (*apart, read)),
                View((*sizes, length), (*other, write)),
            )
            made = copy_launch(size, *views, Pointer("in"), Pointer("out"))
            assert made is not None
            yield made.source
        if not outer:
            continue
        for place in range(outer):  # the source's contiguous dim is one of the outer ones
            reads = [*apart, 20011 * size]
            reads[place] = size
            views = (
                View((*(8,) * outer, 40), tuple(reads)),
                View((*(8,) * outer, 40), (*other, size)),
            )
            made = copy_launch(size, *views, Pointer("in"), Pointer("out"))
            assert made is not None
            yield made.source


def _scatters() -> Iterator[KernelSource]:
    for kind, dtype, index in itertools.product(
        ("Add", "Update"), (d.float32, d.int32), ("i32", "i64")
    ):
        for depth in (1, 2):
            yield scatter_source(kind, dtype, index, depth, False, False)
            yield scatter_source(kind, dtype, index, depth, False, False, single=True)
            yield scatter_source(kind, dtype, index, depth, True, False)
    for kind, index in itertools.product(("Sub", "Max", "Min"), ("i32", "i64")):
        yield scatter_source(kind, d.float32, index, 1, False, False)
    for kind, dtype, index in itertools.product(
        _SEGMENTS, (d.float32, d.float64, d.int32), ("i32", "i64")
    ):
        for by_column, single in ((False, False), (True, False), (False, True)):
            if kind == "Add" or not by_column:
                yield scatter_source(kind, dtype, index, 1, by_column, True, single=single)


def _variable_scatters() -> Iterator[KernelSource]:
    # An update moves elements of 4 bytes.
    kinds = (("Add", d.float32), ("Sub", d.float32), ("Update", d.uint32))
    for (kind, dtype), index, single in itertools.product(kinds, ("i32", "i64"), (False, True)):
        yield variable_scatter_source(kind, dtype, index, 1, single)


def placed_nodes() -> Iterator[NodeSpec]:
    """Yield slices at places of the run, and rows of arrays."""
    message = b"{detail}"
    array, row, place = tensor(d.float32, 50, 7), tensor(d.float32, 7), tensor(d.int32)
    yield node("_GetRow", [array, place], [row], message=message)
    yield node("_SetRow", [array, place, row], [array], message=message)
    for count in (1, 2):
        whole, part = tensor(d.float32, *(9, 8, 7)), tensor(d.float32, *(9, 8, 7)[count:])
        at, steps = tensor(d.int32, count), integers(*(1,) * count)
        masks = {"shrink_axis_mask": (1 << count) - 1, "begin_mask": 0, "end_mask": 0}
        yield node("StridedSlice", [whole, at, at, steps], [part], **masks)
    for index in (d.int32, d.int64):
        for rank in (1, 2, 3):
            shape = (9, 8, 7)[:rank]
            for cut in itertools.product((False, True), repeat=rank):
                taken = tuple(3 if c else n for c, n in zip(cut, shape))
                single = tuple(1 if c else n for c, n in zip(cut, shape))
                for sizes in (taken, single):
                    inputs: list[Input] = [
                        tensor(d.float32, *shape),
                        tensor(index, rank),
                        integers(*sizes),
                    ]
                    yield node("Slice", inputs, [tensor(d.float32, *sizes)])
