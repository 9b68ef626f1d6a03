"""Apply local rewrites that keep every value bit by bit.

They remove identities, movement of no elements, and arithmetic that changes nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.passes.canonicalize.decompose_batch_norm import decompose_batch_norm
from tfjit.passes.canonicalize.decompose_batch_norm_training import (
    decompose_batch_norm_grad,
    decompose_batch_norm_training,
)
from tfjit.passes.canonicalize.decompose_fake_quant import (
    decompose_fake_quant,
    decompose_fake_quant_gradient,
)
from tfjit.passes.canonicalize.fold_transposes import PRODUCTS, absorb_transposes
from tfjit.passes.canonicalize.identities import IDENTITIES
from tfjit.passes.canonicalize.lower_einsum import lower_einsum
from tfjit.passes.canonicalize.lower_partitions import (
    lower_dynamic_partition,
    lower_dynamic_stitch,
)
from tfjit.passes.canonicalize.lower_volumes import (
    lower_avg_pool3d_gradient,
    lower_conv3d,
    lower_conv3d_filter_gradient,
    lower_conv3d_input_gradient,
    lower_max_pool3d_gradient,
    lower_pool3d,
)
from tfjit.passes.canonicalize.sum_products import sum_products
from tfjit.passes.canonicalize.widen_batch_norm import widen_batch_norm
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import (
    constant,
    drop,
    insert_constant,
    is_static,
    same_shape,
    tensor_dtype,
    tensor_shape,
)
from tfjit.passes.patterns.rewriting import NodeRule, apply_rules


def simplify(graph: DataflowGraph, ctx: PassContext) -> None:
    """Apply the local rules once to every node, inputs first.

    Chains collapse in one walk, since inputs come first.

    Before: x -> Identity -> Reshape to x's own shape -> Mul by 1 -> y
    After: x -> y
    Keeps: every value bit by bit, names of fetched nodes, control edges (the consumers of a dropped
    node wait for its control inputs), and the reads of reference variables. Batch norm is an
    exception: it becomes reductions and elementwise operations. So are products that read a
    transposed operand in its place, those of Einsum, and sums of products that become one: their
    sums may be rounded at other places.
    Needs: `infer_shapes` for the rules on shapes.
    """
    apply_rules(graph, ctx, RULES)


# ---- rules: each returns a description of its change, or None when its pattern does not match


def _identity(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite x -> Identity -> y to x -> y.

    A read of a reference variable stays, since the time of the read matters.
    """
    src, output = graph.inputs(node.name)[0]
    if graph.node(src).output_dtypes[output].is_ref:
        raise Declined(f"it reads the variable '{src}'")
    return drop(graph, node, src, output)


