"""Compute glibc's logf, sinf and cosf on whole arrays, bit for bit.

TensorFlow's random normals are made with the C library's float functions. These are neither
correctly rounded nor equal to NumPy's vector forms. They work in double and round once, so the same
double arithmetic gives the same float. Source of the method and coefficients: ARM optimized
routines, which glibc 2.28 and later use.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Final

import numpy as np

_LOG_INVERSE: Final = np.array(
    [
        float.fromhex(s)
        for s in [
            "0x1.661ec79f8f3bep+0",
            "0x1.571ed4aaf883dp+0",
            "0x1.49539f0f010bp+0",
            "0x1.3c995b0b80385p+0",
            "0x1.30d190c8864a5p+0",
            "0x1.25e227b0b8eap+0",
            "0x1.1bb4a4a1a343fp+0",
            "0x1.12358f08ae5bap+0",
            "0x1.0953f419900a7p+0",
            "0x1p+0",
            "0x1.e608cfd9a47acp-1",
            "0x1.ca4b31f026aap-1",
            "0x1.b2036576afce6p-1",
            "0x1.9c2d163a1aa2dp-1",
            "0x1.886e6037841edp-1",
            "0x1.767dcf5534862p-1",
        ]
    ]
)
_LOG_CENTER: Final = np.array(
    [
        float.fromhex(s)
        for s in [
            "-0x1.57bf7808caadep-2",
            "-0x1.2bef0a7c06ddbp-2",
            "-0x1.01eae7f513a67p-2",
            "-0x1.b31d8a68224e9p-3",
            "-0x1.6574f0ac07758p-3",
            "-0x1.1aa2bc79c81p-3",
            "-0x1.a4e76ce8c0e5ep-4",
            "-0x1.1973c5a611cccp-4",
            "-0x1.252f438e10c1ep-5",
            "0x0p+0",
            "0x1.aa5aa5df25984p-5",
            "0x1.c5e53aa362eb4p-4",
            "0x1.526e57720db08p-3",
            "0x1.bc2860d22477p-3",
            "0x1.1058bc8a07ee1p-2",
            "0x1.4043057b6ee09p-2",
        ]
    ]
)
_LN2: Final = float.fromhex("0x1.62e42fefa39efp-1")
_LOG_POLY: Final = tuple(
    float.fromhex(s)
    for s in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")
)
_TWO_OVER_PI_24: Final = float.fromhex("0x1.45F306DC9C883p+23")  # 2/pi * 2^24
_HALF_PI: Final = float.fromhex("0x1.921FB54442D18p0")
_COS_POLY: Final = tuple(
    float.fromhex(s)
    for s in (
        "0x1p0",
        "-0x1.ffffffd0c621cp-2",
        "0x1.55553e1068f19p-5",
        "-0x1.6c087e89a359dp-10",
        "0x1.99343027bf8c3p-16",
    )
)
_SIN_POLY: Final = tuple(
    float.fromhex(s)
    for s in ("-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")
)


@functools.cache
def _function(name: str) -> Callable[[float], float]:
    """Return a function of floats of the C library."""
    found = getattr(ctypes.CDLL(None), name)
    found.argtypes, found.restype = [ctypes.c_float], ctypes.c_float
    return found


def log1pf(x: np.float32) -> np.float32:
    """Return the C library's log1pf.

    NumPy's own depends on the CPU.
    """
    return np.float32(_function("log1pf")(float(x)))


def expm1f(x: np.float32) -> np.float32:
    """Return the C library's expm1f.

    NumPy's own depends on the CPU.
    """
    return np.float32(_function("expm1f")(float(x)))


def logf(x: np.ndarray) -> np.ndarray:
    """Return logf of float32 `x`, positive, finite and normal."""
    bits = x.view(np.uint32)
    t = bits - np.uint32(0x3F330000)
    i = (t >> np.uint32(19)) & np.uint32(15)
    k = (t.view(np.int32) >> 23).astype(np.float64)
    z = (bits - (t & np.uint32(0xFF800000))).view(np.float32).astype(np.float64)
    r = z * _LOG_INVERSE[i] - 1.0
    base = _LOG_CENTER[i] + k * _LN2
    r2 = r * r
    y = _LOG_POLY[1] * r + _LOG_POLY[2]
    y = _LOG_POLY[0] * r2 + y
    return (y * r2 + (base + r)).astype(np.float32)


def sincosf(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (sinf(x), cosf(x)) of float32 `x` with |x| < 120."""
    wide = x.astype(np.float64)
    n = ((wide * _TWO_OVER_PI_24).astype(np.int32) + 0x800000) >> 24
    # Below pi/4 (by its leading bits) the C library does not reduce at all.
    n = np.where((x.view(np.uint32) & 0x7FFFFFFF) >> 20 < 0x3F4, 0, n)
    r = wide - n * _HALF_PI
    r2 = r * r
    r3, r4 = r * r2, r2 * r2
    sine = (r + r3 * _SIN_POLY[0]) + (r3 * r2) * (_SIN_POLY[1] + r2 * _SIN_POLY[2])
    cosine = ((_COS_POLY[0] + r2 * _COS_POLY[1]) + r4 * _COS_POLY[2]) + (r4 * r2) * (
        _COS_POLY[3] + r2 * _COS_POLY[4]
    )
    swap = (n & 1).astype(bool)
    sin_out = np.where(swap, cosine, sine) * np.where(n & 2, -1.0, 1.0)
    cos_out = np.where(swap, sine, cosine) * np.where((n + 1) & 2, -1.0, 1.0)
    return sin_out.astype(np.float32), cos_out.astype(np.float32)
