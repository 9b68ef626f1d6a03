"""Build reversed sequences and numbers of equal steps for GPUs.

A length beyond its row reverses the whole row, a negative one nothing: the device reports nothing.
"""

from __future__ import annotations

from math import prod
from typing import Final

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.template.indexed_rows import index_kind
from tfjit.kernels.cuda.data_movement.gather import widest_words
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_STEPS: Final = frozenset({"float32", "float64", "int64"})


@device_native("ReverseSequence")
def _reverse_sequence(spec: NodeSpec) -> NativeCall:
    x, lengths = spec.inputs
    batch, sequence = int(spec.attrs.get("batch_dim", 0)), int(spec.attrs["seq_dim"])
    rank = len(x.shape)
    if batch == sequence or not (0 <= batch < rank and 0 <= sequence < rank):
        raise Unsupported("no sequences: the reference tells")
    if lengths.shape != (x.shape[batch],):
        raise Unsupported("shapes do not fit: the reference tells")
    kind = index_kind(lengths)
    if not x.size:
        return NativeCall(())
    first, second = sorted((batch, sequence))
    size, inner = widest_words(x.dtype.size, prod(x.shape[second + 1 :]))
    raw = element_kinds.raw_kind(size)
    count = x.nbytes // size
    text = KernelText(fits_32_bits([count]))
    middle = prod(x.shape[first + 1 : second])
    for name, number in (
        ("count", count), ("inner", inner), ("n1", x.shape[second]), ("middle", middle),
        ("n0", x.shape[first]),
    ):  # fmt: skip
        text.argument(name, number)
    text.line(f"length_p = ptr_{kind}({text.argument('lengths', Pointer('in', 1))})")
    text.line(f"x_p = ptr_{raw}({text.argument('x', Pointer('in', 0))})")
    text.line(f"y_p = ptr_{raw}({text.argument('y', Pointer('out', 0))})")
    row, place = ("i0", "i1") if batch < sequence else ("i1", "i0")
    step = "inner" if batch < sequence else "inner * n1 * middle"
    with grid_stride(text, "u", "count"):
        text.split("u", "rest", "word", "inner")
        text.split("rest", "rest", "i1", "n1")
        text.split("rest", "rest", "between", "middle")
        text.split("rest", "rest", "i0", "n0")
        limit = "n1" if batch < sequence else "n0"
        text.line(f"length = min(int64(ld_ro(length_p, {row})), {limit})")
        text.line("at = u")
        with text.block(f"if {place} < length:"):
            text.line(f"at = u + (length - 1 - {place} - {place}) * ({step})")
        text.line("st(y_p, u, ld(x_p, at))")
    order = "rows first" if batch < sequence else "places first"
    title = f"reversed sequences of words of {size} bytes by {kind}, {order}"
    launch = text.launch(title, title, __name__, grid_for(count))
    return NativeCall((launch,), bytes_moved=2 * x.nbytes)


def _equal_steps(spec: NodeSpec, is_range: bool) -> NativeCall:
    """Return the launch that computes start + i * step.

    It computes in the op's own type.

    is_range: whether the third input is the step; else the second is the last number.
    """
    out = spec.outputs[0]
    if out.dtype.name not in _STEPS or len(out.shape) != 1:
        raise Unsupported(f"steps of {out.dtype.name}")
    if not out.size:
        return NativeCall(())
    name = expressions.register_type(out.dtype)
    text = KernelText(fits_32_bits([out.size]))
    text.argument("count", out.size)
    for label, k in (("start", 0), ("step" if is_range else "stop", 2 if is_range else 1)):
        address = text.argument(f"{label}_at", Pointer("in", k))
        text.line(f"{label} = ld({element_kinds.pointer(out.dtype, address)}, 0)")
    address = text.argument("y", Pointer("out", 0))
    text.line(f"y_p = {element_kinds.pointer(out.dtype, address)}")
    if not is_range:
        text.line(f"step = (stop - start) / {name}(max(count - 1, 1))")
    with grid_stride(text, "u", "count"):
        text.line(f"value = {name}(start + step * {name}(u))")
        if not is_range:
            with text.block("if u == count - 1:"):
                text.line("value = stop")
            with text.block("if u == 0:"):
                text.line("value = start")
        text.line("st(y_p, u, value)")
    title = f"{'range' if is_range else 'numbers between ends'} of {out.dtype.name}"
    launch = text.launch(title, title, __name__, grid_for(out.size))
    return NativeCall((launch,), bytes_moved=out.nbytes)


# numbers of 64 bits count, as those of 32 do: TensorFlow keeps both in host memory
@device_native("Range", without=("int64", "float16", "bfloat16"))
def _range(spec: NodeSpec) -> NativeCall:
    return _equal_steps(spec, True)


@device_native("LinSpace", without=("float16", "bfloat16"))
def _between(spec: NodeSpec) -> NativeCall:
    return _equal_steps(spec, False)
