"""Copy strided arrays: the one kernel of all ops that move elements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from tfjit.kernels.codegen.transpose_text import IMPORT, SPAN, block_side, write_transpose
from tfjit.kernels.cpu.elementwise.loop_text import advance_odometer, write_odometer
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.iteration_space import c_strides, collapse
from tfjit.kernels.ir.symbolic_size import is_symbolic
from tfjit.kernels.registry import Launch, Pointer, Unsupported, Word
from tfjit.kernels.source import KernelSource, Source

_WOVEN: Final = 4
"""Longest target runs that are woven from several source runs.

Up to this number of contiguous elements in the target come from as many runs of the source at a
time.
"""
_WOVEN_RUN: Final = 4096
"""Elements of each of those runs in one unit of work."""
_RUN_BYTES: Final = 48
"""From this length on, runs of bytes are copied with memcpy."""


@dataclass(frozen=True, slots=True)
class View:
    """Places of elements in a buffer.

    They are given by shape, byte strides and byte offset from the start of the buffer.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


class SymbolicArray:
    """Shape, strides and offset of an array with formulas as sizes.

    It has those of NumPy's view operations that `Layout` needs for them: NumPy takes numbers only.
    """

    def __init__(self, shape: Sequence[Any], strides: Sequence[Any], offset: Any = 0) -> None:
        self.shape, self.strides, self.offset = tuple(shape), tuple(strides), offset

    def transpose(self, order: Sequence[int]) -> SymbolicArray:
        """Return the array with its axes in another order."""
        return SymbolicArray(
            [self.shape[k] for k in order], [self.strides[k] for k in order], self.offset
        )

    def __getitem__(self, parts: tuple[slice, ...]) -> SymbolicArray:
        """Return a part: runs of neighbouring places along each axis."""
        shape, offset = list(self.shape), self.offset
        for k, part in enumerate(parts):
            if not isinstance(part, slice) or part.step not in (None, 1):
                raise Unsupported("steps in an array of unknown sizes")
            start = 0 if part.start is None else part.start
            stop = shape[k] if part.stop is None or part.stop > shape[k] else part.stop
            if start < 0 or stop < start:
                raise Unsupported("a slice from the end of an array of unknown sizes")
            shape[k] = stop - start
            offset = offset + start * self.strides[k]
        return SymbolicArray(shape, self.strides, offset)


class Layout:
    """A buffer's C-contiguous array without memory.

    NumPy's own view operations find strides and offsets on it.
    """

    def __init__(self, shape: Sequence[int], size: int) -> None:
        self.array: Any
        if any(map(is_symbolic, shape)):
            self.array = SymbolicArray(shape, c_strides(shape, size))
            return
        self.array = np.lib.stride_tricks.as_strided(
            np.empty(1, f"V{size}"), tuple(shape), c_strides(shape, size)
        )

    def view(self, array: Any) -> View:
        """Return the View of an array derived from `array`.

        It was made by indexing, transposing or broadcasting.
        """
        if isinstance(array, SymbolicArray):
            return View(array.shape, array.strides, array.offset)
        start = self.array.__array_interface__["data"][0]
        offset = array.__array_interface__["data"][0] - start if array.size else 0
        return View(array.shape, array.strides, offset)

    def spread(self, shape: Sequence[int]) -> Any:
        """Return the array broadcast to a shape."""
        if not isinstance(self.array, SymbolicArray) and not any(map(is_symbolic, shape)):
            return np.broadcast_to(self.array, tuple(shape))
        lead = len(shape) - len(self.array.shape)
        strides = [
            0 if n == 1 and m != 1 else step
            for n, m, step in zip(self.array.shape, shape[lead:], self.array.strides)
        ]
        return SymbolicArray(shape, [0] * lead + strides)


CopyMaker = Callable[[int, View, View, Pointer, Pointer], Launch | None]


class _Maker(threading.local):
    """Hold this thread's maker of copies; None for the host's."""

    make: CopyMaker | None = None


_MAKER: Final = _Maker()


@contextmanager
def copies_by(make: CopyMaker) -> Iterator[None]:
    """Let this thread's `copy_launch` make another device's launches."""
    before, _MAKER.make = _MAKER.make, make
    try:
        yield
    finally:
        _MAKER.make = before


