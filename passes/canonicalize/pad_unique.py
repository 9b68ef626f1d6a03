"""Give distinct indices an output of known size."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tfjit.framework.op_defs.op_traits import IDENTITY, WRITES_VARIABLE
from tfjit.framework.types.shape import TensorShape
from tfjit.passes.analysis.padding import find_padding
from tfjit.passes.ir.dataflow_graph import SINK, SOURCE, DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant


def pad_unique(graph: DataflowGraph, ctx: PassContext) -> None:
    """Pad the distinct indices of sparse updates to a known number.

    Before: rows, places = Unique(x); update(rows, UnsortedSegmentSum(values, places, size(rows)))
    After: rows, places = _PaddedUnique(x); the same, and the update ignores padding

    Before: values, x = SparseSegmentSumGradV2(grad, indices, ids, dim) in front of that
    After: values = GatherV2(grad, ids), x = indices: the sum adds the rows that come twice

    The number is that of all indices, or the table's number of rows plus one if smaller.

    Fires where the indices reach updates of rows alone, with values that are computed row by row.
    The sums of such values are the same, but for rounding in the second case.
    """
    found = find_padding(graph, [name for name in graph if name not in (SOURCE, SINK)])
    for name in sorted(found.gradients):
        if not ctx.may_rewrite():
            break
        node = graph.node(name)
        gradient, indices, ids, _ = graph.inputs(name)
        graph.redirect_output(name, 1, *indices)
        axis = insert_constant(graph, node, np.array(0, np.int32), "axis")
        graph.change_op(name, "GatherV2", [gradient, ids, axis], {})
        ctx.rewrote(name, "its sum is behind it")
    for name in sorted(found.roots):
        if not ctx.may_rewrite():
            break
        node = graph.node(name)
        attrs = {
            "T": node.attrs["T"],
            "out_idx": node.attrs["out_idx"],
            "limit": _limit(graph, found.roots[name]),
        }
        graph.change_op(name, "_PaddedUnique", graph.inputs(name), attrs)
        for update in found.roots[name]:
            graph.node(update).attrs["_padded"] = True
        ctx.rewrote(name, "padded")


def _limit(graph: DataflowGraph, updates: Iterable[str]) -> int:
    """Return a number of distinct indices that the largest updated table refuses.

    The limit is 0 where a number of rows is not known. With one more distinct index than rows, an
    index is out of range.
    """
    limit = 0
    for update in updates:
        name, output = graph.inputs(update)[0]
        while graph.node(name).has_trait(IDENTITY | WRITES_VARIABLE) and graph.inputs(name):
            name, output = graph.inputs(name)[0]
        node = graph.node(name)
        is_handle = node.output_dtypes[output].name == "resource"
        found = node.attrs.get("shape") if is_handle else node.output_shapes[output]
        shape = found.dims_tuple if isinstance(found, TensorShape) else found
        if not shape or shape[0] is None:
            return 0
        limit = max(limit, int(shape[0]) + 1)
    return limit
