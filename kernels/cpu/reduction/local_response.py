"""Build local response normalization across channels, and its gradient.

A pixel's squares stand in scratch memory between zeros, so that every window is whole. Sums are
float32, as TensorFlow's are. All sizes but the radius are argument words.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.indexed_rows import write_imports
from tfjit.kernels.ir.symbolic_size import predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource, Source

_MAX_RADIUS: Final = 8
_TAP_NS: Final = 0.1
_POWER_NS: Final = 0.6
_POWERS: Final = {
    0.5: "float32(1) / sqrt(norm)",
    0.75: "float32(1) / (sqrt(norm) * sqrt(sqrt(norm)))",
    1.0: "float32(1) / norm",
}
"""norm ** -beta, by beta."""


def _begin(s: Source, title: str, pointers: tuple[str, ...], lines: tuple[str, ...]) -> None:
    """Write the head of a kernel.

    pointers: names of the tensors. lines: names of the chunk's lines of scratch memory.
    """
    write_imports(s, title)
    s.begin("def kernel(args, chunk, nchunks):")
    names = (*pointers, "scratch", "scratch_size", "rows", "depth")
    for k, name in enumerate(names):
        s.line(f"{name} = word(args, {2 + k})")
    for k, name in enumerate(("bias", "alpha", "beta")):
        s.line(f"{name} = float32(f64_word(args, {2 + len(names) + k}))")
    s.line("place = scratch + chunk * scratch_size")
    s.line(f"stride = scratch_size // {len(lines)}")
    for k, name in enumerate(lines):
        s.line(f"{name}_p = ptr_f32(place + {k} * stride)")
    s.line("first = rows * chunk // nchunks")
    s.line("last = rows * (chunk + 1) // nchunks")


def _write_zeros(s: Source, line: int, name: str, radius: int) -> None:
    """Write zeros before and behind a line's channels."""
    with s.block(f"for i in range({radius}):"):
        s.line(f"st_out({name}_p, i, float32(0), {line})")
        s.line(f"st_out({name}_p, {radius} + depth + i, float32(0), {line})")


def _window(line: int, name: str, radius: int) -> str:
    """Return the sum of the window around channel c."""
    return " + ".join(f"ld_out({name}_p, c + {k}, {line})" for k in range(2 * radius + 1))


def _power(beta: float) -> str:
    return _POWERS.get(beta, "vm.pow_f32(norm, -beta)")


def response_source(radius: int, beta: float) -> KernelSource:
    """Write the normalization of pixels [rows, depth].

    beta: 0.5, 0.75, 1, or 0 for any.
    """
    s = Source()
    _begin(s, f"local response, radius {radius}, beta {beta}", ("x", "y"), ("square",))
    _write_zeros(s, 1, "square", radius)
    with s.block("for step in range(last - first):"):
        s.line("x_p = ptr_f32(x + (first + step) * depth * 4)")
        s.line("y_p = ptr_f32(y + (first + step) * depth * 4)")
        with s.block("for c in range(depth):"):
            s.line("v = ld(x_p, c)")
            s.line(f"st_out(square_p, c + {radius}, v * v, 1)")
        with s.block("for c in range(depth):"):
            s.line(f"norm = bias + alpha * ({_window(1, 'square', radius)})")
            s.line(f"st_out(y_p, c, ld(x_p, c) * ({_power(beta)}), 0)")
    return KernelSource(s.text(), title="local response", module=__name__)


def gradient_source(radius: int, beta: float) -> KernelSource:
    """Write the gradient by the input; beta as in `response_source`."""
    s = Source()
    lines = ("square", "norm", "ratio")
    title = f"gradient of local response, radius {radius}, beta {beta}"
    _begin(s, title, ("dy", "x", "y", "dx"), lines)
    _write_zeros(s, 1, "square", radius)
    _write_zeros(s, 3, "ratio", radius)
    s.line("factor = float32(-2) * alpha * beta")
    with s.block("for step in range(last - first):"):
        for name in ("dy", "x", "y", "dx"):
            s.line(f"{name}_p = ptr_f32({name} + (first + step) * depth * 4)")
        with s.block("for c in range(depth):"):
            s.line("v = ld(x_p, c)")
            s.line(f"st_out(square_p, c + {radius}, v * v, 1)")
        with s.block("for c in range(depth):"):
            s.line(f"norm = bias + alpha * ({_window(1, 'square', radius)})")
            s.line("st_out(norm_p, c, norm, 2)")
            s.line(f"st_out(ratio_p, c + {radius}, ld(dy_p, c) * ld(y_p, c) / norm, 3)")
        with s.block("for c in range(depth):"):
            s.line("norm = ld_out(norm_p, c, 2)")
            s.line(f"through = factor * ld(x_p, c) * ({_window(3, 'ratio', radius)})")
            s.line(f"st_out(dx_p, c, ld(dy_p, c) * ({_power(beta)}) + through, 0)")
    return KernelSource(s.text(), title="gradient of local response", module=__name__)


def _call(spec: NodeSpec, source: KernelSource, lines: int, radius: int) -> NativeCall:
    shape = spec.inputs[0].shape
    rows, depth = prod(shape[:3]), shape[3]
    arrays = len(spec.inputs) + 1
    moved = predicted(spec.outputs[0].nbytes) * arrays
    work = predicted(rows * depth) * (_TAP_NS * (2 * radius + 1) * lines + _POWER_NS)
    cost = cost_model.FIXED_NS + work + cost_model.traffic_ns(moved)
    chunks = cost_model.chunks_for(cost, predicted(rows))
    size = lines * (-(-(depth + 2 * radius) * 4 // 64) * 64)
    numbers = [spec.attrs.get(name, default) for name, default in
               (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))]  # fmt: skip
    words: tuple[Word, ...] = (
        *(Pointer("in", k) for k in range(len(spec.inputs))),
        Pointer("out", 0),
        *(Pointer("temp", 0), size, rows, depth),
        *(int(np.float64(number).view(np.int64)) for number in numbers),
    )
    launch = Launch(source, words, chunks=chunks, cost_ns=cost)
    return NativeCall((launch,), temp_bytes=(size * chunks,), bytes_moved=moved)


def _options(spec: NodeSpec) -> tuple[int, float]:
    """Return radius and beta of a node that has a compiled form."""
    radius, beta = int(spec.attrs.get("depth_radius", 5)), float(spec.attrs.get("beta", 0.5))
    if any(one.dtype is not d.float32 or len(one.shape) != 4 for one in spec.inputs):
        raise Unsupported("local response of other images than float32")
    if any(one.shape != spec.inputs[0].shape for one in spec.inputs):
        raise Unsupported("shapes do not fit: the reference tells")
    if not isinstance(spec.inputs[0].shape[3], int) or not 0 <= radius <= _MAX_RADIUS:
        raise Unsupported(f"windows of a radius above {_MAX_RADIUS}, or of unknown channels")
    return radius, beta if beta in _POWERS else 0.0


@native("LRN")
def _response(spec: NodeSpec) -> NativeCall:
    radius, beta = _options(spec)
    return _call(spec, response_source(radius, beta), 1, radius)


@native("LRNGrad")
def _gradient(spec: NodeSpec) -> NativeCall:
    radius, beta = _options(spec)
    return _call(spec, gradient_source(radius, beta), 3, radius)
