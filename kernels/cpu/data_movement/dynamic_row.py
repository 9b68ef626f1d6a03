"""Build reads and writes of one array row by a run-time index.

Tensor arrays and lists of known size become such reads and writes.
"""

from __future__ import annotations

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source


def _source(writes: bool) -> KernelSource:
    """Write the kernel.

    Words: rows, bytes of one, array, index, row (read: its target; write: its source), and for a
    write the target array.
    """
    s = Source()
    s.line(f"# {'write' if writes else 'read'} one row")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(
            ("count", "size", "array", "index", "row", *(("out",) if writes else ()))
        ):
            s.line(f"{name} = word(args, {2 + k})")
        s.line("k = int(ld(ptr_i32(index), 0))")
        with s.block("if k < 0 or k >= count:"):
            s.line("fail(args, 1, k)")
            s.line("return")
        if writes:
            with s.block("if out != array:"):
                s.line("copy_bytes(out, array, count * size)")
            s.line("copy_bytes(out + k * size, row, size)")
        else:
            s.line("copy_bytes(row, array + k * size, size)")
    return KernelSource(s.text(), title=f"{'write' if writes else 'read'} row", module=__name__)


def _call(
    spec: NodeSpec, row: int, pointers: tuple[Pointer, ...], in_place: tuple[tuple[int, int], ...]
) -> NativeCall:
    array, item = spec.inputs[0], (spec.inputs if in_place else spec.outputs)[row]
    if array.dtype.size == 0 or not array.shape or array.shape[1:] != item.shape:
        raise Unsupported("its elements are no plain words, or of another shape than the rows")
    cost = cost_model.FIXED_NS + cost_model.traffic_ns(2 * item.nbytes)
    errors = {1: ("InvalidArgumentError", spec.attrs["message"].decode())}
    launch = Launch(
        _source(bool(in_place)),
        (array.shape[0], item.nbytes, *pointers),
        cost_ns=cost,
        errors=errors,
    )
    return NativeCall((launch,), in_place, bytes_moved=2 * item.nbytes)


@native("_GetRow")
def _get_row(spec: NodeSpec) -> NativeCall:
    return _call(spec, 0, (Pointer("in", 0), Pointer("in", 1), Pointer("out", 0)), ())


@native("_SetRow")
def _set_row(spec: NodeSpec) -> NativeCall:
    return _call(
        spec,
        2,
        (Pointer("in", 0), Pointer("in", 1), Pointer("in", 2), Pointer("out", 0)),
        ((0, 0),),
    )
