"""Ragged tensors as variants, beside TensorFlow's: values, splits, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1
FLAT = np.arange(14, dtype=np.float32).reshape(7, 2)
OUTER, INNER = np.array([0, 2, 2, 3]), np.array([0, 3, 3, 7])


def encoded(lib: Any, splits: list[Any], batched: bool, values: Any = FLAT) -> Any:
    return lib.raw_ops.RaggedTensorToVariant(
        rt_nested_splits=[lib.constant(s) for s in splits],
        rt_dense_values=lib.constant(values),
        batched_input=batched,
    )


def decoded(lib: Any, variant: Any, rank: int, inner: int = -1, kind: str = "float32") -> Any:
    made = lib.raw_ops.RaggedTensorFromVariant(
        encoded_ragged=variant,
        input_ragged_rank=inner,
        output_ragged_rank=rank,
        Tvalues=getattr(lib, kind),
        Tsplits=lib.int64,
    )
    return [*made.output_nested_splits, made.output_dense_values]


def right(lib: Any) -> list[Any]:
    """Return decoded tensors."""
    one, rows = encoded(lib, [OUTER, INNER], False), encoded(lib, [OUTER, INNER], True)
    dense = encoded(lib, [], False)
    return [
        decoded(lib, one, 2),
        decoded(lib, rows, 2),
        decoded(lib, rows, 2, inner=1),
        decoded(lib, rows[2], 1),
        decoded(lib, rows[1], 1),
        decoded(lib, lib.stack([one, one]), 3),
        decoded(lib, lib.stack([[rows[0], rows[1]], [rows[2], rows[0]]]), 3),
        decoded(lib, dense, 0),
        decoded(lib, encoded(lib, [], True), 1),
        decoded(lib, encoded(lib, [np.array([0, 0])], True, FLAT[:0]), 1),
        decoded(lib, rows[:0], 2),
        decoded(lib, encoded(lib, [], True), 0),
        decoded(lib, lib.reshape(encoded(lib, [], True)[:6], [2, 3]), 0),
        decoded(lib, lib.reshape(rows, [3, 1]), 3),
    ]


WRONG = {
    "rank": lambda lib: decoded(lib, encoded(lib, [OUTER, INNER], False), 1),
    "no rank": lambda lib: decoded(lib, encoded(lib, [OUTER, INNER], True), 0),
    "dtype": lambda lib: decoded(lib, encoded(lib, [OUTER, INNER], False), 2, kind="int32"),
    "ranks": lambda lib: decoded(lib, encoded(lib, [OUTER, INNER], True), 3, inner=1),
}


def test_equal_tensorflow() -> None:
    found = []
    for lib in (tf1, tfjit):
        with lib.Graph().as_default(), lib.Session() as session:
            found.append(session.run(right(lib)))
    for expected, value in zip(*found, strict=True):
        for want, got in zip(expected, value, strict=True):
            assert got.dtype == want.dtype
            if want.size or got.size:
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    found = []
    for lib in (tf1, tfjit):
        with lib.Graph().as_default(), lib.Session() as session:
            with pytest.raises(Exception) as caught:
                session.run(WRONG[name](lib))
            lines = str(caught.value).split("\n\t [[")[0].split("\n\nOriginal")[0].splitlines()
            found.append((type(caught.value), lines[-1]))
    assert issubclass(found[1][0], found[0][0]) or found[1][0].__name__ == found[0][0].__name__
    assert found[1][1].split(" for '{")[0] == found[0][1].split(" for '{")[0]
