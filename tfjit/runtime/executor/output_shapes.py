"""Infer the output shapes of a node from the inputs of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.errors import InvalidGraphError
from tfjit.framework.op_defs.op_registry import infer_shapes, registry
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes

if TYPE_CHECKING:
    from tfjit.passes.ir.dataflow_graph import Node

_MAX_VALUE: Final = 16
"""Most elements of an input that a shape is read from."""

Shapes = tuple[tuple[int, ...], ...]


class OutputShapes:
    """Infer the output shapes that the graph leaves open.

    The shapes follow from the inputs' shapes, and from the values of those inputs that the shape
    function reads: the shape of a sparse matrix, the limits of a Range. Shapes that depend on data
    (Unique) stay open. So do those of a node with a resource: its array is not the handle.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        op_def = node.op_def
        known = op_def is not None and registry.planned_shape_fn(op_def.name) is not None
        self._op_def = op_def if known else None
        if any(dtype is dtypes.resource for dtype in node.input_dtypes):
            self._op_def = None
        self._values: tuple[int, ...] = ()

    def key(self, arrays: Sequence[np.ndarray]) -> Shapes:
        """Return the inputs' shapes, and the values that shapes depend on."""
        shapes = tuple([a.shape for a in arrays])
        return shapes + tuple([tuple(arrays[i].reshape(-1).tolist()) for i in self._values])

    def of(self, arrays: Sequence[np.ndarray]) -> tuple[Shapes | None, Mapping[int, np.ndarray]]:
        """Return the output shapes, and the values that shapes depend on.

        The values are by input index; None where a shape stays open. Values read for the first
        time are in keys from now on.
        """
        if self._op_def is None:
            return None, {}
        node, read = self._node, dict[int, np.ndarray]()

        def constant(index: int) -> np.ndarray | None:
            value = arrays[index]
            if value.size > _MAX_VALUE or value.dtype.kind not in "iu":
                return None
            return read.setdefault(index, np.array(value))

        context = ShapeContext(
            node.op,
            node.name,
            node.attrs,
            [a.shape for a in arrays],
            node.input_dtypes,
            len(node.output_dtypes),
            constant,
        )
        try:
            found = infer_shapes(context, self._op_def, planned=True)
        except InvalidGraphError:  # the kernel takes inputs that a graph may not have
            return None, {}
        if not read.keys() <= set(self._values):
            self._values = tuple(sorted(read.keys() | set(self._values)))
        sizes = [tuple(d for d in shape or (None,) if d is not None) for shape in found]
        if any(shape is None or len(s) < len(shape) for s, shape in zip(sizes, found, strict=True)):
            return None, read
        return tuple(sizes), read
