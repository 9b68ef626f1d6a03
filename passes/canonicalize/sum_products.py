"""Compute a sum of matrix products as one product."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.rewriter import insert_constant, is_static, tensor_dtype, tensor_shape

MIN_PRODUCTS: Final = 4
"""Fewest products; sums of fewer are epilogues of a product."""

_Form = tuple[bool, bool]  # transpose_a, transpose_b


def sum_products(graph: DataflowGraph, ctx: PassContext, node: Node) -> str | None:
    """Rewrite AddN of products to one product of concatenated operands.

    Before: AddN(MatMul(a, x), MatMul(b, y), MatMul(c, z), MatMul(d, w), e)
    After: AddN(MatMul(Concat(a, b, c, d), Concat(x, y, z, w)), e)

    The operands are joined along the axis that the products sum over. Fires for products whose only
    use is the sum, where the operands have no more elements than the product: weight gradients of a
    cell that is unrolled. The sums are the same. Their rounding may differ.
    """
    inputs = graph.inputs(node.name)
    forms: dict[_Form, list[int]] = {}
    for position, (src, output) in enumerate(inputs):
        form = _form(graph, node, src, output)
        if form is not None:
            forms.setdefault(form, []).append(position)
    if not forms:
        return None
    form, positions = max(forms.items(), key=lambda entry: len(entry[1]))
    if len(positions) < MIN_PRODUCTS:
        raise Declined(f"a sum of {len(positions)} products")
    products = [inputs[position][0] for position in positions]
    factors = [graph.inputs(product) for product in products]
    waits = [wait for product in products for wait in graph.control_inputs(product)]
    operands = []
    for side, transposed in enumerate(form):
        axis = int(transposed == (side == 1))
        operands.append(_concatenated(graph, node, [pair[side] for pair in factors], axis))
    attrs = {"transpose_a": form[0], "transpose_b": form[1]}
    origin = tuple(
        dict.fromkeys(user for name in (*products, node.name) for user in graph.node(name).origin)
    )
    shape = node.output_shapes
    rest = [tensor for position, tensor in enumerate(inputs) if position not in set(positions)]
    if rest:
        made = graph.add_node_op(
            graph.new_name(f"{node.name}/product"),
            "MatMul",
            operands,
            attrs,
            control_inputs=waits,
            like=node,
            origin=origin,
            output_shapes=shape,
        )
        graph.change_op(
            node.name, node.op, [(made.name, 0), *rest], {**node.attrs, "N": 1 + len(rest)}
        )
    else:
        graph.change_op(
            node.name,
            "MatMul",
            operands,
            attrs,
            control_inputs=[*graph.control_inputs(node.name), *waits],
        )
        node.origin = origin
    node.output_shapes = shape
    for product in products:
        graph.remove_op(product)
    return f"{len(products)} products are one"


def _form(graph: DataflowGraph, node: Node, src: str, output: int) -> _Form | None:
    """Return the transposes of a product worth joining, else None."""
    product = graph.node(src)
    if (
        product.op != "MatMul"
        or product.assigned_device != node.assigned_device
        or len(graph.edges_out_of(src)) != 1
    ):
        return None
    form = bool(product.attrs.get("transpose_a")), bool(product.attrs.get("transpose_b"))
    shapes = []
    for factor in graph.inputs(src):
        shape = tensor_shape(graph, *factor)
        if not is_static(shape) or tensor_dtype(graph, *factor).is_ref:
            return None
        assert shape is not None
        shapes.append([int(n) for n in shape if n is not None])
    a, b = shapes
    depth, rows, columns = a[not form[0]], a[form[0]], b[not form[1]]
    return form if depth * (rows + columns) <= rows * columns else None


def _concatenated(
    graph: DataflowGraph, node: Node, tensors: list[tuple[str, int]], axis: int
) -> tuple[str, int]:
    """Add the concatenation of matrices along an axis; return its output."""
    shapes = [tensor_shape(graph, *tensor) for tensor in tensors]
    sizes = [list(shape) for shape in shapes if shape is not None]
    total = list(sizes[0])
    total[axis] = sum(size[axis] or 0 for size in sizes)
    where = insert_constant(graph, node, np.array(axis, np.int32), "axis")
    made = graph.add_node_op(
        graph.new_name(f"{node.name}/operands"),
        "ConcatV2",
        [*tensors, where],
        {"N": len(tensors), "T": tensor_dtype(graph, *tensors[0]), "Tidx": dtypes.int32},
        like=node,
        output_shapes=(tuple(total),),
    )
    return made.name, 0
