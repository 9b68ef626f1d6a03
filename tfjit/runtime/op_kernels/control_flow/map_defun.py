"""MapDefun: a function applied to the rows of its arguments in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.types.shape import format_shape, is_compatible
from tfjit.runtime.host.cancellation import cancelled_step
from tfjit.runtime.kernel_api.op_kernel import OpContext, RuntimeKernel, kernel_maker
from tfjit.runtime.op_kernels.control_flow.functional_ops import FunctionKernel, kernel_of_functions
from tfjit.runtime.plan.function_plan import edge_value, types_of

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import Node


class _MapDefun(FunctionKernel):
    """The rows' results, stacked.

    A result's shape is the stated one, completed by the first row.
    """

    def __init__(self, node: Node) -> None:
        super().__init__(node, (node.attrs["f"],))
        self._mapped = len(node.attrs["Targuments"])
        self._stated: list[Shape] = [shape.dims_tuple for shape in node.attrs["output_shapes"]]

    def __call__(self, ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
        values = [edge_value(value) for value in inputs]
        mapped, captured = values[: self._mapped], values[self._mapped :]
        rows = _rows(mapped)
        shapes = list(self._stated)
        plan = self._plan(ctx.step.host, self._refs[0])
        results: list[Any] = [None] * len(shapes)
        for row in range(rows):
            if ctx.step.cancellation.cancelled:
                raise cancelled_step()
            arguments = [
                value[row : row + 1].reshape(value.shape[1:]) for value in mapped
            ] + captured
            for i, found in enumerate(plan.body(types_of(arguments)).call(arguments, ctx.step)):
                shape = np.shape(found)
                if not is_compatible(shapes[i], shape):
                    expected = format_shape(shapes[i])
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        f"Mismatch in function retval shape, {format_shape(shape)}, and expected "
                        f"output shape, {expected}.",
                    )
                if row == 0:
                    shapes[i] = shape
                    results[i] = np.empty((rows, *shape), np.asarray(found).dtype)
                results[i][row] = found
        for i, shape in enumerate(shapes if not rows else ()):
            known = None if shape is None else [d for d in shape if d is not None]
            if shape is None or known is None or len(known) < len(shape):
                raise errors.InternalError(
                    None, None, f"Missing {i}-th output from {{{{node {ctx.name}}}}}"
                )
            results[i] = np.empty((0, *known), ctx.output_dtypes[i].as_numpy_dtype)
        return results


def _rows(mapped: Sequence[np.ndarray]) -> int:
    for i, value in enumerate(mapped):
        if value.ndim == 0:
            raise errors.InvalidArgumentError(
                None, None, f"All inputs must have rank at least 1. Input {i} has a rank of 0."
            )
        if len(value) != len(mapped[0]):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"All inputs must have the same dimension 0. Input {i} has leading dimension "
                f"{len(value)}, while all previous inputs have "
                f"leading dimension {len(mapped[0])}",
            )
    return len(mapped[0])


@kernel_maker("MapDefun")
def _make_map_defun(node: Node) -> RuntimeKernel:
    return kernel_of_functions(node, (node.attrs["f"],), _MapDefun(node))
