"""Emit the unit in the last place, to measure the other functions."""

from __future__ import annotations

from tfjit.kernels.vmath.emit import Value, scalar, where


@scalar("f64", name="float32_ulp")
def float32_ulp(x: Value) -> Value:
    """Return the spacing of the normal float32 numbers around x.

    It is at least the spacing at the smallest normal number.
    """
    exponent = x.as_int() & 0x7FF0000000000000
    smallest = (1023 - 126) << 52
    exponent = where(exponent < smallest, exponent.const(smallest), exponent)
    return (exponent - (23 << 52)).as_float()
