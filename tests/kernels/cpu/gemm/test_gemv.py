"""Products of a matrix and a vector, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.kernels.registry import NodeSpec, find_native

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("m", "k"), [(1, 1), (3, 5), (4, 16), (17, 33), (64, 64), (5, 1000), (1000, 7), (130, 259)]
)
@pytest.mark.parametrize("nchunks", [1, 3])
def test_both_sides(m: int, k: int, transposed: bool, dtype: str, nchunks: int) -> None:
    builder = find_native("MatMul")
    assert builder is not None
    matrix = RNG.standard_normal((k, m) if transposed else (m, k)).astype(dtype)
    turned = matrix.T if transposed else matrix
    for column in (True, False):
        vector = RNG.standard_normal((k, 1) if column else (1, m)).astype(dtype)
        inputs = (matrix, vector) if column else (vector, matrix)
        wanted = (turned if column else vector).astype("f8") @ (
            vector if column else turned
        ).astype("f8")
        attrs = {"transpose_a": transposed and column, "transpose_b": transposed and not column}
        spec = NodeSpec(
            "node", "MatMul", attrs, tuple(map(tensor, inputs)), (tensor(wanted.astype(dtype)),)
        )
        call = builder(spec)
        assert {launch.source.title.split(" ")[0] for launch in call.launches} <= {"dot", "sum"}
        (found,) = run_native(call, inputs, spec.outputs, nchunks)
        np.testing.assert_allclose(
            found,
            wanted,
            rtol=2e-5 if dtype == "float32" else 1e-12,
            atol=2e-4 if dtype == "float32" else 1e-12,
        )


def test_other_values() -> None:
    """NaN and infinity come through; a sum of nothing is zero."""
    builder = find_native("MatMul")
    assert builder is not None
    for matrix, vector in (
        (
            np.array([[np.inf, 1], [np.nan, 1], [0, 0]], np.float32),
            np.array([[1], [0]], np.float32),
        ),
        (np.zeros((3, 0), np.float32), np.zeros((0, 1), np.float32)),
    ):
        for transposed in (False, True):
            inputs = (np.ascontiguousarray(matrix.T) if transposed else matrix, vector)
            with np.errstate(invalid="ignore"):
                wanted = matrix @ vector
            spec = NodeSpec(
                "node",
                "MatMul",
                {"transpose_a": transposed},
                tuple(map(tensor, inputs)),
                (tensor(wanted),),
            )
            np.testing.assert_array_equal(
                run_native(builder(spec), inputs, spec.outputs, 2)[0], wanted
            )
