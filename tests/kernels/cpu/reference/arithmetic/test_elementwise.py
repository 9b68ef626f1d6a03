"""Reference kernels of the elementwise table: broadcasting, results' ownership, errors, Select's
vector condition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu.reference.arithmetic.elementwise
from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.framework.scalar.elementwise import TABLE
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import NodeSpec, find_reference


def run(op: str, *inputs: Any, **attrs: Any) -> np.ndarray:
    """The reference kernel's only output."""
    kernel = find_reference(op)
    assert kernel is not None
    (result,) = kernel(NodeSpec("n", op, attrs, (), ()), [np.asarray(x) for x in inputs])
    return result


def test_every_row_has_a_kernel():
    assert all(find_reference(row.op) is not None for row in TABLE)


def test_broadcasts():
    x, y = (
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(2, dtype=np.float32).reshape(2, 1),
    )
    assert np.array_equal(run("AddV2", x, y), x + y)
    assert run("Mul", x, np.float32(2)).shape == (2, 3)
    assert run("AddV2", np.float32(1), np.float32(2)).shape == ()
    assert run("Less", np.zeros((0, 3), np.float32), y[:0]).shape == (0, 3)


def test_result_is_never_an_input():
    x = np.arange(4, dtype=np.int32)
    rounded = run("Round", x)
    assert not np.shares_memory(rounded, x)
    z = np.array([1 + 2j], np.complex64)
    assert not np.shares_memory(run("Real", z, Tout=d.float32), z)


def test_select_takes_rows_by_a_vector():
    condition, x, y = np.array([True, False]), np.ones((2, 3)), np.zeros((2, 3))
    assert np.array_equal(run("Select", condition, x, y), [[1, 1, 1], [0, 0, 0]])
    assert np.array_equal(run("Select", np.array(True), x, y), x)
    wide = np.array([True, False, True])
    assert np.array_equal(run("SelectV2", wide, x, y), [[1, 0, 1], [1, 0, 1]])


@pytest.mark.parametrize("op", ["Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"])
def test_integer_division_by_zero(op: str):
    # TensorFlow's own kernels disagree
    with pytest.raises(
        InternalError if op.startswith("Truncate") else InvalidArgumentError,
        match="Integer division by zero",
    ):
        run(op, np.array([1, 2], np.int32), np.array([1, 0], np.int32))
    assert not np.isfinite(run(op, np.float32(1), np.float32(0)))


def test_negative_integer_power():
    with pytest.raises(InvalidArgumentError, match="negative integer powers"):
        run("Pow", np.array([2], np.int32), np.array([-1], np.int32))
    assert run("Pow", np.float32(2), np.float32(-1)) == 0.5


def test_attrs_reach_the_function():
    assert np.allclose(run("LeakyRelu", np.float32([-1, 2]), alpha=0.5), [-0.5, 2])
    assert run("Cast", np.float32([1.7, np.nan]), DstT=d.int32, Truncate=False).tolist() == [
        1,
        -(2**31),
    ]
    assert run("AddN", np.float32(1), np.float32(2), np.float32(3)) == 6


def test_strings_keep_zeros_at_their_end() -> None:
    with tfjit.Graph().as_default() as graph:
        text = tfjit.placeholder(tfjit.string, [])
        both = text + b"x\0"
    with tfjit.Session(graph=graph) as session:
        assert session.run(both, {text: b"a\0"}) == b"a\0x\0"
