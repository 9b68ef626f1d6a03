"""Build gathers, scatters by rows, sums of segments and one-hot rows.

An index out of range gives zeros, or changes nothing, as on TensorFlow's GPUs.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from tfjit.kernels.cuda.data_movement.strided_copy import IMPORT
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for, source
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word
from tfjit.kernels.source import Source

_RAW: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_INDICES: Final = {"int32": "i32", "int64": "i64", "uint8": "u8", "int8": "i8"}
_SUMMED: Final = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}


def _index(spec: NodeSpec, k: int) -> str:
    """Return the pointer kind of an index input. Raises Unsupported."""
    name = spec.inputs[k].dtype.name
    if name not in _INDICES:
        raise Unsupported(f"{spec.op} by {name}")
    return _INDICES[name]


def _head(title: str) -> Source:
    s = Source()
    s.line(f"# {title}")
    s.line(IMPORT)
    s.line()
    s.line()
    return s


def _launch(s: Source, words: tuple[Word, ...], units: int, title: str) -> CudaLaunch:
    return CudaLaunch(source(s.text(), len(words), title, __name__), words, grid=grid_for(units))


@device_native("GatherV2", "Gather", "ResourceGather")
def _gather(spec: NodeSpec) -> NativeCall:
    params, indices, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    rank = len(params.shape)
    axis, batch = 0, int(spec.attrs.get("batch_dims", 0))
    if spec.op == "GatherV2":
        if 2 not in spec.constants:
            raise Unsupported("the axis is not known while planning")
        axis = int(np.asarray(spec.constants[2]).reshape(-1)[0])
    batch += len(indices.shape) if batch < 0 else 0
    axis = batch if spec.op == "ResourceGather" else axis
    if not rank or not -rank <= axis < rank:
        raise Unsupported("the axis is out of range")
    axis %= rank
    if batch > axis or params.shape[:batch] != indices.shape[:batch]:
        raise Unsupported("batch dims do not fit")
    kind = _index(spec, 1)
    if out.size == 0:
        return NativeCall(())
    size = params.dtype.size
    inner = prod(params.shape[axis + 1 :])
    while size < 8 and inner % 2 == 0:  # rows move in the widest words that fit
        size, inner = size * 2, inner // 2
    if size not in _RAW:
        raise Unsupported(f"elements of {size} bytes")
    batches, outer = prod(params.shape[:batch]), prod(params.shape[batch:axis])
    length = prod(indices.shape[batch:])
    count = batches * outer * length * inner
    s = _head(f"gather words of {size} bytes by {kind}")
    names = "params, indices, out, count, outer, length, limit, inner"
    with s.block(f"def kernel({names}):"):
        s.line(f"from_p = ptr_{_RAW[size]}(params)")
        s.line(f"to_p = ptr_{_RAW[size]}(out)")
        s.line(f"index_p = ptr_{kind}(indices)")
        s.line("i = unit()")
        with s.block("while i < count:"):
            s.line("place = div_u64(i, inner)")
            s.line("word = i - place * inner")
            s.line("row = div_u64(place, length)")
            s.line("position = place - row * length")
            s.line("k = int64(ld_ro(index_p, div_u64(row, outer) * length + position))")
            with s.block("if k >= 0 and k < limit:"):
                s.line("st(to_p, i, ld(from_p, (row * limit + k) * inner + word))")
            with s.block("else:"):
                s.line(f"st(to_p, i, uint{8 * size}(0))")
            s.line("i += units()")
    words = (
        *(Pointer("in", 0), Pointer("in", 1), Pointer("out", 0)),
        *(count, outer, length, params.shape[axis], inner),
    )
    moved = 2 * out.nbytes + indices.nbytes
    return NativeCall((_launch(s, words, count, "gather"),), bytes_moved=moved)


@device_native("OneHot")
def _one_hot(spec: NodeSpec) -> NativeCall:
    indices, out = spec.inputs[0], spec.outputs[0]
    kind = _index(spec, 0)
    if out.size == 0:
        return NativeCall(())
    size = out.dtype.size
    if size not in _RAW:
        raise Unsupported(f"elements of {size} bytes")
    axis = int(spec.attrs.get("axis", -1))
    axis = len(indices.shape) if axis == -1 else axis
    inner, depth = prod(indices.shape[axis:]), out.shape[axis]
    s = _head(f"one-hot rows of elements of {size} bytes by {kind}")
    with s.block("def kernel(indices, on_at, off_at, out, count, depth, inner):"):
        s.line(f"on = ld(ptr_{_RAW[size]}(on_at), 0)")
        s.line(f"off = ld(ptr_{_RAW[size]}(off_at), 0)")
        s.line(f"to_p = ptr_{_RAW[size]}(out)")
        s.line(f"index_p = ptr_{kind}(indices)")
        s.line("i = unit()")
        with s.block("while i < count:"):
            s.line("above = div_u64(i, inner)")
            s.line("row = div_u64(above, depth)")
            s.line("k = int64(ld_ro(index_p, row * inner + i - above * inner))")
            s.line("st(to_p, i, select(k == above - row * depth, on, off))")
            s.line("i += units()")
    words = (
        *(Pointer("in", 0), Pointer("in", 2), Pointer("in", 3), Pointer("out", 0)),
        *(out.size, depth, inner),
    )
    return NativeCall((_launch(s, words, out.size, "one-hot"),), bytes_moved=out.nbytes)


_UPDATES: Final = {
    f"{prefix}Scatter{name}": operation
    for prefix in ("", "Resource")
    for name, operation in (("Add", "add"), ("Sub", "sub"), ("Update", "store"))
}


@device_native(*_UPDATES)
def _scatter(spec: NodeSpec) -> NativeCall:
    """Update rows of a variable; equal indices of one update are added in any order."""
    table, indices, updates = spec.inputs
    operation = _UPDATES[spec.op]
    if not table.shape or updates.shape not in ((), (*indices.shape, *table.shape[1:])):
        raise Unsupported("the updates do not fit")
    count = indices.size * prod(table.shape[1:])
    if count == 0:
        return NativeCall(())
    launch = _row_updates(
        spec, operation, Pointer("in", 0), Pointer("in", 2), 1, table.shape, updates.size == 1
    )
    return NativeCall((launch,), bytes_moved=3 * count * table.dtype.size)


def _row_updates(
    spec: NodeSpec,
    operation: str,
    target: Pointer,
    updates: Pointer,
    indices: int,
    shape: tuple[int, ...],
    repeats: bool,
) -> CudaLaunch:
    """Return the launch that combines rows of `updates` with rows of `target`.

    indices: the input that names rows. shape: of the target. repeats: one update serves all.
    """
    dtype = spec.inputs[0].dtype
    raw = operation == "store" and dtype.size in _RAW
    if dtype.name not in _SUMMED and not raw:
        raise Unsupported(f"{spec.op} of {dtype.name}")
    kind = _RAW[dtype.size] if raw else _SUMMED[dtype.name]
    by = _index(spec, indices)
    inner = prod(shape[1:])
    count = spec.inputs[indices].size * inner
    s = _head(f"{operation} rows of {dtype.name} by {by}{', one value' if repeats else ''}")
    with s.block("def kernel(target, indices, updates, count, limit, inner):"):
        s.line(f"to_p = ptr_{kind}(target)")
        s.line(f"from_p = ptr_{kind}(updates)")
        s.line(f"index_p = ptr_{by}(indices)")
        s.line("i = unit()")
        with s.block("while i < count:"):
            s.line("row = div_u64(i, inner)")
            s.line("k = int64(ld_ro(index_p, row))")
            with s.block("if k >= 0 and k < limit:"):
                s.line("place = k * inner + i - row * inner")
                value = "ld(from_p, 0)" if repeats else "ld(from_p, i)"
                if operation == "store":
                    s.line(f"st(to_p, place, {value})")
                else:
                    s.line(f"v = {value}")
                    s.line(f"atomic_add(to_p, place, {'-v' if operation == 'sub' else 'v'})")
            s.line("i += units()")
    words: tuple[Word, ...] = (target, Pointer("in", indices), updates, count, shape[0], inner)
    return _launch(s, words, count, f"scatter {operation}")


@device_native("UnsortedSegmentSum")
def _segment_sum(spec: NodeSpec) -> NativeCall:
    data, ids, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    if data.shape[: len(ids.shape)] != ids.shape:
        raise Unsupported("the ids do not fit")
    if data.dtype.name not in _SUMMED:
        raise Unsupported(f"{spec.op} of {data.dtype.name}")
    launches: list[Launch] = []
    if out.size:
        launches.append(_zeros(out.nbytes))
    if out.size and data.size:
        launches.append(
            _row_updates(spec, "add", Pointer("out", 0), Pointer("in", 0), 1, out.shape, False)
        )
    return NativeCall(tuple(launches), bytes_moved=2 * data.nbytes + out.nbytes)


def _zeros(nbytes: int) -> CudaLaunch:
    """Return the launch that fills output 0 with zero bytes."""
    s = _head("fill with zero bytes")
    with s.block("def kernel(out, count):"):
        s.line("p = ptr_u8(out)")
        s.line("i = unit()")
        with s.block("while i < count:"):
            s.line("st(p, i, uint8(0))")
            s.line("i += units()")
    return _launch(s, (Pointer("out", 0), nbytes), nbytes, "zeros")
