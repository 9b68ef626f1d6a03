"""Compare activations that are built of several ops with TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

X = np.array([-30.0, -6.0, -3.0, -0.7, -0.0, 0.0, 0.3, 2.0, 9.0, np.inf, -np.inf, np.nan])
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6, "float64": 1e-14}


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_gelu(dtype: str, approximate: bool) -> None:
    def values(m: Any) -> np.ndarray:
        v1 = m.compat.v1 if m is tf else m
        with v1.Graph().as_default(), v1.Session() as session:
            x = m.constant(X, getattr(m, dtype))
            result: np.ndarray = session.run(m.nn.gelu(x, approximate=approximate))
            return result

    expected, got = values(tf), values(tfjit)
    assert got.dtype == expected.dtype
    tolerance = TOLERANCES[dtype]
    np.testing.assert_allclose(
        got.astype("f8"), expected.astype("f8"), rtol=tolerance, atol=tolerance
    )


def test_gelu_of_integers() -> None:
    with tfjit.Graph().as_default(), pytest.raises(ValueError, match="floating point tensor"):
        tfjit.nn.gelu(tfjit.constant([1, 2]))
