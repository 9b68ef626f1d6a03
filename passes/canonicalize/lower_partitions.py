"""Lower partitions and stitches at known places to gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import (
    constant,
    insert_constant,
    is_static,
    tensor_dtype,
    tensor_shape,
)

_Tensor = tuple[str, int]
_Sizes = tuple[int, ...]


def lower_dynamic_partition(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite DynamicPartition by a constant to gathers.

    Before: DynamicPartition(x, partitions)
    After: GatherV2(x, numbers of the rows of a partition), for each partition in use

    The sizes of the results are known then. The first gather keeps the node's name. Fires where the
    partitions are constant and valid, and the shape of x is known. Raises Declined, with the reason,
    elsewhere.
    """
    x, source = graph.inputs(node.name)
    parts = constant(graph, ctx, *source)
    if parts is None:
        return None
    _check(graph, node)
    count = node.attrs["num_partitions"]
    sizes = _sizes(graph, x)
    if sizes[: parts.ndim] != parts.shape or (
        parts.size and not 0 <= parts.min() <= parts.max() < count
    ):
        raise Declined("the partitions do not fit")
    inner = sizes[parts.ndim :]
    rows = _rows(graph, node, x, (parts.size, *inner))
    numbers = [np.flatnonzero(parts == k).astype(np.int32) for k in range(count)]
    used = {edge.src_output for edge in node.out_edges if not edge.is_control}
    for output in sorted(used - {0}):
        made = _gather(graph, node, rows, numbers[output], inner)
        graph.redirect_output(node.name, output, *made)
    _become_gather(graph, node, rows, numbers[0], inner)
    return "gathers of known rows"


def lower_dynamic_stitch(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite DynamicStitch at constant indices to a gather of all data.

    Before: DynamicStitch(indices, ..., x, ...)
    After: GatherV2(ConcatV2(x, ...), for each row its last source)

    The size of the result is known then. Fires where all indices are constant, valid, and name each
    row, and the shapes of the data are known. Raises Declined, with the reason, elsewhere.
    """
    inputs = graph.inputs(node.name)
    half = len(inputs) // 2
    found = [constant(graph, ctx, *source) for source in inputs[:half]]
    indices = [value for value in found if value is not None]
    if len(indices) < half:
        return None
    _check(graph, node)
    data = inputs[half:]
    sizes = [_sizes(graph, tensor) for tensor in data]
    inner = sizes[0][indices[0].ndim :]
    if any(shape != (*index.shape, *inner) for shape, index in zip(sizes, indices, strict=True)):
        raise Declined("indices and data do not fit")
    places = np.concatenate([index.reshape(-1) for index in indices])
    if not places.size or places.min() < 0:
        raise Declined("an index is negative, or there is none")
    source = np.full(int(places.max()) + 1, -1, np.int32)
    for row, place in enumerate(places.tolist()):
        source[place] = row
    if source.min() < 0:
        raise Declined("no index names a row of the result")
    rows = [
        _rows(graph, node, tensor, (index.size, *inner))
        for tensor, index in zip(data, indices, strict=True)
    ]
    joined = rows[0]
    if half > 1:
        axis = insert_constant(graph, node, np.zeros((), np.int32), "axis")
        attrs = {"N": half, "Tidx": dtypes.int32}
        joined = _add(graph, node, "ConcatV2", [*rows, axis], (places.size, *inner), attrs)
    _become_gather(graph, node, joined, source, inner)
    return "a gather at known places"


def _check(graph: DataflowGraph, node: Node) -> None:
    """Raise Declined for inputs that are variables, and for control inputs."""
    if any(tensor_dtype(graph, *source).is_ref for source in graph.inputs(node.name)):
        raise Declined("it reads a variable, at its own time")
    if graph.control_inputs(node.name):
        raise Declined("it waits for other nodes, as would all it became")


def _sizes(graph: DataflowGraph, tensor: _Tensor) -> _Sizes:
    shape = tensor_shape(graph, *tensor)
    if shape is None or not is_static(shape):
        raise Declined(f"the shape of '{tensor[0]}' is not known")
    return tuple(int(n or 0) for n in shape)


def _add(
    graph: DataflowGraph,
    node: Node,
    op: str,
    inputs: Sequence[_Tensor],
    shape: _Sizes,
    attrs: dict[str, object],
) -> _Tensor:
    """Add a node of the data's dtype beside a node."""
    name = graph.new_name(f"{node.name}/{op.lower()}")
    attrs = {"T": node.attrs["T"], **attrs} if op != "GatherV2" else attrs
    return graph.add_node_op(
        name, op, list(inputs), attrs, like=node, output_shapes=(shape,)
    ).name, 0


def _rows(graph: DataflowGraph, node: Node, tensor: _Tensor, shape: _Sizes) -> _Tensor:
    """Return a tensor with one row for each index."""
    if _sizes(graph, tensor) == shape:
        return tensor
    target = insert_constant(graph, node, np.array(shape, np.int32), "shape")
    return _add(graph, node, "Reshape", [tensor, target], shape, {"Tshape": dtypes.int32})


def _operands(
    graph: DataflowGraph, node: Node, rows: _Tensor, numbers: np.ndarray
) -> tuple[list[_Tensor], dict[str, object]]:
    """Return inputs and attrs of a gather."""
    where = insert_constant(graph, node, numbers, "rows")
    axis = insert_constant(graph, node, np.zeros((), np.int32), "axis")
    attrs: dict[str, object] = {
        "Tparams": node.attrs["T"], "Tindices": dtypes.int32, "Taxis": dtypes.int32,
        "batch_dims": 0,
    }  # fmt: skip
    return [rows, where, axis], attrs


def _gather(
    graph: DataflowGraph, node: Node, rows: _Tensor, numbers: np.ndarray, inner: _Sizes
) -> _Tensor:
    inputs, attrs = _operands(graph, node, rows, numbers)
    return _add(graph, node, "GatherV2", inputs, (len(numbers), *inner), attrs)


def _become_gather(
    graph: DataflowGraph, node: Node, rows: _Tensor, numbers: np.ndarray, inner: _Sizes
) -> None:
    inputs, attrs = _operands(graph, node, rows, numbers)
    graph.change_op(node.name, "GatherV2", inputs, attrs)
    node.output_shapes = ((len(numbers), *inner),)


__all__ = ["lower_dynamic_partition", "lower_dynamic_stitch"]
