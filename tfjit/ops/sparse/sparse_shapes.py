"""Infer shapes of sparse tensors.

A sparse tensor is indices [n, rank], values [n], dense shape [rank].
"""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape, format_shape
from tfjit.ops.core.shape_rules import Rule, Shapes, fail, int_constant, int_list_constant


def sparse_of_rank(rank: int | None, count: int | None = None) -> list[Shape]:
    """Return the shapes of a sparse tensor of `count` values."""
    return [(count, rank), (count,), (rank,)]


def any_sparse(c: ShapeContext) -> Shapes:
    """Infer one sparse tensor of unknown rank and size."""
    return sparse_of_rank(None)


def sparse_matrix(c: ShapeContext) -> Shapes:
    """Infer one sparse matrix."""
    return sparse_of_rank(2)


def rank_of_shape_input(index: int) -> Rule:
    """Return a rule for one sparse tensor with a given rank.

    The rank is the size of input `index`, a dense shape.
    """

    def rule(c: ShapeContext) -> Shapes:
        return sparse_of_rank(c.with_rank(index, 1)[0])

    return rule


def values_alone(c: ShapeContext) -> Shapes:
    """Infer a value for each row of the indices, the first input."""
    return [(c.with_rank(0, 2)[0],)]


def values_of_input(index: int) -> Rule:
    """Return a rule for the shape of a vector of values."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.with_rank(index, 1)]

    return rule


def to_dense(c: ShapeContext) -> Shapes:
    """Infer the shape of SparseToDense."""
    return [c.constant_as_shape(1)]


def reordered(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseReorder."""
    indices, values = c.with_rank(0, 2), c.with_rank(1, 1)
    c.with_rank(2, 1)
    return [indices, values]


