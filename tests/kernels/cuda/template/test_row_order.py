"""Updates of rows have the order of the indices, however often a row comes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.against_reference import call_of, check
from tests.kernels.launching import tensor
from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.template import sort
from tfjit.kernels.cuda.template.row_order import row_index
from tfjit.kernels.registry import NodeSpec, TensorSpec, Unsupported

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("limit", [1, 3, 40])
@pytest.mark.parametrize("count", [1, 8, 9, 50])
def test_the_last_replacement_stays(
    limit: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With runs of 8 indices that are merged, too."""
    monkeypatch.setattr(sort, "TILE", 8)
    monkeypatch.setattr(sort, "_LEAST_THREADS", 4)
    rows = RNG.integers(0, limit, count).astype(np.int32)
    x, updates = np.zeros((limit, 3), np.float32), RNG.standard_normal((count, 3)).astype("f4")
    call = check("ResourceScatterUpdate", x, rows, updates)
    assert len(call.launches) == {1: 2, 8: 2, 9: 3, 50: 5}[count]
    check("ResourceScatterMul", x + 1, rows, updates)


def test_more_rows_than_a_key_holds() -> None:
    flags = np.lib.stride_tricks.as_strided(np.zeros(1, bool), (1 << 31,), (0,))
    with pytest.raises(Unsupported, match="2147483648 rows"):
        call_of("ResourceScatterUpdate", [flags, np.int32([1]), flags[:1]], [])


def test_other_indices() -> None:
    table, one = tensor(np.zeros((4, 3), np.float32)), TensorSpec(d.uint8, (2, 1))
    with pytest.raises(Unsupported, match="indices of uint8"):
        row_index(NodeSpec("n", "GatherNd", {}, (table, one), (table,)), 1, (4, 3))
    updates = np.zeros((2, 3), np.float32)
    with pytest.raises(Unsupported, match="index vectors of 3 for an array of rank 2"):
        call_of("ResourceScatterNdAdd", [updates, np.zeros((1, 3), "i4"), updates[0, :1]], [])
