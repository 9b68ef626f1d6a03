"""Build gathers by index, and one-hot rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import place_text
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

# A failing index is in the lower half of the detail word, its position in the upper.
_BITS = 31


class IndexMessage(str):
    """TensorFlow's message for an index out of range.

    It names position and value, which are packed in one detail word.
    """

    shape: tuple[int, ...]
    limit: int

    def __new__(cls, shape: Sequence[int], limit: int) -> IndexMessage:
        made = super().__new__(cls, "an index is out of range ({detail})")
        made.shape, made.limit = tuple(shape), limit
        return made

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        detail = int(kwargs["detail"])  # type: ignore[call-overload]
        position, value = detail >> (_BITS + 1), detail & ((1 << (_BITS + 1)) - 1)
        value -= 1 << _BITS
        place = f"[{place_text(position, self.shape)}]" if self.shape else ""
        return f"indices{place} = {value} is not in [0, {self.limit})"


def gather_source(size: int, index_name: str, run: bool) -> KernelSource:
    """Write a gather.

    Words: batches, outer, indices of a batch, limit, inner bytes, params, indices, output.
    """
    s = Source()
    s.line(f"# gather {'runs' if run else f'elements of {size} bytes'} by {index_name}")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(
            ("batches", "outer", "length", "limit", "inner", "params", "indices", "out")
        ):
            s.line(f"{name} = word(args, {2 + k})")
        s.line("bad = -1")
        s.line("bad_value = 0")
        s.line(f"index_p = ptr_{index_name}(indices)")
        s.line("units = batches * outer * length")
        s.line("first = units * chunk // nchunks")
        s.line("count = units * (chunk + 1) // nchunks - first")
        s.line("row = first // length if length > 0 else 0")
        s.line("at = first - row * length")
        with s.block("for u in range(count):"):
            s.line("batch = row // outer")
            s.line("k = int(ld(index_p, batch * length + at))")
            with s.block("if k < 0 or k >= limit:"):
                with s.block("if bad < 0:"):
                    s.line("bad = batch * length + at")
                    s.line(f"bad_value = min(max(k, {-(1 << _BITS)}), {(1 << _BITS) - 1})")
                s.line("fill_bytes(out + (first + u) * inner, 0, inner)")
            with s.block("else:"):
                if run:
                    s.line(
                        "copy_bytes(out + (first + u) * inner, params + (row * limit + k) * inner, "
                        "inner)"
                    )
                else:
                    s.line(
                        "src_p = "
                        f"{typed_pointers.raw_pointer(size, 'params + (row * limit + k) * inner')}"
                    )
                    s.line(
                        f"dst_p = {typed_pointers.raw_pointer(size, 'out + (first + u) * inner')}"
                    )
                    with s.block(f"for i in range(inner // {size}):"):
                        s.line("st(dst_p, i, ld(src_p, i))")
            s.line("at += 1")
            with s.block("if at == length:"):
                s.line("at = 0")
                s.line("row += 1")
        with s.block("if bad >= 0:"):
            s.line(f"fail(args, 1, bad * {1 << (_BITS + 1)} + bad_value + {1 << _BITS})")
    return KernelSource(s.text(), title="gather", module=__name__)


def gather_extents(spec: NodeSpec) -> tuple[int, int, int, int, int]:
    """Return the extents of a gather along an axis.

    They are batches, outer elements, indices of a batch, the limit of indices, inner elements.
    Raises Unsupported for an unknown axis, and for an axis or batch dims that do not fit.
    """
    params, indices = spec.inputs[0], spec.inputs[1]
    rank = len(params.shape)
    axis, batch = 0, int(spec.attrs.get("batch_dims", 0))
    if spec.op == "GatherV2":
        if 2 not in spec.constants:
            raise Unsupported("the axis is not known while planning")
        axis = int(np.asarray(spec.constants[2]).reshape(-1)[0])
    batch += len(indices.shape) if batch < 0 else 0
    if spec.op == "ResourceGather":
        axis = batch
    if not rank or not -rank <= axis < rank:
        raise Unsupported("the axis is out of range")
    axis %= rank
    if batch > axis or params.shape[:batch] != indices.shape[:batch]:
        raise Unsupported("batch dims do not fit")
    return (
        prod(params.shape[:batch]),
        prod(params.shape[batch:axis]),
        prod(indices.shape[batch:]),
        params.shape[axis],
        prod(params.shape[axis + 1 :]),
    )


@native("GatherV2", "Gather", "ResourceGather")
def _gather(spec: NodeSpec) -> NativeCall:
    params, indices, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    batches, outer, length, limit, inner = gather_extents(spec)
    if indices.dtype.name not in ("int32", "int64"):
        raise Unsupported(f"{spec.op} by {indices.dtype.name}")
    if out.size == 0 and indices.size == 0:
        return NativeCall(())
    if out.size == 0:
        raise Unsupported("an empty gather checks its indices only")
    size = params.dtype.size
    inner *= size
    cost = (
        cost_model.FIXED_NS
        + cost_model.traffic_ns(2 * out.nbytes + indices.nbytes)
        + 3.0 * batches * outer * length
    )
    source = gather_source(size, "i32" if indices.dtype.size == 4 else "i64", inner >= 48)
    words = (
        batches,
        outer,
        length,
        limit,
        inner,
        Pointer("in", 0),
        Pointer("in", 1),
        Pointer("out", 0),
    )
    errors = {1: ("InvalidArgumentError", IndexMessage(indices.shape, limit))}
    launch = Launch(
        source,
        words,
        chunks=cost_model.chunks_for(cost, batches * outer * length),
        cost_ns=cost,
        errors=errors,
    )
    return NativeCall((launch,), bytes_moved=2 * out.nbytes + indices.nbytes)


def one_hot_source(size: int, index_name: str) -> KernelSource:
    """Write one-hot rows.

    Words: rows, depth, inner, indices [rows, inner], on, off, output [rows, depth, inner].
    """
    s = Source()
    s.line(f"# one-hot rows of elements of {size} bytes by {index_name}")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("rows", "depth", "inner", "indices", "on_at", "off_at", "out")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"index_p = ptr_{index_name}(indices)")
        s.line(f"on = ld({typed_pointers.raw_pointer(size, 'on_at')}, 0)")
        s.line(f"off = ld({typed_pointers.raw_pointer(size, 'off_at')}, 0)")
        s.line("first = rows * chunk // nchunks")
        s.line("count = rows * (chunk + 1) // nchunks - first")
        with s.block("for u in range(count):"):
            s.line("row = first + u")
            s.line(
                f"out_p = {typed_pointers.raw_pointer(size, f'out + row * depth * inner * {size}')}"
            )
            with s.block("for i in range(depth * inner):"):
                s.line("st_any(out_p, i, off)")
            with s.block("for j in range(inner):"):
                s.line("k = int(ld(index_p, row * inner + j))")
                with s.block("if k >= 0 and k < depth:"):
                    s.line("st_any(out_p, k * inner + j, on)")
    return KernelSource(s.text(), title="one-hot", module=__name__)


@native("OneHot")
def _one_hot(spec: NodeSpec) -> NativeCall:
    indices, out = spec.inputs[0], spec.outputs[0]
    names = {"uint8": "u8", "int8": "i8", "int32": "i32", "int64": "i64"}
    if indices.dtype.name not in names:
        raise Unsupported(f"one-hot by {indices.dtype.name}")
    if out.size == 0:
        return NativeCall(())
    axis = int(spec.attrs.get("axis", -1))
    axis = len(indices.shape) if axis == -1 else axis
    if axis >= len(out.shape):
        raise Unsupported(f"axis {axis} of {len(out.shape)}")
    rows, inner, depth = prod(indices.shape[:axis]), prod(indices.shape[axis:]), out.shape[axis]
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(out.nbytes) + 2.0 * indices.size
    words = (
        rows,
        depth,
        inner,
        Pointer("in", 0),
        Pointer("in", 2),
        Pointer("in", 3),
        Pointer("out", 0),
    )
    source = one_hot_source(out.dtype.size, names[indices.dtype.name])
    return NativeCall(
        (Launch(source, words, chunks=cost_model.chunks_for(cost, rows), cost_ns=cost),),
        bytes_moved=out.nbytes,
    )
