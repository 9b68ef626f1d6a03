"""Build the gradient of mirrored padding for GPUs.

An element is the sum over its places in the padded array. The places along each axis are tables
that NumPy makes while planning, so a thread adds up its element in one order.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final, Literal

import numpy as np

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.conv.window import attr_text
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, Unsupported

_MOST: Final = 3
"""Places of an element along an axis.

These are its own, and one beyond each end.
"""


def _places(size: int, before: int, after: int, reflects: bool) -> np.ndarray:
    """Return the padded places of each element, int32 [size, 3].

    A missing one is -1. Raises Unsupported for more padding than the axis mirrors.
    """
    if max(before, after) > size - reflects or min(before, after) < 0:
        raise Unsupported("more padding than elements: the reference tells")
    mode: Literal["reflect", "symmetric"] = "reflect" if reflects else "symmetric"
    sources = np.pad(np.arange(size), (before, after), mode) if size else np.zeros(0, int)
    found = np.full((size, _MOST), -1, np.int32)
    found[:, 0] = np.arange(before, before + size)
    found[sources[:before], 1] = np.arange(before)
    found[sources[before + size :], 2] = np.arange(before + size, before + size + after)
    return found


@device_native("MirrorPadGrad", without=("bool",))
def _gradient(spec: NodeSpec) -> NativeCall:
    dy, out = spec.inputs[0], spec.outputs[0]
    if 1 not in spec.constants:
        raise Unsupported("the padding is not known while planning")
    pairs = np.asarray(spec.constants[1]).reshape(-1, 2).tolist()
    if len(pairs) != len(out.shape) or not element_kinds.is_supported(out.dtype):
        raise Unsupported(f"gradients of {out.dtype.name}, or other shapes")
    reflects = attr_text(spec.attrs, "mode") == "REFLECT"
    if any(b + n + a != m for (b, a), n, m in zip(pairs, out.shape, dy.shape, strict=True)):
        raise Unsupported("shapes do not fit: the reference tells")
    if not out.size:
        return NativeCall(())
    padded = [k for k, pair in enumerate(pairs) if any(pair)]
    tables = [_places(out.shape[k], pairs[k][0], pairs[k][1], reflects) for k in padded]
    rank = len(pairs)
    text = KernelText(fits_32_bits([dy.size]))
    text.argument("count", out.size)
    for k in range(rank):
        text.argument(f"n{k}", out.shape[k])
        text.argument(f"m{k}", dy.shape[k])
    for number, k in enumerate(padded):
        address = text.argument(f"places{k}_at", Pointer("const", number))
        text.line(f"places{k} = ptr_i32({address})")
    text.line(f"x_p = {element_kinds.pointer(dy.dtype, text.argument('dy', Pointer('in', 0)))}")
    text.line(f"y_p = {element_kinds.pointer(out.dtype, text.argument('dx', Pointer('out', 0)))}")
    name = expressions.register_type(out.dtype)
    with grid_stride(text, "u", "count"):
        text.line("rest = u")
        for k in range(rank - 1, -1, -1):
            text.split("rest", "rest", f"i{k}", f"n{k}")
        text.line(f"total = {expressions.literal(0, out.dtype)}")
        with ExitStack() as loops:
            at = "0"
            for k in range(rank):
                place = f"i{k}"
                if k in padded:
                    place = f"p{k}"
                    loops.enter_context(text.block(f"for t{k} in range({_MOST}):"))
                    text.line(f"p{k} = int64(ld_ro(places{k}, i{k} * {_MOST} + t{k}))")
                    loops.enter_context(text.block(f"if p{k} >= 0:"))
                at = f"({at}) * m{k} + {place}" if k else place
            load = "ld" if dy.dtype.is_complex else "ld_ro"
            value = expressions.loaded(dy.dtype, f"{load}(x_p, {at})")
            text.line(f"total = {name}(total + {value})")
        text.line(f"st(y_p, u, {expressions.stored(out.dtype, 'total')})")
    mirrored = " ".join(map(str, padded))
    title = f"gradient of padding of {out.dtype.name}, {rank} dims, mirrored: {mirrored or 'none'}"
    launch = text.launch(title, title, __name__, grid_for(out.size))
    return NativeCall((launch,), constants=tuple(tables), bytes_moved=dy.nbytes + out.nbytes)
