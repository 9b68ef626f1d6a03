"""Register reference kernels of every row of the elementwise table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.scalar.elementwise import TABLE, Elementwise
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.float_control import without_warnings
from tfjit.kernels.registry import NodeSpec, Reference, reference


def _select_operands(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Broadcast Select's operands: a condition vector chooses rows of the others."""
    condition, x, y = inputs
    if condition.ndim == 1 and x.ndim > 1:
        condition = condition.reshape(condition.shape + (1,) * (x.ndim - 1))
    return condition, x, y


# operands of other shapes are just not equal, if so asked
_COMPARE_ANY: Final = frozenset({"Equal", "NotEqual"})


def _broadcast(operands: Sequence[Any]) -> bool:
    """Return whether the operands' shapes broadcast."""
    try:
        np.broadcast_shapes(*(x.shape for x in operands))
    except ValueError:
        return False
    return True


def _kernel(row: Elementwise) -> Reference:
    def kernel(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        operands: Sequence[Any] = _select_operands(inputs) if row.op == "Select" else inputs
        if row.error is not None and row.error.occurs(operands):
            raise getattr(errors, row.error.kind)(None, None, row.error.message)
        if (
            row.op in _COMPARE_ANY
            and not spec.attrs.get("incompatible_shape_error", True)
            and not _broadcast(operands)
        ):
            return (np.array(row.op == "NotEqual"),)
        attrs = (
            {name: spec.attrs[name] for name in row.attrs if name in spec.attrs}
            if row.attrs
            else {}
        )
        value = row.reference(*operands, **attrs)
        # text of a fixed size would lose zeros at its end
        result = np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
        # an identity such as Round of integers must not hand out its input
        for x in inputs:
            if result is x or (result.base is not None and np.may_share_memory(result, x)):
                return (result.copy(),)
        return (result,)

    return without_warnings(kernel)


for _row in TABLE:
    reference(_row.op)(_kernel(_row))


@reference("AccumulateNV2")
def _accumulate(node: NodeSpec, inputs: Arrays) -> Arrays:
    for i, x in enumerate(inputs):
        if x.shape != inputs[0].shape:
            invalid(
                f"inputs of AccumulateNV2 differ in shape: {shape_text(inputs[0])} and, at {i}, "
                f"{shape_text(x)}"
            )
    total = inputs[0].copy()
    for x in inputs[1:]:
        total = total + x
    return (total,)
