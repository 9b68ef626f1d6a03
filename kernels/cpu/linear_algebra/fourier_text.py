"""Write the kernels of Fourier transforms.

They are the stages, and the copies of lines from and to arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import cos, pi, sin, sqrt
from typing import Final

from tfjit.kernels.codegen.transpose_text import IMPORT, write_transpose
from tfjit.kernels.source import KernelSource, Source

LANES: Final = 8
"""Lines that are transformed at once."""
BLOCK_BYTES: Final = 128
"""Bytes of the argument block of a stage."""
_TILE: Final = 16


def _butterfly(s: Source, radix: int, kind: str) -> None:
    """Write the transform of (r0, i0).. to (u0, v0)...

    `sign` is that of the exponent.
    """

    def number(value: float) -> str:
        return f"float{kind[1:]}({value!r})"

    def line(target: str, value: str) -> None:
        """Write one line for real and one for imaginary parts."""
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
        rotate("rotated", f"{number(sqrt(0.75))} * ({{p}}1 - {{p}}2)")
        line("{t}0", "{p}0 + sum{p}")
        line("base{p}", f"{{p}}0 - {number(0.5)} * sum{{p}}")
        line("{t}1", "base{p} + rotated{p}")
        line("{t}2", "base{p} - rotated{p}")
    elif radix == 4:
        line("even{p}", "{p}0 + {p}2")
        line("odd{p}", "{p}1 + {p}3")
        line("rest{p}", "{p}0 - {p}2")
        rotate("rotated", "{p}1 - {p}3")
        for k, value in enumerate(("even{p} + odd{p}", "rest{p} + rotated{p}")):
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
            rotate("rotated", f"{number(f)} * gap1{{p}} + {number(g)} * gap2{{p}}")
            line(f"{{t}}{k}", "base{p} + rotated{p}")
            line(f"{{t}}{5 - k}", "base{p} - rotated{p}")


@functools.cache
def stage_source(kind: str) -> KernelSource:
    """Write a stage for each radix.

    Transforms of length `done` become longer by the radix.

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
            s.line(f"width = {LANES} * done")
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
    """Write the butterflies of one group.

    One loop is over the elements of its transforms and over lanes.
    """
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


LINE_WORDS: Final = (
    "lines", "inner", "size", "source_step", "target_step", "stages", "table", "twiddles", "source",
    "target", "scratch", "stride", "width", "radix2", "radix3", "radix4", "radix5",
)  # fmt: skip


@functools.cache
def lines_source(kind: str, form: str) -> KernelSource:
    """Write the transforms of the lines of an array [outer, n, inner].

    form: "complex", "real" (to half of the spectrum) or "half" (half of the spectrum to real).
    Words: those of LINE_WORDS, the sign of the exponent, and the factor of the results (the bits of
    float64 values). source_step, target_step: elements of n in both arrays. table: (radix, done,
    groups, byte of the twiddle factors) of each stage. Lines are numbered with inner as the fast
    axis. A unit has a line for each lane, of real values two: the second is transformed as an
    imaginary part. width: the number of lanes, in a word so that LLVM vectorises loops over lanes,
    which it would otherwise unroll.
    """
    s = Source()
    s.line(f"# Fourier transforms of lines {kind}, {form}")
    s.line("from numba import float32, float64")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line(IMPORT)
    size = int(kind[1:]) // 8
    with s.block("def kernel(args, chunk, nchunks):"):
        for i, name in enumerate(LINE_WORDS):
            s.line(f"{name} = word(args, {i + 2})")
        s.line(f"sign_bits = word(args, {len(LINE_WORDS) + 2})")
        s.line(f"factor = float{kind[1:]}(f64_word(args, {len(LINE_WORDS) + 3}))")
        s.line("block = scratch + chunk * stride")
        s.line(f"plane = size * {LANES * size}")
        s.line(f"buffer = block + {BLOCK_BYTES}")
        per_unit = LANES if form == "complex" else 2 * LANES
        s.line(f"units = (lines + {per_unit - 1}) // {per_unit}")
        s.line("first = units * chunk // nchunks")
        with s.block("for u in range(units * (chunk + 1) // nchunks - first):"):
            s.line(f"line = (first + u) * {per_unit}")
            s.line(f"here = min({LANES}, lines - line)")
            s.line(f"more = max(0, min({LANES}, lines - line - {LANES}))")
            s.line("front = buffer")
            s.line("back = buffer + 2 * plane")
            s.line(f"re = ptr_{kind}(front)")
            s.line(f"im = ptr_{kind}(front + plane)")
            s.line(f"staged = ptr_{kind}(back)")
            _READERS[form](s, kind)
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
            s.line(f"re = ptr_{kind}(front)")
            s.line(f"im = ptr_{kind}(front + plane)")
            s.line(f"staged = ptr_{kind}(back)")
            _WRITERS[form](s, kind)
    title = f"Fourier transforms {kind} {form}"
    return KernelSource(s.text(), interleave=1, title=title, module=__name__)


