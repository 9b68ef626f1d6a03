"""NumPy reference kernels of simulated quantisation against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(17)
F = np.float32
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, 6.0, -6.0, 1e-30], F)


def n(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape) * 4).astype(dtype)


def v(*values: float) -> np.ndarray:
    return np.array(values, F)


RANGES = ((-6, 6), (0, 6), (-1, 0.5), (0.5, 1), (-3, -1), (-0.1, 8))


def fakes() -> Iterator[Case]:
    for low, high in RANGES:
        for bits in (2, 8, 16):
            for narrow in (False, True):
                attrs = {"num_bits": bits, "narrow_range": narrow}
                x, g = n(3, 40), n(3, 40)
                yield Case("FakeQuantWithMinMaxArgs", [x], {**attrs, "min": low, "max": high})
                yield Case(
                    "FakeQuantWithMinMaxArgsGradient", [g, x], {**attrs, "min": low, "max": high}
                )
                yield Case("FakeQuantWithMinMaxVars", [x, F(low), F(high)], attrs)
                yield Case(
                    "FakeQuantWithMinMaxVarsGradient", [g, x, F(low), F(high)], attrs, (1e-5, 1e-4)
                )
    lows, highs = np.array(RANGES, F).T
    for shape in ((6,), (5, 6), (2, 3, 4, 6), (0, 6)):
        x, g = n(*shape), n(*shape)
        yield Case("FakeQuantWithMinMaxVarsPerChannel", [x, lows, highs])
        if len(shape) != 3:
            yield Case(
                "FakeQuantWithMinMaxVarsPerChannelGradient", [g, x, lows, highs], {}, (1e-5, 1e-4)
            )
    for x in (ODD, n(0), n(2, 0), F(3)):
        yield Case("FakeQuantWithMinMaxArgs", [x])
        yield Case("FakeQuantWithMinMaxVars", [x, F(-1), F(3)])
        yield Case("FakeQuantWithMinMaxVars", [x, F(0), F(0)])
        yield Case("FakeQuantWithMinMaxVarsGradient", [np.ones_like(x), x, F(0), F(0)])


def refused_fakes() -> Iterator[Case]:
    x = n(2, 3)
    for attrs in ({"num_bits": 1}, {"num_bits": 17}):
        yield Case("FakeQuantWithMinMaxArgs", [x], attrs)
        yield Case("FakeQuantWithMinMaxVars", [x, F(-1), F(1)], attrs)
        yield Case("FakeQuantWithMinMaxVarsPerChannel", [x, n(3), n(3)], attrs)
    yield Case("FakeQuantWithMinMaxArgs", [x], {"min": 3.0, "max": 3.0})
    yield Case("FakeQuantWithMinMaxArgsGradient", [x, n(3)], own_words=True)
    yield Case("FakeQuantWithMinMaxVars", [x, v(-1), F(1)])
    yield Case("FakeQuantWithMinMaxVars", [x, F(-1), v(1)])
    yield Case("FakeQuantWithMinMaxVarsGradient", [x, n(3), F(-1), F(1)])
    yield Case("FakeQuantWithMinMaxVarsGradient", [x, x, v(-1), F(1)])
    yield Case("FakeQuantWithMinMaxVarsPerChannel", [x, n(2), n(3)])
    yield Case("FakeQuantWithMinMaxVarsPerChannel", [x, n(3), n(2)])
    yield Case("FakeQuantWithMinMaxVarsPerChannel", [x, F(1), n(3)])
    yield Case("FakeQuantWithMinMaxVarsPerChannelGradient", [x, n(3), n(3), n(3)])
    yield Case("FakeQuantWithMinMaxVarsPerChannelGradient", [x, x, n(2), n(3)])


def there_and_back() -> Iterator[Case]:
    for op in ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"):
        for kind in (np.float32, np.float64):
            tolerance = (1e-6, 1e-7)
            for signed in (True, False):
                for bits in (4, 8):
                    for given in (True, False):
                        for narrow in (False, True):
                            attrs: dict[str, Any] = {
                                "signed_input": signed,
                                "range_given": given,
                                "narrow_range": narrow,
                            }
                            more = []
                            if op == "QuantizeAndDequantizeV3":
                                more = [np.array(bits, np.int32)]
                            else:
                                attrs |= {
                                    "num_bits": bits,
                                    "round_mode": "HALF_UP" if narrow else "HALF_TO_EVEN",
                                }
                            x = n(3, 5, dtype=kind)
                            scalars = [np.asarray(value).astype(kind) for value in (-3.5, 5.25)]
                            yield Case(op, [x, *scalars, *more], attrs, tolerance)
                            lows = -np.abs(n(5, dtype=kind))
                            yield Case(
                                op,
                                [x, lows, np.abs(lows) * kind(1.5), *more],
                                {**attrs, "axis": 1},
                                tolerance,
                            )
        more = [np.array(8, np.int32)] if op == "QuantizeAndDequantizeV3" else []
        for x in (n(0), n(2, 0, 3), F(2.5)):
            yield Case(op, [x, F(-1), F(1), *more], {"range_given": True})
        x = n(2, 3)
        yield Case(op, [x, F(1), F(-1), *more], {"range_given": True})
        yield Case(op, [x, v(-1), v(1), *more], {"axis": 2, "range_given": True}, own_words=True)
        yield Case(op, [x, v(-1, -1), v(1, 1), *more], {"axis": 1, "range_given": True})
        if op != "QuantizeAndDequantizeV3":  # of which it ends TensorFlow's process
            yield Case(op, [x, v(-1, -1), v(1, 1), *more], {"range_given": True})
    for bits in (0, 64, -1):
        yield Case("QuantizeAndDequantizeV2", [x, F(-1), F(1)], {"num_bits": bits})
        yield Case("QuantizeAndDequantizeV4", [x, F(-1), F(1)], {"num_bits": bits})
        yield Case("QuantizeAndDequantizeV3", [x, F(-1), F(1), np.array(bits, np.int32)])
    yield Case("QuantizeAndDequantizeV3", [x, F(-1), F(1), np.array([8], np.int32)], own_words=True)
    for kind in (np.float32, np.float64):
        x, g = n(3, 5, dtype=kind), n(3, 5, dtype=kind)
        yield Case("QuantizeAndDequantizeV4Grad", [g, x, kind(-1), kind(2)])
        yield Case(
            "QuantizeAndDequantizeV4Grad",
            [g, x, n(5, dtype=kind), n(5, dtype=kind) + 3],
            {"axis": 1},
        )
    x, g = n(3, 5), n(3, 5)
    for bad in ([g[0], x, F(0), F(1)], [g, x, v(0, 1), F(1)], [g, x, F(0), v(0, 1)]):
        yield Case("QuantizeAndDequantizeV4Grad", bad)
    yield Case("QuantizeAndDequantizeV4Grad", [g, x, v(0), v(1)], {"axis": 2})
    yield Case("QuantizeAndDequantizeV4Grad", [g, x, v(0), v(1)], {"axis": 1})


@pytest.mark.parametrize("cases", [fakes, refused_fakes, there_and_back])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
