"""Ragged rows are made, gathered, counted and made dense as in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests.kernels.cpu.reference.sparse.op_answers import answers

tf1 = tensorflow.compat.v1
Case = tuple[str, dict[str, Any]]
SPLITS, INNER = np.array([0, 2, 2, 5]), np.array([0, 1, 3, 3, 4, 7])
VALUES, PAIRS = np.arange(1, 6), np.arange(14.0).reshape(7, 2)
WORDS = np.array([b"a", b"b", b"c", b"d", b"e"], object)
ROWS, INNER_ROWS = np.array([0, 0, 2, 2, 2]), np.array([0, 1, 1, 3, 4, 4, 4])


def ranges() -> list[Case]:
    found = [
        ([0, 5, 8, 3], [3, 5, 0, 10], [1, 1, -3, 2]),
        (0, [3, 0, -2], 1),
        ([0, 0.2], [1.0, -5.0], [0.1, -0.3]),
        ([], [], []),
        (2, 5, 0),
    ]
    cases = []
    for dtype in (np.int32, np.float32, np.float64):
        for parts in found:
            arrays = [np.array(part, np.float64).astype(dtype) for part in parts]
            if arrays[2].all() or parts[2] == 0:  # 0.1 is no step of integers
                names = ("starts", "limits", "deltas")
                cases.append(("RaggedRange", dict(zip(names, arrays, strict=True))))
    return cases


def gathers() -> list[Case]:
    indices = [[2, 0, 0, 1], 1, [[2, 0], [1, 1]], np.zeros((0,), int), np.zeros((2, 0), int), [3]]
    return [
        (
            "RaggedGather",
            {
                "params_nested_splits": nested,
                "params_dense_values": values,
                "indices": np.array(index),
                "OUTPUT_RAGGED_RANK": len(nested) + np.ndim(index) - 1,
            },
        )
        for index in indices
        for nested, values in (([SPLITS, INNER], PAIRS), ([SPLITS], WORDS))
    ] + [
        (
            "RaggedGather",
            {
                "params_nested_splits": [np.array(splits)],
                "params_dense_values": VALUES,
                "indices": np.array([1]),
                "OUTPUT_RAGGED_RANK": 1,
            },
        )
        for splits in ([0, 2, 1, 5], [0, 2, 9], [-1, 2, 5])
    ]


def sparse() -> list[Case]:
    return [
        ("RaggedTensorToSparse", {"rt_nested_splits": nested, "rt_dense_values": values})
        for nested, values in (
            ([SPLITS], WORDS),
            ([SPLITS, INNER], PAIRS),
            ([np.array([0, 0, 0])], np.arange(0)),
            ([SPLITS], np.zeros((5, 0))),
            ([np.array([1, 2])], np.arange(2)),
            ([np.array([0, 3, 2])], np.arange(2)),
            ([np.array([0, 1])], np.arange(2)),
            ([np.array([], np.int64)], np.arange(2)),
        )
    ]


def counts() -> list[Case]:
    numbers = np.array([1, 1, 0, 7, 2])
    usual = {"splits": SPLITS, "values": numbers, "size": 4, "weights": np.array([], np.float32)}
    changes: list[dict[str, Any]] = [
        {},
        {"binary_output": True},
        {"weights": np.array([1.5, 2.0, 3.0, 4.0, 5.0])},
        {"splits": np.array([0, 3, 2, 5])},
        {"splits": np.array([0, 2])},
        {"splits": np.array([1, 5])},
        {"splits": np.array([], np.int64)},
        {"values": -numbers},
        {"size": -1},
    ]
    return [("RaggedBincount", {**usual, **change}) for change in changes]


def dense() -> list[Case]:
    by_splits = ([SPLITS], ["ROW_SPLITS"])
    by_rows = ([np.array(4), ROWS], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"])
    too_few = ([np.array(2), ROWS], by_rows[1])
    deep = ([SPLITS, INNER], ["ROW_SPLITS"] * 2)
    deep_rows = ([np.array(3), ROWS, INNER_ROWS], [*by_rows[1], "VALUE_ROWIDS"])
    shapes: list[Any] = [-1, [-1, -1], [2, 2], [5, 4], [3, 0], [-1, 2]]
    deep_shapes: list[Any] = [-1, [-1, -1, -1, -1], [2, 3, 1, 2], [4, 1, 5, -1]]
    found: list[tuple[Any, ...]] = [
        *((shape, VALUES, -7, form) for shape in shapes for form in (by_splits, by_rows, too_few)),
        *((shape, PAIRS, [-1.0, -2.0], deep) for shape in deep_shapes),
        *((shape, PAIRS, -1.0, deep_rows) for shape in deep_shapes),
        (-1, WORDS, np.array(b"-", object), by_splits),
        (-1, VALUES[:0], 0, ([np.array([0, 0, 0])], ["ROW_SPLITS"])),
        (-1, VALUES, 0, ([np.array([0, 2, 4])], ["ROW_SPLITS"])),
    ]
    return [
        (
            "RaggedTensorToTensor",
            {
                "shape": np.array(shape),
                "values": values,
                "default_value": np.array(default),
                "row_partition_tensors": parts,
                "row_partition_types": kinds,
            },
        )
        for shape, values, default, (parts, kinds) in found
    ]


def test_ragged_ops() -> None:
    cases = [*ranges(), *gathers(), *sparse(), *counts(), *dense()]
    for case, theirs, ours in zip(cases, answers(tf1, cases), answers(tfjit, cases), strict=True):
        assert ours == theirs, case


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("RaggedRange", {"starts": [0, 1], "limits": [3], "deltas": 1}),
        ("RaggedRange", {"starts": [[0]], "limits": [3], "deltas": 1}),
        ("RaggedTensorToTensor", {**dense()[0][1], "shape": [1, 1, 1]}),
        ("RaggedTensorToTensor", {**dense()[0][1], "row_partition_types": ["VALUE_ROWIDS"]}),
        ("RaggedTensorToTensor", {**dense()[-7][1], "shape": [4, 1, 5, 3]}),
    ],
)
def test_shapes_that_do_not_fit(op: str, arguments: dict[str, Any]) -> None:
    texts = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), pytest.raises(ValueError) as caught:
            getattr(tf.raw_ops, op)(**arguments)
        texts.append(str(caught.value).partition(" with input shapes: ")[0])
    assert texts[0] == texts[1]
