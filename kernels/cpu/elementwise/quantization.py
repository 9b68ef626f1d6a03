"""Build loops that quantise and dequantise whole tensors of one range.

Arithmetic is float32, in the reference's order. Ranges of slices are left to the reference.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.ir.symbolic_size import at_least, predicted
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)
from tfjit.kernels.source import KernelSource, Source

_ELEMENT_NS: Final = 0.4
_LARGEST: Final = "float32(3.4028234663852886e38)"
_WHOLE: Final = {d.qint8: "i8", d.quint8: "u8", d.qint16: "i16", d.quint16: "u16"}


def _write_head(s: Source, title: str, names: tuple[str, ...]) -> None:
    s.line(f"# {title}")
    s.line("from numba import float32, float64, int8, int16, int32, uint8, uint16")
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    s.begin("def kernel(args, chunk, nchunks):")
    for i, name in enumerate(("total", *names)):
        s.line(f"{name} = word(args, {i + 2})")
    s.line("first = total * chunk // nchunks")
    s.line("count = total * (chunk + 1) // nchunks - first")


def _write_away(s: Source, name: str, value: str) -> None:
    """Write `name`, the whole number nearest to a value.

    Halves go away from zero.
    """
    s.line(f"{name} = {value}")
    s.line(f"whole = trunc({name})")
    s.line(f"away = fabs({name} - whole) >= float32(0.5)")
    s.line(f"{name} = select(away, whole + copysign(float32(1), {name}), whole)")


def _require(condition: bool) -> None:
    if not condition:
        raise Unsupported("shapes or options that the reference serves")


def _call(source: KernelSource, words: tuple[Word, ...], x: TensorSpec, **more: Any) -> NativeCall:
    cost = cost_model.FIXED_NS + _ELEMENT_NS * predicted(x.size)
    chunks = cost_model.chunks_for(cost, x.size)
    launch = Launch(source, (x.size, *words), chunks=chunks, cost_ns=cost, **more)
    return NativeCall((launch,), bytes_moved=5 * predicted(x.size))


# Rounding to levels of integers, as floats


@functools.cache
def range_source() -> KernelSource:
    """Write the least and greatest value of a tensor.

    Both are NaN where it holds one.

    Words: elements, input, output (two float32).
    """
    s = Source()
    _write_head(s, "range of float32", ("input", "output"))
    s.line("x = ptr_f32(input)")
    s.line("out = ptr_f32(output)")
    s.line("low = ld(x, 0)")
    s.line("high = low")
    with s.block("for i in range(total):"):
        s.line("value = ld(x, i)")
        s.line("low = minimum(low, value)")
        s.line("high = maximum(high, value)")
    s.line("st(out, 0, low)")
    s.line("st(out, 1, high)")
    s.end()
    return KernelSource(s.text(), title="range", module=__name__)


@functools.cache
def levels_source(given: bool, half_up: bool) -> KernelSource:
    """Write values rounded to the levels of a range.

    Words: elements, input, output, low, high (addresses), least and greatest level (the bits of
    float64 values). given: the range does not follow from the values, which are clipped to it.
    """
    s = Source()
    kind = f"{'given' if given else 'found'} range{', halves up' if half_up else ''}"
    _write_head(s, f"float32 rounded to levels of a {kind}", ("input", "output"))
    s.line("low = ld(ptr_f32(word(args, 5)), 0)")
    s.line("high = ld(ptr_f32(word(args, 6)), 0)")
    s.line("least = float32(f64_word(args, 7))")
    s.line("most = float32(f64_word(args, 8))")
    if given:
        with s.block("if low > high:"):
            s.line("fail(args, 1, args)")
            s.line("return")
    for end, level in (("low", "least"), ("high", "most")):
        s.line(f"by_{end} = {level} / {end} if {level} * {end} > float32(0) else {_LARGEST}")
    s.line("scale = by_high")
    s.line("inverse = high / most")
    s.line("start = least * inverse")
    s.line("end = high")
    with s.block("if by_low < by_high:"):
        s.line("scale = by_low")
        s.line("inverse = low / least")
        s.line("start = low")
        s.line("end = most * inverse")
    s.line("x = ptr_f32(input + 4 * first)")
    s.line("out = ptr_f32(output + 4 * first)")
    with s.block("for i in range(count):"):
        s.line("value = ld(x, i)")
        if given:
            s.line("value = select(value < start, start, value)")
            s.line("value = select(value > end, end, value)")
        s.line("value = value * scale")
        s.line(f"value = {'floor(value + float32(0.5))' if half_up else 'rint(value)'}")
        if not given:
            s.line("value = select(value > most, most, value)")
        s.line("st(out, i, value * inverse)")
    s.end()
    return KernelSource(s.text(), title="rounding to levels", module=__name__)


class RangeMessage(str):
    """The message for a range with ends in the wrong order.

    The detail is the address of the argument block. Its words 5 and 6 are those of the ends.
    """

    __slots__ = ()

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        words = (ctypes.c_int64 * 7).from_address(int(str(kwargs["detail"])))
        low, high = (ctypes.c_float.from_address(words[k]).value for k in (5, 6))
        return f"Invalid range: input_min {low:g} > input_max {high:g}"


def _float_word(value: float) -> int:
    return int(np.float64(value).view(np.int64))


@native("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
def _quantize_and_dequantize(spec: NodeSpec) -> NativeCall:
    x, low, high, *_ = spec.inputs
    given = bool(spec.attrs["range_given"])
    _require(x.dtype is d.float32 and int(spec.attrs.get("axis", -1)) == -1)
    _require(at_least(x.size) > 0 and (not given or low.shape == high.shape == ()))
    if spec.op == "QuantizeAndDequantizeV3":
        _require(3 in spec.constants and spec.inputs[3].shape == ())
        bits = int(spec.constants[3])
        _require(len(x.shape) > 0)
    else:
        bits = int(spec.attrs["num_bits"])
    signed = bool(spec.attrs["signed_input"])
    _require(0 < bits < (62 if signed else 63))
    narrow = bool(spec.attrs.get("narrow_range"))
    least = -(1 << (bits - 1)) + narrow if signed else 0
    most = (1 << (bits - 1 if signed else bits)) - 1
    ends = (Pointer("in", 1), Pointer("in", 2))
    if not given:
        ends = (Pointer("temp", 0), Pointer("temp", 0, offset=4))
    source = levels_source(given, spec.attrs.get("round_mode") == b"HALF_UP")
    words = (Pointer("in", 0), Pointer("out", 0), *ends, _float_word(least), _float_word(most))
    error = {1: ("InvalidArgumentError", RangeMessage())}
    call = _call(source, words, x, errors=error if given else {})
    if given:
        return call
    cost = cost_model.FIXED_NS + 0.1 * predicted(x.size)
    search = Launch(range_source(), (x.size, Pointer("in", 0), Pointer("temp", 0)), cost_ns=cost)
    return NativeCall((search, *call.launches), temp_bytes=(64,), bytes_moved=call.bytes_moved)


@functools.cache
def inside_source() -> KernelSource:
    """Write gradients of values inside a range.

    The gradients of the range's ends are zero.

    Words: elements, gradients, input, output, low, high (addresses), outputs of the ends.
    """
    s = Source()
    _write_head(s, "gradients inside a range", ("gradients", "input", "output"))
    for i, end in enumerate(("low", "high")):
        s.line(f"{end} = ld(ptr_f32(word(args, {6 + i})), 0)")
        s.line(f"st_any(ptr_f32(word(args, {8 + i})), 0, float32(0))")
    for name, address in (("grad", "gradients"), ("x", "input"), ("out", "output")):
        s.line(f"{name} = ptr_f32({address} + 4 * first)")
    with s.block("for i in range(count):"):
        s.line("value = ld(x, i)")
        s.line("inside = value >= low and value <= high")
        s.line("st(out, i, select(inside, ld(grad, i), float32(0)))")
    s.end()
    return KernelSource(s.text(), title="gradients inside a range", module=__name__)


@native("QuantizeAndDequantizeV4Grad")
def _gradient(spec: NodeSpec) -> NativeCall:
    gradients, x, low, high = spec.inputs
    _require(x.dtype is d.float32 and gradients.shape == x.shape and len(x.shape) > 0)
    _require(int(spec.attrs["axis"]) == -1 and low.shape == high.shape == ())
    inputs = (Pointer("in", 0), Pointer("in", 1), Pointer("out", 0), Pointer("in", 2))
    words = (*inputs, Pointer("in", 3), Pointer("out", 1), Pointer("out", 2))
    return _call(inside_source(), words, x)


# Integers


@dataclass(frozen=True, slots=True)
class _Integers:
    """The integers of a quantised dtype.

    kind: of pointers to them.
    """

    kind: str
    bits: int
    least: int
    most: int

    @property
    def half(self) -> float:
        """Return the number of integers below zero, a signed type's."""
        return (self.most - self.least + 1) / 2 if self.least < 0 else 0.0

    def pointer(self, address: str) -> str:
        """Return a pointer to this chunk's integers."""
        return f"ptr_{self.kind}({address} + {self.bits // 8} * first)"


