"""NumPy reference kernels of quantised layers against TensorFlow, errors included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, differences
from tests.kernels.quantized_arrays import QINT8, QINT32, QUINT8, F, n, q

pytest.importorskip("tensorflow")

LOOSE = (1e-5, 1e-4)
ROUNDED = (1e-4, 1.0)
"""Of floats that are rounded to levels: the last bit of a float decides."""
RANGE = [F(-1.5), F(3)]


def products() -> Iterator[Case]:
    for a, b, attrs in (
        ((3, 4), (4, 5), {}),
        ((4, 3), (4, 5), {"transpose_a": True}),
        ((3, 4), (5, 4), {"transpose_b": True}),
        ((0, 4), (4, 5), {}),
        ((3, 4), (3, 5), {}),
    ):
        for low, high in ((-1, 1), (0, 6), (2, 3), (-5, -4), (1, 1), (1, 0), (np.nan, 1)):
            ends = [F(low), F(high), *RANGE]
            yield Case("QuantizedMatMul", [q(QUINT8, *a), q(QUINT8, *b), *ends], attrs)
    x = q(QUINT8, 2, 2)
    yield Case("QuantizedMatMul", [x, x[0], *RANGE, *RANGE], own_words=True)
    for i in range(2, 6):
        given = [x, x, *RANGE, *RANGE]
        given[i] = n(2)
        yield Case("QuantizedMatMul", given, own_words=True)
    for size, kernel, attrs in (
        ((2, 5, 6, 3), (2, 3, 3, 4), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
        ((2, 5, 6, 3), (2, 3, 3, 4), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
        ((1, 5, 6, 3), (1, 1, 3, 2), {"strides": [1, 1, 1, 1], "padding": "VALID"}),
        ((1, 5, 6, 3), (1, 1, 2, 2), {"strides": [1, 1, 1, 1], "padding": "VALID"}),
        ((1, 5, 6, 3), (1, 1, 3, 2), {"strides": [1, 1, 2, 1], "padding": "VALID"}),
        ((1, 5, 6, 3), (1, 1, 3, 2), {"strides": [2, 1, 1, 1], "padding": "VALID"}),
        ((0, 5, 6, 3), (1, 1, 3, 2), {"strides": [1, 1, 1, 1], "padding": "VALID"}),
        (
            (1, 5, 6, 3),
            (3, 3, 3, 2),
            {"strides": [1] * 4, "padding": "SAME", "dilations": [1, 2, 2, 1]},
        ),
    ):
        for ends in (RANGE, [F(0), F(4)]):
            yield Case(
                "QuantizedConv2D",
                [q(QUINT8, *size), q(QUINT8, *kernel), *ends, F(-2), F(2)],
                attrs,
            )


def sums() -> Iterator[Case]:
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((4,), (3, 4)),
        ((), (2, 3)),
        ((2, 3), (1, 1)),
        ((0,), (0,)),
        ((2, 3, 4), (3, 4)),
        ((), ()),
        ((2, 3), (2,)),
    )
    for op in ("QuantizedAdd", "QuantizedMul"):
        for x, y in shapes:
            for ends in ([F(-1), F(1)], [F(0), F(20)], [F(3), F(4)]):
                yield Case(op, [q(QUINT8, *x), q(QUINT8, *y), *ends, *RANGE], {}, (0, 1))
        for ends in ([F(1), F(1)], [F(1), F(0)]):
            yield Case(op, [q(QUINT8, 2), q(QUINT8, 2), *ends, *RANGE])
            yield Case(op, [q(QUINT8, 2), q(QUINT8, 2), *RANGE, *ends])
        yield Case(op, [q(QUINT8, 2), q(QUINT8, 2), *RANGE, n(1), F(1)], own_words=True)
    for dtype in (QUINT8, QINT8):
        attrs = {"out_type": QINT32}
        for ends in ([F(-1), F(1)], [F(0), F(20)], [F(3), F(4)], [F(2), F(2)]):
            for shape in ((2, 3), (2, 2, 2, 5), (0, 3)):
                given = [q(dtype, *shape), q(dtype, shape[-1]), *ends, *RANGE]
                yield Case("QuantizedBiasAdd", given, attrs, (1e-3, 300.0))
        for x, b in (((3,), (3,)), ((2, 3), (2,)), ((2, 0), (0,)), ((2, 3), (1, 3))):
            yield Case(
                "QuantizedBiasAdd",
                [q(dtype, *x), q(dtype, *b), *RANGE, *RANGE],
                attrs,
                own_words=b == (1, 3) or len(x) == 1,
            )


def activations() -> Iterator[Case]:
    for op in ("QuantizedRelu", "QuantizedRelu6"):
        for dtype in (QUINT8, QINT32):
            for ends in (
                [F(-1), F(1)],
                [F(-20), F(20)],
                [F(3), F(4)],
                [F(-3), F(-2)],
                [F(1), F(1)],
            ):
                yield Case(op, [q(dtype, 3, 5), *ends], {"out_type": dtype})
            yield Case(op, [q(dtype, 0), *RANGE], {"out_type": dtype})
            yield Case(op, [q(dtype, 3), n(2), F(1)], {"out_type": dtype}, own_words=True)
    windows: tuple[dict[str, Any], ...] = (
        {"ksize": [1, 2, 3, 1], "strides": [1, 1, 1, 1], "padding": "SAME"},
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
        {"ksize": [1, 3, 3, 1], "strides": [1, 2, 1, 1], "padding": "SAME"},
    )
    for op in ("QuantizedAvgPool", "QuantizedMaxPool"):
        for dtype in (QUINT8, QINT8):
            for attrs in windows:
                yield Case(op, [q(dtype, 2, 5, 6, 3), *RANGE], attrs)
        yield Case(
            op,
            [q(QUINT8, 2, 5, 6, 3), *RANGE],
            {**windows[0], "ksize": [2, 2, 3, 1]},
            own_words=True,
        )
        yield Case(op, [q(QUINT8, 5, 6, 3), *RANGE], windows[0], own_words=True)
        yield Case(op, [q(QUINT8, 2, 5, 6, 3), n(1), F(1)], windows[0], own_words=True)
    for x_range in ([F(-1), F(1)], [F(0), F(6)]):
        for more in (
            {},
            {"output_range_given": True, "given_y_min": -2.0, "given_y_max": 1.5},
            {"min_separation": 10.0, "variance_epsilon": 0.5},
        ):
            yield Case("QuantizedInstanceNorm", [q(QUINT8, 2, 3, 4, 5), *x_range], more, ROUNDED)


def joined() -> Iterator[Case]:
    for axis in (0, 1, -1, 2, -3):
        for lows, highs in (
            ([-1, -2], [1, 3]),
            ([1, 1], [3, 3]),
            ([-1, -1], [2, 2]),
            ([0, 0], [0, 0]),
        ):
            ends = [*(F(v) for v in lows), *(F(v) for v in highs)]
            a, b = q(QUINT8, 2, 3), q(QUINT8, 2, 3)
            at = np.int32(axis)
            yield Case("QuantizedConcat", [at, a, b, *ends], {"N": 2}, (0, 1))
            for dtype in (QUINT8, QINT8):
                a, b = q(dtype, 2, 3), q(dtype, 2, 3)
                yield Case("QuantizedConcatV2", [a, b, at, *ends], {"N": 2}, (0, 1))
    ends = [F(-1), F(-2), F(2), F(3)]
    for shapes in (((2, 3), (3, 3)), ((2, 3), (2,))):
        a, b = (q(QUINT8, *shape) for shape in shapes)
        yield Case("QuantizedConcat", [np.int32(1), a, b, *ends], {"N": 2}, (0, 1), own_words=True)
        yield Case(
            "QuantizedConcatV2", [a, b, np.int32(0), *ends], {"N": 2}, (0, 1), own_words=True
        )
    a, b = q(QINT32, 2, 3, limit=1 << 20), q(QINT32, 2, 3, limit=1 << 20)
    yield Case("QuantizedConcat", [np.int32(0), a, b, *ends], {"N": 2}, (1e-3, 300.0))


def by_channel() -> Iterator[Case]:
    for limit in (3000, 1 << 30):
        x = q(QINT32, 2, 3, 4, 5, limit=limit)
        low, high = -np.abs(n(5)), np.abs(n(5))
        for values in (x, np.abs(x["qint32"] if x.dtype.names else x)):
            if values.dtype != x.dtype:
                values = values.astype(np.int32).view(x.dtype).reshape(x.shape)
            for clip in (1e9, 0.5):
                yield Case(
                    "RequantizationRangePerChannel",
                    [values, low, high],
                    {"clip_value_max": clip},
                    LOOSE,
                )
            for out in (QUINT8, QINT8):
                for wanted in ((-1, 1), (0, 2), (-3, 0.5)):
                    yield Case(
                        "RequantizePerChannel",
                        [values, low, high, F(wanted[0]), F(wanted[1])],
                        {"out_type": out},
                        (0, 1),
                    )
    yield Case("RequantizationRangePerChannel", [x, n(4), n(5)], {"clip_value_max": 1.0})
    yield Case("RequantizationRangePerChannel", [x, n(5), n(4)], {"clip_value_max": 1.0})
    yield Case("RequantizePerChannel", [x, n(4), n(5), F(-1), F(1)], {})
    yield Case("RequantizePerChannel", [x, n(5), n(4), F(-1), F(1)], {})
    yield Case("RequantizePerChannel", [x, n(5), n(5), n(2), F(1)], {}, own_words=True)


def resized() -> Iterator[Case]:
    for corners, centers in ((False, False), (True, False), (False, True), (True, True)):
        attrs = {"align_corners": corners, "half_pixel_centers": centers}
        for size in ([5, 7], [8, 3], [1, 1], [5, 6]):
            for x, tolerance in (
                (q(QUINT8, 2, 5, 6, 3), None),
                (q(QINT32, 2, 5, 6, 3), (0.0, 128.0)),
                (n(2, 5, 6, 3), (1e-5, 1e-6)),
            ):
                sizes = np.array(size, np.int32)
                yield Case("QuantizedResizeBilinear", [x, sizes, *RANGE], attrs, tolerance)
    x = q(QUINT8, 2, 5, 6, 3)
    for size in ([0, 2], [2], [2, 2, 2]):
        yield Case("QuantizedResizeBilinear", [x, np.array(size, np.int32), *RANGE])
    yield Case("QuantizedResizeBilinear", [x[0], np.array([2, 2], np.int32), *RANGE])


CASES = (products, sums, activations, joined, by_channel, resized)


@pytest.mark.parametrize("cases", CASES)
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
