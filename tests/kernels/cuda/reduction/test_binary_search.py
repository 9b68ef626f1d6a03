"""Places of values in sorted rows on a GPU, against the references and TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.cuda.harness import run_node
from tests.kernels.cuda.linked import ALL, resources
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.template.registry import find_builder
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(2)
BOTH = pytest.mark.parametrize("op", ["LowerBound", "UpperBound"])


@BOTH
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8"])
def test_bounds(op: str, dtype: str) -> None:
    for rows, length, many in ((3, 7, 5), (1, 1, 4), (2, 0, 3), (2, 4, 0), (0, 3, 2)):
        x = np.sort(RNG.integers(0, 9, (rows, length)), axis=1).astype(dtype)
        values = RNG.integers(0, 11, (rows, many)).astype(dtype)
        check(op, x, values, out_type=d.int32)
        check(op, x, values, out_type=d.int64)


@BOTH
def test_special_values_of_tensorflow(op: str) -> None:
    tf = pytest.importorskip("tensorflow")
    x = np.float32([[-np.inf, -1, -0.0, 0, 2, np.inf, np.inf]])
    values = np.float32([[np.nan, -np.inf, np.inf, 0, -0.0, 5, -3]])
    wanted = getattr(tf.raw_ops, op)(sorted_inputs=x, values=values).numpy()
    (found,) = run_node(find_builder(op), op, [x, values], [wanted])
    np.testing.assert_array_equal(found, wanted)


def test_forms_without_a_kernel() -> None:
    one, pair = np.zeros((1, 3), np.float32), np.zeros((2, 3), np.float32)
    for x, values in ((one, pair), (one.astype("c8"), one.astype("c8")), (one > 0, one > 0)):
        with pytest.raises(Unsupported, match=r"do not fit|no order"):
            call_of("LowerBound", [x, values], [tensor(np.zeros(values.shape, np.int32))])


def test_no_registers_are_spilled() -> None:
    x = np.zeros((2, 9), np.float16)
    sources = [
        call_of(op, [x, x], [tensor(x.astype(np.int32))]).launches[0].source
        for op in ("LowerBound", "UpperBound")
    ]
    for found in resources(sources, *ALL):
        assert found.local_bytes == 0 and found.registers <= 40