def _integers(dtype: DType) -> _Integers:
    if dtype not in _WHOLE:
        raise Unsupported(f"integers of {dtype.name}")
    kind = _WHOLE[dtype]
    bits = int(kind[1:])
    least = -(1 << (bits - 1)) if kind[0] == "i" else 0
    return _Integers(kind, bits, least, least + (1 << bits) - 1)


@functools.cache
def quantize_source(whole: _Integers, mode: str, least: int, even: bool) -> KernelSource:
    """Write the integers of floats and the ends of their range.

    Words: elements, input, output, low, high (addresses), the ends' outputs, the least width of the
    range (the bits of a float64 value). least: the least integer of mode SCALED. even: halves are
    rounded to even.
    """
    s = Source()
    _write_head(s, f"{whole.kind} of float32, {mode} from {least} {even}", ("input", "output"))
    s.line("given_low = ld(ptr_f32(word(args, 5)), 0)")
    s.line("given_high = ld(ptr_f32(word(args, 6)), 0)")
    with s.block("if given_low > given_high:"):
        s.line("fail(args, 1, 0)")
        s.line("return")
    s.line("low = minimum(float32(0), given_low)")
    s.line("width = maximum(float32(1), maximum(fabs(given_low), fabs(given_high)))")
    s.line("width = width * float32(f64_word(args, 9))")
    s.line("high = maximum(float32(0), maximum(given_high, low + width))")
    span = whole.most - whole.least
    if mode == "SCALED":
        for end, level in (("low", least), ("high", whole.most)):
            s.line(f"level = float32({level})")
            s.line(f"by_{end} = level / {end} if level * {end} > float32(0) else {_LARGEST}")
        s.line("scale = minimum(by_low, by_high)")
        s.line(f"low = float32({least}) / scale")
        s.line(f"high = float32({whole.most}) / scale")
    elif mode == "MIN_FIRST":
        s.line(f"scale = float32({span}) / (high - low)")
        s.line("begin = low * scale")
        if whole.most != 255:
            _write_away(s, "begin", "begin")
            s.line(f"begin = begin - float32({whole.least})")
    else:
        s.line(f"scale = float32({span}) / (high - low)")
    s.line("st_any(ptr_f32(word(args, 7)), 0, low)")
    s.line("st_any(ptr_f32(word(args, 8)), 0, high)")
    s.line("x = ptr_f32(input + 4 * first)")
    s.line(f"out = {whole.pointer('output')}")
    with s.block("for i in range(count):"):
        s.line("value = ld(x, i)")
        if mode != "MIN_FIRST":
            s.line("value = select(value < low, low, value)")
            s.line("value = select(value > high, high, value)")
        if mode == "SCALED":
            s.line("value = value * scale")
        elif mode == "MIN_COMBINED":
            s.line(f"value = (value - low) * scale - float32({whole.half})")
        elif whole.most == 255:
            s.line("value = value * scale - begin")
        else:
            s.line("value = value * scale")
        if even or (mode == "MIN_FIRST" and whole.most == 255):
            s.line("value = rint(value)")
        else:
            _write_away(s, "value", "value")
        if mode == "MIN_FIRST" and whole.most != 255:
            s.line("value = value - begin")
        bounds = f"float32({whole.least})", f"float32({whole.most})"
        s.line(f"value = select(value > {bounds[0]}, value, {bounds[0]})")
        s.line(f"value = select(value > {bounds[1]}, {bounds[1]}, value)")
        s.line("st(out, i, int32(value))")
    s.end()
    return KernelSource(s.text(), title=f"quantised {whole.kind}", module=__name__)