def _bytes(kind: str) -> int:
    return int(kind[1:]) // 8


# Complex lines


def _write_lanes(s: Source, step: str) -> None:
    """Write the loops over lanes that lie apart.

    Their elements come in tiles.

    A tile stays in the first-level cache while all lanes pass over it.
    """
    s.begin(f"for tile in range(({step} + {_TILE - 1}) // {_TILE}):")
    s.begin("for lane in range(here):")
    s.line("one = line + lane")
    s.line(f"base = one // inner * {step} * inner + one % inner")
    s.begin(f"for k in range(tile * {_TILE}, min((tile + 1) * {_TILE}, {step})):")
    s.line("at = 2 * (base + k * inner)")


def _write_adjacent(s: Source, kind: str, step: str, array: str) -> None:
    """Write the loops over elements and their adjacent lanes.

    The caller ends them.
    """
    size = _bytes(kind)
    s.line(f"begin = line // inner * {step} * inner + line % inner")
    s.begin("if line % inner + here <= inner and inner > 1:")
    s.begin(f"for k in range({step}):")
    s.line(f"line_p = ptr_{kind}({array} + {2 * size} * (begin + k * inner))")
    s.line(f"re_k = ptr_{kind}(front + {LANES * size} * k)")
    s.line(f"im_k = ptr_{kind}(front + plane + {LANES * size} * k)")
    s.begin("for lane in range(here):")


def _end(s: Source, count: int) -> None:
    for _ in range(count):
        s.end()


def _read_complex(s: Source, kind: str) -> None:
    element = 2 * _bytes(kind)
    # lanes without a line have zeros
    with s.block(f"if here < {LANES}:"):
        s.line("fill_bytes(front, 0, 4 * plane)")
    _write_adjacent(s, kind, "size", "source")
    s.line("st_out(re_k, lane, ld(line_p, 2 * lane), 0)")
    s.line("st_out(im_k, lane, ld(line_p, 2 * lane + 1), 1)")
    _end(s, 3)
    with s.block("elif inner == 1:"):
        _stage_lines(s, "source", element, "size", "line", "here")
        with s.block(f"for k in range({LANES} * size):"):
            s.line("st_any(re, k, ld_any(staged, 2 * k))")
            s.line("st_any(im, k, ld_any(staged, 2 * k + 1))")
    with s.block("else:"):
        s.line(f"from_p = ptr_{kind}(source)")
        _write_lanes(s, "size")
        s.line(f"st_any(re, {LANES} * k + lane, ld_any(from_p, at))")
        s.line(f"st_any(im, {LANES} * k + lane, ld_any(from_p, at + 1))")
        _end(s, 3)


def _write_complex(s: Source, kind: str) -> None:
    element = 2 * _bytes(kind)
    _write_adjacent(s, kind, "size", "target")
    s.line("st_out(line_p, 2 * lane, ld(re_k, lane) * factor, 2)")
    s.line("st_out(line_p, 2 * lane + 1, ld(im_k, lane) * factor, 2)")
    _end(s, 3)
    with s.block("elif inner == 1:"):
        with s.block(f"for k in range({LANES} * size):"):
            s.line("st_any(staged, 2 * k, ld_any(re, k) * factor)")
            s.line("st_any(staged, 2 * k + 1, ld_any(im, k) * factor)")
        _unstage_lines(s, element, "size", "line", "here")
    with s.block("else:"):
        s.line(f"to_p = ptr_{kind}(target)")
        _write_lanes(s, "size")
        s.line(f"st_any(to_p, at, ld_any(re, {LANES} * k + lane) * factor)")
        s.line(f"st_any(to_p, at + 1, ld_any(im, {LANES} * k + lane) * factor)")
        _end(s, 3)


def _stage_lines(
    s: Source, array: str, element: int, step: str, line: str, lines: str, to: str = "back"
) -> None:
    """Write the transposition of contiguous lines to [step, lanes]."""
    of = f"{array} + {element} * ({line}) * {step}"
    write_transpose(s, element, to, f"{LANES * element}", of, f"{element} * {step}", step, lines)


