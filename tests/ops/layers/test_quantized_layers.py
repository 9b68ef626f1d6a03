"""Shape rules of quantised layers against TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.ops.shape_cases import Case, ours, scalar, theirs

F, Q8, Q32 = "float32", "quint8", "qint32"


def cases() -> Iterator[Case]:
    ends: list[Any] = [(), (), (), ()]
    two = [Q8, Q8, F, F, F, F]
    for x, y in (((2, 3), (3,)), ((2, None), (1, 3)), (None, (3,)), ((2, 3), (2,))):
        for op in ("QuantizedAdd", "QuantizedMul"):
            yield Case(op, [x, y, *ends], {}, two)
    for x, y in (
        ((2, 3), (3, 4)),
        ((2, None), (3, 4)),
        (None, (3, 4)),
        ((2, 3), (4, 3)),
        ((2,), (2,)),
    ):
        yield Case("QuantizedMatMul", [x, y, *ends], {}, two)
        yield Case("QuantizedMatMul", [x, y, *ends], {"transpose_b": True}, two)
        yield Case("QuantizedBiasAdd", [x, y, *ends], {"out_type": "qint32"}, two)
    for i in range(2, 6):
        bad = list(ends)
        bad[i - 2] = (1,)
        for op in ("QuantizedAdd", "QuantizedMul", "QuantizedMatMul"):
            yield Case(op, [(2, 2), (2, 2), *bad], {}, two)
        yield Case("QuantizedBiasAdd", [(2, 2), (2,), *bad], {"out_type": "qint32"}, two)
        yield Case(
            "QuantizedConv2D",
            [(1, 5, 6, 3), (2, 2, 3, 4), *bad],
            {"strides": [1, 1, 1, 1], "padding": "SAME"},
            two,
        )
    for x, w in (((1, 5, 6, 3), (2, 2, 3, 4)), (None, (2, 2, 3, 4)), ((1, 5, 6), (2, 2, 3, 4))):
        for padding in ("SAME", "VALID"):
            attrs = {"strides": [1, 2, 2, 1], "padding": padding}
            yield Case("QuantizedConv2D", [x, w, *ends], attrs, two)
    window = {"ksize": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "padding": "VALID"}
    for x in ((2, 5, 6, 3), None, (2, 5, 6), (None, None, 6, 3)):
        for end in ((), (1,)):
            for op in ("QuantizedAvgPool", "QuantizedMaxPool"):
                yield Case(op, [x, (), end], window, [Q8, F, F])
            for op in ("QuantizedRelu", "QuantizedRelu6", "QuantizedInstanceNorm"):
                yield Case(op, [x, end, ()], {}, [Q8, F, F])
            yield Case("QuantizedReluX", [x, (), end, ()], {}, [Q8, F, F, F])
            narrow = {"out_type": "quint8"}
            yield Case("QuantizeDownAndShrinkRange", [x, end, ()], narrow, [Q32, F, F])
            yield Case("Requantize", [x, (), (), end, ()], narrow, [Q32, F, F, F, F])
            yield Case("RequantizationRange", [x, end, ()], {}, [Q32, F, F])
            clip = {"clip_value_max": 1.0}
            yield Case("RequantizationRangePerChannel", [x, (3,), end], clip, [Q32, F, F])
            for low in ((3,), ()):
                given = [x, low, (3,), end, ()]
                yield Case("RequantizePerChannel", given, {}, [Q32, F, F, F, F])
    for axis in (scalar(0), scalar(1), scalar(2), scalar(-1), ()):
        for x, y in (((2, 3), (2, 3)), ((2, None), (4, 3)), (None, (2, 3))):
            for bad in (ends, [(), (1,), (), ()]):
                types = [Q8, Q8, F, F, F, F]
                yield Case("QuantizedConcat", [axis, x, y, *bad], {"N": 2}, ["int32", *types])
                types = [Q8, Q8, "int32", F, F, F, F]
                yield Case("QuantizedConcatV2", [x, y, axis, *bad], {"N": 2}, types)


def test_shapes_equal_tensorflow() -> None:
    wrong = []
    for case in cases():
        attrs, expected, reason = theirs(case)
        found, message = ours(case, attrs)
        if found != expected:
            wrong.append(f"{case}: TensorFlow {expected or reason}, here {found or message}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])
