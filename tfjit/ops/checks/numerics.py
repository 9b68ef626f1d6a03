"""`tf.add_check_numerics_ops`: a check of all floats of a graph."""

from __future__ import annotations

from typing import Final

from tfjit.framework.graphs.default_graph import control_dependencies, get_default_graph
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.arrays.array import check_numerics
from tfjit.ops.control_flow.control_flow import group

_FLOATS: Final = (dtypes.float16, dtypes.float32, dtypes.float64)


def add_check_numerics_ops() -> Operation:
    """Return an operation that checks all floats of the default graph.

    They are checked in the order of the nodes.

    Its run raises InvalidArgumentError for the first tensor with an infinity or NaN. Raises
    ValueError for a graph with loops or branches.
    """
    last: list[Tensor] = []
    for op in get_default_graph().get_operations():
        for output in op.outputs:
            if output.dtype not in _FLOATS:
                continue
            if op._get_control_flow_context() is not None:
                raise ValueError(
                    "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow "
                    "operations such as `tf.cond()` or `tf.while_loop()`."
                )
            with control_dependencies(last):
                last = [check_numerics(output, message=f"{op.name}:{output.value_index}")]
    return group(*last)