def reshaped(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseReshape."""
    indices = c.with_rank(0, 2)
    c.with_rank(1, 1)
    wanted = c.with_rank(2, 1)
    return [(indices[0], wanted[0]), wanted]


def concatenated(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseConcat."""
    n = int(c.attr("N"))
    rows: int | None = 0
    rank: int | None = None
    for i in range(n):
        indices = c.with_rank(i, 2)
        values = c.with_rank(n + i, 1)
        own = c.merge_dim(indices[0], values[0])
        rows = None if rows is None or own is None else rows + own
        rank = c.merge_dim(rank, c.merge_dim(indices[1], c.with_rank(2 * n + i, 1)[0]))
    return sparse_of_rank(rank, rows)


def split(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseSplit."""
    n = int(c.attr("num_split"))
    shape = c.inputs[3]
    rank = None if shape is None else c.with_rank(3, 1)[0]
    return [(None, rank)] * n + [(None,)] * n + [shape] * n


def sliced(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseSlice."""
    shape = c.inputs[2]
    return [(None, None if shape is None else c.with_rank(2, 1)[0]), (None,), shape]


def slice_gradient(c: ShapeContext) -> Shapes:
    """Infer the shape of SparseSliceGrad."""
    return [(c.with_rank(1, 2)[0],)]


def filled(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseFillEmptyRows."""
    indices, values, shape = c.with_rank(0, 2), c.with_rank(1, 1), c.with_rank(2, 1)
    count = c.merge_dim(indices[0], values[0])
    c.merge_dim(indices[1], shape[0])
    c.with_rank(3, 0)
    known = c.constant_as_shape(2)
    return [(None, shape[0]), (None,), (known[0] if known else None,), (count,)]


def ragged_filled(c: ShapeContext) -> Shapes:
    """Infer the shapes of RaggedFillEmptyRows."""
    rows, values = c.with_rank(0, 1), c.with_rank(1, 1)
    c.with_rank(2, 0)
    c.with_rank(3, 0)
    return [(None,), (None,), (int_constant(c, 2),), (c.merge_dim(rows[0], values[0]),)]


def fill_gradient(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseFillEmptyRowsGrad."""
    place = c.with_rank(0, 1)
    c.with_rank(1, 1)
    return [place, ()]


def dense_product(c: ShapeContext) -> Shapes:
    """Infer the shape of SparseTensorDenseMatMul."""
    indices, values = c.with_rank(0, 2), c.with_rank(1, 1)
    c.merge_dim(indices[0], values[0])
    c.with_rank(2, 1)
    left, right = c.constant_as_shape(2), c.with_rank(3, 2)
    left = c.with_rank(left, 2)
    rows, inner = (left[1], left[0]) if c.attr("adjoint_a") else (left[0], left[1])
    depth, columns = (right[1], right[0]) if c.attr("adjoint_b") else (right[0], right[1])
    c.merge_dim(inner, depth)
    return [(rows, columns)]


def added(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseAdd."""
    return sparse_of_rank(c.with_rank(2, 1)[0])


def sum_gradient(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseAddGrad."""
    return [(c.with_rank(1, 2)[0],), (c.with_rank(2, 2)[0],)]


def extremes(c: ShapeContext) -> Shapes:
    """Infer the shapes of SparseSparseMaximum and SparseSparseMinimum."""
    return [(None, None), (None,)]


def reduced(c: ShapeContext) -> Shapes:
    """Infer the shape of SparseReduceSum and SparseReduceMax."""
    shape, axes = c.constant_as_shape(2), int_list_constant(c, 3)
    if c.constant(2) is None or shape is None or axes is None:
        return [None]
    gone = {axis % len(shape) for axis in axes if -len(shape) <= axis < len(shape)}
    if c.attr("keep_dims"):
        return [tuple(1 if d in gone else size for d, size in enumerate(shape))]
    return [tuple(size for d, size in enumerate(shape) if d not in gone)]


def softmax(c: ShapeContext) -> Shapes:
    """Infer the shape of SparseSoftmax."""
    c.with_rank(0, 2)
    values = c.with_rank(1, 1)
    c.with_rank(2, 1)
    return [values]


def product_of_dense(c: ShapeContext) -> Shapes:
    """Infer the shape of SparseMatMul."""
    a, b = c.with_rank(0, 2), c.with_rank(1, 2)
    rows, inner = (a[1], a[0]) if c.attr("transpose_a") else (a[0], a[1])
    depth, columns = (b[1], b[0]) if c.attr("transpose_b") else (b[0], b[1])
    c.merge_dim(inner, depth)
    return [(rows, columns)]


def set_operation(c: ShapeContext) -> Shapes:
    """Infer a sparse tensor of sets along the last dimension.

    The rank is the rank of either operand.
    """
    ranks = {
        "DenseToDenseSetOperation": lambda: (c.rank(c.inputs[0]), c.rank(c.inputs[1])),
        "DenseToSparseSetOperation": lambda: (c.rank(c.inputs[0]), c.with_rank(3, 1)[0]),
        "SparseToSparseSetOperation": lambda: (c.with_rank(2, 1)[0], c.with_rank(5, 1)[0]),
    }[c.op]()
    return sparse_of_rank(next((rank for rank in ranks if rank is not None), None))


def ragged_range(c: ShapeContext) -> Shapes:
    """Infer splits of one row a range, and any number of values."""
    shapes = [c.with_rank_at_most(shape, 1) for shape in c.inputs]
    rows = None if None in shapes else 1
    for k, shape in enumerate(shape for shape in shapes if shape):
        rows = c.merge_dim(shape[0], rows) if k else shape[0]
    return [(c.add(rows, 1),), (None,)]


def ragged_gathered(c: ShapeContext) -> Shapes:
    """Infer splits of any length, and values of the same inner shape."""
    ragged = c.attr("PARAMS_RAGGED_RANK")
    for splits in range(ragged):
        c.with_rank(splits, 1)
    values = c.with_rank_at_least(ragged, 1)
    inner = None if values is None else (None, *values[1:])
    return [*[(None,)] * c.attr("OUTPUT_RAGGED_RANK"), inner]


def ragged_as_variants(c: ShapeContext) -> Shapes:
    """Infer a variant, or one for each row."""
    ragged = c.attr("RAGGED_RANK")
    for splits in range(ragged):
        c.with_rank(splits, 1)
    values = c.with_rank_at_least(ragged, 1)
    if not c.attr("batched_input"):
        return [()]
    if ragged:
        limits = c.with_rank(0, 1)
        return [(c.subtract(limits[0], 1),)]
    return [None if values is None else values[:1]]


def variant_gradient(c: ShapeContext) -> Shapes:
    """Infer the shape of the flat values, where it is known."""
    return [c.constant_as_shape(2)]


def variants_as_ragged(c: ShapeContext) -> Shapes:
    """Infer splits of any number of rows."""
    ragged, inner = c.attr("output_ragged_rank"), c.attr("input_ragged_rank")
    if inner >= 0:
        c.with_rank(0, ragged - inner)
    return [*[(None,)] * ragged, None]


def ragged_as_sparse(c: ShapeContext) -> Shapes:
    """Infer a sparse tensor with each value of the ragged one."""
    ragged = c.attr("RAGGED_RANK")
    for splits in range(ragged):
        c.with_rank(splits, 1)
    values = c.with_rank_at_least(ragged, 1)
    rank = None if values is None else ragged + len(values)
    count = c.num_elements(values)
    return [(count, rank), (count,), (rank,)]


def ragged_as_dense(c: ShapeContext) -> Shapes:
    """Infer the wanted shape, with the inner sizes of the values."""
    kinds = [kind.decode() for kind in c.attr("row_partition_types")]
    if kinds[0] == "VALUE_ROWIDS":
        raise fail("VALUE_ROWIDS cannot be first")
    ragged = len(kinds) - (kinds[0] == "FIRST_DIM_SIZE")
    values, wanted = c.inputs[1], c.inputs[0]
    outer = None if values is None else (*[None] * (ragged + 1), *values[1:])
    if wanted is None:
        return [outer]
    if not wanted:
        known = c.constant(0)
        if known is not None and int(known) != -1:
            raise fail(
                "The only valid scalar shape tensor is the fully unknown shape specified as -1."
            )
        return [outer]
    sizes = c.constant_as_shape(0)
    if sizes is None or outer is None:
        return [sizes if outer is None else outer]
    text = "rt_input.shape and shape={} are incompatible: rt_input"
    if len(sizes) != len(outer):
        text = text.format(format_shape((None,) * len(sizes)))
        raise fail(f"{text}.rank = {len(outer)} but shape.rank = {len(sizes)}")
    text = text.format(format_shape(sizes))
    for k, (size, own) in enumerate(zip(sizes, outer, strict=True)):
        if None not in (size, own) and size != own:
            raise fail(f"{text}.shape[{k}] = {own} but shape[{k}] = {size}")
    return [tuple(own if size is None else size for size, own in zip(sizes, outer, strict=True))]


def ragged_crossed(c: ShapeContext) -> Shapes:
    """Infer any number of crosses, and splits of the columns' rows."""
    ragged, sparse = len(c.attr("ragged_values_types")), c.attr("Nsparse")
    rows = None
    for splits in c.inputs[ragged : 2 * ragged]:
        rows = c.merge_dim(rows, c.subtract(c.with_rank(splits, 1)[0], 1))
    for table in c.inputs[2 * ragged + 3 * sparse :]:
        rows = c.merge_dim(rows, c.with_rank(table, 2)[0])
    return [(None,), (c.add(rows, 1),)]
