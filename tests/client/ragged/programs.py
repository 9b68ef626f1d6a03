"""Programs of ragged tensors, each for TensorFlow and tfjit: module -> fetches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], Any]


def once(make: Program) -> Program:
    """Let programs of one graph share a tensor."""
    made: dict[Any, Any] = {}

    def get(m: Any) -> Any:
        graph = m.get_default_graph()
        if graph not in made:
            made[graph] = make(m)
        return made[graph]

    return get


@once
def a(m: Any) -> Any:
    return m.ragged.constant([[3, 1, 4], [], [1, 5], [9]])


@once
def f(m: Any) -> Any:
    return m.ragged.constant([[0.5, -1.0], [2.5], [], [4.0, 0.0, -3.5]], dtype=m.float32)


@once
def deep(m: Any) -> Any:
    return m.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6], [], [7]], [[8]]])


@once
def wide(m: Any) -> Any:
    """Ragged rows of vectors."""
    return m.RaggedTensor.from_row_lengths(
        m.constant(np.arange(12, dtype=np.float32).reshape(6, 2)), [2, 0, 3, 1]
    )


@once
def uniform(m: Any) -> Any:
    """A uniform axis outside of a ragged one: [2, 2, None]."""
    return m.RaggedTensor.from_uniform_row_length(a(m), 2)


@once
def words(m: Any) -> Any:
    return m.ragged.constant([["what", "a"], [], [" Day ", "x1", ""]])


def dense(m: Any, *shape: int) -> Any:
    return m.constant(np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape))


@once
def unknown(m: Any) -> Any:
    """Splits and values that are not known before the run."""
    splits = m.placeholder_with_default(np.array([0, 2, 2, 5], np.int64), [None])
    values = m.placeholder_with_default(np.array([7, 1, 2, 9, 4], np.int32), [None])
    return m.RaggedTensor.from_row_splits(values, splits)


FACTORIES: dict[str, Program] = {
    "splits": lambda m: m.RaggedTensor.from_row_splits([5, 6, 7], [0, 1, 1, 3], name="r"),
    "splits int32": lambda m: m.RaggedTensor.from_row_splits([5, 6, 7], np.array([0, 3], "i4")),
    "lengths": lambda m: m.RaggedTensor.from_row_lengths([5, 6, 7], [2, 0, 1]),
    "rowids": lambda m: m.RaggedTensor.from_value_rowids([5, 6, 7], [0, 0, 3]),
    "rowids nrows": lambda m: m.RaggedTensor.from_value_rowids([5, 6, 7], [0, 0, 3], nrows=6),
    "rowids empty": lambda m: m.RaggedTensor.from_value_rowids(m.constant([], m.int32), [], 2),
    "starts": lambda m: m.RaggedTensor.from_row_starts([5, 6, 7], [0, 1, 3]),
    "limits": lambda m: m.RaggedTensor.from_row_limits([5, 6, 7], [0, 2, 3]),
    "uniform": lambda m: m.RaggedTensor.from_uniform_row_length(dense(m, 6), 3),
    "uniform 0": lambda m: m.RaggedTensor.from_uniform_row_length(
        m.constant([], m.float32), 0, nrows=4
    ),
    "uniform of ragged": uniform,
    "uniform unknown": lambda m: m.RaggedTensor.from_uniform_row_length(
        m.placeholder_with_default(np.arange(6), [None]), 2
    ),
    "nested splits": lambda m: m.RaggedTensor.from_nested_row_splits(
        dense(m, 4), [[0, 2, 3], [0, 2, 2, 4]]
    ),
    "nested lengths": lambda m: m.RaggedTensor.from_nested_row_lengths(
        dense(m, 4), [[2, 1], [2, 0, 2]]
    ),
    "nested rowids": lambda m: m.RaggedTensor.from_nested_value_rowids(
        dense(m, 4), [[0, 0, 2], [0, 0, 1, 2]], [4, 3]
    ),
    "unknown": unknown,
    "constants": lambda m: [
        a(m),
        deep(m),
        words(m),
        m.ragged.constant([]),
        m.ragged.constant([[], []], dtype=m.float32),
        m.ragged.constant([1, 2, 3]),
        m.ragged.constant(7),
        m.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], inner_shape=(2,)),
        m.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1),
        m.ragged.constant([[1], [2, 3]], row_splits_dtype=m.int32, name="named"),
    ],
    "from tensor": lambda m: [
        m.RaggedTensor.from_tensor(dense(m, 2, 3)),
        m.RaggedTensor.from_tensor(dense(m, 2, 3), lengths=[1, 3]),
        m.RaggedTensor.from_tensor([[1, 0, 2], [0, 0, 0], [4, 0, 0]], padding=0),
        m.RaggedTensor.from_tensor(dense(m, 2, 3, 2), ragged_rank=2),
        m.RaggedTensor.from_tensor(dense(m, 2, 3, 2, 2), ragged_rank=2),
        m.RaggedTensor.from_tensor(dense(m, 2, 2, 2), lengths=([2, 1], [1, 2, 1])),
        m.RaggedTensor.from_tensor([[[1, 1], [0, 1]], [[0, 0], [0, 0]]], padding=[0, 0]),
        m.RaggedTensor.from_tensor(dense(m, 2, 3), row_splits_dtype=m.int32),
        m.RaggedTensor.from_tensor(
            m.placeholder_with_default(np.ones((2, 3, 1), "f4"), [None, None, 1]), ragged_rank=2
        ),
    ],
    "to tensor": lambda m: [
        a(m).to_tensor(),
        a(m).to_tensor(default_value=-1),
        a(m).to_tensor(shape=[None, 2]),
        a(m).to_tensor(shape=[5, 5]),
        deep(m).to_tensor(),
        wide(m).to_tensor(0.5),
        words(m).to_tensor(),
        uniform(m).to_tensor(),
        m.RaggedTensor.from_value_rowids([5, 6, 7], [0, 0, 3]).to_tensor(),
        unknown(m).to_tensor(),
        unknown(m).to_tensor(shape=m.constant([2, 4])),
    ],
    "sparse": lambda m: [
        a(m).to_sparse(),
        deep(m).to_sparse(),
        wide(m).to_sparse(),
        m.RaggedTensor.from_sparse(m.SparseTensor([[0, 0], [2, 0], [2, 1]], [4, 5, 6], [4, 3])),
        m.RaggedTensor.from_sparse(
            m.SparseTensor([[1, 0]], ["x"], [2, 3]), row_splits_dtype=m.int32
        ),
    ],
    "variants": lambda m: [
        m.RaggedTensor._from_variant(deep(m)._to_variant(), m.int32, 2),
        m.RaggedTensor._from_variant(a(m)._to_variant(batched_input=True)[2], m.int32, 0),
    ],
    "placeholder": lambda m: [m.ragged.placeholder(m.int32, 0, [2]).op.name],
}

PARTS: dict[str, Program] = {
    "rows": lambda m: [
        a(m).values,
        a(m).row_splits,
        a(m).row_lengths(),
        a(m).row_starts(),
        a(m).row_limits(),
        a(m).value_rowids(),
        a(m).nrows(),
        a(m).nrows(out_type=m.int32),
        a(m).ragged_rank,
        uniform(m).uniform_row_length,
    ],
    "nested": lambda m: [
        deep(m).values,
        deep(m).flat_values,
        list(deep(m).nested_row_splits),
        list(deep(m).nested_row_lengths()),
        list(deep(m).nested_value_rowids()),
        deep(m).row_lengths(axis=2),
        deep(m).row_lengths(axis=0),
        wide(m).row_lengths(axis=2),
        deep(m).ragged_rank,
    ],
    "bounding": lambda m: [
        deep(m).bounding_shape(),
        deep(m).bounding_shape(axis=0),
        deep(m).bounding_shape(axis=1, out_type=m.int32),
        deep(m).bounding_shape(axis=[0, 2]),
        wide(m).bounding_shape(out_type=m.int32),
    ],
    "with": lambda m: [
        a(m).with_values(m.constant([1.0, 2, 3, 4, 5, 6])),
        deep(m).with_flat_values(m.ones([8, 2])),
        a(m).with_row_splits_dtype(m.int32),
        deep(m).with_row_splits_dtype(m.int32),
    ],
    "merge": lambda m: [
        deep(m).merge_dims(0, 1),
        deep(m).merge_dims(1, 2),
        deep(m).merge_dims(0, 2),
        deep(m).merge_dims(-2, -1),
        wide(m).merge_dims(1, 2),
        wide(m).merge_dims(0, 1),
    ],
    "segments": lambda m: [
        m.ragged.row_splits_to_segment_ids([0, 3, 3, 5, 6, 9]),
        m.ragged.row_splits_to_segment_ids([0, 3], out_type=m.int32),
        m.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2, 3]),
        m.ragged.segment_ids_to_row_splits([0, 2], num_segments=5, out_type=m.int32),
    ],
}

INDEXING: dict[str, Program] = {
    "rows": lambda m: [a(m)[0], a(m)[-1], a(m)[1], a(m)[m.constant(2)], deep(m)[2], deep(m)[2, 0]],
    "slices": lambda m: [
        a(m)[:],
        a(m)[1:3],
        a(m)[::2],
        a(m)[::-1],
        a(m)[-2:],
        a(m)[5:],
        a(m)[m.constant(1) :],
        deep(m)[1:],
        deep(m)[::-1],
        unknown(m)[1:],
        unknown(m)[2],
    ],
    "columns": lambda m: [
        a(m)[:, :1],
        a(m)[:, 1:],
        a(m)[:, -1:],
        a(m)[:, :-1],
        a(m)[:, ::-1],
        a(m)[:, ::2],
        a(m)[1:, 1:2],
        a(m)[:, m.constant(1) :],
        a(m)[:, : m.placeholder_with_default(-1, [])],
        a(m)[:, 2:0:-1],
        deep(m)[:, 1:],
        deep(m)[:, :, 1:],
        deep(m)[:, ::-1, :1],
        deep(m)[2, :, :1],
        wide(m)[:, 1:, 0],
        wide(m)[:, :, 1:],
    ],
    "uniform": lambda m: [
        uniform(m)[:, 0],
        uniform(m)[:, -1],
        uniform(m)[:, 1:],
        uniform(m)[1:],
        uniform(m)[:, 1, :1],
    ],
    "ellipsis": lambda m: [
        a(m)[...],
        a(m)[..., :1],
        deep(m)[..., 1:],
        deep(m)[0, ...],
        wide(m)[..., 1],
        deep(m)[:, ..., :2],
    ],
    "new axes": lambda m: [
        a(m)[None],
        a(m)[:, None],
        a(m)[:, :, None],
        deep(m)[:, None, 1:],
        deep(m)[None, ..., :1],
    ],
}

ELEMENTWISE: dict[str, Program] = {
    "operators": lambda m: [
        a(m) + 1,
        1 + a(m),
        a(m) - a(m),
        2 * a(m),
        a(m) / 2,
        a(m) // 2,
        a(m) % 2,
        a(m) ** 2,
        2 ** a(m),
        7 - a(m),
        9 % (a(m) + 1),
        -a(m),
        abs(f(m)),
        7 // (a(m) + 1),
        7 / (a(m) + 1),
        np.int32(2) * a(m),
        m.constant(3) + a(m),
        m.constant(3) * a(m),
    ],
    "comparisons": lambda m: [
        a(m) > 3,
        a(m) < 4,
        a(m) <= 2,
        m.equal(a(m), 1),
        ~(a(m) > 3),
        (a(m) > 3) & (a(m) < 5),
        (a(m) > 3) | (a(m) < 5),
        (a(m) > 3) ^ (a(m) < 5),
    ],
    "unary": lambda m: [
        m.exp(f(m)),
        m.nn.relu(f(m)),
        m.sigmoid(f(m)),
        m.cast(a(m), m.float32),
        m.cast(f(m), m.int64),
        m.to_float(a(m)),
        m.round(f(m)),
        m.zeros_like(deep(m)),
        m.ones_like(f(m)),
        m.clip_by_value(f(m), -1.0, 1.0),
        m.nn.leaky_relu(f(m)),
        m.nn.softplus(f(m)),
        m.square(deep(m)),
        m.is_nan(f(m)),
        m.saturate_cast(f(m), m.int8),
        m.check_numerics(f(m), "x"),
        m.tanh(f(m), name="n"),
        m.sin(f(m)),
        m.identity(deep(m)),
        m.bitcast(f(m), m.int32),
    ],
    "binary": lambda m: [
        m.add(x=a(m), y=2, name="s"),
        m.maximum(a(m), 2),
        m.divide(f(m), 2.0),
        m.truediv(a(m), 2),
        m.pow(a(m), 2),
        m.math.squared_difference(f(m), 1.0),
        m.atan2(f(m), 1.0),
        m.math.divide_no_nan(f(m), f(m)),
        m.logical_and(f(m) > 0, True),
        m.scalar_mul(2.0, f(m)),
        m.complex(f(m), f(m)),
        m.add_n([a(m), a(m) + 1]),
        m.cumsum(a(m), axis=1),
        m.cumsum(a(m), axis=1, exclusive=True, reverse=True),
        m.cumsum(a(m), axis=0),
        m.cumsum(wide(m), axis=2),
    ],
    "broadcast": lambda m: [
        a(m) + m.constant([[10], [20], [30], [40]]),
        wide(m) + m.constant([1.0, 2.0]),
        wide(m) + m.constant([[1.0, 2.0]]),
        m.ragged.constant([[1, 2, 8]])[:1] + a(m)[:1],
        uniform(m) + dense(m, 2, 2, 1),
        unknown(m) + m.placeholder_with_default(np.array([[1], [2], [3]], "i4"), [None, None]),
    ],
    "map": lambda m: [
        m.ragged.map_flat_values(m.ones_like, deep(m)),
        m.ragged.map_flat_values(m.multiply, a(m), a(m)),
        m.ragged.map_flat_values(lambda x, y: x[0] + y, [a(m)], y=5),
        m.ragged.map_flat_values(m.add, 1, 2),
    ],
    "assertions": lambda m: [
        m.debugging.assert_equal(a(m), a(m)),
        m.debugging.assert_less(a(m), 10),
    ],
}


ARRAYS: dict[str, Program] = {
    "sizes": lambda m: [m.size(deep(m)), m.rank(deep(m)), m.rank(wide(m)), m.size(wide(m))],
    "concat": lambda m: [
        m.concat([a(m), a(m)], axis=0),
        m.concat([a(m), a(m) + 10, a(m)], axis=1),
        m.concat([deep(m), deep(m)], axis=1),
        m.concat([deep(m), deep(m)], axis=2),
        m.concat([a(m), dense(m, 4, 2)], axis=1),
        m.concat([a(m), dense(m, 1, 2)], axis=0),
        m.concat([wide(m), wide(m)], axis=2),
        m.concat([a(m)], axis=0),
        m.concat([deep(m), m.expand_dims(a(m), 2)[:2]], axis=0),
        m.concat([words(m), m.fill([3, 1], "!")], 1),
    ],
    "stack": lambda m: [
        m.stack([a(m), a(m)]),
        m.stack([a(m), a(m)], axis=1),
        m.ragged.stack([a(m), a(m)], axis=2),
        m.ragged.stack([m.constant([1, 2]), m.constant([3])]),
        m.ragged.stack([dense(m, 2, 3), dense(m, 1, 4)]),
        m.ragged.stack([m.constant([1, 2]), m.constant([3, 4])], axis=1),
    ],
    "tile": lambda m: [
        m.tile(a(m), [2, 3]),
        m.tile(deep(m), [2, 1, 3]),
        m.tile(wide(m), [2, 2, 2]),
        m.tile(a(m), m.placeholder_with_default(np.array([1, 2]), [2])),
        m.tile(a(m), [0, 2]),
    ],
    "axes": lambda m: [
        m.expand_dims(a(m), 0),
        m.expand_dims(a(m), 1),
        m.expand_dims(a(m), 2),
        m.expand_dims(deep(m), -1),
        m.expand_dims(wide(m), axis=2),
        m.squeeze(m.expand_dims(a(m), 0), 0),
        m.squeeze(m.expand_dims(a(m), 1), [1]),
        m.squeeze(m.expand_dims(wide(m), 2), axis=2),
        m.reverse(a(m), [0]),
        m.reverse(a(m), axis=[0, 1]),
        m.reverse(deep(m), [-1]),
    ],
    "gather": lambda m: [
        m.gather(a(m), [2, 0, 0]),
        m.gather(a(m), m.ragged.constant([[3], [], [0, 1]])),
        m.gather(m.constant([7, 8, 9]), m.ragged.constant([[0], [], [2, 1]])),
        m.gather(m.RaggedTensor.from_tensor(dense(m, 3, 4)), [1, 0], axis=1),
        m.gather(a(m), m.ragged.constant([[0], [], [1, 0], [0]]), batch_dims=1, axis=1),
        m.gather(wide(m), [1, 0], axis=2),
        m.batch_gather(a(m), m.ragged.constant([[2, 1], [], [1], [0, 0]])),
        m.batch_gather(dense(m, 2, 3), m.ragged.constant([[2], [1, 0]])),
        m.gather_nd(a(m), [[0, 1], [2, 1], [3, 0]]),
        m.gather_nd(a(m), [[0], [2]]),
        m.gather_nd(deep(m), [[2, 0, 1], [0, 1, 0]]),
        m.gather_nd(wide(m), [[0, 1, 0], [2, 2, 1]]),
        m.gather_nd(a(m), [[[0, 1], [2, 1]], [[3, 0], [0, 0]]]),
        m.gather_nd(a(m), m.zeros([2, 0], m.int32)),
    ],
    "one hot": lambda m: [
        m.one_hot(a(m), 4),
        m.one_hot(a(m), 3, 5, 1, dtype=m.int32),
        m.one_hot(deep(m), 3, axis=-1),
    ],
    "where": lambda m: [
        m.where(a(m) > 2),
        m.where(deep(m) > 2),
        m.where(a(m) > 2, a(m), -a(m)),
        m.where([True, False, True, False], a(m), a(m) + 10),
        m.where_v2([[True], [False], [True], [False]], a(m), 0),
    ],
    "split": lambda m: [
        m.split(a(m), 2),
        m.split(uniform(m), 2, axis=1),
        m.split(wide(m), 2, axis=2),
    ],
    "masks": lambda m: [
        m.ragged.boolean_mask(a(m), a(m) > 2),
        m.ragged.boolean_mask(a(m), [True, False, True, False]),
        m.ragged.boolean_mask(dense(m, 2, 3), [[True, False, True], [False, False, True]]),
        m.ragged.boolean_mask(dense(m, 2, 2, 2), dense(m, 2, 2, 2) > 3),
        m.ragged.boolean_mask(dense(m, 3), [True, False, True]),
        m.ragged.boolean_mask(m.constant([[1, 2], [3, 4]]), m.ragged.constant([[True, False]] * 2)),
    ],
    "partitions": lambda m: [
        m.ragged.stack_dynamic_partitions(["a", "b", "c"], [2, 0, 2], 4),
        m.ragged.stack_dynamic_partitions(a(m), [1, 0, 1, 1], 2),
        m.ragged.stack_dynamic_partitions(a(m), a(m) % 2, 2),
        m.dynamic_partition(a(m), [1, 0, 1, 1], 2),
    ],
    "ranges": lambda m: [
        m.ragged.range([3, 5, 2]),
        m.ragged.range([0, 5, 8], [3, 3, 12]),
        m.ragged.range([0, 5], [3, 8], 2, row_splits_dtype=m.int32),
        m.ragged.range([0.0], [1.0], 0.25),
        m.ragged.range(3),
    ],
    "cross": lambda m: [
        m.ragged.cross([m.ragged.constant([["a"], ["b", "c"]]), m.ragged.constant([["d"], ["e"]])]),
        m.ragged.cross([m.ragged.constant([[1], [2, 3]]), m.constant([["x", "y"], ["z", "w"]])]),
        m.ragged.cross_hashed([m.ragged.constant([["a"], ["b"]]), m.constant([[1], [2]])], 100),
        m.ragged.cross_hashed([m.ragged.constant([["a"], ["b"]])], 0, 3),
    ],
}

REDUCTIONS: dict[str, Program] = {
    "axes": lambda m: [
        m.reduce_sum(a(m)),
        m.reduce_sum(a(m), axis=0),
        m.reduce_sum(a(m), axis=1),
        m.reduce_max(deep(m), 0),
        m.reduce_prod(deep(m), 1),
        m.reduce_min(deep(m), 2),
        m.reduce_max(deep(m), [0, 2]),
        m.reduce_sum(deep(m), axis=[-1, -2]),
        m.reduce_prod(a(m), axis=1, keepdims=True),
        m.reduce_sum(a(m), keepdims=True),
        m.reduce_min(a(m), reduction_indices=[0]),
        m.reduce_sum(wide(m), 2),
        m.reduce_max(wide(m), 1),
        m.reduce_sum(uniform(m), 1),
        m.reduce_sum(unknown(m), 1),
    ],
    "mean": lambda m: [
        m.reduce_mean(f(m)),
        m.reduce_mean(f(m), 1),
        m.reduce_mean(f(m), 0, keepdims=True),
        m.reduce_mean(a(m), 1),
        m.math.reduce_variance(f(m), 1),
        m.math.reduce_std(f(m), 0),
    ],
    "logical": lambda m: [
        m.reduce_all(a(m) > 1, 1),
        m.reduce_any(a(m) > 4, 1),
        m.reduce_any(a(m) > 4),
        m.reduce_all(deep(m) > 1, 2),
    ],
    "counts": lambda m: [
        m.math.bincount(a(m)),
        m.math.bincount(a(m), weights=m.cast(a(m), m.float32), minlength=12),
        m.reshape(a(m), [2, 3]),
    ],
    "segments": lambda m: [
        m.math.unsorted_segment_sum(a(m), [1, 0, 1, 1], 3),
        m.math.unsorted_segment_max(a(m), [1, 0, 1, 1], 3),
        m.math.unsorted_segment_sum(a(m), m.ragged.constant([[0, 1, 0], [], [2, 2], [0]]), 3),
        m.math.unsorted_segment_mean(f(m), [1, 0, 1, 1], 2),
        m.math.unsorted_segment_sqrt_n(f(m), [1, 0, 1, 1], 2),
    ],
    "lookup": lambda m: [
        m.nn.embedding_lookup(
            m.constant([[1.0, 2], [3, 4], [5, 6]]), m.ragged.constant([[2], [], [0, 1]])
        ),
        m.nn.embedding_lookup_sparse(
            m.constant([[1.0, 2], [3, 4], [5, 6]]),
            m.ragged.constant([[2], [0, 1], [1]]),
            None,
            combiner="sum",
        ),
        m.nn.embedding_lookup_sparse(
            m.constant([[1.0, 2], [3, 4], [5, 6]]),
            m.ragged.constant([[2], [0, 1], [1]]),
            m.ragged.constant([[1.0], [0.5, 2.0], [3.0]]),
        ),
        m.nn.safe_embedding_lookup_sparse(
            m.constant([[1.0, 2], [3, 4], [5, 6]]), m.ragged.constant([[2], [], [0, 1]])
        ),
    ],
}

STRINGS: dict[str, Program] = {
    "unary": lambda m: [
        m.strings.upper(words(m)),
        m.strings.length(words(m)),
        m.strings.strip(words(m)),
        m.strings.regex_replace(words(m), "a", "b"),
        m.strings.substr(words(m), 0, 1),
        m.as_string(a(m)),
        m.strings.to_hash_bucket_fast(words(m), 10),
    ],
    "joined": lambda m: [
        m.strings.join([words(m), words(m)], separator="-"),
        m.strings.reduce_join(words(m), axis=-1, separator="+"),
        m.strings.reduce_join(words(m), axis=0),
        m.strings.reduce_join(words(m)),
        m.strings.format("{} and {}", [a(m), 3]),
        m.strings.format("{}", words(m)),
    ],
    "characters": lambda m: [
        m.strings.bytes_split(["ab", "", "c"]),
        m.strings.bytes_split("xyz"),
        m.strings.bytes_split([["ab", ""], ["c", "de"]]),
        m.strings.bytes_split(words(m)),
        m.strings.unicode_decode(["h\u00e9", ""], "UTF-8"),
        m.strings.unicode_decode("h\u00e9", "UTF-8"),
        m.strings.unicode_decode([["a", "bc"]], "UTF-8"),
        m.strings.unicode_decode(words(m), "UTF-8"),
        m.strings.unicode_decode_with_offsets(["h\u00e9y", "a"], "UTF-8"),
        m.strings.unicode_split(["h\u00e9", "ab"], "UTF-8"),
        m.strings.unicode_split_with_offsets("h\u00e9", "UTF-8"),
        m.strings.unicode_encode(m.ragged.constant([[104, 233], [], [97]]), "UTF-8"),
        m.strings.unicode_encode([104, 233], "UTF-16-BE"),
        m.strings.unicode_encode([[104, 233], [97, 98]], "UTF-8"),
        m.strings.unicode_encode([[[104, 233]], [[97, 98]]], "UTF-8"),
        m.strings.ngrams(["a", "b", "c"], 2),
        m.strings.ngrams([["a", "b", "c"], ["d", "e", "f"]], [1, 2], separator="-"),
        m.strings.ngrams(words(m), 2, pad_values="."),
        m.strings.ngrams(words(m), 3, pad_values=("<", ">"), padding_width=1),
        m.strings.ngrams(words(m), 5, preserve_short_sequences=True),
    ],
    "split": lambda m: [
        m.strings.split(["a b", "", "c d e"], result_type="RaggedTensor"),
        m.strings.split([["a b", ""], ["c,d e", "f"]], result_type="RaggedTensor"),
        m.strings.split(words(m), result_type="RaggedTensor"),
        m.strings.split(words(m)),
        m.strings.split("a b c", result_type="RaggedTensor"),
        m.strings.split("a b c"),
        m.string_split(["a b", "c"], result_type="RaggedTensor"),
        m.strings.split(["a,b", ",c"], ",", maxsplit=1, result_type="RaggedTensor"),
    ],
}

CONTROL: dict[str, Program] = {
    "map": lambda m: [
        m.map_fn(m.reduce_sum, a(m), dtype=m.int32),
        m.map_fn(lambda x: x + 1, a(m), fn_output_signature=m.RaggedTensorSpec([None], m.int32)),
        m.map_fn(
            lambda n: m.range(n),
            m.constant([3, 0, 2]),
            fn_output_signature=m.RaggedTensorSpec([None], m.int32),
        ),
        m.map_fn(lambda x: x.nrows(), deep(m), fn_output_signature=m.int64),
        m.map_fn(
            lambda xy: m.reduce_sum(xy[0]) + xy[1], (a(m), m.constant([1, 2, 3, 4])), dtype=m.int32
        ),
    ],
    "gradients": lambda m: gradients(m),
    "cond": lambda m: [
        m.cond(m.placeholder_with_default(True, []), lambda: a(m), lambda: a(m) + 1),
        m.cond(
            m.placeholder_with_default(False, []),
            lambda: (m.ragged.constant([[1], [2, 3]]), 1),
            lambda: (m.ragged.constant([[4, 5], []]), 2),
        ),
    ],
    "while": lambda m: [
        m.while_loop(lambda i, r: i < 3, lambda i, r: (i + 1, r * 2), [0, a(m)]),
        m.while_loop(
            lambda i, r: i < 2,
            lambda i, r: (i + 1, m.concat([r, r], axis=1)),
            [0, a(m)],
            shape_invariants=[m.TensorShape([]), m.RaggedTensorSpec([None, None], m.int32)],
        ),
        m.while_loop(lambda r: m.reduce_sum(r) < 100, lambda r: r * 2, [a(m)]),
    ],
}


def gradients(m: Any) -> Any:
    x = f(m)
    dense_x = m.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    r = m.RaggedTensor.from_tensor(dense_x, lengths=[1, 3])
    return [
        m.gradients(m.reduce_sum(x * x), x.flat_values),
        m.gradients(m.reduce_sum(m.exp(x), axis=1), x.flat_values),
        m.gradients(r * r, dense_x),
        m.gradients(x * x, x),
        m.convert_to_tensor(m.gradients(m.reduce_sum(x.to_tensor() ** 2), x.values)[0]),
        m.convert_to_tensor(m.gradients(m.gather(x, [0, 0, 3]), x.flat_values)[0]),
    ]


GROUPS: dict[str, dict[str, Program]] = {
    "factories": FACTORIES,
    "parts": PARTS,
    "indexing": INDEXING,
    "elementwise": ELEMENTWISE,
    "arrays": ARRAYS,
    "reductions": REDUCTIONS,
    "strings": STRINGS,
    "control": CONTROL,
}
