"""Crosses of feature columns are those of TensorFlow, and so are their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow

import tfjit
from tests.kernels.cpu.reference.sparse.op_answers import answers

tf1 = tensorflow.compat.v1
PLACES = [np.array([[0, 0], [0, 1], [1, 0], [2, 0]]), np.array([[0, 0], [1, 0], [1, 1], [2, 0]])]
TEXTS, NUMBERS = np.array([b"a", b"bb", b"c", b"d"], object), np.array([5, -6, 7, 0])
SHAPE = np.array([4, 2])  # the last row is empty in both sparse columns
TABLE = np.array([[1, 2], [3, 4], [5, 6], [7, 8]])
LONG = np.array([[b"x"], [b"y"], [b"z"], [b"w" * 70]], object)
INPUTS = {
    "indices": PLACES,
    "values": [TEXTS, NUMBERS],
    "shapes": [SHAPE, SHAPE],
    "dense_inputs": [TABLE, LONG],
}
DENSE = {"indices": [], "values": [], "shapes": [], "dense_inputs": [LONG, TABLE]}
SALT = {"salt": [-3, 1 << 40]}
RAGGED = {
    "ragged_values": [TEXTS, NUMBERS],
    "ragged_row_splits": [np.array([0, 2, 2, 3, 4]), np.array([0, 1, 1, 3, 4])],
    "sparse_indices": PLACES[:1],
    "sparse_values": [TEXTS],
    "sparse_shape": [SHAPE],
    "dense_inputs": [TABLE],
    "input_order": "RSDR",
    "hash_key": 3,
}


def cases(tf: Any) -> list[tuple[str, dict[str, Any]]]:
    number = {"out_type": tf.int64, "internal_type": tf.int64, "hash_key": 0xDECAFCAFFE}
    text = {"out_type": tf.string, "internal_type": tf.int64, "hash_key": 1, "num_buckets": 0}
    joined = {"out_values_type": tf.string, "out_row_splits_type": tf.int64}
    hashed = {"out_values_type": tf.int64, "out_row_splits_type": tf.int64}
    return [
        *(
            ("SparseCross", {**INPUTS, **number, "hashed_output": True, "num_buckets": count})
            for count in (0, 7, 1000)
        ),
        *(("SparseCross", {**given, **text, "hashed_output": False}) for given in (INPUTS, DENSE)),
        ("SparseCrossV2", {**INPUTS, "sep": "-*-"}),
        *(
            ("SparseCrossHashed", {**INPUTS, **SALT, "num_buckets": count, "strong_hash": False})
            for count in (0, 9)
        ),
        # TensorFlow crashes where a dense column is to have a strong hash
        (
            "SparseCrossHashed",
            {**INPUTS, **SALT, "dense_inputs": [], "num_buckets": 0, "strong_hash": True},
        ),
        ("RaggedCross", {**RAGGED, **joined, "hashed_output": False, "num_buckets": 0}),
        ("RaggedCross", {**RAGGED, **hashed, "hashed_output": True, "num_buckets": 10}),
        # each of these is refused
        *(
            ("SparseCrossV2", {**INPUTS, "sep": "-", **wrong})
            for wrong in (
                {"shapes": [SHAPE, np.array([3, 2])]},
                {"shapes": [SHAPE, np.array([4, 2, 3])]},
                {"dense_inputs": [TABLE[:3]]},
                {"dense_inputs": [TABLE[0]]},
                {"values": [TEXTS, NUMBERS[:2]]},
                {"indices": [PLACES[0], np.zeros((4, 3), np.int64)]},
            )
        ),
        (
            "RaggedCross",
            {
                **RAGGED,
                **hashed,
                "hashed_output": True,
                "num_buckets": 0,
                "sparse_shape": [np.array([3, 3])],
            },
        ),
    ]


def test_crosses() -> None:
    theirs, ours = (answers(tf, cases(tf)) for tf in (tf1, tfjit))
    assert ours == theirs
    assert sum(isinstance(answer, str) for answer in ours) == 7
