"""Build a search for the coordinates of elements that are not zero."""

from __future__ import annotations

from math import prod
from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.cpu.template.indexed_rows import write_imports
from tfjit.kernels.registry import (
    BoundedCall,
    Launch,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    bounded,
)
from tfjit.kernels.source import KernelSource, Source

_DTYPES: Final = (d.bool, d.uint8, d.int8, d.int32, d.int64, d.float32, d.float64)
_MAX_RANK: Final = 6
_ELEMENT_NS: Final = 1.0


def where_source(dtype: DType, rank: int) -> KernelSource:
    """Write the kernel for arrays of a dtype and rank.

    Words: rows, elements of a row, input, output, and the sizes of the axes. A row is all of the
    last axis. The detail is the number of coordinates.
    """
    s = Source()
    write_imports(s, f"coordinates of {dtype.name} elements of rank {rank} that are not zero")
    sizes = [f"size{k}" for k in range(rank)]
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("rows", "width", "x", "out", *sizes)):
            s.line(f"{name} = word(args, {2 + k})")
        s.line("out_p = ptr_i64(out)")
        s.line("count = 0")
        with s.block("for r in range(rows):"):
            s.line(f"x_p = {typed_pointers.pointer(dtype, f'x + r * width * {dtype.size}')}")
            s.line("rest = r")
            for k in reversed(range(rank - 1)):
                s.line(f"at{k} = rest % {sizes[k]}")
                s.line(f"rest = rest // {sizes[k]}")
            # Coordinates of each element are written, and kept where the count rises.
            with s.block("for i in range(width):"):
                for k in range(rank):
                    value = "i" if k == rank - 1 else f"at{k}"
                    s.line(f"st(out_p, count * {rank} + {k}, {value})")
                s.line("count += int(ld(x_p, i) != 0)")
        s.line("store_word(args + 8, count)")
    return KernelSource(s.text(), title=f"where {dtype.name}", module=__name__)


@bounded("Where")
def _where(spec: NodeSpec) -> BoundedCall:
    (x,) = spec.inputs
    rank = len(x.shape)
    if not 0 < rank <= _MAX_RANK or x.dtype not in _DTYPES:
        raise Unsupported(f"coordinates of {x.dtype.name} of rank {rank}")
    words: tuple[Word, ...] = (
        prod(x.shape[:-1]), x.shape[-1], Pointer("in", 0), Pointer("out", 0), *x.shape,
    )  # fmt: skip
    launch = Launch(
        where_source(x.dtype, rank), words, cost_ns=cost_model.FIXED_NS + _ELEMENT_NS * x.size
    )
    return BoundedCall(launch, (TensorSpec(d.int64, (x.size, rank)),), counted=(0,))
