"""Build assignments to variables as compiled code.

The variable's buffer, input 0, is written in place.
"""

from __future__ import annotations

import functools
from typing import Final

import numpy as np

from tfjit.kernels.cpu.template.cost_model import FIXED_NS, chunks_for, traffic_ns
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_SIZES: Final = {
    "float32": ("f32", 4),
    "float64": ("f64", 8),
    "int32": ("i32", 4),
    "int64": ("i64", 8),
}
_MIN_CHUNK: Final = 16384  # bytes


@functools.cache
def move_source() -> KernelSource:
    """Write a move. Words: target, source, bytes; both may be one place."""
    s = Source()
    s.line("# assign")
    s.line("from tfjit.kernels.codegen.intrinsics import move_bytes, word")
    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("size = word(args, 4)")
        s.line("first = size * chunk // nchunks")
        s.line(
            "move_bytes(word(args, 2) + first, word(args, 3) + first, size * (chunk + 1) // "
            "nchunks - first)"
        )
    return KernelSource(s.text(), title="assign", module=__name__)


@functools.cache
def add_source(kind: str, size: int, sign: str) -> KernelSource:
    """Write an addition. Words: elements, variable, value."""
    s = Source()
    s.line(f"# variable {sign}= value, {kind}")
    s.line(f"from tfjit.kernels.codegen.intrinsics import ld_any, ptr_{kind}, st_any, word")
    with s.block("def kernel(args, chunk, nchunks):"):
        s.line("n = word(args, 2)")
        s.line("first = n * chunk // nchunks")
        s.line(f"variable = ptr_{kind}(word(args, 3) + first * {size})")
        s.line(f"value = ptr_{kind}(word(args, 4) + first * {size})")  # may be the variable itself
        with s.block("for i in range(n * (chunk + 1) // nchunks - first):"):
            s.line(f"st_any(variable, i, ld_any(variable, i) {sign} ld_any(value, i))")
    return KernelSource(s.text(), title=f"assign {sign} {kind}", module=__name__)


def _same(node: NodeSpec) -> None:
    variable, value = node.inputs
    if variable.shape != value.shape or variable.dtype is not value.dtype:
        raise Unsupported(
            f"{value.dtype.name}{list(value.shape)} into a variable of "
            f"{variable.dtype.name}{list(variable.shape)}"
        )


@native("Assign", "AssignVariableOp")
def _assign(node: NodeSpec) -> NativeCall:
    _same(node)
    variable = node.inputs[0]
    if not variable.dtype.is_numpy_compatible or np.dtype(variable.dtype.as_numpy_dtype).hasobject:
        raise Unsupported(f"elements of {variable.dtype.name} are no plain bytes")
    nbytes = variable.nbytes
    cost = FIXED_NS + traffic_ns(2 * nbytes)
    words = (Pointer("in", 0), Pointer("in", 1), nbytes)
    launch = Launch(
        move_source(), words, chunks=chunks_for(cost, max(1, nbytes // _MIN_CHUNK)), cost_ns=cost
    )
    return NativeCall((launch,) if nbytes else (), bytes_moved=2 * nbytes)


@native("AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp")
def _assign_add(node: NodeSpec) -> NativeCall:
    _same(node)
    variable = node.inputs[0]
    if variable.dtype.name not in _SIZES:
        raise Unsupported(f"{node.op} of {variable.dtype.name} has no compiled form")
    kind, size = _SIZES[variable.dtype.name]
    cost = FIXED_NS + traffic_ns(3 * variable.nbytes) + 0.1 * variable.size
    source = add_source(kind, size, "+" if "Add" in node.op else "-")
    words = (variable.size, Pointer("in", 0), Pointer("in", 1))
    launch = Launch(
        source, words, chunks=chunks_for(cost, max(1, variable.nbytes // _MIN_CHUNK)), cost_ns=cost
    )
    return NativeCall(
        (launch,) if variable.size else (), bytes_moved=3 * variable.nbytes, flops=variable.size
    )