def copy_launch(
    size: int, source: View, target: View, source_at: Pointer, target_at: Pointer
) -> Launch | None:
    """Return the launch that copies elements from one view to another.

    The views have one shape; None means that it has no elements. Raises Unsupported for an element
    size without a word type.
    """
    if _MAKER.make is not None:
        return _MAKER.make(size, source, target, source_at, target_at)
    typed_pointers.raw_pointer(size, "")
    space = target.shape
    count = prod(space)
    if count == 0:
        return None
    plain = [tuple(0 if n == 1 else b for n, b in zip(space, v.strides)) for v in (source, target)]
    dims, (reads, writes) = collapse(space, plain)
    if not dims:
        dims, reads, writes = (1,), (size,), (size,)
    src = Pointer(source_at.kind, source_at.index, source_at.offset + source.offset)
    dst = Pointer(target_at.kind, target_at.index, target_at.offset + target.offset)
    touched = size * (count + prod(n for n, b in zip(dims, reads) if b))
    if reads[-1] == writes[-1] == size and dims[-1] * size >= _RUN_BYTES:
        cost = cost_model.FIXED_NS + cost_model.traffic_ns(touched) + 4.0 * prod(dims[:-1])
        return _run_launch(dims, reads, writes, size, src, dst, cost)
    transposed = _transposed_dim(dims, reads, writes, size)
    if transposed is not None:
        cost = cost_model.FIXED_NS + cost_model.traffic_ns(touched) + 0.25 * count
        return _transpose_launch(dims, reads, writes, size, transposed, src, dst, cost)
    cost = (
        cost_model.FIXED_NS + cost_model.traffic_ns(touched) + 0.5 * count + 4.0 * prod(dims[:-1])
    )
    return _strided_launch(dims, reads, writes, size, src, dst, cost)


def _transposed_dim(
    dims: Sequence[int], reads: Sequence[int], writes: Sequence[int], size: int
) -> int | None:
    """Return the source's contiguous dim if it is not the target's.

    The target's inner dim and this one must be long enough for blocks; else the answer is None.
    """
    if len(dims) < 2 or writes[-1] != size or reads[-1] in (0, size):
        return None
    return next((k for k in range(len(dims) - 1) if reads[k] == size and dims[k] >= 4), None)


