"""Define matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.op_traits import CANNOT_FAIL, MATRIX_PRODUCT
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail
from tfjit.ops.core.type_lists import WIDE_SIGNED

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import AxisLike, DTypeLike, TensorLike


def matmul_shape(c: ShapeContext) -> Shapes:
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
        raise fail(
            f"Cross-products are only defined for 3-element vectors; last dimension is {shape[-1]}"
        )
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
                raise fail(
                    f"Expected input {terms.index(term)} to have rank at least "
                    f"{len(before) + len(after)} but got: {len(shape)}"
                )
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
    attrs=(
        f"T: {WIDE_SIGNED}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
    shape=_batch_matmul_v1,
    traits=MATRIX_PRODUCT | CANNOT_FAIL,
)
register_op(
    "BatchMatMulV2",
    inputs=("x: T", "y: T"),
    outputs=("output: T",),
    attrs=(
        "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, "
        "complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
    shape=_batch_matmul_v2,
    traits=MATRIX_PRODUCT | CANNOT_FAIL,
)
register_op(
    "BatchMatMulV3",
    inputs=("x: Ta", "y: Tb"),
    outputs=("output: Tout",),
    attrs=(
        "Ta: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, "
        "complex128}",
        "Tb: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, "
        "complex128}",
        "Tout: {bfloat16, half, float, double, int16, int32, int64, complex64, complex128}",
        "adj_x: bool = false",
        "adj_y: bool = false",
        "grad_x: bool = false",
        "grad_y: bool = false",
    ),
    shape=_batch_matmul_v2,
    traits=MATRIX_PRODUCT | CANNOT_FAIL,
)
register_op(
    "Cross",
    inputs=("a: T", "b: T"),
    outputs=("product: T",),
    attrs=("T: realnumbertype",),
    shape=_cross,
)
register_op(
    "Einsum",
    inputs=("inputs: N * T",),
    outputs=("output: T",),
    attrs=("equation: string", "N: int >= 1", "T: type"),
    shape=_einsum,
)
register_op(
    "MatMul",
    inputs=("a: T", "b: T"),
    outputs=("product: T",),
    attrs=(
        "transpose_a: bool = false",
        "transpose_b: bool = false",
        "T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, "
        "complex64, complex128}",
        "grad_a: bool = false",
        "grad_b: bool = false",
    ),
    shape=matmul_shape,
    traits=MATRIX_PRODUCT | CANNOT_FAIL,
)


def matmul(
    a: object,
    b: object,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: DTypeLike | None = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply a [..., m, k] by b [..., k, n] -> [..., m, n].

    a_is_sparse, b_is_sparse: float32 and bfloat16 matrices are multiplied by SparseMatMul.
    output_type: the product's dtype. grad_a, grad_b: whether an operand is a gradient; the node
    keeps this for readers of the graph. Raises ValueError when both transpose and adjoint are asked
    for.
    """
    with name_scope(name, "MatMul", [a, b]) as scope:
        if transpose_a and adjoint_a:
            raise ValueError("Only one of `transpose_a` and `adjoint_a` can be True.")
        if transpose_b and adjoint_b:
            raise ValueError("Only one of `transpose_b` and `adjoint_b` can be True.")
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, name="b", preferred_dtype=a.dtype.base_dtype)
        kinds = a.dtype.base_dtype, b.dtype.base_dtype
        ranks = a.shape.rank, b.shape.rank
        wanted = None if output_type is None else as_dtype(output_type)
        widened = wanted is not None and kinds != (wanted, wanted)
        hinted = a_is_sparse or b_is_sparse
        if not hinted and any(rank is None or rank > 2 for rank in ranks):
            x, adjoint_x = _adjoint(a, transpose_a, adjoint_a)
            y, adjoint_y = _adjoint(b, transpose_b, adjoint_b)
            return _batch_product(
                scope, x, y, adjoint_x, adjoint_y, grad_a, grad_b, wanted if widened else None
            )
        if adjoint_a:
            a, transpose_a = _conjugate(a), True
        if adjoint_b:
            b, transpose_b = _conjugate(b), True
        transposed = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        half = (
            dtypes.bfloat16 in kinds
            and kinds[0] is not kinds[1]
            and not {dtypes.int8, dtypes.uint8} & set(kinds)
        )
        if half or (hinted and all(kind in (dtypes.float32, dtypes.bfloat16) for kind in kinds)):
            both_half = kinds == (dtypes.bfloat16, dtypes.bfloat16)
            hints = {"a_is_sparse": a_is_sparse, "b_is_sparse": b_is_sparse}
            out = tensor(
                "SparseMatMul", None if both_half else scope, a=a, b=b, **transposed, **hints
            )
            return tensor("Cast", scope, x=out, DstT=dtypes.bfloat16) if both_half else out
        if widened:
            return _batch_product(scope, a, b, transpose_a, transpose_b, grad_a, grad_b, wanted)
        return tensor("MatMul", scope, a=a, b=b, **transposed, grad_a=grad_a, grad_b=grad_b)


