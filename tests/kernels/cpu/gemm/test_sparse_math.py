"""Products of a sparse and a dense matrix against their reference, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.against_reference import check, values
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, Unsupported, find_native, find_reference

RNG = np.random.default_rng(5)
OP = "SparseTensorDenseMatMul"


def entries(rows: int, columns: int, count: int, dtype: str = "int64") -> np.ndarray:
    """Places in any order, some of them more than once."""
    return np.stack([RNG.integers(0, rows, count), RNG.integers(0, columns, count)], 1).astype(
        dtype
    )


def node(inputs: list[np.ndarray], rows: int, **attrs: bool) -> NodeSpec:
    out = tensor(np.zeros((rows, inputs[3].shape[1]), inputs[1].dtype))
    given = {"adjoint_a": False, "adjoint_b": False} | attrs
    return NodeSpec("node", OP, given, tuple(map(tensor, inputs)), (out,), {2: inputs[2]})


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(
    ("dtype", "index"), [("float32", "int64"), ("float64", "int32"), ("int32", "int64")]
)
def test_products(dtype: str, index: str, adjoint: bool) -> None:
    rows, columns, count = 7, 5, 23
    inner = rows if adjoint else columns
    for width in (1, 3, 40):
        dense = values(inner, width, dtype=dtype)
        for nchunks in (1, 3):
            for n in (count, 0):
                check(
                    OP,
                    entries(rows, columns, n, index),
                    values(n, dtype=dtype),
                    np.array([rows, columns]),
                    dense,
                    nchunks=nchunks,
                    adjoint_a=adjoint,
                    adjoint_b=False,
                )


@pytest.mark.parametrize("adjoint", [False, True])
def test_chunks_of_ordered_entries(adjoint: bool) -> None:
    rows, columns = 9, 6
    inner = rows if adjoint else columns
    for taken in ([0, 0, 0, 0, 3], [3, 3, 4, 8, 8], [5], [2] * 7, list(range(9))):
        target = np.array([row % (columns if adjoint else rows) for row in taken])
        target.sort()
        other = RNG.integers(0, inner, len(taken))
        places = np.stack([other, target] if adjoint else [target, other], 1)
        check(
            OP,
            places,
            values(len(taken)),
            np.array([rows, columns]),
            values(inner, 70),
            nchunks=4,
            adjoint_a=adjoint,
            adjoint_b=False,
        )


def test_products_without_elements() -> None:
    for rows, columns, width in ((0, 5, 3), (4, 0, 3), (4, 5, 0)):
        check(
            OP,
            np.zeros((0, 2), np.int64),
            np.zeros(0, np.float32),
            np.array([rows, columns]),
            np.zeros((columns, width), np.float32),
            adjoint_a=False,
            adjoint_b=False,
        )


def test_nan_and_infinity_stay_in_their_rows() -> None:
    scale = np.array([1, np.nan, np.inf, 0], np.float32)
    places = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    dense = np.array([[1, 2], [3, 4], [0, 5], [np.inf, 6]], np.float32)
    with np.errstate(invalid="ignore"):
        check(OP, places, scale, np.array([5, 4]), dense, adjoint_a=False, adjoint_b=False)


@pytest.mark.parametrize("bad", [[[0, 9]], [[9, 0]], [[-1, 0]], [[0, 0], [8, 1], [0, -2]]])
@pytest.mark.parametrize("adjoint", [False, True])
def test_places_outside_of_the_matrix(bad: list[list[int]], adjoint: bool) -> None:
    inputs = [
        np.array(bad),
        np.ones(len(bad), np.float32),
        np.array([3, 4]),
        np.ones((3 if adjoint else 4, 2), np.float32),
    ]
    spec = node(inputs, 4 if adjoint else 3, adjoint_a=adjoint)
    reference, builder = find_reference(OP), find_native(OP)
    assert reference is not None
    assert builder is not None
    with pytest.raises(InvalidArgumentError) as wanted:
        reference(spec, inputs)
    with pytest.raises(KernelError) as raised:
        run_native(builder(spec), inputs, spec.outputs)
    assert raised.value.args == ("InvalidArgumentError", wanted.value.message)


def test_refused_products() -> None:
    builder = find_native(OP)
    assert builder is not None
    inputs = [
        entries(3, 4, 5),
        np.ones(5, np.float32),
        np.array([3, 4]),
        np.ones((4, 4), np.float32),
    ]
    spec = node(inputs, 3)
    assert builder(spec).launches
    half = [*inputs[:1], inputs[1].astype(np.float16), inputs[2], inputs[3].astype(np.float16)]
    unknown = NodeSpec("node", OP, spec.attrs, spec.inputs, spec.outputs)
    for refused in (
        node(inputs, 3, adjoint_b=True),
        node(half, 3),
        unknown,
        node([*inputs[:2], np.array([3, 9]), inputs[3]], 3),
    ):
        with pytest.raises(Unsupported):
            builder(refused)
