"""Reference kernels of every row of the elementwise table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.elementwise import TABLE, Elementwise
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, Reference, reference


def _select_operands(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Select's own rule: a condition vector chooses rows of the other two."""
    condition, x, y = inputs
    if condition.ndim == 1 and x.ndim > 1:
        condition = condition.reshape(condition.shape + (1,) * (x.ndim - 1))
    return condition, x, y


def _kernel(row: Elementwise) -> Reference:
    def kernel(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        operands: Sequence[Any] = _select_operands(inputs) if row.op == "Select" else inputs
        if row.error is not None and row.error.occurs(operands):
            raise InvalidArgumentError(None, None, row.error.message)
        attrs = {name: spec.attrs[name] for name in row.attrs if name in spec.attrs} if row.attrs else {}
        with np.errstate(all="ignore"):
            result = np.asarray(row.reference(*operands, **attrs))
        # an identity such as Round of integers must not hand out its input
        for x in inputs:
            if result is x or (result.base is not None and np.may_share_memory(result, x)):
                return (result.copy(),)
        return (result,)

    return kernel


for _row in TABLE:
    reference(_row.op)(_kernel(_row))
