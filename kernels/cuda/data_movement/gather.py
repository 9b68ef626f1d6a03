"""Build gathers, by index and by index vector, and one-hot rows.

An index out of range gives zeros, as on TensorFlow's GPUs.
"""

from __future__ import annotations

from math import prod
from typing import Final

from tfjit.kernels.cpu.data_movement.gather import gather_extents
from tfjit.kernels.cpu.data_movement.scatter import gather_nd_extents
from tfjit.kernels.cuda.data_movement.strided_copy import IMPORT
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for, source
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.cuda.template.row_order import row_index
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported, Word
from tfjit.kernels.source import Source

_INDICES: Final = {"int32": "i32", "int64": "i64", "uint8": "u8", "int8": "i8"}


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


def widest_words(size: int, inner: int) -> tuple[int, int]:
    """Return the bytes and number of the widest words that fill rows.

    size, inner: bytes and number of a row's elements. Raises Unsupported for elements that are no
    words.
    """
    while size < 8 and inner % 2 == 0:
        size, inner = size * 2, inner // 2
    element_kinds.raw_kind(size)
    return size, inner


def refuse_policies(spec: NodeSpec) -> None:
    """Raise Unsupported where bad indices, or the policy, are errors."""
    policy = spec.attrs.get("bad_indices_policy", b"")
    if policy not in (b"", b"DEFAULT", b"IGNORE"):
        raise Unsupported(f"bad_indices_policy {policy.decode(errors='replace')} is the host's")


@device_native("GatherV2", "Gather", "ResourceGather")
def _gather(spec: NodeSpec) -> NativeCall:
    params, indices, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    batches, outer, length, limit, inner = gather_extents(spec)
    kind = _index(spec, 1)
    if out.size == 0:
        return NativeCall(())
    size, inner = widest_words(params.dtype.size, inner)
    count = batches * outer * length * inner
    raw = element_kinds.raw_kind(size)
    s = _head(f"gather words of {size} bytes by {kind}")
    names = "params, indices, out, count, outer, length, limit, inner"
    with s.block(f"def kernel({names}):"):
        s.line(f"from_p = ptr_{raw}(params)")
        s.line(f"to_p = ptr_{raw}(out)")
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
                s.line(f"st(to_p, i, {_zero(size)})")
            s.line("i += units()")
    words = (
        *(Pointer("in", 0), Pointer("in", 1), Pointer("out", 0)),
        *(count, outer, length, limit, inner),
    )
    moved = 2 * out.nbytes + indices.nbytes
    return NativeCall((_launch(s, words, count, "gather"),), bytes_moved=moved)


def _zero(size: int) -> str:
    """Return the text of a word of zeros."""
    return "complex128(0)" if size == 16 else f"uint{8 * size}(0)"


@device_native("GatherNd", "ResourceGatherNd")
def _gather_nd(spec: NodeSpec) -> NativeCall:
    refuse_policies(spec)
    params, indices, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    if not out.size:
        return NativeCall(())
    _, limits, inner = gather_nd_extents(spec)
    index = row_index(spec, 1, limits, len(limits))
    size, inner = widest_words(params.dtype.size, inner)
    count = index.count * inner
    text = KernelText(fits_32_bits([count]))
    text.argument("count", count)
    text.argument("inner", inner)
    index.write_head(text)
    raw = element_kinds.raw_kind(size)
    text.line(f"from_p = ptr_{raw}({text.argument('params', Pointer('in', 0))})")
    text.line(f"to_p = ptr_{raw}({text.argument('out', Pointer('out', 0))})")
    with grid_stride(text, "i", "count"):
        text.split("i", "number", "word", "inner")
        index.write_row(text, "number")
        with text.block("if target_row < rows:"):
            text.line("st(to_p, i, ld(from_p, target_row * inner + word))")
        with text.block("else:"):
            text.line(f"st(to_p, i, {_zero(size)})")
    what = f"gather words of {size} bytes by vectors of {len(limits)} {index.kind}"
    launch = text.launch(what, "gather_nd", __name__, grid_for(count))
    return NativeCall((launch,), bytes_moved=2 * out.nbytes + indices.nbytes)


@device_native("OneHot")
def _one_hot(spec: NodeSpec) -> NativeCall:
    indices, out = spec.inputs[0], spec.outputs[0]
    kind = _index(spec, 0)
    if out.size == 0:
        return NativeCall(())
    size = out.dtype.size
    raw = element_kinds.raw_kind(size)
    axis = int(spec.attrs.get("axis", -1))
    axis = len(indices.shape) if axis == -1 else axis
    if axis >= len(out.shape):
        raise Unsupported(f"axis {axis} of {len(out.shape)}")
    inner, depth = prod(indices.shape[axis:]), out.shape[axis]
    s = _head(f"one-hot rows of elements of {size} bytes by {kind}")
    with s.block("def kernel(indices, on_at, off_at, out, count, depth, inner):"):
        s.line(f"on = ld(ptr_{raw}(on_at), 0)")
        s.line(f"off = ld(ptr_{raw}(off_at), 0)")
        s.line(f"to_p = ptr_{raw}(out)")
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
