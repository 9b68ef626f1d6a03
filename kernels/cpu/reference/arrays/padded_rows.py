"""Compute arrays with padding, in NumPy."""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid
from tfjit.kernels.registry import NodeSpec, reference


@reference("_PaddedUnique")
def _padded_unique(node: NodeSpec, inputs: Arrays) -> Arrays:
    (x,) = inputs
    if x.ndim != 1:
        invalid("unique expects a 1D vector.")
    padding = np.iinfo(x.dtype).min
    x = np.maximum(x, padding + 1)  # a value is no padding; neither of the two is a valid row
    values, first, inverse = np.unique(x, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), node.attrs["out_idx"].as_numpy_dtype)
    place[order] = np.arange(len(order))
    limit = min(len(x), node.attrs["limit"] or len(x))
    rows = np.full(limit, padding, x.dtype)
    rows[: len(order)] = values[order[:limit]]
    place[place >= limit] = 0
    return rows, place[inverse]


def rows_in_use(node: NodeSpec, indices: np.ndarray) -> int:
    """Return the number of indices in front of the padding.

    node: it updates rows at the indices, and says whether they have padding. indices: integers [n].
    """
    if not node.attrs.get("_padded"):
        return indices.size
    used = np.flatnonzero(indices != np.iinfo(indices.dtype).min)
    return int(used[-1]) + 1 if used.size else 0
