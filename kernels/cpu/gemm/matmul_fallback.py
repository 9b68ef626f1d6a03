"""Build matrix products of dtypes without tiles.

Integers and complex numbers are multiplied by plain loops, narrow floats through float32.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.cpu.template.chunking import chunk_count
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.ir.scalar_program import Program, ScalarOp
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported
from tfjit.kernels.source import KernelSource, Source

NARROW: Final = frozenset({dtypes.float16, dtypes.bfloat16})
# terms of the sums added in one pass, so that a row of the result is read and written less often
_UNROLL: Final = 4
_WORDS: Final = ("matrices", "rows", "k", "n", "table", "a", "a_row", "a_step", "b", "b_row", "c")


def other_call(spec: NodeSpec, swapped: tuple[bool, bool], conjugated: bool) -> NativeCall:
    """Return the product of a node whose dtype has no tiles.

    swapped: the inputs with swapped last two axes. conjugated: those are conjugated too. Raises
    Unsupported for dtypes that kernels do not hold.
    """
    x, y = spec.inputs[:2]
    if x.dtype is not y.dtype or spec.outputs[0].dtype is not x.dtype:
        raise Unsupported(
            f"product of {x.dtype.name} and {y.dtype.name} as {spec.outputs[0].dtype.name}"
        )
    if x.dtype in NARROW:
        return _through_float32(spec)
    conjugated = conjugated and x.dtype.is_complex
    if swapped[1]:
        return _transpose_first(spec, conjugated)
    return _plain(spec.inputs, swapped[0], conjugated)


def _chained(group: FusedGroup) -> NativeCall:
    from tfjit.kernels.cpu.template.call_chain import chained_call

    return chained_call(group, {})


def _through_float32(spec: NodeSpec) -> NativeCall:
    """Convert the inputs to float32, multiply, and round the product."""
    dtype = spec.inputs[0].dtype
    wide = [TensorSpec(dtypes.float32, t.shape) for t in (*spec.inputs[:2], spec.outputs[0])]
    casts = [
        Member(
            NodeSpec(
                f"{spec.name}/wide{k}",
                "Cast",
                _cast(dtype, dtypes.float32),
                (spec.inputs[k],),
                (wide[k],),
            ),
            (Ref(INPUT, k),),
        )
        for k in range(2)
    ]
    attrs = {
        name: dtypes.float32 if value is dtype else value for name, value in spec.attrs.items()
    }
    product = Member(
        NodeSpec(spec.name, spec.op, attrs, tuple(wide[:2]), (wide[2],)), (Ref(0), Ref(1))
    )
    narrow = Member(
        NodeSpec(
            f"{spec.name}/narrow",
            "Cast",
            _cast(dtypes.float32, dtype),
            (wide[2],),
            spec.outputs[:1],
        ),
        (Ref(2),),
    )
    return _chained(
        FusedGroup("loop", (*casts, product, narrow), tuple(spec.inputs[:2]), (Ref(3),))
    )


def _cast(source: DType, target: DType) -> dict[str, object]:
    return {"SrcT": source, "DstT": target, "Truncate": False}


def _transpose_first(spec: NodeSpec, conjugated: bool) -> NativeCall:
    """Swap the second input's axes back, then multiply."""
    y = spec.inputs[1]
    rank = len(y.shape)
    order = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
    transposed = TensorSpec(y.dtype, (*y.shape[:-2], y.shape[-1], y.shape[-2]))
    attrs = {"T": y.dtype, "Tperm": dtypes.int32}
    transpose = NodeSpec(
        f"{spec.name}/turned",
        "Transpose",
        attrs,
        (y, TensorSpec(dtypes.int32, (rank,))),
        (transposed,),
    )
    members = [Member(transpose, (Ref(INPUT, 1), Ref(CONSTANT, 0)))]
    if conjugated:
        members.append(
            Member(
                NodeSpec(
                    f"{spec.name}/conjugated", "Conj", {"T": y.dtype}, (transposed,), (transposed,)
                ),
                (Ref(0),),
            )
        )
    rest = {
        name: False if name in ("transpose_b", "adj_y") else value
        for name, value in spec.attrs.items()
    }
    product = replace(spec, attrs=rest, inputs=(spec.inputs[0], transposed), constants={})
    members.append(Member(product, (Ref(INPUT, 0), Ref(len(members) - 1))))
    return _chained(
        FusedGroup(
            "loop", tuple(members), tuple(spec.inputs[:2]), (Ref(len(members) - 1),), (order,)
        )
    )


