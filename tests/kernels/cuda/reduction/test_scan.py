"""Running totals on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.harness import call_ptx, run_node
from tests.kernels.groups import floats
from tests.kernels.launching import tensor
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec


def running(x: np.ndarray, kind: str, axis: int, reverse: bool, exclusive: bool) -> np.ndarray:
    wide = x.astype(np.float64) if x.dtype.kind == "f" else x
    moved = np.moveaxis(wide, axis, 0)
    moved = moved[::-1] if reverse else moved
    step = {"Cumsum": np.add, "Cumprod": np.multiply, "CumulativeLogsumexp": np.logaddexp}[kind]
    total = step.accumulate(moved, axis=0)
    if exclusive:
        first = {"Cumsum": 0, "Cumprod": 1, "CumulativeLogsumexp": -np.inf}[kind]
        total = np.concatenate([np.full_like(total[:1], first), total[:-1]])
    total = total[::-1] if reverse else total
    return np.moveaxis(total, 0, axis).astype(x.dtype)


@pytest.mark.parametrize("op", ["Cumsum", "Cumprod", "CumulativeLogsumexp"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((2, 40), 1), ((3, 5), 0), ((2, 3, 4), 1)])
def test_scans(op: str, reverse: bool, exclusive: bool, shape: tuple[int, ...], axis: int) -> None:
    x, known = floats(*shape), np.array(axis, np.int32)
    attrs = {"reverse": reverse, "exclusive": exclusive}
    (found,) = run_node(find_builder(op), op, [x, known], [x], {1: known}, **attrs)
    np.testing.assert_allclose(
        found, running(x, op, axis, reverse, exclusive), rtol=2e-5, atol=1e-6
    )


def test_a_row_of_several_blocks_of_elements() -> None:
    x, known = floats(1, 300), np.array(1, np.int32)
    (found,) = run_node(find_builder("Cumsum"), "Cumsum", [x, known], [x], {1: known})
    np.testing.assert_allclose(found, running(x, "Cumsum", 1, False, False), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "float16", "uint8", "complex64"])
def test_other_types(dtype: str) -> None:
    x, known = (np.arange(10) % 4).astype(dtype), np.array(0, np.int32)
    (found,) = run_node(find_builder("Cumsum"), "Cumsum", [x, known], [x], {1: known})
    np.testing.assert_array_equal(found, np.cumsum(x).astype(dtype))


def test_ptx() -> None:
    builder = find_builder("Cumsum")
    assert builder is not None
    x, known = tensor(np.zeros((4, 300), np.float32)), np.array(1, np.int32)
    call = builder(NodeSpec("n", "Cumsum", {}, (x, tensor(known)), (x,), {1: known}))
    for ptx in call_ptx(call).values():
        assert "bar.sync" in ptx and "ld.shared" in ptx