def _unstage_lines(s: Source, element: int, step: str, line: str, lines: str) -> None:
    """Write the transposition of `back`, [step, lanes], to contiguous lines."""
    to = f"target + {element} * ({line}) * {step}"
    write_transpose(
        s, element, to, f"{element} * {step}", "back", f"{LANES * element}", lines, step
    )


# Real lines, two in a lane. They are along the last axis, so contiguous.

_HALVES: Final = (("line", "here"), (f"line + {LANES}", "more"))


def _read_real(s: Source, kind: str) -> None:
    size = _bytes(kind)
    with s.block(f"if more < {LANES}:"):
        s.line("fill_bytes(front, 0, 2 * plane)")
    for (line, lines), to in zip(_HALVES, ("front", "front + plane"), strict=True):
        _stage_lines(s, "source", size, "size", line, lines, to)


def _write_spectra(s: Source, kind: str) -> None:
    """Write the spectra of both real lines of a lane.

    They are the even and the odd part of their sum's.
    """
    parts = (("zr + wr", "zi - wi"), ("zi + wi", "wr - zr"))
    s.line(f"half = factor * float{kind[1:]}(0.5)")
    for (line, lines), (real, imaginary) in zip(_HALVES, parts, strict=True):
        with s.block("for k in range(target_step):"):
            s.line(f"mirror = {LANES} * (size - k if k > 0 else 0)")
            with s.block("for lane in range(width):"):
                s.line(f"zr = ld(re, {LANES} * k + lane)")
                s.line(f"zi = ld(im, {LANES} * k + lane)")
                s.line("wr = ld(re, mirror + lane)")
                s.line("wi = ld(im, mirror + lane)")
                s.line(f"at = 2 * ({LANES} * k + lane)")
                s.line(f"st_out(staged, at, ({real}) * half, 2)")
                s.line(f"st_out(staged, at + 1, ({imaginary}) * half, 2)")
        _unstage_lines(s, 2 * _bytes(kind), "target_step", line, lines)


def _read_spectra(s: Source, kind: str) -> None:
    """Write the sum of both lines' spectra, the second times i.

    The missing halves are mirrored.

    The imaginary parts that a real line's spectrum has not are left out.
    """
    zero = f"float{kind[1:]}(0)"
    s.line("fill_bytes(front, 0, 2 * plane)")
    for number, (line, lines) in enumerate(_HALVES):
        with s.block(f"if {lines} < {LANES}:"):
            s.line("fill_bytes(back, 0, 2 * plane)")
        _stage_lines(s, "source", 2 * _bytes(kind), "source_step", line, lines)
        with s.block("for k in range(source_step):"):
            s.line("real = k == 0 or 2 * k == size")
            _add(s, zero, "k", ("-y", "x") if number else ("x", "y"))
            with s.block("if not real:"):
                _add(s, zero, "size - k", ("y", "x") if number else ("x", "-y"))


def _add(s: Source, zero: str, row: str, values: tuple[str, str]) -> None:
    """Write the sum of a row and values of row k.

    values: their (real, imaginary) parts.
    """
    s.line(f"to = {LANES} * ({row})")
    with s.block("for lane in range(width):"):
        s.line(f"x = ld(staged, 2 * ({LANES} * k + lane))")
        s.line(f"y = select(real, {zero}, ld(staged, 2 * ({LANES} * k + lane) + 1))")
        for plane, (name, value) in enumerate(zip(("re", "im"), values, strict=True)):
            total = f"ld_out({name}, to + lane, {plane}) + {value}"
            s.line(f"st_out({name}, to + lane, {total}, {plane})")


def _write_real(s: Source, kind: str) -> None:
    for (line, lines), plane in zip(_HALVES, ("re", "im"), strict=True):
        with s.block(f"for k in range({LANES} * size):"):
            s.line(f"st_any(staged, k, ld_any({plane}, k) * factor)")
        _unstage_lines(s, _bytes(kind), "size", line, lines)


_Part = Callable[[Source, str], None]
_READERS: Final[dict[str, _Part]] = {
    "complex": _read_complex, "real": _read_real, "half": _read_spectra,
}  # fmt: skip
_WRITERS: Final[dict[str, _Part]] = {
    "complex": _write_complex, "real": _write_spectra, "half": _write_real,
}  # fmt: skip
