"""Read the inputs of products: sizes, swapped axes, operands of the epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.kernels.registry import NodeSpec, Pointer, TensorSpec, Unsupported


def swapped(node: NodeSpec) -> tuple[bool, bool]:
    """Return whether a product takes each input with swapped last axes."""
    names = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    return bool(node.attrs.get(names[0], False)), bool(node.attrs.get(names[1], False))


def product_sizes(x: TensorSpec, y: TensorSpec, adj_x: bool, adj_y: bool) -> tuple[int, int, int]:
    """Return the sizes m, k and n of products.

    x is [..., m, k], y [..., k, n]. adj_x, adj_y: the last two axes are swapped. Raises
    Unsupported for two dtypes, ValueError for inner sizes that differ.
    """
    if y.dtype is not x.dtype:
        raise Unsupported(f"product of {x.dtype.name} and {y.dtype.name}")
    m, k = x.shape[-2:] if not adj_x else x.shape[-1:-3:-1]
    k_y, n = y.shape[-2:] if not adj_y else y.shape[-1:-3:-1]
    if k != k_y:
        raise ValueError(f"inner sizes differ: {x.shape} and {y.shape}")
    return m, k, n


def operand_pointers(
    inputs: Sequence[TensorSpec], first: int = 2
) -> list[tuple[Pointer, TensorSpec]]:
    """Return the epilogue's operands: the node's inputs from number `first` on."""
    return [(Pointer("in", i), spec) for i, spec in enumerate(inputs) if i >= first]
