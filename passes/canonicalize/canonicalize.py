"""Apply local rewrites that keep every value bit by bit.

They remove identities, movement of no elements, and arithmetic that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.framework.types import dtypes
from tfjit.passes.canonicalize.decompose_batch_norm import decompose_batch_norm
from tfjit.passes.canonicalize.decompose_batch_norm_training import (
    decompose_batch_norm_grad,
    decompose_batch_norm_training,
)
from tfjit.passes.canonicalize.fold_transposes import PRODUCTS, absorb_transposes
from tfjit.passes.canonicalize.lower_einsum import lower_einsum
from tfjit.passes.canonicalize.sum_products import sum_products
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

Rule = Callable[[DataflowGraph, PassContext, Node], "str | None"]


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
    for name in yielding(graph.topological_order()):
        if name not in graph:
            continue
        node = graph.node(name)
        for rule in RULES.get(node.op, ()):
            if not ctx.may_rewrite():
                return
            op, changes = node.op, graph.changes
            try:
                done = rule(graph, ctx, node)
            except Declined as reason:
                ctx.log(name, f"{op} stays: {reason}")
                continue
            if done:
                ctx.rewrote(name, f"{op}: {done}", rule.__name__.strip("_"))
                break
            if graph.changes != changes:
                ctx.rewrote(name, f"{op}: changed in part", rule.__name__.strip("_"))


# ---- rules: each returns a description of its change, or None when its pattern does not match


def _identity(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite x -> Identity -> y to x -> y.

    A read of a reference variable stays, since the time of the read matters.
    """
    src, output = graph.inputs(node.name)[0]
    if graph.node(src).output_dtypes[output].is_ref:
        raise Declined(f"it reads the variable '{src}'")
    if graph.node(src).has_trait(CONTROL_FLOW) and graph.control_consumers(node.name):
        # the control edges put constants into the branch
        raise Declined("control edges out of a branch hang on it")
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
    if sorted(axes) != list(range(len(axes))):
        return None  # an error at run time
    if axes == list(range(len(axes))):
        return drop(graph, node, src, output)
    first = graph.node(src)
    if first.op != "Transpose" or graph.control_inputs(src):
        shape = tensor_shape(graph, src, output)
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


def _multiply_by_one(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite products and quotients by 1 to their operand."""
    inputs = graph.inputs(node.name)
    sides = (1,) if node.op in ("RealDiv", "Div", "FloorDiv", "TruncateDiv") else (1, 0)
    if node.op == "FloorDiv" and tensor_dtype(graph, *inputs[0]).is_floating:
        return None  # FloorDiv of floats rounds
    for side in sides:
        if _is_all(constant(graph, ctx, *inputs[side]), 1):
            other = inputs[1 - side]
            _need_shape(graph, node, other, "1")
            return drop(graph, node, *other)
    return None


def _add_zero(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite x + (-0.0) and x - 0.0 to x.

    x + 0.0 is different: it turns -0.0 into 0.0. For integers every zero qualifies.
    """
    inputs = graph.inputs(node.name)
    subtracts = node.op == "Sub"
    for side in (1,) if subtracts else (1, 0):
        value = constant(graph, ctx, *inputs[side])
        if not _is_all(value, 0) or value is None:
            continue
        dtype = tensor_dtype(graph, *inputs[side])
        if dtype.is_complex:
            return None
        if dtype.is_floating:
            negative = np.signbit(value.astype(np.float64))
            if negative.any() if subtracts else not negative.all():
                raise Declined("adding 0.0 turns -0.0 into 0.0")
        other = inputs[1 - side]
        _need_shape(graph, node, other, "0")
        return drop(graph, node, *other)
    return None


def _is_all(value: np.ndarray | None, number: int) -> bool:
    if (
        value is None
        or value.size == 0
        or (value.dtype.kind not in "fiuV" and value.dtype.kind != "c")
    ):
        return False
    if value.dtype.names is not None:
        return False
    return bool((value == number).all())


def _need_shape(graph: DataflowGraph, node: Node, other: tuple[str, int], what: str) -> None:
    """Raise Declined if the constant also widens the other operand by broadcasting."""
    if not same_shape(tensor_shape(graph, *other), node.output_shapes[0]):
        raise Declined(f"the {what} may broadcast '{other[0]}'")


def _undo(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite op(op(x)) to x for Neg, LogicalNot, Invert and Conj."""
    src, _ = graph.inputs(node.name)[0]
    if graph.node(src).op != node.op or graph.control_inputs(src):
        return None
    return drop(graph, node, *graph.inputs(src)[0])


def _idempotent(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite op(op(x)) to op(x) for Relu, Abs, Floor and the like."""
    src, output = graph.inputs(node.name)[0]
    return drop(graph, node, src, output) if graph.node(src).op == node.op else None


def _pad_nothing(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Drop padding by zero rows and columns."""
    inputs = graph.inputs(node.name)
    paddings = constant(graph, ctx, *inputs[1])
    return (
        drop(graph, node, *inputs[0])
        if paddings is not None and paddings.size and not paddings.any()
        else None
    )


def _concat_one(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite the concatenation of one tensor to that tensor."""
    inputs = graph.inputs(node.name)
    values = inputs[1:] if node.op == "Concat" else inputs[:-1]
    return drop(graph, node, *values[0]) if len(values) == 1 else None


def _sum_of_one(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite AddN of one tensor to that tensor."""
    inputs = graph.inputs(node.name)
    return drop(graph, node, *inputs[0]) if len(inputs) == 1 else None


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


def _table() -> dict[str, tuple[Rule, ...]]:
    rules: dict[str, tuple[Rule, ...]] = {}

    def add(rule: Rule, *ops: str) -> None:
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
    add(_multiply_by_one, "Mul", "RealDiv", "Div", "FloorDiv", "TruncateDiv")
    add(_add_zero, "Add", "AddV2", "Sub")
    add(_undo, "Neg", "LogicalNot", "Invert", "Conj")
    add(_count_segments, "SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
    add(_gather_all, "GatherV2")
    add(_idempotent, "Relu", "Relu6", "Abs", "Floor", "Ceil", "Rint", "Round", "Sign")
    add(_pad_nothing, "Pad", "PadV2", "MirrorPad")
    add(_concat_one, "Concat", "ConcatV2")
    add(_sum_of_one, "AddN", "AccumulateNV2")
    add(sum_products, "AddN", "AccumulateNV2")
    add(_reduce_nothing, "Mean", "Sum", "Prod", "Max", "Min", "All", "Any")
    add(lower_einsum, "Einsum")
    add(absorb_transposes, *PRODUCTS)
    for rule in (decompose_batch_norm, decompose_batch_norm_training):
        add(rule, "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
    add(
        decompose_batch_norm_grad,
        "FusedBatchNormGrad",
        "FusedBatchNormGradV2",
        "FusedBatchNormGradV3",
    )
    return rules


RULES: Final = _table()
