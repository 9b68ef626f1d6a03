"""Positions of extremes on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.harness import call_ptx, run_node
from tests.kernels.groups import floats
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 4), 1), ((2, 1500), 1), ((40, 3), -1), ((1,), 0)],
)
def test_axes(op: str, shape: tuple[int, ...], axis: int) -> None:
    x, known = floats(*shape), np.array(axis, np.int32)
    wanted = (np.argmax if op == "ArgMax" else np.argmin)(x, axis=axis).astype(np.int64)
    (found,) = run_node(find_builder(op), op, [x, known], [np.asarray(wanted)], {1: known})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint32", "bool"])
def test_types_and_ties(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2, (4, 9)).astype(dtype)
    known = np.array(1, np.int32)
    for op, numpy in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        wanted = numpy(x, axis=1).astype(np.int32)
        (found,) = run_node(find_builder(op), op, [x, known], [wanted], {1: known})
        np.testing.assert_array_equal(found, wanted)


def test_nan_never_wins() -> None:
    nan, inf = np.nan, np.inf
    x = np.array([[1, nan, 2], [nan, nan, nan], [-inf, -inf, -inf], [nan, 3, 3]], np.float32)
    known = np.array(1, np.int32)
    (found,) = run_node(
        find_builder("ArgMax"), "ArgMax", [x, known], [np.zeros(4, np.int64)], {1: known}
    )
    assert found.tolist() == [2, 0, 0, 1]


def test_an_empty_axis_is_refused_and_ptx() -> None:
    builder = find_builder("ArgMax")
    assert builder is not None
    known = np.array(1, np.int32)

    def call(shape: tuple[int, int]):  # type: ignore[no-untyped-def]
        ins = (TensorSpec(d.float32, shape), tensor(known))
        out = (TensorSpec(d.int64, shape[:1]),)
        return builder(NodeSpec("n", "ArgMax", {}, ins, out, {1: known}))

    with pytest.raises(Unsupported, match="is empty"):
        call((3, 0))
    for ptx in call_ptx(call((3, 5000))).values():
        assert "shfl.sync" in ptx and "bar.sync" in ptx
