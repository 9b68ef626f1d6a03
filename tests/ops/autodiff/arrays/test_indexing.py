"""Test gradients of gathers, scatters and slices against TensorFlow's."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tests.ops.autodiff.against_tensorflow import Program, compare, signed, smooth

PAIR: Final = signed(2)
MATRIX: Final = signed(4, 3)
CASES: Final[dict[str, tuple[Program, list[np.ndarray]]]] = {
    "gather in batches": (
        lambda m, x: m.gather(x, [[2, 0], [1, 1]], batch_dims=1) ** 2,
        [smooth(2, 3, 4)],
    ),
    "gather in batches along a later axis": (
        lambda m, x: m.gather(x, [[2, 0, 1], [1, 1, 0]], axis=2, batch_dims=1) ** 2,
        [smooth(2, 4, 3, 2)],
    ),
    "gather with negative batch_dims": (
        lambda m, x: m.gather(x, [[[2], [0]], [[1], [1]]], axis=2, batch_dims=-1) ** 2,
        [smooth(2, 2, 3)],
    ),
    "gather nothing in batches": (
        lambda m, x: m.gather(x, np.zeros((2, 0), "i4"), batch_dims=1) ** 2,
        [smooth(2, 3)],
    ),
    "scatter of greater values": (
        lambda m, x, y: m.tensor_scatter_nd_max(x, [[0], [2], [0]], y) ** 2,
        [np.array([1, 2, 3, 4], "f4"), np.array([1, 5, 0.5], "f4")],
    ),
    "scatter of smaller values": (
        lambda m, x, y: m.tensor_scatter_nd_min(x, [[0], [2], [0]], y) ** 2,
        [np.array([1, 2, 3, 4], "f4"), np.array([1, 5, 0.5], "f4")],
    ),
    "scatter that adds": (
        lambda m, x, y: (
            m.raw_ops.ScatterNdNonAliasingAdd(input=x, indices=[[0], [2], [0]], updates=y) ** 2
        ),
        [smooth(4), smooth(3)],
    ),
    "the nth of equals": (
        lambda m, x: m.raw_ops.NthElement(input=x, n=1) * PAIR,
        [np.array([[3, 1, 1, 2], [4, 4, 2, 4]], "f4")],
    ),
    "an updated slice": (
        lambda m, x, y: (
            m.raw_ops.TensorStridedSliceUpdate(
                input=x, begin=[0, 1], end=[0, 4], strides=[1, 2], value=y, begin_mask=1, end_mask=1
            )
            ** 2
        ),
        [smooth(3, 4), smooth(2)],
    ),
    "reversed by flags": (
        lambda m, x: m.raw_ops.Reverse(tensor=x, dims=[True, False]) * x,
        [smooth(3, 4)],
    ),
    "conjugate transpose": (
        lambda m, x, y: m.math.imag(m.transpose(m.complex(x, y), [1, 0], conjugate=True)) * MATRIX,
        [smooth(3, 4), smooth(3, 4)],
    ),
    "checked numbers": (
        lambda m, x: m.raw_ops.CheckNumericsV2(tensor=x, message="here") ** 2,
        [smooth(3)],
    ),
    "space to batch": (
        lambda m, x: m.raw_ops.SpaceToBatch(input=x, paddings=[[1, 0], [0, 1]], block_size=2) ** 2,
        [smooth(1, 3, 3, 2)],
    ),
    "batch to space": (
        lambda m, x: m.raw_ops.BatchToSpace(input=x, crops=[[1, 0], [0, 1]], block_size=2) ** 2,
        [smooth(4, 2, 2, 1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    compare(*CASES[name])


@pytest.mark.parametrize("indices", [[[2], [0], [2]], [[0, 1], [2, 0]]], ids=["rows", "elements"])
def test_gathers_of_a_variable(indices: list[list[int]]) -> None:
    """TensorFlow's op of the same name gathers from a resource: so does tfjit's gather_nd."""
    import tfjit

    with tfjit.Graph().as_default():
        value = smooth(3, 2)
        variable = tfjit.get_variable("v", initializer=value, use_resource=True)
        made = tfjit.raw_ops.ResourceGatherNd(
            resource=variable.handle, indices=indices, dtype=tfjit.float32
        )
        (found,) = tfjit.gradients(made**2, [variable])
        read = tfjit.identity(variable)
        (expected,) = tfjit.gradients(tfjit.gather_nd(read, indices) ** 2, [read])
        with tfjit.Session() as session:
            session.run(tfjit.global_variables_initializer())
            got, wanted = session.run([tfjit.convert_to_tensor(found), expected])
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
