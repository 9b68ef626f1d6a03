"""Build TopKV2 and InTopK: the largest elements of rows, in order.

Elements are compared by integer keys of the same order, in which -0 is 0 and NaN comes above all
other values; equal elements keep their order. Small k: insertion into a sorted list, for which most
blocks of a row need one comparison. Large k: radix select by a histogram of the keys' upper bits,
which drops all keys below the k-th largest one's bucket, then a radix sort of the rest.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

FEW: Final = 32
"""Largest k that is served by a sorted list."""
_BLOCK: Final = 64
_BUCKETS: Final = 2048
_DIGITS: Final = 256
_MAX_CHUNKS: Final = 8
WIDE: Final = frozenset({d.float64, d.int64, d.uint32})
"""Types with keys of 64 bits; those of all others have 32."""


def key_lines(dtype: DType) -> list[str]:
    """Return lines that set `key` (int32 or int64) from element `x`.

    x is a register value.
    """
    if dtype.base_dtype is d.bool or dtype.is_complex or dtype is d.uint64:
        raise Unsupported(f"no order of {dtype.name}")
    bits = 64 if dtype in WIDE else 32
    name = f"int{bits}"
    if not dtype.is_floating:
        return [f"key = {name}(x)"]
    highest, infinite = (1 << (bits - 1)) - 1, 0x7F800000 if bits == 32 else 0x7FF0000000000000
    normal = 0x00800000 if bits == 32 else 0x0010000000000000
    return [
        f"raw = f{bits}_bits(x)",
        # Denormals are zero, as in every comparison of a running kernel, and both zeros are the
        # same.
        f"raw = select(iand(raw, {name}({highest})) < {name}({normal}), {name}(0), raw)",
        f"key = ixor(raw, iand(ishr(raw, {name}({bits - 1})), {name}({highest})))",
        f"key = select(iand(raw, {name}({highest})) > {name}({infinite}), {name}({highest}), key)",
    ]


def _start(s: Source, dtype: DType, title: str) -> None:
    s.line(f"# {title} of {dtype.name}")
    for line in (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)


def _words(s: Source, names: tuple[str, ...]) -> None:
    for n, name in enumerate(names):
        s.line(f"{name} = word(args, {2 + n})")
    s.line("first = rows * chunk // nchunks")
    s.line("count = rows * (chunk + 1) // nchunks - first")


def _write_key(s: Source, dtype: DType, element: str) -> None:
    s.line(f"x = {expressions.loaded(dtype, element)}")
    for line in key_lines(dtype):
        s.line(line)


def _write_result(s: Source, place: str) -> None:
    """Store an element at position i of both results.

    place: its number in the row.
    """
    s.line(f"place = int({place})")
    s.line("st_any(v_p, i, ld_any(x_p, place))")
    s.line("st_any(i_p, i, place)")


def few_source(dtype: DType, index: DType) -> KernelSource:
    """Write the kernel for small k.

    Words: rows, length, k, input, values, places, scratch and its bytes a chunk.
    """
    s = Source()
    _start(s, dtype, f"a few largest elements by {index.name}")
    size, memory = dtype.size, typed_pointers.pointer(dtype, "{}")
    with s.block("def kernel(args, chunk, nchunks):"):
        _words(s, ("rows", "length", "k", "x_at", "v_at", "i_at", "scratch", "scratch_size"))
        s.line("keys = ptr_i64(scratch + chunk * scratch_size)")
        s.line(f"places = ptr_i64(scratch + chunk * scratch_size + {8 * FEW})")
        with s.block("for u in range(count):"):
            s.line(f"x_p = {memory.format(f'x_at + (first + u) * length * {size}')}")
            s.line(f"v_p = {memory.format(f'v_at + (first + u) * k * {size}')}")
            s.line(
                f"i_p = {typed_pointers.pointer(index, f'i_at + (first + u) * k * {index.size}')}"
            )
            with s.block("for j in range(k):"):
                _write_key(s, dtype, "ld_any(x_p, j)")
                s.line("full = j")
                _write_insertion(s, "j")
            s.line("least = int(ld_any(keys, k - 1))")
            s.line(f"blocks = (length - k) // {_BLOCK}")
            with s.block("for b in range(blocks + 1):"):
                s.line(f"at = k + b * {_BLOCK}")
                s.line(f"m = {_BLOCK} if b < blocks else length - at")
                s.line(f"b_p = {memory.format(f'x_at + ((first + u) * length + at) * {size}')}")
                wide = "int64" if dtype in WIDE else "int32"
                s.line(f"top = {wide}({-(1 << (63 if dtype in WIDE else 31))})")
                with s.block("for j in range(m):"):
                    _write_key(s, dtype, "ld(b_p, j)")
                    s.line("top = select(key > top, key, top)")
                with s.block("if int(top) > least:"), s.block("for j in range(m):"):
                    _write_key(s, dtype, "ld_any(b_p, j)")
                    with s.block("if int(key) > least:"):
                        s.line("full = k - 1")
                        _write_insertion(s, "at + j")
                        s.line("least = int(ld_any(keys, k - 1))")
            with s.block("for i in range(k):"):
                _write_result(s, "ld_any(places, i)")
    return KernelSource(s.text(), title="top k", module=__name__)


def _write_insertion(s: Source, number: str) -> None:
    """Insert `key` of element `number` into the list of `full` keys.

    It goes behind equal keys. A key that is pushed beyond k is dropped.
    """
    s.line("to = full")
    with s.block("while to > 0 and int(ld_any(keys, to - 1)) < int(key):"):
        s.line("st_any(keys, to, ld_any(keys, to - 1))")
        s.line("st_any(places, to, ld_any(places, to - 1))")
        s.line("to -= 1")
    s.line("st_any(keys, to, int(key))")
    s.line(f"st_any(places, to, {number})")


def many_source(dtype: DType, index: DType) -> KernelSource:
    """Write the kernel for large k.

    Words: rows, length, k, input, values, places, scratch and its bytes a chunk.
    """
    s = Source()
    _start(s, dtype, f"many largest elements by {index.name}")
    size, bits = dtype.size, 64 if dtype in WIDE else 32
    word = bits // 8
    with s.block("def kernel(args, chunk, nchunks):"):
        _words(s, ("rows", "length", "k", "x_at", "v_at", "i_at", "scratch", "scratch_size"))
        s.line("counts_at = scratch + chunk * scratch_size")
        s.line("counts = ptr_i64(counts_at)")
        with s.block("for u in range(count):"):
            s.line(
                f"x_p = {typed_pointers.pointer(dtype, f'x_at + (first + u) * length * {size}')}"
            )
            s.line(f"v_p = {typed_pointers.pointer(dtype, f'v_at + (first + u) * k * {size}')}")
            s.line(
                f"i_p = {typed_pointers.pointer(index, f'i_at + (first + u) * k * {index.size}')}"
            )
            s.line(f"fill_bytes(counts_at, 0, {8 * _BUCKETS})")
            with s.block("for j in range(length):"):
                _write_key(s, dtype, "ld_any(x_p, j)")
                s.line(f"b = (int(key) >> {bits - 11}) + {_BUCKETS // 2}")
                s.line("st_any(counts, b, ld_any(counts, b) + 1)")
            s.line(f"cut = {_BUCKETS - 1}")
            s.line("m = int(ld_any(counts, cut))")
            with s.block("while m < k:"):
                s.line("cut -= 1")
                s.line("m += int(ld_any(counts, cut))")
            s.line(f"base = counts_at + {8 * _BUCKETS}")
            s.line("keys_at = base")
            s.line(f"places_at = base + length * {word}")
            s.line(f"other_keys_at = places_at + length * 4 + {word} * (length % 2)")
            s.line(f"other_places_at = other_keys_at + length * {word}")
            s.line(f"keys = ptr_i{bits}(keys_at)")
            s.line("places = ptr_i32(places_at)")
            s.line("c = 0")
            with s.block("for j in range(length):"):
                _write_key(s, dtype, "ld_any(x_p, j)")
                with s.block(f"if (int(key) >> {bits - 11}) + {_BUCKETS // 2} >= cut:"):
                    s.line("st_any(keys, c, int(key))")
                    s.line("st_any(places, c, j)")
                    s.line("c += 1")
            with s.block(f"for digit in range({word}):"):
                s.line("shift = 8 * digit")
                s.line(f"sign = {_DIGITS // 2} if digit == {word - 1} else 0")
                s.line(f"keys = ptr_i{bits}(keys_at)")
                s.line("places = ptr_i32(places_at)")
                s.line(f"fill_bytes(counts_at, 0, {8 * _DIGITS})")
                with s.block("for j in range(m):"):
                    s.line(
                        f"b = {_DIGITS - 1} - (((int(ld_any(keys, j)) >> shift) & {_DIGITS - 1}) ^ "
                        "sign)"
                    )
                    s.line("st_any(counts, b, ld_any(counts, b) + 1)")
                s.line(
                    f"same = {_DIGITS - 1} - (((int(ld_any(keys, 0)) >> shift) & {_DIGITS - 1}) ^ "
                    "sign)"
                )
                # all keys have the same digit otherwise, and the pass would change nothing
                with s.block("if int(ld_any(counts, same)) != m:"):
                    s.line("total = 0")
                    with s.block(f"for b in range({_DIGITS}):"):
                        s.line("c = int(ld_any(counts, b))")
                        s.line("st_any(counts, b, total)")
                        s.line("total += c")
                    s.line(f"other_keys = ptr_i{bits}(other_keys_at)")
                    s.line("other_places = ptr_i32(other_places_at)")
                    with s.block("for j in range(m):"):
                        s.line("key = int(ld_any(keys, j))")
                        s.line(f"b = {_DIGITS - 1} - (((key >> shift) & {_DIGITS - 1}) ^ sign)")
                        s.line("to = int(ld_any(counts, b))")
                        s.line("st_any(counts, b, to + 1)")
                        s.line("st_any(other_keys, to, key)")
                        s.line("st_any(other_places, to, ld_any(places, j))")
                    s.line("swap = keys_at")
                    s.line("keys_at = other_keys_at")
                    s.line("other_keys_at = swap")
                    s.line("swap = places_at")
                    s.line("places_at = other_places_at")
                    s.line("other_places_at = swap")
            s.line("places = ptr_i32(places_at)")
            with s.block("for i in range(k):"):
                _write_result(s, "ld_any(places, i)")
    return KernelSource(s.text(), title="top k by radix", module=__name__)


def top_k_extents(spec: NodeSpec) -> tuple[int, int, int]:
    """Return rows, their length and k of a TopK or TopKV2.

    Raises Unsupported for shapes and types of places that do not fit.
    """
    x, values, places = spec.inputs[0], spec.outputs[0], spec.outputs[1]
    if not x.shape or not values.shape or values.shape[-1] > x.shape[-1] or x.shape[-1] >= 1 << 31:
        raise Unsupported("shapes do not fit")
    if places.dtype.name not in ("int32", "int64", "int16"):
        raise Unsupported(f"places as {places.dtype.name}")
    return prod(x.shape[:-1]), x.shape[-1], values.shape[-1]


@native("TopK", "TopKV2")
def _top_k(spec: NodeSpec) -> NativeCall:
    x, values, places = spec.inputs[0], spec.outputs[0], spec.outputs[1]
    rows, length, k = top_k_extents(spec)
    if not rows * k:
        return NativeCall(())
    few = k <= FEW
    word = 8 if x.dtype in WIDE else 4
    scratch = 16 * FEW if few else 8 * _BUCKETS + 2 * (word + 4) * length + 3 * word
    scratch = -(-scratch // 64) * 64
    cost = (
        cost_model.FIXED_NS
        + cost_model.traffic_ns(x.nbytes)
        + rows * ((0.3 * length + 20.0 * k) if few else 1500.0 + 2.5 * length + 10.0 * k)
    )
    chunks = cost_model.chunks_for(cost, min(rows, _MAX_CHUNKS))
    source = (few_source if few else many_source)(x.dtype, places.dtype)
    words: tuple[Word, ...] = (
        rows,
        length,
        k,
        Pointer("in", 0),
        Pointer("out", 0),
        Pointer("out", 1),
        Pointer("temp", 0),
        scratch,
    )
    launch = Launch(source, words, chunks=chunks, cost_ns=cost)
    return NativeCall(
        (launch,),
        temp_bytes=(scratch * chunks,),
        bytes_moved=x.nbytes + values.nbytes + places.nbytes,
    )


def in_top_source(index: str) -> KernelSource:
    """Write InTopK. Words: rows, length, k, predictions, targets, output."""
    s = Source()
    s.line(f"# whether the scores of {index} targets are among the k largest")
    for line in (*expressions.IMPORTS, "from tfjit.kernels.codegen.intrinsics import *", "", ""):
        s.line(line)
    with s.block("def kernel(args, chunk, nchunks):"):
        _words(s, ("rows", "length", "k", "x_at", "t_at", "y_at"))
        s.line(f"t_p = ptr_{index}(t_at)")
        s.line("y_p = ptr_u8(y_at)")
        with s.block("for u in range(count):"):
            s.line("row = first + u")
            s.line("x_p = ptr_f32(x_at + row * length * 4)")
            s.line("target = int(ld(t_p, row))")
            s.line("inside = 0")
            with s.block("if target >= 0 and target < length:"):
                s.line("score = ld(x_p, target)")
                s.line("better = int32(0)")
                s.line("odd = int32(0)")
                with s.block("for i in range(length):"):
                    s.line("v = ld(x_p, i)")
                    s.line("better += int32(v > score)")
                    s.line("odd += int32(v - v != float32(0))")  # counts NaN and infinity
                s.line("inside = 1 if int(odd) == 0 and int(better) < k else 0")
            s.line("st_any(y_p, row, inside)")
    return KernelSource(s.text(), title="in top k", module=__name__)


def in_top_k_extents(spec: NodeSpec) -> tuple[int, int, int]:
    """Return rows, their length and k of an InTopK or InTopKV2.

    Raises Unsupported for shapes and targets that do not fit, and for an unknown k.
    """
    predictions, targets = spec.inputs[0], spec.inputs[1]
    if (
        len(predictions.shape) != 2
        or targets.shape != predictions.shape[:1]
        or targets.dtype.name not in ("int32", "int64")
    ):
        raise Unsupported("shapes do not fit")
    if spec.op == "InTopK":
        k = int(spec.attrs["k"])
    elif 2 in spec.constants:
        k = int(np.asarray(spec.constants[2]).reshape(-1)[0])
    else:
        raise Unsupported("k is not known while planning")
    return *predictions.shape, k


@native("InTopK", "InTopKV2")
def _in_top_k(spec: NodeSpec) -> NativeCall:
    predictions, targets = spec.inputs[0], spec.inputs[1]
    rows, length, k = in_top_k_extents(spec)
    if not rows:
        return NativeCall(())
    cost = (
        cost_model.FIXED_NS
        + cost_model.traffic_ns(predictions.nbytes)
        + rows * (10.0 + 0.15 * length)
    )
    words: tuple[Word, ...] = (
        rows,
        length,
        k,
        Pointer("in", 0),
        Pointer("in", 1),
        Pointer("out", 0),
    )
    source = in_top_source("i32" if targets.dtype.size == 4 else "i64")
    return NativeCall(
        (Launch(source, words, chunks=cost_model.chunks_for(cost, rows), cost_ns=cost),),
        bytes_moved=predictions.nbytes,
    )
