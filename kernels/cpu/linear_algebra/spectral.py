"""Build Fourier transforms of sizes with factors 2, 3 and 5.

Eight lines of an array are transformed at once, one in each lane of the vectors: their real and
imaginary parts are copied to planes [n, 8], which the stages of Stockham's algorithm pass between
two buffers. Other sizes, and single lines, are left to the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.linear_algebra.fourier_text import (
    BLOCK_BYTES,
    LANES,
    lines_source,
    stage_source,
)
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.cpu.template.call_builder import CallBuilder
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native

_LEAST_LINES: Final = 4
_LARGEST: Final = 1 << 14
_ELEMENT_NS: Final = 0.5  # of each stage
_REAL: Final = {d.complex64: ("f32", 4), d.complex128: ("f64", 8)}
_REAL_OF: Final = {d.float32: d.complex64, d.float64: d.complex128}


def radices(size: int) -> list[int] | None:
    """Return the radices of the stages, or None.

    None is for a size with another prime factor.
    """
    found = []
    for radix in (4, 2, 3, 5):
        while size % radix == 0:
            found.append(radix)
            size //= radix
    return found if size == 1 else None


@dataclass(frozen=True, slots=True)
class _Pass:
    """Describe transforms along one axis of [outer, n, inner].

    source_step, target_step: sizes of n in both arrays.
    """

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
    """Add the launch of a pass.

    Raises Unsupported for a size without stages.
    """
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
            roots = np.exp(sign * 2j * np.pi * powers / (done * radix))
            parts = np.repeat(np.stack([roots.real, roots.imag], 1), LANES, axis=-1)
            factors.append(parts.reshape(-1).astype(np.float32 if size == 4 else np.float64))
            at += factors[-1].nbytes
        done *= radix
    lines = one.outer * one.inner
    work = predicted(lines) * one.size
    cost = cost_model.FIXED_NS + _ELEMENT_NS * size / 4 * work * (2 + len(found))
    units = -(-lines // (LANES if one.form == "complex" else 2 * LANES))
    chunks = cost_model.chunks_for(cost, units)
    stride = BLOCK_BYTES + 4 * one.size * LANES * size
    stages = stage_source(kind)
    codes = tuple(Pointer("code", source=stages, entry=f"radix{r}") for r in (2, 3, 4, 5))
    places: tuple[Word, ...] = (source, target, call.temp(chunks * stride), stride, LANES)
    words: tuple[Word, ...] = (
        *(lines, one.inner, one.size, one.source_step, one.target_step, len(found)),
        call.table(rows),
        call.constant(np.concatenate(factors) if factors else np.zeros(1)),
        *places,
        *codes,
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
    """Raise Unsupported for sizes that the reference serves.

    They are no numbers, or most lanes would be empty.
    """
    for one in passes:
        if not isinstance(one.size, int) or not isinstance(one.inner, int):
            raise Unsupported("sizes of transforms are not known while planning")
        if one.size < 2:
            raise Unsupported(f"transforms of {one.size} elements")
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
