"""Update variables and arrays at indices, in NumPy."""

from __future__ import annotations

from tfjit.kernels.cpu.reference.arrays.indexing import (
    check_indices,
    ignores_bad,
    scatter_into,
    scatter_nd_into,
)
from tfjit.kernels.cpu.reference.arrays.padded_rows import rows_in_use
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.registry import NodeSpec, reference


@reference("ScatterNdAdd", "ScatterNdSub", "ScatterNdMax", "ScatterNdMin", "ScatterNdUpdate")
def _ref_scatter_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    scatter_nd_into(
        inputs[0],
        inputs[1],
        inputs[2],
        node.op.removeprefix("ScatterNd"),
        "shape",
        ignores_bad(node),
    )
    return (inputs[0],)


@reference(
    "ResourceScatterNdAdd",
    "ResourceScatterNdSub",
    "ResourceScatterNdMax",
    "ResourceScatterNdMin",
    "ResourceScatterNdUpdate",
)
def _resource_scatter_nd(node: NodeSpec, inputs: Arrays) -> Arrays:
    scatter_nd_into(
        inputs[0],
        inputs[1],
        inputs[2],
        node.op.removeprefix("ResourceScatterNd"),
        "shape",
        ignores_bad(node),
    )
    return ()


def _scatter_rows(node: NodeSpec, inputs: Arrays, kind: str, by_zero: str = "") -> None:
    """Update rows of input 0.

    by_zero: the error of a zero divisor, if that is one.
    """
    ref, indices, updates = inputs
    if by_zero and (updates == 0).any():
        invalid(by_zero)
    count = rows_in_use(node, indices)
    check_indices(indices[:count] if count < indices.size else indices, ref.shape[0])
    if updates.ndim and updates.shape != indices.shape + ref.shape[1:]:
        invalid(
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got "
            "updates.shape "
            f"{shape_text(updates)}, indices.shape {shape_text(indices)}, params.shape "
            f"{shape_text(ref)}"
        )
    if count < indices.size:
        indices, updates = indices[:count], updates[:count] if updates.ndim else updates
    scatter_into(ref, indices, updates, kind)


@reference(
    "ScatterAdd",
    "ScatterSub",
    "ScatterMul",
    "ScatterDiv",
    "ScatterMax",
    "ScatterMin",
    "ScatterUpdate",
)
def _ref_scatter(node: NodeSpec, inputs: Arrays) -> Arrays:
    divides = node.op == "ScatterDiv" and inputs[0].dtype.kind in "iu"
    _scatter_rows(
        node, inputs, node.op.removeprefix("Scatter"), "Integer division by zero" if divides else ""
    )
    return (inputs[0],)


@reference(
    "ResourceScatterAdd",
    "ResourceScatterSub",
    "ResourceScatterMul",
    "ResourceScatterDiv",
    "ResourceScatterMax",
    "ResourceScatterMin",
    "ResourceScatterUpdate",
)
def _resource_scatter(node: NodeSpec, inputs: Arrays) -> Arrays:
    divides = node.op == "ResourceScatterDiv"
    _scatter_rows(
        node,
        inputs,
        node.op.removeprefix("ResourceScatter"),
        "updates must not contain 0" if divides else "",
    )
    return ()


@reference("InplaceAdd", "InplaceSub", "InplaceUpdate")
def _inplace(node: NodeSpec, inputs: Arrays) -> Arrays:
    x, rows, value = inputs
    if rows.ndim != 1:
        invalid("i must be a vector. " + shape_text(rows))
    out = x.copy()
    scatter_into(out, rows % max(x.shape[0], 1), value, node.op.removeprefix("Inplace"))
    return (out,)