def _plain(inputs: Sequence[TensorSpec], swapped: bool, conjugated: bool) -> NativeCall:
    """Multiply x [..., m, k] by y [..., k, n].

    swapped: x is [..., k, m].
    """
    x, y = inputs[:2]
    size = x.dtype.size
    m, k = x.shape[-2:] if not swapped else x.shape[-1:-3:-1]
    n = y.shape[-1]
    if y.shape[-2] != k:
        raise ValueError(f"inner sizes differ: {x.shape} and {y.shape}")
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    call = CallBuilder()
    matrices = prod(batch)
    if matrices * m * n == 0:
        return call.finish()

    def offsets(shape: tuple[int, ...], nbytes: int) -> np.ndarray:
        numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
        return np.broadcast_to(numbers * nbytes, batch).reshape(-1)

    table = np.stack(
        [offsets(x.shape[:-2], m * k * size), offsets(y.shape[:-2], k * n * size)], axis=1
    )
    a_row, a_step = (k * size, size) if not swapped else (size, m * size)
    words = (
        matrices,
        m,
        k,
        n,
        call.table(table),
        Pointer("in", 0),
        a_row,
        a_step,
        Pointer("in", 1),
        n * size,
        Pointer("out", 0),
    )
    work = matrices * m * n * k
    cost = (
        cost_model.FIXED_NS
        + work * (0.06 * size / 4 if x.dtype.is_integer else 0.2 * size / 8)
        + matrices * m * k * 2.0
    )
    source = plain_source(x.dtype, swapped and conjugated)
    call.launch(Launch(source, words, chunks=chunk_count(cost, matrices * m), cost_ns=cost))
    return call.finish(x.nbytes + y.nbytes + matrices * m * n * size, 2 * work)


@functools.cache
def plain_source(dtype: DType, conjugated: bool) -> KernelSource:
    """Write the rows of the result as sums of rows of B.

    Words: those of _WORDS. table: rows (a offset, b offset).
    """
    size = dtype.size
    s = Source()
    s.line(f"# plain product {dtype.name}{', a conjugated' if conjugated else ''}")
    for line in expressions.IMPORTS:
        s.line(line)
    s.line("from tfjit.kernels.codegen.intrinsics import *")

    def add(terms: int) -> None:
        for t in range(terms):
            s.line(f"a{t} = ld({typed_pointers.pointer(dtype, f'a_at + (q + {t}) * a_step')}, 0)")
            if conjugated:
                (value,) = expressions.emit_program(
                    s,
                    Program((dtype,), (ScalarOp("Conj", (0,), dtype),), (1,)),
                    [f"a{t}"],
                    prefix=f"conj{t}_",
                )
                s.line(f"a{t} = {value}")
            s.line(f"b{t}_p = {typed_pointers.pointer(dtype, f'b_at + (q + {t}) * b_row')}")
        with s.block("for j in range(n):"):
            s.line("total = ld_out(c_p, j, 0)")
            for t in range(terms):
                s.line(f"b{t} = ld(b{t}_p, j)")
                step = Program(
                    (dtype,) * 3,
                    (ScalarOp("Mul", (0, 1), dtype), ScalarOp("AddV2", (2, 3), dtype)),
                    (4,),
                )
                (value,) = expressions.emit_program(
                    s, step, [f"a{t}", f"b{t}", "total"], prefix=f"v{t}_"
                )
                s.line(f"total = {value}")
            s.line("st_out(c_p, j, total, 0)")

    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(_WORDS):
            s.line(f"{name} = word(args, {i + 2})")
        s.line("units = matrices * rows")
        s.line("first = units * chunk // nchunks")
        with s.block("for i in range(units * (chunk + 1) // nchunks - first):"):
            s.line("matrix = (first + i) // rows")
            s.line("a_at = a + word(table, 2 * matrix) + (first + i - matrix * rows) * a_row")
            s.line("b_at = b + word(table, 2 * matrix + 1)")
            s.line(f"c_p = {typed_pointers.pointer(dtype, f'c + (first + i) * n * {size}')}")
            with s.block("for j in range(n):"):
                s.line(f"st_out(c_p, j, {expressions.literal(0, dtype)}, 0)")
            s.line("q = 0")
            with s.block(f"while q + {_UNROLL} <= k:"):
                add(_UNROLL)
                s.line(f"q += {_UNROLL}")
            with s.block("while q < k:"):
                add(1)
                s.line("q += 1")
    return KernelSource(s.text(), title=f"plain product {dtype.name}", module=__name__)
