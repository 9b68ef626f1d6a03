"""Convert between dtypes with the results of x86's conversion instructions.

C leaves some of these results open. A float outside the range of int32 (int64, uint64) becomes the
integer with only its top bit set. A narrower integer is the low bits of the int32, a uint32 those
of the int64. (TensorFlow's scalar code does the same; its packets saturate narrow integers
instead.)
"""

from __future__ import annotations

from collections.abc import Callable

from tfjit.kernels.vmath.emit import (
    COMPLEX_KINDS,
    FLOAT_KINDS,
    INT_KINDS,
    NUMBA,
    REAL_OF,
    Complex,
    Value,
    scalar,
    where,
)

_KINDS = (*FLOAT_KINDS, *INT_KINDS, *COMPLEX_KINDS, "b")


def _float_to_wide_int(x: Value, kind: str) -> Value:
    bits = int(kind[1:])
    low, high = -(2.0 ** (bits - 1)), 2.0**bits if kind[0] == "u" else 2.0 ** (bits - 1)
    if kind == "u64":
        # Negative values wrap through int64, and so do values from 2^63 on.
        upper = x >= 2.0**63
        inside = (x >= low) & (x < high)
        shifted = where(inside, where(upper, x - 2.0**63, x), 0.0)
        value = shifted.to("i64")
        value = where(upper, value ^ -(2**63), value).as_kind("u64")
    else:
        inside = (x > low - 1 if x.bits == 64 and bits == 32 else x >= low) & (x < high)
        value = where(inside, x, 0.0).to(kind)
    return where(inside, value, 1 << (bits - 1))


def convert(x: Value | Complex, kind: str) -> Value | Complex:
    """Return x as `kind`."""
    if isinstance(x, Complex):
        if kind in REAL_OF:
            return Complex(x.re.to(REAL_OF[kind]), x.im.to(REAL_OF[kind]))
        if kind == "b":
            return x.re.ne(0.0) | x.im.ne(0.0)
        return convert(x.re, kind)
    if kind in REAL_OF:
        re = convert(x, REAL_OF[kind])
        assert isinstance(re, Value)
        return Complex(re, re.const(0.0))
    if kind == "b":
        return x.ne(0) if x.kind != "b" else x
    if x.kind == "b":
        return x.as_kind("u1").to(kind)
    if not x.is_float or kind[0] == "f":
        return x.to(kind)
    through = {"i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32", "u32": "i64"}.get(kind, kind)
    return _float_to_wide_int(x, through).to(kind)


def _register(kind: str) -> None:
    def caster(target: str) -> Callable[[Value | Complex], Value | Complex]:
        return lambda x: convert(x, target)

    for target in _KINDS:
        if target != kind:
            scalar(kind, result=target, name=f"cast_{target}")(caster(target))


for _kind in NUMBA:
    _register(_kind)


def _register_clearing(kind: str, bits: int) -> None:
    @scalar(kind, name=f"clear{bits}")
    def clear(x: Value) -> Value:
        cleared = (x.as_int() & -(1 << bits)).as_float()
        return where(x.isnan(), x, cleared)


# Casts with Truncate=true drop these low mantissa bits: float32 -> float16, bfloat16; float64 ->
# float32, float16.
for _kind, _bits in (("f32", 13), ("f32", 16), ("f64", 29), ("f64", 42)):
    _register_clearing(_kind, _bits)
