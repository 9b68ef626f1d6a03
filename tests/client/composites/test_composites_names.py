"""Functions over single ops and small graphs against TensorFlow, with the same random values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.client.composites.side_by_side import Program, differences

RNG = np.random.default_rng(17)
X = RNG.standard_normal((3, 4, 4)).astype(np.float32)
TEXT = np.array([[b"a", b"bc"], [b"", b"d"]], object)


def sparse(t: Any) -> Any:
    values = t.constant([1.0, -2.0, 3.0, 0.5])
    return t.SparseTensor([[0, 1], [0, 3], [1, 0], [2, 3]], values, [4, 5])


def parts(value: Any) -> list[Any]:
    return [value.indices, value.values, value.dense_shape]


def factors(t: Any, x: Any) -> list[Any]:
    found = t.linalg.lu(X if x.shape.rank == 3 else X[0])  # it has no gradient
    return [found[0], found[1]]


PROGRAMS: dict[str, Program] = {
    "expm": lambda t, x: t.linalg.expm(x * 3.0),
    "expm_small": lambda t, x: t.linalg.expm(x[0] * 0.05),
    "expm_double": lambda t, x: t.linalg.expm(t.cast(x, t.float64)),
    "expm_not_finite": lambda t, x: t.stop_gradient(t.linalg.expm(x / 0.0)),
    "lu_solve": lambda t, x: t.linalg.lu_solve(*factors(t, x), x[:, :, :2]),
    "lu_solve_matrix": lambda t, x: t.linalg.lu_solve(*factors(t, x[0]), x[1], True),
    "lu_inverse": lambda t, x: t.linalg.lu_matrix_inverse(*factors(t, x)),
    "lu_reconstruct": lambda t, x: t.linalg.lu_reconstruct(*factors(t, x), True),
    "lu_reconstruct_matrix": lambda t, x: t.linalg.lu_reconstruct(*factors(t, x[0])),
    "erfcinv": lambda t, x: t.math.erfcinv(t.sigmoid(x) * 1.8),
    "special": lambda t, x: [t.math.special.bessel_i0e(x), t.math.special.dawsn(x)],
    "bins": lambda t, x: t.histogram_fixed_width_bins(x, [-1.0, 2.0], 7),
    "fingerprint": lambda t, x: t.fingerprint(TEXT),
    "joined": lambda t, x: t.reduce_join(TEXT, 1, separator="-"),
    "joined_all": lambda t, x: t.strings.reduce_join(TEXT, separator="/", name="all"),
    "joined_order": lambda t, x: t.reduce_join(TEXT, [0, 1], keep_dims=True),
    "eye": lambda t, x: parts(t.sparse.eye(3)) + parts(t.sparse.eye(2, 4, dtype=t.int32)),
    "sparse_max": lambda t, x: parts(t.sparse.reduce_max_sparse(sparse(t), 1)),
    "sparse_sum": lambda t, x: parts(t.sparse_reduce_sum_sparse(sparse(t), [0], True)),
    "serialized": lambda t, x: parts(
        t.deserialize_many_sparse(t.serialize_many_sparse(sparse(t)), t.float32, rank=2)
    ),
    "distance": lambda t, x: t.edit_distance(sparse(t), sparse(t), False),
    "segments": lambda t, x: t.sparse.segment_mean(x, [0, 2, 1], [0, 0, 1]),
    "args": lambda t, x: t.quantization.fake_quant_with_min_max_args(x, -1, 2, 4),
    "args_gradient": lambda t, x: t.fake_quant_with_min_max_args_gradient(X * 2, X, -1, 2, 4),
    "vars": lambda t, x: t.fake_quant_with_min_max_vars(x, -1.0, 2.0, 4, True),
    "vars_gradient": lambda t, x: t.fake_quant_with_min_max_vars_gradient(X, X, -1.0, 1.0),
    "channels": lambda t, x: t.fake_quant_with_min_max_vars_per_channel(
        x, [-1.0, -0.5, 0.0, -2.0], [1.0, 2.0, 0.5, 2.0]
    ),
    "quantized": lambda t, x: t.dequantize(
        *t.quantize(t.constant(X), -1.0, 2.0, t.quint8, mode="MIN_FIRST"), mode="MIN_FIRST"
    ),
    "quantized_axis": lambda t, x: t.quantization.dequantize(
        *t.quantize_v2(t.constant(X), [-1.0] * 4, [2.0] * 4, t.qint8, mode="SCALED", axis=-1),
        mode="SCALED",
        axis=2,
    ),
    "both_ways": lambda t, x: t.quantization.quantize_and_dequantize(x, -1.0, 1.0, num_bits=4),
    "both_ways_2": lambda t, x: t.quantization.quantize_and_dequantize_v2(
        x, -1.0, 1.0, range_given=True
    ),
    "wav": lambda t, x: t.audio.decode_wav(t.audio.encode_wav(X[0] / 2, 44100)),
    "wav_text": lambda t, x: t.audio.encode_wav(np.linspace(-1.5, 1.5, 8)[:, None], 8000),
    "wav_sizes": lambda t, x: t.audio.decode_wav(t.audio.encode_wav(X[0, :, :1], 7), 3, 6),
    "binomial": lambda t, x: t.random.stateless_binomial([5, 2], [1, 2], [9.0, 80.0], [0.3, 0.6]),
    "gamma": lambda t, x: t.random.stateless_gamma([4, 2], [3, 4], [0.5, 2.0], [1.0, 3.0]),
    "poisson": lambda t, x: t.random.stateless_poisson([6], [5, 6], 4.5),
    "split": lambda t, x: t.random.split([1, 2], 3),
    "fold_in": lambda t, x: t.random.fold_in([1, 2], 9),
    "index_shuffle": lambda t, x: [
        t.random.experimental.index_shuffle(np.arange(9), [5, 6], 8),
        t.random.experimental.index_shuffle(t.constant(70000, t.int64), [5, 6], 10**9),
        t.random_index_shuffle(3, t.constant([1, 2, 3], t.uint32), [5, 1000], rounds=8),
    ],
    "shuffle": lambda t, x: t.random.experimental.stateless_shuffle(X, [5, 6]),
    "candidates": lambda t, x: t.random.log_uniform_candidate_sampler(
        [[1, 2], [3, 0]], 2, 4, True, 9, seed=3
    ),
}
# Checks, loops and permutations of the matrix functions are other nodes; so are sizes made by eye,
# known shapes, and names of special functions.
OTHER_NODES = frozenset(name for name in PROGRAMS if name.startswith(("expm", "lu"))) | {
    "erfcinv",
    "eye",
    "gamma",
    "special",
}


def test_equal_tensorflow() -> None:
    assert not differences(PROGRAMS, X, OTHER_NODES)