def _has_one_range(spec: NodeSpec) -> bool:
    ends = spec.inputs[1:3]
    return int(spec.attrs.get("axis", -1)) == -1 and all(end.shape == () for end in ends)


@native("QuantizeV2")
def _quantize(spec: NodeSpec) -> NativeCall:
    x = spec.inputs[0]
    whole, mode = _integers(spec.outputs[0].dtype), spec.attrs["mode"].decode()
    even = spec.attrs["round_mode"] == b"HALF_TO_EVEN"
    _require(x.dtype is d.float32 and _has_one_range(spec) and (mode == "SCALED" or not even))
    least = whole.least + bool(spec.attrs["narrow_range"]) if mode == "SCALED" else whole.least
    ends = (Pointer("in", 1), Pointer("in", 2), Pointer("out", 1), Pointer("out", 2))
    width = _float_word(float(np.float32(spec.attrs["ensure_minimum_range"])))
    error = "input_max_range must be larger than input_min_range."
    return _call(
        quantize_source(whole, mode, least, even),
        (Pointer("in", 0), Pointer("out", 0), *ends, width),
        x,
        errors={1: ("InvalidArgumentError", error)},
    )


@functools.cache
def dequantize_source(whole: _Integers, mode: str, least: int) -> KernelSource:
    """Write the floats of integers.

    Words: elements, input, output, low, high (addresses). least: the least integer of mode SCALED.
    """
    s = Source()
    _write_head(s, f"float32 of {whole.kind}, {mode} from {least}", ("input", "output"))
    s.line("low = ld(ptr_f32(word(args, 5)), 0)")
    s.line("high = ld(ptr_f32(word(args, 6)), 0)")
    moved, start = 0.0, "float32(0)"
    if mode == "SCALED":
        s.line(f"scale = high / float32({whole.most})")
        if whole.least:
            s.line(f"scale = maximum(low / float32({least}), scale)")
    elif mode == "MIN_FIRST":
        steps = 2.0**whole.bits
        s.line(f"scale = float32((float64(high) - float64(low)) * {steps / (steps - 1)} / {steps})")
        _write_away(s, "begin", "low / scale")
        s.line("begin = begin * scale")
        with s.block("if low == high:"):
            s.line("scale = float32(0)")
            s.line("begin = low")
        moved, start = -whole.least, "begin"
    else:
        s.line(f"scale = (high - low) / float32({whole.most - whole.least})")
        moved, start = whole.half, "low"
    s.line(f"x = {whole.pointer('input')}")
    s.line("out = ptr_f32(output + 4 * first)")
    with s.block("for i in range(count):"):
        s.line("value = float32(ld(x, i))")
        if moved:
            s.line(f"value = value + float32({moved})")
        s.line(f"st(out, i, value * scale{'' if mode == 'SCALED' else f' + {start}'})")
    s.end()
    return KernelSource(s.text(), title=f"dequantised {whole.kind}", module=__name__)


@native("Dequantize")
def _dequantize(spec: NodeSpec) -> NativeCall:
    x = spec.inputs[0]
    whole, mode = _integers(x.dtype), spec.attrs["mode"].decode()
    _require(spec.outputs[0].dtype is d.float32 and _has_one_range(spec))
    least = whole.least + bool(spec.attrs["narrow_range"]) if mode == "SCALED" else whole.least
    words = (Pointer("in", 0), Pointer("out", 0), Pointer("in", 1), Pointer("in", 2))
    return _call(dequantize_source(whole, mode, least), words, x)
