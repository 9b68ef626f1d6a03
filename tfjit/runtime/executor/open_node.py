"""Run a node of open shapes inside a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape
from tfjit.runtime.executor.node_runner import make_runner
from tfjit.runtime.lowering.lowering import is_static

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.runtime.executor.runner import RunnerEnvironment
    from tfjit.runtime.host.device import Device
    from tfjit.runtime.kernel_api.op_kernel import OpContext


class OpenNode:
    """Compute a node of open shapes as the dataflow executor does.

    Compiled code serves shapes that recur. Step memory is reused and compiled code needs C
    order, so no output is a view or an input. Raises InternalError when an output has not the shape
    that the graph gives.
    """

    def __init__(
        self, graph: DataflowGraph, node: Node, device: Device, env: RunnerEnvironment
    ) -> None:
        self._runner = make_runner(graph, node, device, env)
        self._shapes = tuple(
            shape if is_static(shape) and not dtype.is_ref else None
            for shape, dtype in zip(node.output_shapes, node.output_dtypes, strict=True)
        )

    def __call__(self, op: OpContext, inputs: Sequence[object]) -> Sequence[object]:
        """Return the outputs; a reference output is the variable."""
        found = self._runner.run(op.step, inputs, "")
        return [
            self._owned(op, value, shape, inputs)
            for value, shape in zip(found, self._shapes, strict=True)
        ]

    def _owned(
        self, op: OpContext, value: object, shape: Shape, inputs: Sequence[object]
    ) -> object:
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if not isinstance(value, np.ndarray):
            return value
        if shape is not None and value.shape != shape:
            raise errors.InternalError(
                None,
                None,
                f"{op.op} made shape {format_shape(value.shape)} in place of {format_shape(shape)}",
            )
        if (
            value.base is not None
            or not value.flags.c_contiguous
            or any(value is given for given in inputs)
        ):
            return np.array(value, order="C")
        return value

    def after_fork(self) -> None:
        """Reset locks in a forked child."""
        self._runner.after_fork()


__all__ = ["OpenNode"]