def _identity_n(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Replace each output by its input."""
    inputs = graph.inputs(node.name)
    if graph.control_consumers(node.name) or graph.control_inputs(node.name):
        raise Declined("control edges hang on it")
    if any(graph.node(src).output_dtypes[output].is_ref for src, output in inputs):
        raise Declined("it reads a variable")
    for index, (src, output) in enumerate(inputs):
        graph.redirect_output(node.name, index, src, output)
    if graph.edges_out_of(node.name):
        return None
    graph.remove_op(node.name)
    return "removed"


def _same_shape_movement(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Drop a Reshape, Slice, Tile or the like that moves nothing.

    Its output has the static shape of its input.
    """
    (src, output), *operands = graph.inputs(node.name)
    shape = tensor_shape(graph, src, output)
    if not is_static(shape) or shape != node.output_shapes[0]:
        return None
    if any(constant(graph, ctx, *operand) is None for operand in operands):
        raise Declined("it checks a shape that comes at run time")
    return drop(graph, node, src, output)


def _assertion(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Replace an Assert of a true condition by a NoOp.

    The condition is known. Its other inputs must be known too: an input may be read for its effect.
    """
    condition, *others = [constant(graph, ctx, *operand) for operand in graph.inputs(node.name)]
    if condition is None or not condition.all():
        return None
    if any(value is None for value in others):
        raise Declined("its message takes values of the run")
    graph.change_op(node.name, "NoOp", [], {})
    return "its condition is true"


def _reshape_chain(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite Reshape(Reshape(x)) to one Reshape.

    The result's shape must be static, so that no -1 depends on the middle shape.
    """
    src, _ = graph.inputs(node.name)[0]
    first = graph.node(src)
    if first.op not in ("Reshape", "Squeeze", "ExpandDims"):
        return None
    if not is_static(node.output_shapes[0]):
        raise Declined(f"reshape of '{src}' to a shape that is not static")
    if node.op != "Reshape" or graph.control_inputs(src):
        return None
    if first.op == "Reshape" and constant(graph, ctx, *graph.inputs(src)[1]) is None:
        raise Declined(f"'{src}' checks a shape that comes at run time")
    inner = graph.inputs(src)[0]
    graph.replace_input(node.name, 0, *inner)
    node.origin = tuple(dict.fromkeys(first.origin + node.origin))
    if tensor_shape(graph, *inner) == node.output_shapes[0]:
        return drop(graph, node, *inner)
    return f"takes '{inner[0]}' past '{src}'"


def _transpose(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Drop identity transposes, and join Transpose(Transpose(x)) into one."""
    (src, output), (perm_src, perm_output) = graph.inputs(node.name)
    perm = constant(graph, ctx, perm_src, perm_output)
    if perm is None or node.op != "Transpose":
        return None
    axes = [int(axis) for axis in perm.reshape(-1)]
    axes = [axis + len(axes) if axis < 0 else axis for axis in axes]
    shape = tensor_shape(graph, src, output)
    if sorted(axes) != list(range(len(axes))) or (shape is not None and len(shape) != len(axes)):
        return None  # an error at run time
    if axes == list(range(len(axes))):
        return drop(graph, node, src, output)
    first = graph.node(src)
    if first.op != "Transpose" or graph.control_inputs(src):
        if (
            is_static(shape)
            and shape is not None
            and [a for a in axes if shape[a] != 1] == [a for a in range(len(axes)) if shape[a] != 1]
        ):
            return _become_reshape(graph, ctx, node, src, output)
        return None
    inner, (inner_perm_src, inner_perm_output) = graph.inputs(src)
    inner_perm = constant(graph, ctx, inner_perm_src, inner_perm_output)
    if inner_perm is None:
        raise Declined(f"the permutation of '{src}' is not constant")
    inner_axes = [int(axis) % len(axes) for axis in inner_perm.reshape(-1)]
    joined = [inner_axes[axis] for axis in axes]
    node.origin = tuple(dict.fromkeys(first.origin + node.origin))
    if joined == list(range(len(joined))):
        return drop(graph, node, *inner)
    value = np.array(joined, dtype=perm.dtype)
    value.setflags(write=False)
    graph.replace_input(node.name, 0, *inner)
    made = insert_constant(graph, node, value, "perm")
    graph.replace_input(node.name, 1, *made)
    return f"joined with '{src}'"


def _become_reshape(
    graph: DataflowGraph, ctx: PassContext, node: Node, src: str, output: int
) -> str | None:
    """Replace a node that moves no element by a Reshape.

    Only axes of size 1 come, go or move.
    """
    shape = node.output_shapes[0]
    if not is_static(shape) or shape is None:
        return None
    value = np.array(shape, dtype=np.int32)
    value.setflags(write=False)
    made = insert_constant(graph, node, value, "shape")
    dtype, op = tensor_dtype(graph, src, output).base_dtype, node.op
    graph.change_op(
        node.name, "Reshape", [(src, output), made], {"T": dtype, "Tshape": dtypes.int32}
    )
    return f"{op} of axes of size 1: a Reshape"


def _cast(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Drop a no-op cast, or a lossless cast with its inverse."""
    src, output = graph.inputs(node.name)[0]
    source, target = node.attrs["SrcT"], node.attrs["DstT"]
    if source is target:
        return drop(graph, node, src, output)
    first = graph.node(src)
    if (
        first.op == "Cast"
        and first.attrs["SrcT"] is target
        and _lossless(target, source)
        and not graph.control_inputs(src)
    ):
        inner = graph.inputs(src)[0]
        if graph.node(inner[0]).output_dtypes[inner[1]].is_ref:
            return None
        return drop(graph, node, *inner)
    return None


def _lossless(narrow: object, wide: object) -> bool:
    return (getattr(narrow, "name", ""), getattr(wide, "name", "")) in _LOSSLESS


# A cast from float to a wider float is left out: it flushes subnormals and quiets NaNs.
_LOSSLESS: Final = {
    (narrow, wide)
    for narrow, widths in {
        "bool": "uint8 int8 uint16 int16 uint32 int32 uint64 int64 float32 float64",
        "int8": "int16 int32 int64 float16 float32 float64",
        "uint8": "uint16 int16 uint32 int32 uint64 int64 float16 float32 float64",
        "int16": "int32 int64 float32 float64",
        "uint16": "uint32 int32 uint64 int64 float32 float64",
        "int32": "int64 float64",
        "uint32": "uint64 int64 float64",
    }.items()
    for wide in widths.split()
}


def _reduce_nothing(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Replace a reduction over axes of size 1 by its input.

    A reduction over no axis is another. TensorFlow copies the elements too: -0.0 stays -0.0.
    """
    inputs = graph.inputs(node.name)
    axes = constant(graph, ctx, *inputs[1])
    shape = tensor_shape(graph, *inputs[0])
    if (
        axes is None
        or shape is None
        or any(not -len(shape) <= int(axis) < len(shape) for axis in axes.reshape(-1))
    ):
        return None
    if any(shape[int(axis)] != 1 for axis in axes.reshape(-1)):
        return None
    if same_shape(shape, node.output_shapes[0]):
        return drop(graph, node, *inputs[0])
    return _become_reshape(graph, ctx, node, *inputs[0])


def _strided_slice_all(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite x[:, :, ...] to x."""
    inputs = graph.inputs(node.name)
    if node.attrs["shrink_axis_mask"] or node.attrs["new_axis_mask"]:
        return None
    strides = constant(graph, ctx, *inputs[3])
    if strides is None or (strides != 1).any():
        return None
    return _same_shape_movement(graph, ctx, node)


def _count_segments(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Add the known number of segments, the size of the output.

    Before: SparseSegmentSum(x, indices, [0, 0, 2])
    After: SparseSegmentSumWithNumSegments(x, indices, [0, 0, 2], 3)
    """
    inputs = graph.inputs(node.name)
    ids = constant(graph, ctx, *inputs[2])
    if ids is None or ids.ndim != 1 or not ids.size or ids[0] < 0 or (ids[1:] < ids[:-1]).any():
        return None
    count = int(ids[-1]) + 1
    if count > np.iinfo(np.int32).max:
        return None
    number = insert_constant(graph, node, np.array(count, np.int32), "segments")
    names = ("T", "Tidx", "Tsegmentids", "sparse_gradient")
    attrs = {name: node.attrs[name] for name in names if name in node.attrs}
    shape = node.output_shapes[0]
    graph.change_op(node.name, f"{node.op}WithNumSegments", [*inputs, number], attrs)
    if shape is not None:
        node.output_shapes = ((count, *shape[1:]),)
    return f"{count} segments"


def _gather_all(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite x[[0, 1, 2, ...]] to x where these are all rows."""
    inputs = graph.inputs(node.name)
    shape = tensor_shape(graph, *inputs[0])
    indices, axis = constant(graph, ctx, *inputs[1]), constant(graph, ctx, *inputs[2])
    if indices is None or axis is None or axis.any() or indices.ndim != 1 or not shape:
        return None
    if shape[0] != indices.size or (indices != np.arange(indices.size)).any():
        return None
    if not is_static(shape) or node.attrs.get("batch_dims"):
        return None
    return drop(graph, node, *inputs[0])


def _table() -> dict[str, tuple[NodeRule, ...]]:
    rules: dict[str, tuple[NodeRule, ...]] = {}

    def add(rule: NodeRule, *ops: str) -> None:
        for op in ops:
            rules[op] = (*rules.get(op, ()), rule)

    add(
        _identity,
        "Identity",
        "StopGradient",
        "PreventGradient",
        "Snapshot",
        "PlaceholderWithDefault",
    )
    add(_identity_n, "IdentityN")
    add(_assertion, "Assert")
    add(
        _same_shape_movement,
        "Reshape",
        "Squeeze",
        "ExpandDims",
        "BroadcastTo",
        "Tile",
        "Slice",
        "EnsureShape",
        "_HostCast",
    )
    add(_reshape_chain, "Reshape")
    add(_strided_slice_all, "StridedSlice")
    add(_transpose, "Transpose", "ConjugateTranspose")
    add(_cast, "Cast")
    add(_count_segments, "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
    add(_gather_all, "GatherV2")
    for identity in IDENTITIES:
        add(identity, *identity.root_types)
    add(sum_products, "AddN", "AccumulateNV2")
    add(_reduce_nothing, "Mean", "Sum", "Prod", "Max", "Min", "All", "Any")
    add(lower_einsum, "Einsum")
    add(absorb_transposes, *PRODUCTS)
    add(
        widen_batch_norm,
        *("FusedBatchNormV2", "FusedBatchNormV3", "FusedBatchNormGradV2", "FusedBatchNormGradV3"),
    )
    for rule in (decompose_batch_norm, decompose_batch_norm_training):
        add(rule, "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    add(
        decompose_batch_norm_grad,
        "FusedBatchNormGrad",
        "FusedBatchNormGradV2",
        "FusedBatchNormGradV3",
    )
    for kind in ("Args", "Vars", "VarsPerChannel"):
        add(decompose_fake_quant, f"FakeQuantWithMinMax{kind}")
        add(decompose_fake_quant_gradient, f"FakeQuantWithMinMax{kind}Gradient")
    add(lower_dynamic_partition, "DynamicPartition")
    add(lower_dynamic_stitch, "DynamicStitch", "ParallelDynamicStitch")
    add(lower_conv3d, "Conv3D")
    for version in ("", "V2"):
        add(lower_conv3d_input_gradient, f"Conv3DBackpropInput{version}")
        add(lower_conv3d_filter_gradient, f"Conv3DBackpropFilter{version}")
    add(lower_pool3d, "MaxPool3D", "AvgPool3D")
    add(lower_max_pool3d_gradient, "MaxPool3DGrad")
    add(lower_avg_pool3d_gradient, "AvgPool3DGrad")
    return rules


RULES: Final = _table()
