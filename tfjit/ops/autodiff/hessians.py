"""`hessians`: second derivatives, a row for each element of the first."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.function_graph import building
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.backprop import differentiated, gradients
from tfjit.ops.core.convert import convert_to_tensor


def hessians(
    ys: Any,
    xs: object,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """Return the second derivatives of the sum of ys by each x.

    Their shape is [*x.shape, *x.shape]. Options as for `gradients`. An x of unknown size takes a
    loop. Raises ValueError where no y depends on an x.
    """
    from tfjit.ops.arrays.array import reshape, shape
    from tfjit.ops.arrays.movement_functions import concat, stack

    options: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    sources = differentiated(xs)
    found = []
    graph = sources[0].graph if sources else get_default_graph()
    with building(graph) as graph, graph.name_scope(name):
        for gradient, x in zip(gradients(ys, sources, **options), sources, strict=True):
            size = x.shape.num_elements()
            if gradient is None:
                raise ValueError(f"hessians: {x.name} has no gradient")
            flat = reshape(convert_to_tensor(gradient), [-1])
            if size is None:
                found.append(
                    reshape(_rows_of_hessian(flat, x, options), concat([shape(x), shape(x)], 0))
                )
                continue
            zero = [raw.ZerosLike(x=x)]
            rows = [(gradients(flat[i], x, **options)[0] if size else None) for i in range(size)]
            rows = [zero[0] if row is None else row for row in rows]
            found.append(reshape(stack(rows) if rows else zero[0], concat([shape(x), shape(x)], 0)))
    return found


def _rows_of_hessian(gradient: Tensor, x: Tensor, options: dict[str, Any]) -> Tensor:
    """Return the gradients of each element of a vector by x, stacked.

    A loop has an iteration for each element.
    """
    from tfjit.ops.control_flow.flow_tensor_array import TensorArray
    from tfjit.ops.control_flow.loops import while_loop

    count = raw.Size(input=gradient)

    def step(i: Tensor, rows: TensorArray) -> tuple[Tensor, TensorArray]:
        row = gradients(gradient[i], x, **options)[0]
        return i + 1, rows.write(i, raw.ZerosLike(x=x) if row is None else row)

    rows = TensorArray(x.dtype.base_dtype, count)
    _, rows = while_loop(lambda i, _: raw.Less(x=i, y=count), step, [convert_to_tensor(0), rows])
    return rows.stack()
