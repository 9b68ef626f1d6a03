"""The unit in the last place, for measuring the other functions."""

from __future__ import annotations

from tfjit.kernels.vmath.emit import Value, scalar, where


@scalar("f64", name="float32_ulp")
def float32_ulp(x: Value) -> Value:
    """Spacing of the normal float32 numbers around x, at least that of the smallest."""
    exponent = x.as_int() & 0x7FF0000000000000
    smallest = (1023 - 126) << 52
    exponent = where(exponent < smallest, exponent.const(smallest), exponent)
    return (exponent - (23 << 52)).as_float()
