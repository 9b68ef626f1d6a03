"""NumPy reference kernels of fused layers and of recurrent cells against TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.kernels.kernel_cases import Case, Oracle, differences, ours

pytest.importorskip("tensorflow")

RNG = np.random.default_rng(31)
LOOSE = (1e-4, 1e-4)
FLOAT = 1  # DT_FLOAT
ACTIVATIONS = ("Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid")


def n(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.asarray(RNG.standard_normal(shape)).astype(dtype)


def fused() -> Iterator[Case]:
    image, kernel, bias = n(2, 5, 6, 3), n(2, 3, 3, 4), n(4)
    norm = [np.abs(n(4)) + 0.5, n(4), n(4), np.abs(n(4)) + 0.5]
    for padding in ("SAME", "VALID"):
        base = {"strides": [1, 2, 1, 1], "padding": padding}
        for more in ([], *([name] for name in ACTIVATIONS[:4])):
            attrs = {**base, "num_args": 1, "TArgs": [FLOAT], "fused_ops": ["BiasAdd", *more]}
            yield Case("_FusedConv2D", [image, kernel, bias], attrs, LOOSE)
            attrs = {
                **base,
                "num_args": 4,
                "TArgs": [FLOAT] * 4,
                "fused_ops": ["FusedBatchNorm", *more],
            }
            yield Case("_FusedConv2D", [image, kernel, *norm], attrs, LOOSE)
    for more in ([], *([name] for name in (*ACTIVATIONS, "GeluExact", "GeluApproximate"))):
        for transposed in (False, True)[: 1 if more and more[0].startswith("Gelu") else 2]:
            a, b = (n(4, 5), n(3, 4)) if transposed else (n(5, 4), n(4, 3))
            attrs = {
                "transpose_a": transposed,
                "transpose_b": transposed,
                "num_args": 1,
                "fused_ops": ["BiasAdd", *more],
            }
            yield Case("_FusedMatMul", [a, b, n(3)], attrs, LOOSE)
    mirrored = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32)
    for mode in ("REFLECT", "SYMMETRIC"):
        for padding in ("SAME", "VALID"):
            for kind in (np.float32, np.float64):
                attrs = {"mode": mode, "strides": [1, 2, 2, 1], "padding": padding}
                # of more images TensorFlow computes all but one wrongly
                x, w = image[:1].astype(kind), kernel.astype(kind)
                yield Case("FusedPadConv2D", [x, mirrored, w], attrs, LOOSE)
                yield Case(
                    "FusedResizeAndPadConv2D",
                    [x, np.array([7, 4], np.int32), mirrored, w],
                    attrs,
                    LOOSE,
                )


def formats() -> Iterator[Case]:
    for kind in (np.int32, np.int64):
        for source, target in (("NHWC", "NCHW"), ("NCHW", "NHWC")):
            attrs = {"src_format": source, "dst_format": target}
            yield Case("DataFormatDimMap", [np.array([0, 1, 2, 3, -1, -2], kind)], attrs)
            for shape in ((4,), (2,), (4, 2), (2, 2)):
                yield Case(
                    "DataFormatVecPermute",
                    [np.arange(np.prod(shape)).reshape(shape).astype(kind)],
                    attrs,
                )
            for shape in ((), (3,), (4, 3), (4, 2, 1)):
                yield Case("DataFormatVecPermute", [np.zeros(shape, kind)], attrs, own_words=True)


def lstm_inputs(time: int | None, kind: Any) -> list[np.ndarray]:
    batch, inputs, cells = 2, 3, 4
    x = n(batch, inputs, dtype=kind) if time is None else n(time, batch, inputs, dtype=kind)
    return [
        x,
        n(batch, cells, dtype=kind),
        n(batch, cells, dtype=kind),
        n(inputs + cells, 4 * cells, dtype=kind),
        *(n(cells, dtype=kind) for _ in range(3)),
        n(4 * cells, dtype=kind),
    ]


def lstm() -> Iterator[Case]:
    for peephole in (False, True):
        for clip in (0.0, 0.6):
            attrs = {"use_peephole": peephole, "cell_clip": clip}
            for kind in (np.float32, np.float16):
                tolerance = (3e-2, 3e-2) if kind is np.float16 else LOOSE
                given = lstm_inputs(None, kind)
                case = Case("LSTMBlockCell", given, {**attrs, "forget_bias": 0.5}, tolerance)
                yield case
                outputs, _ = ours(case)
                assert outputs is not None
                grads = [n(2, 4, dtype=kind), n(2, 4, dtype=kind)]
                # TensorFlow leaves the gradients of peepholes that are not used as their memory was
                compared = None if peephole else 2
                yield Case(
                    "LSTMBlockCellGrad",
                    [*given, *outputs[:6], *grads],
                    {"use_peephole": peephole},
                    tolerance,
                    compared=compared,
                )
            for op in ("BlockLSTM", "BlockLSTMV2"):
                for steps in (0, 3, 5):
                    given = [np.array(steps, np.int64), *lstm_inputs(5, np.float32)]
                    case = Case(op, given, attrs, LOOSE)
                    if steps == 5:
                        yield case
                    outputs, _ = ours(case)
                    assert outputs is not None
                    grads = [n(5, 2, 4), n(5, 2, 4)]
                    yield Case(
                        op.replace("LSTM", "LSTMGrad"),
                        [*given, *outputs, *grads],
                        {"use_peephole": peephole},
                        LOOSE,
                    )
    bad = lstm_inputs(None, np.float32)
    for i in (0, 1, 2, 3, 7):
        yield Case("LSTMBlockCell", [*bad[:i], bad[i][..., :-1], *bad[i + 1 :]], own_words=True)


def gru() -> Iterator[Case]:
    for batch, inputs, cells in ((2, 3, 4), (1, 1, 1), (5, 2, 3)):
        given = [
            n(batch, inputs),
            n(batch, cells),
            n(inputs + cells, 2 * cells),
            n(inputs + cells, cells),
            n(2 * cells),
            n(cells),
        ]
        case = Case("GRUBlockCell", given, {}, LOOSE)
        yield case
        outputs, _ = ours(case)
        assert outputs is not None
        yield Case("GRUBlockCellGrad", [*given, *outputs[:3], n(batch, cells)], {}, LOOSE)
    for i in range(6):
        yield Case(
            "GRUBlockCell", [*given[:i], given[i][..., :-1], *given[i + 1 :]], own_words=True
        )


@pytest.mark.parametrize("op", ["BlockLSTM", "BlockLSTMV2"])
def test_short_sequences(op: str) -> None:
    """Steps from seq_len_max on: states are 0; TensorFlow leaves the gates as their memory was."""
    case = Case(op, [np.array(3, np.int64), *lstm_inputs(5, np.float32)])
    theirs, _ = Oracle([case]).run(0, case)
    found, _ = ours(case)
    assert theirs is not None
    assert found is not None
    for i, (a, b) in enumerate(zip(found, theirs)):
        np.testing.assert_allclose(a[:3], b[:3], 1e-4, 1e-4)
        if i in (1, 6):
            np.testing.assert_array_equal(a[3:], b[3:])


@pytest.mark.parametrize("cases", [fused, formats, lstm, gru])
def test_equal_tensorflow(cases: Any) -> None:
    assert not differences(list(cases()))