def _parts(outer: int, inner: int, least: int, cost: float) -> tuple[int, int]:
    """Return (parts of the inner dim, chunks)."""
    chunks = cost_model.chunks_for(cost, outer * inner)
    parts = max(1, min(-(-chunks // max(outer, 1)), inner // least)) if outer < chunks else 1
    return parts, max(1, min(chunks, outer * parts))


def _head(s: Source, outer: int, what: str, words: Sequence[str]) -> int:
    """Read the words before the strides; return the next word's number.

    They are sizes of the outer dims, parts, then `words`.
    """
    for k in range(outer):
        s.line(f"n{k} = word(args, {2 + k})")
    at = 2 + outer
    for name in ("parts", *words, "src", "dst"):
        s.line(f"{name} = word(args, {at})")
        at += 1
    for name in ("src", "dst"):
        for k in range(outer):
            s.line(f"{name}_s{k} = word(args, {at})")
            at += 1
    s.line(f"units = {' * '.join([*(f'n{k}' for k in range(outer)), 'parts'])}")
    s.line("first = units * chunk // nchunks")
    s.line("count = units * (chunk + 1) // nchunks - first")
    if outer:
        write_odometer(s, outer)
    else:
        s.line("part = first")
    return at


def _place(name: str, outer: int) -> str:
    return " + ".join([name, *(f"i{k} * {name}_s{k}" for k in range(outer))])


def _next(s: Source, outer: int) -> None:
    if outer:
        advance_odometer(s, outer)
    else:
        s.line("part += 1")


def _imports(s: Source) -> None:
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()


def _run_launch(
    dims: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    size: int,
    src: Pointer,
    dst: Pointer,
    cost: float,
) -> Launch:
    outer = len(dims) - 1
    s = Source()
    s.line(f"# copy runs of bytes, {outer} outer dims")
    _imports(s)
    with s.block("def kernel(args, chunk, nchunks):"):
        _head(s, outer, "run", ("run",))
        s.line("width = run // parts")
        with s.block("for u in range(count):"):
            s.line("lo = part * width")
            s.line("m = width if part + 1 < parts else run - lo")
            s.line(f"copy_bytes({_place('dst', outer)} + lo, {_place('src', outer)} + lo, m)")
            _next(s, outer)
    run = dims[-1] * size
    parts, chunks = _parts(prod(dims[:-1]), run, 4096, cost)
    words: tuple[Word, ...] = (*dims[:-1], parts, run, src, dst, *reads[:-1], *writes[:-1])
    return Launch(
        KernelSource(s.text(), title="copy", module=__name__), words, chunks=chunks, cost_ns=cost
    )


def _strided_launch(
    dims: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    size: int,
    src: Pointer,
    dst: Pointer,
    cost: float,
) -> Launch:
    outer = len(dims) - 1
    read = (
        "value"
        if reads[-1] == 0
        else "ld(src_p, i)"
        if reads[-1] == size
        else "ld_at(src_p, i * read_step)"
    )
    even = writes[-1] == size
    s = Source()
    kind = "one value" if reads[-1] == 0 else "contiguous" if reads[-1] == size else "strided"
    s.line(
        f"# copy elements of {size} bytes, {kind} to {'contiguous' if even else 'strided'}, "
        f"{outer} outer dims"
    )
    _imports(s)
    with s.block("def kernel(args, chunk, nchunks):"):
        at = _head(s, outer, "length", ("length",))
        s.line(f"read_step = word(args, {at})")
        s.line(f"write_step = word(args, {at + 1})")
        s.line("width = length // parts")
        with s.block("for u in range(count):"):
            s.line("lo = part * width")
            s.line("m = width if part + 1 < parts else length - lo")
            s.line(
                "src_p = "
                f"{typed_pointers.raw_pointer(size, _place('src', outer) + ' + lo * read_step')}"
            )
            s.line(
                "dst_p = "
                f"{typed_pointers.raw_pointer(size, _place('dst', outer) + ' + lo * write_step')}"
            )
            if reads[-1] == 0:
                s.line("value = ld(src_p, 0)")
            with s.block("for i in range(m):"):
                s.line(f"st(dst_p, i, {read})" if even else f"st_at(dst_p, i * write_step, {read})")
            _next(s, outer)
    parts, chunks = _parts(prod(dims[:-1]), dims[-1], 1024, cost)
    words: tuple[Word, ...] = (
        *dims[:-1],
        parts,
        dims[-1],
        src,
        dst,
        *reads[:-1],
        *writes[:-1],
        reads[-1],
        writes[-1],
    )
    return Launch(
        KernelSource(s.text(), title=f"copy {kind}", module=__name__),
        words,
        chunks=chunks,
        cost_ns=cost,
    )


def _transpose_launch(
    dims: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    size: int,
    transposed: int,
    src: Pointer,
    dst: Pointer,
    cost: float,
) -> Launch:
    """Return the launch of a copy by transposed blocks.

    Blocks are over the dim contiguous in the source and the one contiguous in the target.
    """
    rest = [k for k in range(len(dims) - 1) if k != transposed]
    outer = len(rest)
    side = block_side(size)
    woven = (
        dims[-1]
        if dims[-1] <= _WOVEN and size <= 8 and writes[transposed] == dims[-1] * size
        else 0
    )
    height = _WOVEN_RUN if woven else max(SPAN // size, side)
    s = Source()
    what = f"{woven} runs woven into one" if woven else "transpose"
    s.line(f"# {what}: elements of {size} bytes in blocks, {outer} outer dims")
    s.line(IMPORT)
    _imports(s)
    with s.block("def kernel(args, chunk, nchunks):"):
        at = _head(s, outer, "blocks", ("rows", "columns", "bands", "width"))
        s.line(f"read_step = word(args, {at})")
        s.line(f"write_step = word(args, {at + 1})")
        with s.block("for u in range(count):"):
            # a unit is `height` rows of the target, and some of its columns
            s.line(f"row = part % bands * {height}")
            s.line("column = part // bands * width")
            s.line(f"h = min(rows - row, {height})")
            s.line("m = min(columns - column, width)")
            s.line(f"src_at = {_place('src', outer)} + row * {size} + column * read_step")
            s.line(f"dst_at = {_place('dst', outer)} + row * write_step + column * {size}")
            if woven:
                for c in range(woven):
                    s.line(
                        f"src_{c} = {typed_pointers.raw_pointer(size, f'src_at + {c} * read_step')}"
                    )
                s.line(f"dst_p = {typed_pointers.raw_pointer(size, 'dst_at')}")
                with s.block("for i in range(h):"):
                    for c in range(woven):
                        s.line(f"st(dst_p, i * {woven} + {c}, ld(src_{c}, i))")
            else:
                write_transpose(s, size, "dst_at", "write_step", "src_at", "read_step", "h", "m")
            _next(s, outer)
    bands = -(-dims[transposed] // height)
    units = prod(dims[k] for k in rest) * bands
    chunks = cost_model.chunks_for(cost, max(units, prod(dims) // 1024))
    blocks = 1 if woven else max(min(-(-chunks // max(units, 1)), dims[-1] // side), 1)
    width = -(-dims[-1] // blocks // side) * side if blocks > 1 else dims[-1]
    blocks = -(-dims[-1] // width)
    words: tuple[Word, ...] = (
        *(dims[k] for k in rest), bands * blocks, dims[transposed], dims[-1], bands, width, src, dst,
        *(reads[k] for k in rest), *(writes[k] for k in rest), reads[-1], writes[transposed],
    )  # fmt: skip
    return Launch(
        KernelSource(s.text(), title="transpose", module=__name__),
        words,
        chunks=min(chunks, units * blocks),
        cost_ns=cost,
    )
