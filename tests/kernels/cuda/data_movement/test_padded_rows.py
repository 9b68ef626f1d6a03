"""Distinct indices with padding on simulated GPUs, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.data_movement import padded_rows
from tfjit.kernels.registry import Unsupported

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("out_idx", [d.int32, d.int64], ids=str)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_distinct_values(dtype: str, out_idx: d.DType) -> None:
    for count, high, limit in ((1, 3, 0), (7, 4, 0), (40, 9, 12), (40, 30, 5), (0, 1, 0)):
        x = RNG.integers(-high, high, count).astype(dtype)
        check("_PaddedUnique", x, out_idx=out_idx, limit=limit)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ends_of_the_type(dtype: str) -> None:
    """The least number is padding; as a value it is the next one."""
    ends = np.iinfo(dtype)
    x = np.array([ends.max, ends.min, 0, ends.min + 1, ends.max, -1, ends.min], dtype)
    check("_PaddedUnique", x, out_idx=d.int32, limit=0)


def test_many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile of two places has the sums over tiles need several rounds."""
    monkeypatch.setattr(padded_rows, "_TILE", 4)
    for count in (16, 37):
        x = RNG.integers(0, 20, count)
        check("_PaddedUnique", x, out_idx=d.int64, limit=0)


def test_forms_without_a_kernel() -> None:
    x = np.zeros((2, 2), np.int64)
    with pytest.raises(Unsupported, match="no vector"):
        call_of("_PaddedUnique", [x], [tensor(x), tensor(x)], out_idx=d.int64, limit=0)
