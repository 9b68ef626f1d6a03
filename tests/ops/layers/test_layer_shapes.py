"""Shape rules of simulated quantisation, recurrent cells and fused layers against TensorFlow's
static shape inference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.ops.shape_cases import Case, expand, ints, ours, theirs

pytest.importorskip("tensorflow")

F, I = "float32", "int32"
FLOAT = 1  # DT_FLOAT


def quantisation() -> Iterator[Case]:
    for x in ((2, 3), ()):
        yield from expand("FakeQuantWithMinMaxArgs", [x])
        yield from expand("FakeQuantWithMinMaxArgsGradient", [x, (2, 3)])
        for end in ((), (1,)):
            yield from expand("FakeQuantWithMinMaxVars", [x, end, ()])
            yield from expand("FakeQuantWithMinMaxVarsGradient", [x, (2, 3), (), end])
        for ends in (((3,), (3,)), ((3,), (4,)), ((2,), (2,)), ((), (3,))):
            yield from expand("FakeQuantWithMinMaxVarsPerChannel", [x, *ends])
            yield from expand("FakeQuantWithMinMaxVarsPerChannelGradient", [x, (2, 3), *ends])
    for axis in (-1, 0, 1, 2):
        for ends in (((), ()), ((3,), (3,)), ((2,), (3,))):
            yield from expand("QuantizeAndDequantizeV2", [(2, 3), *ends], axis=axis)
            yield from expand("QuantizeAndDequantizeV4", [(2, 3), *ends], axis=axis)
            yield from expand(
                "QuantizeAndDequantizeV3", [(2, 3), *ends, ()], [F, F, F, I], axis=axis
            )
            yield from expand("QuantizeAndDequantizeV4Grad", [(2, 3), (2, 3), *ends], axis=axis)
            if ends[0] == ends[1]:  # of two ends TensorFlow looks at one
                yield Case("QuantizeV2", [(2, 3), *ends], {"axis": axis, "T": 12})
                yield Case("Dequantize", [(2, 3), *ends], {"axis": axis}, ["quint8", F, F])


def cells() -> Iterator[Case]:
    hole, b = (4,), (16,)
    given = [(2, 4), (2, 4), (7, 16), hole, hole, hole, b]
    yield from expand("LSTMBlockCell", [(2, 3), *given])
    yield from expand("LSTMBlockCellGrad", [(2, 3), *given, *[(2, 4)] * 8], use_peephole=False)
    for op in ("BlockLSTM", "BlockLSTMV2"):
        yield from expand(op, [(), (5, 2, 3), *given], ["int64", *[F] * 8])
        grad = [(), (5, 2, 3), *given, *[(5, 2, 4)] * 9]
        yield from expand(
            op.replace("LSTM", "LSTMGrad"), grad, ["int64", *[F] * 17], use_peephole=False
        )
    gru = [(2, 3), (2, 4), (7, 8), (7, 4), (8,), (4,)]
    yield from expand("GRUBlockCell", gru)
    yield from expand("GRUBlockCellGrad", [*gru, *[(2, 4)] * 4])


def layers() -> Iterator[Case]:
    pads = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32)
    for padding in ("SAME", "VALID"):
        attrs = {"strides": [1, 2, 1, 1], "padding": padding}
        yield from expand(
            "_FusedConv2D",
            [(2, 5, 6, 3), (2, 3, 3, 4), (4,)],
            **attrs,
            num_args=1,
            TArgs=[FLOAT],
            fused_ops=["BiasAdd"],
        )
        for given in (pads, (4, 2)):
            yield Case(
                "FusedPadConv2D",
                [(2, 5, 6, 3), given, (2, 3, 3, 4)],
                {**attrs, "mode": "REFLECT"},
                [F, I, F],
            )
            for size in (ints(7, 8), (2,)):
                inputs = [(2, 5, 6, 3), size, given, (2, 3, 3, 4)]
                yield Case(
                    "FusedResizeAndPadConv2D", inputs, {**attrs, "mode": "REFLECT"}, [F, I, I, F]
                )


@pytest.mark.parametrize("cases", [quantisation, cells, layers])
def test_shapes_equal_tensorflow(cases: Any) -> None:
    wrong = []
    for case in cases():
        attrs, expected, reason = theirs(case)
        found, message = ours(case, attrs)
        if found != expected:
            wrong.append(f"{case}: TensorFlow {expected or reason}, here {found or message}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:60])
