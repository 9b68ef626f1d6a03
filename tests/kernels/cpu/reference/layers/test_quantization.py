"""NumPy reference kernels of quantised tensors against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences
from tests.kernels.quantized_arrays import LOOSE, QINT8, QINT16, QINT32, QUINT8, QUINT16, F, n, q

pytest.importorskip("tensorflow")


def there() -> Iterator[Case]:
    for dtype in (QUINT8, QINT8, QINT32, QINT16, QUINT16):
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            for low, high in ((-6, 6), (0, 4), (-1, 0.5), (1, 3), (-3, -1), (2, 2)):
                attrs: dict[str, Any] = {"T": dtype, "mode": mode}
                # a float32 has fewer bits than 32-bit integers, and TensorFlow's cast of what is
                # too large for them wraps around
                tolerance = (1e-6, 130.0) if dtype is QINT32 else None
                low, high = (low * 50, high * 50) if dtype is QINT32 else (low, high)
                x = (
                    np.clip(n(4, 9), low * 0.9, high * 0.9).astype(F)
                    if dtype is QINT32
                    else n(4, 9)
                )
                by_onednn = mode == "MIN_FIRST" and dtype is QUINT8
                yield Case(
                    "QuantizeV2", [x, F(low), F(high)], attrs, tolerance, modes_differ=by_onednn
                )
                if dtype is QINT32:
                    continue
                if mode == "SCALED":
                    yield Case(
                        "QuantizeV2",
                        [n(4, 9), F(low), F(high)],
                        {**attrs, "round_mode": "HALF_TO_EVEN", "narrow_range": True},
                    )
                if mode != "MIN_FIRST":
                    lows = -np.abs(n(9))
                    yield Case("QuantizeV2", [n(4, 9), lows, np.abs(n(9))], {**attrs, "axis": 1})
            for shape in ((0,), (2, 0)):
                yield Case("QuantizeV2", [n(*shape), F(-1), F(1)], {"T": dtype, "mode": mode})
    x = n(2, 3)
    one = {"T": QUINT8}
    yield Case("QuantizeV2", [x, F(1), F(-1)], one)
    yield Case("QuantizeV2", [x, n(2), F(1)], one, own_words=True)
    yield Case("QuantizeV2", [x, F(0), n(2)], one, own_words=True)
    yield Case("QuantizeV2", [x, n(2), n(2)], {**one, "axis": 1}, own_words=True)
    yield Case("QuantizeV2", [x, F(0), F(1)], {**one, "round_mode": "HALF_TO_EVEN"})
    yield Case("QuantizeV2", [x, F(0), F(1e-9)], {**one, "ensure_minimum_range": 0.5})


def back() -> Iterator[Case]:
    for dtype in (QUINT8, QINT8, QINT32, QINT16, QUINT16):
        modes = ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        for mode in modes[: 3 if dtype in (QUINT8, QINT8) else 2]:
            for low, high in ((-6, 6), (0, 4), (-1, 0.5), (2, 2)):
                attrs: dict[str, Any] = {"mode": mode}
                tolerance = (1e-5, 1e-5)
                yield Case("Dequantize", [q(dtype, 4, 9), F(low), F(high)], attrs, tolerance)
                if mode == "SCALED":
                    if dtype is QINT8:
                        yield Case(
                            "Dequantize",
                            [q(dtype, 4, 9), F(low), F(high)],
                            {**attrs, "narrow_range": True},
                            tolerance,
                        )
                    yield Case(
                        "Dequantize",
                        [q(dtype, 4, 9), -np.abs(n(9)), np.abs(n(9))],
                        {**attrs, "axis": 1},
                        tolerance,
                    )
    x = q(QUINT8, 2, 3)
    for bad in ([x, n(2), F(1)], [x, F(0), n(2)]):
        yield Case("Dequantize", bad, own_words=True)


def ranges() -> Iterator[Case]:
    for shape, limit in (((4, 9), 3000), ((1,), 50), ((3, 3), 1 << 20)):
        x = q(QINT32, *shape, limit=limit)
        for low, high in ((-6, 6), (-1e3, 2e3), (0, 1e4)):
            yield Case("RequantizationRange", [x, F(low), F(high)], {}, (1e-5, 1e-5))
            for out in (QUINT8, QINT8):
                wanted = (np.float32(-0.1), np.float32(0.2))
                yield Case("Requantize", [x, F(low), F(high), *wanted], {"out_type": out}, (0, 1))
            yield Case(
                "QuantizeDownAndShrinkRange", [x, F(low), F(high)], {"out_type": QUINT8}, (1e-5, 1)
            )
    x = q(QINT32, 2, 2, limit=100)
    for bad in (
        [x, n(1), F(1), F(-1), F(1)],
        [x, F(-1), n(1), F(-1), F(1)],
        [x, F(-1), F(1), F(0.5), F(1)],
        [x, F(-1), F(1), F(-1), F(-2)],
        [x, F(-1), F(1), n(1), F(1)],
    ):
        yield Case("Requantize", bad, {"out_type": QUINT8})
    yield Case("RequantizationRange", [x, np.full(1, -1, F), np.ones(1, F)], {}, LOOSE)
    for bad in ([x, n(1), F(1)], [x, F(-1), n(1)]):
        yield Case("QuantizeDownAndShrinkRange", bad, {"out_type": QUINT8})
    for sizes in ([6], [3, -1], [-1, -1], [4]):
        yield Case(
            "QuantizedReshape",
            [q(QUINT8, 2, 3), np.array(sizes, np.int32), F(-1), F(1)],
            own_words=True,
        )
    yield Case(
        "QuantizedReshape", [q(QUINT8, 2, 3), np.array([6], np.int32), n(1), F(1)], own_words=True
    )


@pytest.mark.parametrize("cases", [there, back, ranges])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
