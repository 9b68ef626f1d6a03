"""Test gradients of ragged rows and of sparse tensors that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit
from tests.ops.autodiff.against_tensorflow import compare, smooth


def test_filled_empty_rows() -> None:
    def program(m: Any, values: Any, default: Any) -> Any:
        made = m.raw_ops.RaggedFillEmptyRows(
            value_rowids=np.array([0, 0, 2], "i8"),
            values=values,
            nrows=np.int64(4),
            default_value=default,
        )
        return made[1] ** 2

    compare(program, [smooth(3), smooth()])


@pytest.mark.parametrize("op", ["SparseSparseMaximum", "SparseSparseMinimum"])
def test_gradients_that_tensorflow_has_not_either(op: str) -> None:
    with tfjit.Graph().as_default():
        values = tfjit.placeholder(tfjit.float32, [1])
        at, shape = np.zeros((1, 1), "i8"), np.array([3], "i8")
        made = getattr(tfjit.raw_ops, op)(
            a_indices=at,
            a_values=values,
            a_shape=shape,
            b_indices=at,
            b_values=values,
            b_shape=shape,
        )
        with pytest.raises(NotImplementedError, match=f"Gradient for {op} is not implemented"):
            tfjit.gradients(made[1], [values])
