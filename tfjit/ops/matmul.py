"""Matrix products."""

from __future__ import annotations

from tfjit.framework.shape import Shape
from tfjit.framework.shape_context import ShapeContext
from tfjit.ops.declare import register_op
from tfjit.ops.shape_rules import Shapes, fail
from tfjit.ops.type_lists import WIDE_SIGNED


def _matmul(c: ShapeContext) -> Shapes:
    a, b = c.with_rank(0, 2), c.with_rank(1, 2)
    rows, inner_a = a[::-1] if c.attr("transpose_a") else a
    inner_b, columns = b[::-1] if c.attr("transpose_b") else b
    c.merge_dim(inner_a, inner_b)
    return [(rows, columns)]


def _batch_matmul_v1(c: ShapeContext) -> Shapes:
    return _batch_matmul(c, broadcasts=False)


def _batch_matmul_v2(c: ShapeContext) -> Shapes:
    return _batch_matmul(c, broadcasts=True)


def _batch_matmul(c: ShapeContext, broadcasts: bool) -> Shapes:
    a, b = c.with_rank_at_least(0, 2), c.with_rank_at_least(1, 2)
    if a is None or b is None:
        rows = None if a is None else a[-1 if c.attr("adj_x") else -2]
        columns = None if b is None else b[-2 if c.attr("adj_y") else -1]
        if not broadcasts:
            known = a if a is not None else b
            return [None if known is None else (*known[:-2], rows, columns)]
        return [None]
    rows, inner_a = (a[-1], a[-2]) if c.attr("adj_x") else (a[-2], a[-1])
    inner_b, columns = (b[-1], b[-2]) if c.attr("adj_y") else (b[-2], b[-1])
    c.merge_dim(inner_a, inner_b)
    batch: Shape = c.broadcast(a[:-2], b[:-2]) if broadcasts else c.merge(a[:-2], b[:-2])
    return [None if batch is None else (*batch, rows, columns)]


def _cross(c: ShapeContext) -> Shapes:
    shape = c.merge(c.inputs[0], c.inputs[1])
    shape = c.with_rank_at_least(shape, 1)
    if shape is not None and shape[-1] is not None and shape[-1] != 3:
        raise fail(f"Cross-products are only defined for 3-element vectors; last dimension is {shape[-1]}")
    return [shape]


def _einsum(c: ShapeContext) -> Shapes:
    equation = c.attr("equation").decode().replace(" ", "")
    left, arrow, right = equation.partition("->")
    if not arrow:
        raise fail(f"Expecting exactly one '->' in einsum equation: {equation}")
    terms = left.split(",")
    if len(terms) != len(c.inputs):
        raise fail(f"Expected {len(c.inputs)} inputs for equation {equation} but got: {len(terms)}")
    if len(terms) > 2:
        raise fail(f"Expected either 1 or 2 inputs but got: {len(terms)}")
    sizes: dict[str, int | None] = {}
    spread: Shape = ()
    for term, shape in zip(terms, c.inputs):
        before, dots, after = term.partition("...")
        if shape is None:
            if dots:
                spread = None
            continue
        if dots:
            middle = len(shape) - len(before) - len(after)
            if middle < 0:
                raise fail(f"Expected input {terms.index(term)} to have rank at least {len(before) + len(after)} but got: {len(shape)}")
            spread = c.broadcast(spread, shape[len(before) : len(before) + middle])
            named = zip(before + after, shape[: len(before)] + shape[len(before) + middle :])
        else:
            if len(shape) != len(term):
                raise fail(f"Shape must be rank {len(term)} but is rank {len(shape)}")
            named = zip(term, shape)
        for label, size in named:
            sizes[label] = c.merge_dim(sizes.get(label), size)
    before, dots, after = right.partition("...")
    out = tuple(sizes.get(label) for label in before)
    if dots:
        if spread is None:
            return [None]
        out += spread
    return [out + tuple(sizes.get(label) for label in after)]


register_op(
    "BatchMatMul",
    inputs=("x: T", "y: T"),
    outputs=("output: T",),
    attrs=(f"T: {WIDE_SIGNED}", "adj_x: bool = false", "adj_y: bool = false", "grad_x: bool = false", "grad_y: bool = false"),
    shape=_batch_matmul_v1,
)
register_op(
    "BatchMatMulV2",
    inputs=("x: T", "y: T"),
    outputs=("output: T",),
    attrs=(
        "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
    shape=_batch_matmul_v2,
)
register_op(
    "BatchMatMulV3",
    inputs=("x: Ta", "y: Tb"),
    outputs=("output: Tout",),
    attrs=(
        "Ta: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
        "Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, complex128}",
        "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
    shape=_batch_matmul_v2,
)
register_op("Cross", inputs=("a: T", "b: T"), outputs=("product: T",), attrs=("T: realnumbertype",), shape=_cross)
register_op(
    "Einsum", inputs=("inputs: N * T",), outputs=("output: T",), attrs=("equation: string", "N: int >= 1", "T: type"), shape=_einsum
)
register_op(
    "_FusedMatMul",
    inputs=("a: T", "b: T", "args: num_args * T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float}",
        "num_args: int >= 0",
        "fused_ops: list(string) = []",
        "epsilon: float = 1e-04",
        "leakyrelu_alpha: float = 0.2",
    ),
    shape=_matmul,
)
register_op(
    "MatMul",
    inputs=("a: T", "b: T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}",
        "grad_a: bool = false",
        "grad_b: bool = false",
    ),
    shape=_matmul,
)
