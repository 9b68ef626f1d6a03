"""Build Fourier transforms of sizes that are products of 2, 3 and 5.

Eight lines of an array are transformed at once, one in each lane of the vectors: their real and
imaginary parts are copied to planes [n, 8], which the stages of Stockham's algorithm pass between
two buffers. Other sizes, and single lines, are left to the reference.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, prod, sin, sqrt
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen.transpose_text import IMPORT, write_transpose
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource, Source

_LANES: Final = 8
_TILE: Final = 16
_LEAST_LINES: Final = 4
_LARGEST: Final = 1 << 14
_ELEMENT_NS: Final = 0.5  # of each stage
_BLOCK_BYTES: Final = 128
_REAL: Final = {d.complex64: ("f32", 4), d.complex128: ("f64", 8)}
_REAL_OF: Final = {d.float32: d.complex64, d.float64: d.complex128}


def radices(size: int) -> list[int] | None:
    """Return the radices of the stages, or None for a size with another prime factor."""
    found = []
    for radix in (4, 2, 3, 5):
        while size % radix == 0:
            found.append(radix)
            size //= radix
    return found if size == 1 else None


def _butterfly(s: Source, radix: int, kind: str) -> None:
    """Write the transform of (r0, i0).. to (u0, v0)..; `sign` is that of the exponent."""

    def number(value: float) -> str:
        return f"float{kind[1:]}({value!r})"

    def line(target: str, value: str) -> None:
        """Write one line for real and one for imaginary parts; {p} and {q} are the parts."""
        for p, t in (("r", "u"), ("i", "v")):
            s.line(f"{target.format(p=p, t=t)} = {value.format(p=p)}")

    def rotate(name: str, value: str) -> None:
        """Write i * sign * value."""
        s.line(f"{name}r = -sign * ({value.format(p='i')})")
        s.line(f"{name}i = sign * ({value.format(p='r')})")

    if radix == 2:
        line("{t}0", "{p}0 + {p}1")
        line("{t}1", "{p}0 - {p}1")
    elif radix == 3:
        line("sum{p}", "{p}1 + {p}2")
        rotate("turn", f"{number(sqrt(0.75))} * ({{p}}1 - {{p}}2)")
        line("{t}0", "{p}0 + sum{p}")
        line("base{p}", f"{{p}}0 - {number(0.5)} * sum{{p}}")
        line("{t}1", "base{p} + turn{p}")
        line("{t}2", "base{p} - turn{p}")
    elif radix == 4:
        line("even{p}", "{p}0 + {p}2")
        line("odd{p}", "{p}1 + {p}3")
        line("rest{p}", "{p}0 - {p}2")
        rotate("turn", "{p}1 - {p}3")
        for k, value in enumerate(("even{p} + odd{p}", "rest{p} + turn{p}")):
            line(f"{{t}}{k}", value)
            line(f"{{t}}{k + 2}", value.replace("+", "-"))
    else:
        c1, c2, s1, s2 = cos(2 * pi / 5), cos(4 * pi / 5), sin(2 * pi / 5), sin(4 * pi / 5)
        for k in (1, 2):
            line(f"sum{k}{{p}}", f"{{p}}{k} + {{p}}{5 - k}")
            line(f"gap{k}{{p}}", f"{{p}}{k} - {{p}}{5 - k}")
        line("{t}0", "{p}0 + sum1{p} + sum2{p}")
        for k, (c, e, f, g) in enumerate(((c1, c2, s1, s2), (c2, c1, s2, -s1)), 1):
            line("base{p}", f"{{p}}0 + {number(c)} * sum1{{p}} + {number(e)} * sum2{{p}}")
            rotate("turn", f"{number(f)} * gap1{{p}} + {number(g)} * gap2{{p}}")
            line(f"{{t}}{k}", "base{p} + turn{p}")
            line(f"{{t}}{5 - k}", "base{p} - turn{p}")


@functools.cache
def stage_source(kind: str) -> KernelSource:
    """Write a stage for each radix: transforms of length `done` become longer by the radix.

    Words: source and target (real plane, then imaginary plane), bytes of a plane, done, groups
    (size / (done * radix)), twiddle factors [radix - 1, 2 (real, imaginary), done, lanes], and the
    sign of the exponent (the bits of a float64).
    """
    s, size = Source(), int(kind[1:]) // 8
    s.line(f"# stages of Fourier transforms {kind}")
    s.line("from numba import float32, float64")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    for radix in (2, 3, 4, 5):
        with s.block(f"def radix{radix}(args, chunk, nchunks):"):
            for i, name in enumerate(("source", "target", "plane", "done", "groups")):
                s.line(f"{name} = word(args, {i + 2})")
            s.line(f"twiddles = ptr_{kind}(word(args, 7))")
            s.line(f"sign = float{kind[1:]}(f64_word(args, 8))")
            for name, p, t in (("real", "r", "u"), ("imaginary", "i", "v")):
                offset = "" if name == "real" else " + plane"
                s.line(f"in_{p} = ptr_{kind}(source{offset})")
                s.line(f"out_{t} = ptr_{kind}(target{offset})")
            s.line(f"width = {_LANES} * done")
            s.line("step = width * groups")
            with s.block("for g in range(groups):"):
                for p, t in (("r", "u"), ("i", "v")):
                    s.line(f"from_{p} = offset_by(in_{p}, {size} * width * g)")
                    s.line(f"to_{t} = offset_by(out_{t}, {size * radix} * width * g)")
                with s.block("if done == 1:"):
                    _write_columns(s, kind, radix, twiddled=False)
                with s.block("else:"):
                    _write_columns(s, kind, radix, twiddled=True)
    entries = tuple(f"radix{radix}" for radix in (2, 3, 4, 5))
    # eight elements fill a vector: a loop that takes several at a time would leave them to scalars
    return KernelSource(
        s.text(), entries, interleave=1, title=f"Fourier stages {kind}", module=__name__
    )


def _write_columns(s: Source, kind: str, radix: int, twiddled: bool) -> None:
    """Write the butterflies of one group: elements of all its transforms and lanes in a loop."""
    with s.block("for k in range(width):"):
        for q in range(radix):
            for p in "ri":
                s.line(f"{p}{q} = ld(from_{p}, {q} * step + k)")
            if q and twiddled:
                s.line(f"c = ld(twiddles, {2 * q - 2} * width + k)")
                s.line(f"s = ld(twiddles, {2 * q - 1} * width + k)")
                s.line(f"x = r{q} * c - i{q} * s")
                s.line(f"i{q} = r{q} * s + i{q} * c")
                s.line(f"r{q} = x")
        _butterfly(s, radix, kind)
        for u in range(radix):
            s.line(f"st_out(to_u, {u} * width + k, u{u}, 0)")
            s.line(f"st_out(to_v, {u} * width + k, v{u}, 1)")


_LINE_WORDS: Final = (
    "lines", "inner", "size", "source_step", "target_step", "stages", "table", "twiddles", "source",
    "target", "scratch", "stride", "radix2", "radix3", "radix4", "radix5",
)  # fmt: skip


@functools.cache
def lines_source(kind: str, form: str) -> KernelSource:
    """Write the transforms of the lines of an array [outer, n, inner].

    form: "complex", "real" (to half of the spectrum) or "half" (half of the spectrum to real).
    Words: those of _LINE_WORDS, the sign of the exponent, and the factor of the results (the bits
    of float64 values). source_step, target_step: elements of n in both arrays. table: (radix, done,
    groups, byte of the twiddle factors) of each stage. Lines are numbered with inner as the fast
    axis; a unit has eight of them.
    """
    s = Source()
    s.line(f"# Fourier transforms of lines {kind}, {form}")
    s.line("from numba import float32, float64")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line(IMPORT)
    size = int(kind[1:]) // 8
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(_LINE_WORDS):
            s.line(f"{name} = word(args, {i + 2})")
        s.line(f"sign_bits = word(args, {len(_LINE_WORDS) + 2})")
        s.line(f"factor = float{kind[1:]}(f64_word(args, {len(_LINE_WORDS) + 3}))")
        s.line("block = scratch + chunk * stride")
        s.line(f"plane = size * {_LANES * size}")
        s.line(f"buffer = block + {_BLOCK_BYTES}")
        s.line(f"units = (lines + {_LANES - 1}) // {_LANES}")
        s.line("first = units * chunk // nchunks")
        with s.block("for u in range(units * (chunk + 1) // nchunks - first):"):
            s.line(f"line = (first + u) * {_LANES}")
            s.line(f"here = min({_LANES}, lines - line)")
            s.line("front = buffer")
            s.line("back = buffer + 2 * plane")
            s.line("adjacent = here if line % inner + here <= inner and inner > 1 else 0")
            _write_read(s, kind, form)
            with s.block("for stage in range(stages):"):
                s.line("row = table + 32 * stage")
                s.line("radix = word(row, 0)")
                values = ("front", "back", "plane", "word(row, 1)", "word(row, 2)")
                for i, value in enumerate((*values, "twiddles + word(row, 3)", "sign_bits")):
                    s.line(f"store_word(block + {8 * (i + 2)}, {value})")
                s.line("code = radix2 if radix == 2 else radix3 if radix == 3 else radix4")
                s.line("code = radix5 if radix == 5 else code")
                s.line("call(code, block, 0, 1)")
                s.line("held = front")
                s.line("front = back")
                s.line("back = held")
            _write_results(s, kind, form)
    return KernelSource(s.text(), title=f"Fourier transforms {kind} {form}", module=__name__)


def _write_planes(s: Source, kind: str, step: str) -> None:
    s.line(f"re = ptr_{kind}(front)")
    s.line(f"im = ptr_{kind}(front + plane)")
    s.line(f"begin = line // inner * {step} * inner + line % inner")


def _write_lanes(s: Source, step: str) -> None:
    """Write the loops over lanes that lie apart and their elements, a tile after another.

    A tile stays in the first-level cache while all lanes pass over it.
    """
    s.begin(f"for tile in range(({step} + {_TILE - 1}) // {_TILE}):")
    s.line(f"tile_end = min((tile + 1) * {_TILE}, {step})")
    s.begin("for lane in range(here):")
    s.line("one = line + lane")
    s.line(f"base = one // inner * {step} * inner + one % inner")
    s.begin(f"for k in range(tile * {_TILE}, tile_end):")


def _write_read(s: Source, kind: str, form: str) -> None:
    size = int(kind[1:]) // 8
    parts = 1 if form == "real" else 2
    _write_planes(s, kind, "source_step")
    s.line(f"from_p = ptr_{kind}(source)")
    # lanes without a line have zeros
    with s.block(f"if here < {_LANES}:"):
        s.line("fill_bytes(front, 0, 2 * plane)")
    if form == "real":
        with s.block("else:"):
            s.line("fill_bytes(front + plane, 0, plane)")
    with s.block("if adjacent > 0:"), s.block("for k in range(source_step):"):
        s.line(f"line_p = ptr_{kind}(source + {parts * size} * (begin + k * inner))")
        s.line(f"re_k = ptr_{kind}(front + {_LANES * size} * k)")
        s.line(f"im_k = ptr_{kind}(front + plane + {_LANES * size} * k)")
        with s.block("for lane in range(here):"):
            if parts == 2:
                s.line("st_any(re_k, lane, ld_any(line_p, 2 * lane))")
                s.line("st_any(im_k, lane, ld_any(line_p, 2 * lane + 1))")
            else:
                s.line("st_any(re_k, lane, ld_any(line_p, lane))")
    with s.block("elif inner == 1:"):
        element = parts * size
        to = "back" if parts == 2 else "front"
        write_transpose(
            s, element, to, f"{_LANES * element}", f"source + {element} * begin",
            f"{element} * source_step", "source_step", "here",
        )  # fmt: skip
        if parts == 2:
            s.line(f"staged = ptr_{kind}(back)")
            with s.block(f"for k in range({_LANES} * source_step):"):
                s.line("st_any(re, k, ld_any(staged, 2 * k))")
                s.line("st_any(im, k, ld_any(staged, 2 * k + 1))")
    with s.block("else:"):
        _write_lanes(s, "source_step")
        s.line(f"at = {parts} * (base + k * inner)")
        s.line(f"st_any(re, {_LANES} * k + lane, ld_any(from_p, at))")
        if parts == 2:
            s.line(f"st_any(im, {_LANES} * k + lane, ld_any(from_p, at + 1))")
        for _ in range(3):
            s.end()
    if form == "half":
        with (
            s.block("for k in range(source_step, size):"),
            s.block(f"for lane in range({_LANES}):"),
        ):
            s.line(f"st_any(re, {_LANES} * k + lane, ld_any(re, {_LANES} * (size - k) + lane))")
            s.line(f"st_any(im, {_LANES} * k + lane, -ld_any(im, {_LANES} * (size - k) + lane))")


def _write_results(s: Source, kind: str, form: str) -> None:
    size = int(kind[1:]) // 8
    parts = 1 if form == "half" else 2
    _write_planes(s, kind, "target_step")
    s.line(f"to_p = ptr_{kind}(target)")
    with s.block("if adjacent > 0:"), s.block("for k in range(target_step):"):
        s.line(f"line_p = ptr_{kind}(target + {parts * size} * (begin + k * inner))")
        s.line(f"re_k = ptr_{kind}(front + {_LANES * size} * k)")
        s.line(f"im_k = ptr_{kind}(front + plane + {_LANES * size} * k)")
        with s.block("for lane in range(here):"):
            s.line(f"st_any(line_p, {parts} * lane, ld_any(re_k, lane) * factor)")
            if parts == 2:
                s.line("st_any(line_p, 2 * lane + 1, ld_any(im_k, lane) * factor)")
    with s.block("elif inner == 1:"):
        s.line(f"staged = ptr_{kind}(back)")
        with s.block(f"for k in range({_LANES} * target_step):"):
            s.line(f"st_any(staged, {parts} * k, ld_any(re, k) * factor)")
            if parts == 2:
                s.line("st_any(staged, 2 * k + 1, ld_any(im, k) * factor)")
        element = parts * size
        write_transpose(
            s, element, f"target + {element} * begin", f"{element} * target_step", "back",
            f"{_LANES * element}", "here", "target_step",
        )  # fmt: skip
    with s.block("else:"):
        _write_lanes(s, "target_step")
        s.line(f"at = {parts} * (base + k * inner)")
        s.line(f"st_any(to_p, at, ld_any(re, {_LANES} * k + lane) * factor)")
        if parts == 2:
            s.line(f"st_any(to_p, at + 1, ld_any(im, {_LANES} * k + lane) * factor)")
        for _ in range(3):
            s.end()


@dataclass(frozen=True, slots=True)
class _Pass:
    """Transforms along one axis of [outer, n, inner]; steps: sizes of n in source and target."""

    form: str
    outer: int
    size: int
    inner: int
    source_step: int
    target_step: int


def _float_word(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def _add_pass(
    call: CallBuilder, dtype: DType, one: _Pass, inverse: bool, source: Pointer, target: Pointer
) -> None:
    """Add the launch of a pass. Raises Unsupported for a size without stages."""
    found = radices(one.size)
    if found is None or one.size > _LARGEST:
        raise Unsupported(f"Fourier transforms of {one.size} elements")
    kind, size = _REAL[dtype]
    sign = 1.0 if inverse else -1.0
    done, rows, factors = 1, list[tuple[int, int, int, int]](), list[np.ndarray]()
    at = 0
    for radix in found:
        rows.append((radix, done, one.size // (done * radix), at))
        if done > 1:
            powers = np.outer(np.arange(1, radix), np.arange(done))
            turns = np.exp(sign * 2j * np.pi * powers / (done * radix))
            parts = np.repeat(np.stack([turns.real, turns.imag], 1), _LANES, axis=-1)
            factors.append(parts.reshape(-1).astype(np.float32 if size == 4 else np.float64))
            at += factors[-1].nbytes
        done *= radix
    lines = one.outer * one.inner
    work = predicted(lines) * one.size
    cost = cost_model.FIXED_NS + _ELEMENT_NS * size / 4 * work * (2 + len(found))
    units = -(-lines // _LANES)
    chunks = cost_model.chunks_for(cost, units)
    stride = _BLOCK_BYTES + 4 * one.size * _LANES * size
    stages = stage_source(kind)
    codes = tuple(Pointer("code", source=stages, entry=f"radix{r}") for r in (2, 3, 4, 5))
    words = (
        *(lines, one.inner, one.size, one.source_step, one.target_step, len(found)),
        call.table(rows if rows else [(0, 0, 0, 0)]),
        call.constant(np.concatenate(factors) if factors else np.zeros(1)),
        *(source, target, call.temp(chunks * stride), stride, *codes),
        *(_float_word(sign), _float_word(1 / one.size if inverse else 1.0)),
    )
    call.launch(Launch(lines_source(kind, one.form), words, chunks=chunks, cost_ns=cost))


def _passes(
    shape: Sequence[int], rank: int, form: str, last: tuple[int, int], length: int
) -> list[_Pass]:
    """Return the passes in their order, the last axis first.

    shape: of the complex array of all axes but the last. last: sizes of the last axis in source and
    target of its pass; length: of its transform.
    """
    outer = prod(shape[:-1])
    found = [_Pass(form, outer, length, 1, *last)]
    inner = min(last) if form != "complex" else last[0]
    for axis in range(len(shape) - 2, len(shape) - rank - 1, -1):
        size = shape[axis]
        outer = prod(shape[:axis])
        found.append(_Pass("complex", outer, size, inner, size, size))
        inner = inner * size
    return found


def _checked_lines(passes: Sequence[_Pass]) -> None:
    """Raise Unsupported for sizes that are no numbers, and where most lanes would be empty."""
    for one in passes:
        if not isinstance(one.size, int) or not isinstance(one.inner, int) or one.size < 1:
            raise Unsupported("sizes of transforms are not known while planning")
        if not at_least(one.outer * one.inner) >= _LEAST_LINES:
            raise Unsupported("few lines: the reference is faster")


def _rank(op: str) -> int:
    return int(op[-2]) if op.endswith("D") else 1


@native("FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D")
def _complex(spec: NodeSpec) -> NativeCall:
    (x,) = spec.inputs
    rank = _rank(spec.op)
    if x.dtype not in _REAL or len(x.shape) < rank:
        raise Unsupported(f"Fourier transforms of {x.dtype.name}")
    passes = _passes(x.shape, rank, "complex", (x.shape[-1], x.shape[-1]), x.shape[-1])
    _checked_lines(passes)
    call, source = CallBuilder(), Pointer("in", 0)
    for one in passes:
        _add_pass(call, x.dtype, one, spec.op.startswith("I"), source, Pointer("out", 0))
        source = Pointer("out", 0)
    return call.finish(2 * rank * predicted(x.nbytes))


def _lengths(spec: NodeSpec, rank: int) -> list[int]:
    """Return the sizes of the real array. Raises Unsupported."""
    if 1 not in spec.constants:
        raise Unsupported("the size of the transform is not known while planning")
    lengths = [int(n) for n in np.asarray(spec.constants[1]).reshape(-1)]
    if len(lengths) != rank or min(lengths) < 1:
        raise Unsupported("shapes do not fit: the reference tells")
    return lengths


@native("RFFT", "RFFT2D", "RFFT3D")
def _real(spec: NodeSpec) -> NativeCall:
    x, rank = spec.inputs[0], _rank(spec.op)
    lengths = _lengths(spec, rank)
    out = spec.outputs[0]
    if _REAL_OF.get(x.dtype) is not out.dtype or tuple(x.shape[len(x.shape) - rank :]) != tuple(
        lengths
    ):
        raise Unsupported("cropped input")
    passes = _passes(x.shape, rank, "real", (x.shape[-1], out.shape[-1]), lengths[-1])
    _checked_lines(passes)
    call, source = CallBuilder(), Pointer("in", 0)
    for one in passes:
        _add_pass(call, out.dtype, one, False, source, Pointer("out", 0))
        source = Pointer("out", 0)
    return call.finish(2 * rank * predicted(out.nbytes))


@native("IRFFT", "IRFFT2D", "IRFFT3D")
def _inverse_real(spec: NodeSpec) -> NativeCall:
    x, rank = spec.inputs[0], _rank(spec.op)
    lengths = _lengths(spec, rank)
    out = spec.outputs[0]
    half = [*lengths[:-1], lengths[-1] // 2 + 1]
    if _REAL_OF.get(out.dtype) is not x.dtype or list(x.shape[len(x.shape) - rank :]) != half:
        raise Unsupported("cropped input")
    last, *others = _passes(x.shape, rank, "half", (half[-1], lengths[-1]), lengths[-1])
    _checked_lines([last, *others])
    call, source = CallBuilder(), Pointer("in", 0)
    spectrum = call.temp(x.nbytes) if others else source
    for one in others:
        _add_pass(call, x.dtype, one, True, source, spectrum)
        source = spectrum
    _add_pass(call, x.dtype, last, True, source, Pointer("out", 0))
    return call.finish(2 * rank * predicted(x.nbytes))
