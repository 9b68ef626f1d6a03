"""Evaluate nodes while planning, by the NumPy reference kernels.

Folding and shape inference call `evaluate` on nodes whose inputs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfjit.framework.op_defs.op_traits import NEVER_EVALUATED
from tfjit.framework.scalar import elementwise
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_reference
from tfjit.passes.ir.dataflow_graph import Node


class NotEvaluated(Exception):
    """No value of a node while planning; the text gives the reason."""


def can_evaluate(node: Node) -> bool:
    """Return whether a node may be computed once for all runs.

    Such a node has no state, no control flow and a reference kernel.
    """
    return (
        not node.is_stateful
        and not node.has_trait(NEVER_EVALUATED)
        and node.op_def is not None
        and "_scoped_allocator" not in node.attrs
        and not any(dtype.is_ref for dtype in node.input_dtypes)
        and find_reference(node.op) is not None
    )


def evaluate(node: Node, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return every output of a node as a read-only array.

    The arrays have the dtypes of the node's outputs. Raises NotEvaluated when the node has no
    reference kernel, or when the kernel fails: the run itself then fails with the kernel's own
    error.
    """
    kernel = find_reference(node.op)
    if kernel is None:
        raise NotEvaluated(f"{node.op} has no reference kernel")
    is_arithmetic = elementwise.lookup(node.op) is not None
    if is_arithmetic:
        inputs = [_flushed(value) for value in inputs]
    specs = tuple(TensorSpec(as_dtype(value.dtype), value.shape) for value in inputs)
    shapes = node.output_shapes
    known = all(shape is not None and None not in shape for shape in shapes)
    outputs = (
        tuple(TensorSpec(dtype, tuple(shape)) for dtype, shape in zip(node.output_dtypes, shapes))
        if known
        else ()
    )
    spec = NodeSpec(node.name, node.op, node.attrs, specs, outputs, dict(enumerate(inputs)))
    try:
        with np.errstate(all="ignore"):
            results: list[Any] = list(kernel(spec, inputs))
    except Exception as error:
        raise NotEvaluated(f"{type(error).__name__}: {error}") from error
    if len(results) != len(node.output_dtypes):
        raise NotEvaluated(
            f"the reference kernel of {node.op} gave {len(results)} outputs for "
            f"{len(node.output_dtypes)}"
        )
    frozen = []
    for result, dtype in zip(results, node.output_dtypes):
        if not dtype.is_numpy_compatible:
            raise NotEvaluated(f"an output is {dtype.name}, which no array holds")
        array = np.asarray(result)
        if array.dtype != np.dtype(dtype.as_numpy_dtype):
            raise NotEvaluated(
                f"the reference kernel of {node.op} gave {array.dtype}, expected {dtype.name}"
            )
        if is_arithmetic:
            array = _flushed(array)
        if not array.flags.c_contiguous or array.flags.writeable:
            # the kernel may have returned a view of an input, or of memory that the kernel keeps
            array = np.array(array, order="C")
        array.setflags(write=False)
        frozen.append(array)
    return frozen


def _flushed(array: np.ndarray) -> np.ndarray:
    """Return the array with subnormal floats flushed to signed zeros.

    TensorFlow's threads and compiled kernels flush subnormal floats in the same way.
    """
    if array.dtype not in (np.float32, np.float64) or array.size == 0:
        return array
    small = (np.abs(array) < np.finfo(array.dtype).tiny) & (array != 0)
    if not small.any():
        return array
    return np.where(small, np.copysign(np.zeros((), array.dtype), array), array)
