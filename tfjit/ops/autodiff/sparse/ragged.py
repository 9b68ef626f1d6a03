"""Define gradients of ragged tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("RaggedFillEmptyRows")
def _fill_ragged(op: Operation, *gradients: object) -> Gradients:
    of_values, of_default = raw.RaggedFillEmptyRowsGrad(
        reverse_index_map=op.outputs[3], grad_values=gradients[1]
    )
    return None, of_values, None, of_default
