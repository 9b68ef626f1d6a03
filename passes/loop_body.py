"""Bodies of functions made ready for their caller: shapes and constants of the arguments put in, then simplified like any graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.passes.context import PassContext, RunSpec
from tfjit.passes.control_edges import drop_control_edges
from tfjit.passes.cse import eliminate_common_subexpressions
from tfjit.passes.fold import fold_constants
from tfjit.passes.functions import Function, indexed
from tfjit.passes.prune import prune
from tfjit.passes.shapes import infer_shapes
from tfjit.passes.simplify import simplify
from tfjit.passes.view import SOURCE

if TYPE_CHECKING:
    from tfjit.framework.shape import Shape
    from tfjit.passes.context import Pass
    from tfjit.passes.view import DataflowGraph

_PASSES: Final[tuple[Pass, ...]] = (
    infer_shapes,
    simplify,
    fold_constants,
    simplify,
    infer_shapes,
    fold_constants,
    drop_control_edges,
    prune,
    eliminate_common_subexpressions,
    prune,
)


def specialized_body(function: Function, shapes: Sequence[Shape], constants: Mapping[int, np.ndarray], ctx: PassContext) -> DataflowGraph:
    """A copy of a function's graph for arguments of these shapes, simplified; the function itself is not changed.

    constants: values of arguments that are known, by index; their `_Arg` nodes become Const nodes.
    Leaves out passes that the session leaves out.
    """
    graph = function.graph.copy()
    for index, node in indexed(graph, "_Arg").items():
        if index in constants:
            attrs: dict[str, Any] = {"dtype": node.output_dtypes[0], "value": constants[index]}
            graph.change_op(node.name, "Const", (), attrs)
            node.output_shapes = (constants[index].shape,)
            if not graph.edges_into(node.name):
                graph.add_control_edge(SOURCE, node.name)
        else:
            node.output_shapes = (shapes[index],)
    own = PassContext(RunSpec(), ctx.options)
    for run in _PASSES:
        if run.__name__ not in ctx.options.disabled:
            run(graph, own)
    return graph
