"""Give distinct indices an output of known size."""

from __future__ import annotations

import numpy as np

from tfjit.passes.analysis.padding import find_padding
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant


def pad_unique(graph: DataflowGraph, ctx: PassContext) -> None:
    """Pad the distinct indices of sparse updates to the number of all indices.

    Before: rows, places = Unique(x); update(rows, UnsortedSegmentSum(values, places, size(rows)))
    After: rows, places = _PaddedUnique(x); the same, and the update ignores padding

    Before: values, x = SparseSegmentSumGradV2(grad, indices, ids, dim) in front of that
    After: values = GatherV2(grad, ids), x = indices: the sum adds the rows that come twice

    Fires where the indices reach updates of rows alone, with values that are computed row by row.
    The sums of such values are the same, but for rounding in the second case.
    """
    found = find_padding(graph, [name for name in graph if name not in (SOURCE, SINK)])
    for name in sorted(found.gradients):
        node = graph.node(name)
        gradient, indices, ids, _ = graph.inputs(name)
        graph.redirect_output(name, 1, *indices)
        axis = insert_constant(graph, node, np.array(0, np.int32), "axis")
        graph.change_op(name, "GatherV2", [gradient, ids, axis], {})
        ctx.log(name, "its sum is behind it")
    for name in sorted(found.roots):
        node = graph.node(name)
        attrs = {"T": node.attrs["T"], "out_idx": node.attrs["out_idx"]}
        graph.change_op(name, "_PaddedUnique", graph.inputs(name), attrs)
        ctx.log(name, "padded")
    for name in sorted(found.updates):
        graph.node(name).attrs["_padded"] = True
