"""The value of a node whose inputs are known while planning, by the NumPy reference kernels."""

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
    """A node has no value while planning; the text says why."""


def can_evaluate(node: Node) -> bool:
    """Whether the op is one that may be computed once instead of at every run: no state, no control
    flow, a reference kernel.
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
    """Every output of a node, read-only arrays of the dtypes the node promises.

    Raises NotEvaluated when it has no reference kernel, or the kernel fails: then the run itself
    shall fail, in its own words.
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
            # the kernel may have given a view of an input, or of memory it keeps
            array = np.array(array, order="C")
        array.setflags(write=False)
        frozen.append(array)
    return frozen


def _flushed(array: np.ndarray) -> np.ndarray:
    """The array with subnormal floats made zero of their sign, as TensorFlow's threads and compiled
    kernels have them.
    """
    if array.dtype not in (np.float32, np.float64) or array.size == 0:
        return array
    small = (np.abs(array) < np.finfo(array.dtype).tiny) & (array != 0)
    if not small.any():
        return array
    return np.where(small, np.copysign(np.zeros((), array.dtype), array), array)
