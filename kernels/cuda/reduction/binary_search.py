"""Build LowerBound and UpperBound for GPUs: places in sorted rows."""

from __future__ import annotations

from tfjit.framework.types import dtypes as d
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported


@device_native("LowerBound", "UpperBound")
def _bound(spec: NodeSpec) -> NativeCall:
    """Return the launch that searches a value a thread."""
    rows, values = spec.inputs
    out = spec.outputs[0]
    if len(rows.shape) != 2 or len(values.shape) != 2 or rows.shape[0] != values.shape[0]:
        raise Unsupported("shapes do not fit")
    dtype = rows.dtype
    if dtype.is_complex or dtype is d.bool or not element_kinds.is_supported(dtype):
        raise Unsupported(f"no order of {dtype.name}")
    if not out.size:
        return NativeCall(())
    text = KernelText(fits_32_bits([rows.size, values.size]))
    text.argument("count", values.size)
    text.argument("many", values.shape[1])
    text.argument("length", rows.shape[1])
    for name, place, kind in (
        ("x", Pointer("in", 0), dtype),
        ("v", Pointer("in", 1), dtype),
        ("y", Pointer("out", 0), out.dtype),
    ):
        text.line(f"{name}_p = {element_kinds.pointer(kind, text.argument(f'{name}_at', place))}")
    with grid_stride(text, "u", "count"):
        text.split("u", "row", "number", "many")
        text.line(f"value = {expressions.loaded(dtype, 'ld_ro(v_p, u)')}")
        text.line("lo = int64(0)")
        text.line("hi = length")
        with text.block("while lo < hi:"):
            text.line("middle = (lo + hi) >> 1")
            element = "ld_ro(x_p, row * length + middle)"
            text.line(f"x = {expressions.loaded(dtype, element)}")
            # NaN is neither below nor above anything
            below = "x < value" if spec.op == "LowerBound" else "not (value < x)"
            text.line(f"before = {below}")
            text.line("lo = select(before, middle + 1, lo)")
            text.line("hi = select(before, hi, middle)")
        text.line(f"st(y_p, u, {out.dtype.name}(lo))")
    title = f"{spec.op.lower()} of {dtype.name} as {out.dtype.name}"
    launch = text.launch(title, title, __name__, grid_for(values.size))
    return NativeCall((launch,), bytes_moved=rows.nbytes + values.nbytes + out.nbytes)
