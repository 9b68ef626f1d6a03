"""Errors of failing Python kernels, in TensorFlow's classes and words.

The message names the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.scalar import elementwise


def at_node(error: errors.OpError, name: str) -> errors.OpError:
    """Return the error with the node's name in its message.

    TensorFlow's runtime marks errors so.
    """
    if "{{node " in error.message:
        return error
    return error.restated(f"{error.message}\n\t [[{{{{node {name}}}}}]]")


def kernel_error(error: Exception, op: str, name: str, inputs: Sequence[Any]) -> errors.OpError:
    """Return the step's error for an exception of a node's kernel.

    NumPy's ValueError and IndexError mean that the inputs' shapes or values do not fit the op
    (InvalidArgumentError), a MemoryError that there is no room (ResourceExhaustedError); any other
    exception is a fault of the kernel (InternalError).
    """
    if isinstance(error, errors.OpError):
        return at_node(error, name)
    made: errors.OpError
    if isinstance(error, MemoryError):
        made = errors.ResourceExhaustedError(
            None, None, f"OOM when allocating the output of {op}: {error}"
        )
    elif isinstance(error, (ValueError, IndexError)):
        made = errors.InvalidArgumentError(
            None, None, _misfit(error, op, name, [np.shape(value) for value in inputs])
        )
    else:
        made = errors.InternalError(
            None, None, f"the kernel of {op} failed: {type(error).__name__}: {error}"
        )
    return at_node(made, name)


def _misfit(error: Exception, op: str, name: str, shapes: Sequence[tuple[int, ...]]) -> str:
    texts = [f"[{','.join(map(str, shape))}]" for shape in shapes]
    if op == "Select" and len(shapes[0]) == 1 < len(shapes[1]):
        return (
            "Number of batches of 'then' must match size of 'cond', but saw: "
            f"{shapes[1][0]} vs. {shapes[0][0]}"
        )
    if op in ("AddN", "Select"):
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        return (
            f"Inputs to operation {name} of type {op} must have the same size and shape.  "
            f"Input 0: {texts[0]} != input {other}: {texts[other]}"
        )
    if op == "SelectV2":
        return f"condition {texts[0]}, then {texts[1]}, and else {texts[2]} must be broadcastable"
    if elementwise.lookup(op) is not None and len(shapes) == 2 and not _broadcast(shapes):
        return f"Incompatible shapes: {texts[0]} vs. {texts[1]}"
    if (
        op in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
        and len(shapes) == 2
        and not _broadcast([s[:-2] for s in shapes])
    ):
        return f"In[0] and In[1] must have compatible batch dimensions: {texts[0]} vs. {texts[1]}"
    return f"{op} cannot take inputs of shapes {', '.join(texts)}: {error}"


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True
