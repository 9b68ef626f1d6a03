"""Assignments to variables in device memory."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.kernels.cuda.harness import VECTOR_LOAD, VECTOR_STORE, call_ptx, run_node_state
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, Unsupported


@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "float16", "complex128"])
@pytest.mark.parametrize("n", [0, 1, 5, 16, 37])
def test_assign(dtype: str, n: int) -> None:
    value = (np.arange(n) % 3).astype(dtype)
    found, after = run_node_state(
        find_builder("Assign"), "Assign", [np.zeros_like(value), value], []
    )
    assert not found
    np.testing.assert_array_equal(after[0], value)


@pytest.mark.parametrize("op", ["AssignAdd", "AssignSub", "AssignAddVariableOp"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8", "complex64"])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_assign_add(op: str, dtype: str, n: int) -> None:
    x, y = np.arange(n).astype(dtype), np.arange(n, 2 * n).astype(dtype)
    _, after = run_node_state(find_builder(op), op, [x, y], [])
    np.testing.assert_array_equal(after[0], x - y if "Sub" in op else x + y)


def test_other_shapes_are_refused() -> None:
    x, y = tensor(np.zeros(3, np.float32)), tensor(np.zeros(4, np.float32))
    builder = find_builder("Assign")
    assert builder is not None
    with pytest.raises(Unsupported, match="into a variable"):
        builder(NodeSpec("n", "Assign", {}, (x, y), ()))


def test_ptx() -> None:
    x = tensor(np.zeros(100, np.float32))
    for op in ("Assign", "AssignAdd"):
        builder = find_builder(op)
        assert builder is not None
        for ptx in call_ptx(builder(NodeSpec("n", op, {}, (x, x), ()))).values():
            assert re.search(VECTOR_LOAD, ptx) and re.search(VECTOR_STORE, ptx)
