"""Emit shifts, population count and conversions of 16-bit floats.

A 16-bit float is held as bits in memory and as float32 in registers.
"""

from __future__ import annotations

from llvmlite import ir

from tfjit.kernels.vmath.emit import F16, F32, INT_KINDS, Value, fabs, scalar, target_has, where


def _clamped_shift(y: Value) -> Value:
    y = where(y < 0, y.const(0), y) if y.signed else y
    return where(y > y.bits - 1, y.const(y.bits - 1), y)


@scalar(*INT_KINDS, args="T T")
def shift_left(x: Value, y: Value) -> Value:
    """Return x << y, with y clamped to [0, width - 1]."""
    return x << _clamped_shift(y)


@scalar(*INT_KINDS, args="T T")
def shift_right(x: Value, y: Value) -> Value:
    """Return x >> y, with y clamped to [0, width - 1].

    The shift is arithmetic for signed kinds.
    """
    return x >> _clamped_shift(y)


@scalar(*INT_KINDS, result="u8")
def popcount(x: Value) -> Value:
    """Return the number of one bits."""
    return x.call("llvm.ctpop").to("u8" if x.kind[0] == "u" else "i8").as_kind("u8")


@scalar("u16", result="f32", name="load_bf16")
def load_bf16(x: Value) -> Value:
    """Convert bfloat16 bits to float32, exactly."""
    return (x.to("u32") << 16).as_float()


def _bf16_bits(x: Value) -> Value:
    """Round a float32 to bfloat16 in the upper half of 32 bits.

    NaN becomes the quiet NaN of its sign.
    """
    b = x.as_int().as_kind("u32")
    rounded = (b + ((b >> 16) & 1) + 0x7FFF) & 0xFFFF0000
    return where(x.isnan(), (b & 0x80000000) | 0x7FC00000, rounded)


@scalar("f32", result="u16")
def store_bf16(x: Value) -> Value:
    """Convert float32 to bfloat16 bits; halves go to even."""
    return (_bf16_bits(x) >> 16).to("u16")


@scalar("f32")
def round_bf16(x: Value) -> Value:
    """Round a float32 to a bfloat16 value."""
    return _bf16_bits(x).as_float()


def _converts_half() -> bool:
    """Return whether the CPU has instructions from half to float and back.

    Without them LLVM would call a function that Numba cannot link.
    """
    return target_has("f16c", "avx512f", "fullfp16", "fp-armv8")


def half_to_float(h: Value) -> Value:
    """Convert float16 bits (u16) to float32, exactly."""
    if _converts_half():
        half = h.builder.bitcast(h.llvm, F16)
        return Value(h.builder, h.builder.fpext(half, F32), "f32")
    w = h.to("u32")
    magnitude = w & 0x7FFF
    normal = ((magnitude << 13) + (112 << 23)).as_float()
    # a subnormal is its integer times 2^-24, which float32 holds exactly
    subnormal = magnitude.as_kind("i32").to("f32") * 2.0**-24
    special = ((magnitude << 13) | 0x7F800000).as_float()
    value = where(magnitude < 0x400, subnormal, where(magnitude >= 0x7C00, special, normal))
    return (value.as_int().as_kind("u32") | ((w & 0x8000) << 16)).as_float()


def float_to_half(x: Value) -> Value:
    """Convert float32 to float16 bits (u16); halves go to even."""
    if _converts_half():
        half = x.builder.fptrunc(x.llvm, F16)
        return Value(x.builder, x.builder.bitcast(half, ir.IntType(16)), "u16")
    b = x.as_int().as_kind("u32")
    a = fabs(x)
    m = b & 0x7FFFFFFF
    normal = (m - (112 << 23) + 0xFFF + ((m >> 13) & 1)) >> 13
    # adding 0.5 puts the last bit of a subnormal half into the last bit of the float32 sum
    subnormal = (a + 0.5).as_int().as_kind("u32") - 0x3F000000
    result = where(a < 2.0**-14, subnormal, normal)
    result = where(a >= 65520.0, x.typed(0x7C00, "u32"), result)
    result = where(x.isnan(), x.typed(0x7E00, "u32"), result)
    return (result | ((b >> 16) & 0x8000)).to("u16")


@scalar("u16", result="f32")
def load_f16(x: Value) -> Value:
    """Convert float16 bits to float32, exactly."""
    return half_to_float(x)


@scalar("f32", result="u16")
def store_f16(x: Value) -> Value:
    """Convert float32 to float16 bits; halves go to even."""
    return float_to_half(x)


@scalar("f32")
def round_f16(x: Value) -> Value:
    """Round a float32 to a float16 value."""
    return half_to_float(float_to_half(x))