def _batch_product(
    name: str,
    x: Tensor,
    y: Tensor,
    adj_x: bool,
    adj_y: bool,
    grad_x: bool,
    grad_y: bool,
    out_type: object,
) -> Tensor:
    """Return a batched product, of dtype `out_type` where one is given."""
    options = {"adj_x": adj_x, "adj_y": adj_y, "grad_x": grad_x, "grad_y": grad_y}
    if out_type is None:
        return tensor("BatchMatMulV2", name, x=x, y=y, **options)
    return tensor("BatchMatMulV3", name, x=x, y=y, Tout=out_type, **options)


def _conjugate(x: Tensor) -> Tensor:
    return tensor("Conj", None, input=x) if x.dtype.is_complex else x


def _adjoint(x: Tensor, transpose: bool, adjoint: bool) -> tuple[Tensor, bool]:
    # A batched product only knows adjoints: a plain transpose of complex numbers is the adjoint of
    # their conjugates.
    return (_conjugate(x), True) if transpose else (x, adjoint)


def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply a [..., m, k] by b [..., k] -> [..., m]."""
    with name_scope(name, "MatVec", [a, b]) as scope:
        b = convert_to_tensor(b, name="b")
        column = tensor("ExpandDims", None, input=b, dim=-1)
        product = matmul(
            a,
            column,
            transpose_a=transpose_a,
            adjoint_a=adjoint_a,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
        return tensor("Squeeze", scope, input=product, squeeze_dims=[-1])


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """Return the cross product of vectors of 3."""
    return tensor("Cross", name, a=a, b=b)


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Tensor:
    """Sum products by index letters.

    More than two inputs are contracted from the left.
    """
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(inputs):
        raise ValueError(
            f'Got {len(inputs)} inputs for equation "{equation}", expecting {len(terms)}'
        )
    if not arrow:
        letters = left.replace(",", "").replace(".", "")
        right = ("..." if "..." in left else "") + "".join(
            sorted(c for c in set(letters) if letters.count(c) == 1)
        )
    values = [convert_to_tensor(x) for x in inputs]
    with name_scope(name, "einsum", values) as scope:
        while len(values) > 2:
            first, second, rest = terms[0], terms[1], terms[2:]
            needed = set("".join(rest) + right)
            kept = "".join(dict.fromkeys(c for c in first + second if c in needed and c != "."))
            middle = ("..." if "..." in first + second else "") + kept
            made = tensor("Einsum", None, inputs=values[:2], equation=f"{first},{second}->{middle}")
            values, terms = [made, *values[2:]], [middle, *rest]
        return tensor("Einsum", scope, inputs=values, equation=f"{','.join(terms)}->{right}")


def tensordot(a: TensorLike, b: TensorLike, axes: AxisLike, name: str | None = None) -> Tensor:
    """Sum products over `axes`.

    axes: a number (last of a with first of b) or a pair of lists or tensors.
    """
    with name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a, b = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
        rank_a, rank_b = a.shape.rank, b.shape.rank
        if isinstance(axes, Tensor) or (
            not isinstance(axes, (int, np.integer)) and any(isinstance(x, Tensor) for x in axes)
        ):
            return _tensordot(a, b, axes[0], axes[1], scope)
        if isinstance(axes, (int, np.integer)):
            count = int(axes)
            if count < 0:
                raise ValueError(f"`axes` must be at least 0. Received: {count}.")
            if rank_a is None or rank_b is None:
                return _tensordot(a, b, list(range(-count, 0)), list(range(count)), scope)
            if count > rank_a:
                raise ValueError(
                    f"`axes` must not be larger than the number of dimensions of tensor {a}. "
                    f"Received {axes}, vs rank {rank_a}."
                )
            axes_a: list[Any] = list(range(rank_a - count, rank_a))
            axes_b: list[Any] = list(range(count))
        else:
            if len(axes) != 2:
                raise ValueError(f"`axes` must be an integer or have length 2. Received {axes}.")
            axes_a, axes_b = ([x] if isinstance(x, (int, np.integer)) else list(x) for x in axes)
            if len(axes_a) != len(axes_b):
                raise ValueError(
                    f"Different number of contraction axes `a` and `b`, {len(axes_a)} != "
                    f"{len(axes_b)}."
                )
            if rank_a is None or rank_b is None:
                return _tensordot(a, b, axes_a, axes_b, scope)
            axes_a, axes_b = [i % rank_a for i in axes_a], [i % rank_b for i in axes_b]
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        term_a = letters[:rank_a]
        term_b = ""
        for i in range(rank_b):
            term_b += term_a[axes_a[axes_b.index(i)]] if i in axes_b else letters[rank_a + i]
        out = "".join(c for i, c in enumerate(term_a) if i not in axes_a) + "".join(
            c for i, c in enumerate(term_b) if i not in axes_b
        )
        return tensor("Einsum", scope, inputs=[a, b], equation=f"{term_a},{term_b}->{out}")


def _tensordot(a: Tensor, b: Tensor, axes_a: Any, axes_b: Any, name: str) -> Tensor:
    """Sum products over axes by one product of matrices.

    Only the run knows the ranks of the tensors, or the axes.
    """
    matrix_a, free_a = _as_matrix(a, axes_a, axes_last=True)
    matrix_b, free_b = _as_matrix(b, axes_b, axes_last=False)
    product = tensor("MatMul", None, a=matrix_a, b=matrix_b)
    return tensor(
        "Reshape",
        name,
        tensor=product,
        shape=tensor("ConcatV2", None, values=[free_a, free_b], axis=0),
    )


def _as_matrix(x: Tensor, axes: AxisLike, axes_last: bool) -> tuple[Tensor, Tensor]:
    """Return x as a matrix with `axes` joined on one side.

    The other axes are joined on the other side; their sizes are returned, too.
    """
    rank, shape = tensor("Rank", None, input=x), tensor("Shape", None, input=x)
    given = tensor("Reshape", None, tensor=convert_to_tensor(axes, dtype=dtypes.int32), shape=[-1])
    summed = tensor(
        "SelectV2",
        None,
        condition=tensor("Less", None, x=given, y=0),
        t=tensor("AddV2", None, x=given, y=rank),
        e=given,
    )
    free, _ = create(
        "ListDiff", None, x=tensor("Range", None, start=0, limit=rank, delta=1), y=summed
    ).outputs
    sizes = [
        tensor("GatherV2", None, params=shape, indices=places, axis=0) for places in (free, summed)
    ]
    sides = [tensor("Prod", None, input=s, reduction_indices=[0]) for s in sizes]
    order = [free, summed]
    if not axes_last:
        sides, order = sides[::-1], order[::-1]
    transposed = tensor("Transpose", None, x=x, perm=tensor("ConcatV2", None, values=order, axis=0))
    return tensor(
        "Reshape", None, tensor=transposed, shape=tensor("Pack", None, values=sides)
    ), sizes[0]
