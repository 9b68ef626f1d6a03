"""Fold transposes before a matrix product into the product."""

from __future__ import annotations

from typing import Final

from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import constant

PRODUCTS: Final = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")


def absorb_transposes(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite MatMul(Transpose(x), y) to MatMul(x, y, transpose_a=True).

    Both sides qualify, and batches with their last two axes swapped.

    The sums are the same. Their rounding may differ, as between TensorFlow's kernels for the two
    forms.
    """
    names = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    taken = []
    for side, name in enumerate(names):
        src, output = graph.inputs(node.name)[side]
        first = graph.node(src)
        if first.op != "Transpose":
            continue
        (inner, inner_output), perm = graph.inputs(src)
        order = constant(graph, ctx, *perm)
        if (
            order is None
            or graph.control_inputs(src)
            or graph.node(inner).output_dtypes[inner_output].is_ref
        ):
            raise Declined(f"the permutation of '{src}' is not constant, or it waits for something")
        rank = order.size
        axes = [int(axis) % rank for axis in order.reshape(-1)] if rank else []
        if rank < 2 or axes != [*range(rank - 2), rank - 1, rank - 2]:
            continue
        if node.op != "MatMul" and first.output_dtypes[output].is_complex:
            continue  # an adjoint is conjugated too
        graph.replace_input(node.name, side, inner, inner_output)
        node.attrs = {**node.attrs, name: not node.attrs.get(name, False)}
        node.origin = tuple(dict.fromkeys(first.origin + node.origin))
        taken.append(src)
    return f"takes the transpose of {' and '.join(map(repr, taken))}" if taken else None
