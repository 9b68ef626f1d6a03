"""Measure single ops on arrays of some megabytes, above all those that do not fuse.

Elementwise ops, reductions, products and convolutions have scripts of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.workload import Workload, feeds_of, integers, uniform

Maker = Callable[[np.random.Generator], Any]
IMAGES = uniform([8, 64, 64, 16])
ROWS = uniform([10_000, 64])
SQUARE = uniform([1000, 1000])
SMALL_MATRICES = uniform([100, 8, 8])
MATRIX = uniform([256, 256])
COLORS = uniform([8, 128, 128, 3], 0.0, 1.0)
ENTRIES = 20_000
"""Entries of a sparse matrix of 10,000 rows and 1,000 columns."""


def ascending(count: int, high: int) -> Maker:
    """A maker of sorted int32 arrays of 0..high-1."""
    return lambda rng: np.sort(rng.integers(0, high, count)).astype(np.int32)


def coordinates(seed: int) -> Maker:
    """A maker of sorted coordinates of ENTRIES entries, the same in each call."""

    def make(rng: np.random.Generator) -> np.ndarray:
        places = np.random.default_rng(seed).choice(10_000_000, ENTRIES, replace=False)
        return np.stack(np.unravel_index(np.sort(places), (10_000, 1000)), 1).astype(np.int64)

    return make


def boxes(count: int) -> Maker:
    """A maker of boxes y1, x1, y2, x2 within an image."""
    return lambda rng: np.sort(rng.random((count, 2, 2)), 1).reshape(count, 4).astype(np.float32)


def words(count: int) -> Maker:
    """A maker of arrays of byte strings of two words and a number."""

    def make(rng: np.random.Generator) -> np.ndarray:
        found = np.empty(count, object)
        found[:] = [b"ab %d cd" % number for number in rng.integers(0, 100_000, count)]
        return found

    return make


def decimals(count: int) -> Maker:
    """A maker of arrays of numbers as text."""

    def make(rng: np.random.Generator) -> np.ndarray:
        found = np.empty(count, object)
        found[:] = [b"%.7f" % number for number in rng.standard_normal(count)]
        return found

    return make


def _positive(*shape: int) -> Maker:
    return uniform(shape, 0.1, 3.0)


def numerals(count: int) -> Maker:
    """A maker of arrays of integers as text."""

    def make(rng: np.random.Generator) -> np.ndarray:
        found = np.empty(count, object)
        found[:] = [b"%d" % number for number in rng.integers(-(10**9), 10**9, count)]
        return found

    return make


def lines(count: int) -> Maker:
    """A maker of arrays of records of CSV."""

    def make(rng: np.random.Generator) -> np.ndarray:
        numbers = rng.integers(0, 100_000, count)
        found = np.empty(count, object)
        found[:] = [b"%d,%.5f,w%d" % (n, n / 7, n) for n in numbers.tolist()]
        return found

    return make


def examples(count: int) -> Maker:
    """A maker of arrays of Example messages with dense and sparse features."""

    def make(rng: np.random.Generator) -> np.ndarray:
        from tfjit.protos import Example

        found = np.empty(count, object)
        for k in range(count):
            message = Example()
            feature = message.features.feature
            feature["x"].float_list.value.extend(rng.standard_normal(32))
            feature["label"].int64_list.value.append(k % 10)
            feature["ids"].int64_list.value.extend(rng.integers(0, 100_000, k % 7))
            feature["tags"].bytes_list.value.extend([b"tag%d" % n for n in range(k % 3)])
            found[k] = message.SerializeToString()
        return found

    return make


def _parsed(tf: Any, serialized: Any) -> Any:
    features = {
        "x": tf.FixedLenFeature([32], tf.float32),
        "label": tf.FixedLenFeature([], tf.int64),
        "ids": tf.VarLenFeature(tf.int64),
        "tags": tf.VarLenFeature(tf.string),
    }
    found = tf.parse_example(serialized, features)
    return tf.reduce_sum(found["x"], 1) + tf.cast(found["label"], tf.float32)


_STRINGS: Mapping[str, Callable[..., Any]] = {
    "length": lambda tf, x: tf.strings.length(x),
    "hash buckets": lambda tf, x: tf.strings.to_hash_bucket_fast(x, 1000),
    "strong hash buckets": lambda tf, x: tf.strings.to_hash_bucket_strong(x, 1000, [1, 2]),
    "split": lambda tf, x: tf.strings.split(x, sep=" ").values,
    "lower": lambda tf, x: tf.strings.lower(x),
    "substr": lambda tf, x: tf.strings.substr(x, 1, 3),
    "join": lambda tf, x: tf.strings.join([x, x]),
    "regex replace": lambda tf, x: tf.strings.regex_replace(x, "[0-9]+", "#"),
    "base64": lambda tf, x: tf.io.encode_base64(x),
}


def _gradient(tf: Any, y: Any, x: Any) -> Any:
    return tf.gradients(tf.reduce_sum(tf.square(y)), [x])[0]


def _positive_definite(tf: Any, x: Any) -> Any:
    return tf.matmul(x, x, transpose_b=True) + 10.0 * tf.eye(x.shape[-1])


def _sparse(tf: Any, indices: Any, values: Any) -> Any:
    return tf.SparseTensor(indices, values, [10_000, 1000])


_LINEAR: Mapping[str, Callable[..., Any]] = {
    "lu": lambda tf, x: tf.linalg.lu(x)[0],
    "inverse": lambda tf, x: tf.linalg.inv(x),
    "solve": lambda tf, x: tf.linalg.solve(x, x[..., :4]),
    "cholesky": lambda tf, x: tf.linalg.cholesky(x),
    "triangular solve": lambda tf, x: tf.linalg.triangular_solve(x, x[..., :4]),
    "singular values and vectors": lambda tf, x: tf.linalg.svd(x)[0],
}


_CASES: Mapping[str, tuple[Callable[..., Any], Mapping[str, Maker]]] = {
    "segment sum": (
        lambda tf, x, k: tf.segment_sum(x, k),
        {"x": ROWS, "k": ascending(10_000, 1000)},
    ),
    "segment mean": (
        lambda tf, x, k: tf.segment_mean(x, k),
        {"x": ROWS, "k": ascending(10_000, 1000)},
    ),
    "sparse segment sum": (
        lambda tf, x, i, k: tf.sparse_segment_sum(x, i, k),
        {"x": ROWS, "i": integers([20_000], 10_000), "k": ascending(20_000, 1000)},
    ),
    "unsorted segment max": (
        lambda tf, x, k: tf.math.unsorted_segment_max(x, k, 1000),
        {"x": ROWS, "k": integers([10_000], 1000)},
    ),
    "gather rows": (lambda tf, x, k: tf.gather(x, k), {"x": ROWS, "k": integers([20_000], 10_000)}),
    "dynamic partition": (
        lambda tf, x, k: tf.dynamic_partition(x, k, 4)[0],
        {"x": ROWS, "k": integers([10_000], 4)},
    ),
    "unique": (lambda tf, k: tf.unique(k)[0], {"k": integers([100_000], 1000)}),
    "bincount": (lambda tf, k: tf.math.bincount(k), {"k": integers([100_000], 1000)}),
    "histogram": (
        lambda tf, x: tf.histogram_fixed_width(x, [-1.0, 1.0], 100),
        {"x": uniform([1_000_000])},
    ),
    "searchsorted": (
        lambda tf, s, x: tf.searchsorted(tf.cumsum(s, axis=1), x),
        {"s": _positive(10, 1000), "x": uniform([10, 10_000], 0.0, 1500.0)},
    ),
    "top 10": (lambda tf, x: tf.nn.top_k(x, 10)[0], {"x": SQUARE}),
    "transpose of three dims": (
        lambda tf, x: tf.transpose(x, [2, 0, 1]),
        {"x": uniform([100, 100, 100])},
    ),
    "resize bilinear": (lambda tf, x: tf.image.resize_bilinear(x, [128, 128]), {"x": IMAGES}),
    "resize bicubic": (lambda tf, x: tf.image.resize_bicubic(x, [128, 128]), {"x": IMAGES}),
    "resize area": (lambda tf, x: tf.image.resize_area(x, [20, 20]), {"x": IMAGES}),
    "gradient of resize bilinear": (
        lambda tf, x: _gradient(tf, tf.image.resize_bilinear(x, [128, 128]), x),
        {"x": IMAGES},
    ),
    "local response": (lambda tf, x: tf.nn.lrn(x), {"x": IMAGES}),
    "gradient of local response": (lambda tf, x: _gradient(tf, tf.nn.lrn(x), x), {"x": IMAGES}),
    "max pool with argmax": (
        lambda tf, x: tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")[0],
        {"x": IMAGES},
    ),
    "3-D convolution": (
        lambda tf, x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"),
        {"x": uniform([2, 16, 32, 32, 8]), "w": uniform([3, 3, 3, 8, 8])},
    ),
    "quantize and dequantize": (
        lambda tf, x: tf.raw_ops.QuantizeAndDequantizeV2(input=x, input_min=-1.0, input_max=1.0),
        {"x": SQUARE},
    ),
    **{
        f"{name} of {kind}": (
            lambda tf, x, call=call: call(tf, _positive_definite(tf, x)),
            {"x": maker},
        )
        for name, call in _LINEAR.items()
        for kind, maker in (("a matrix", MATRIX), ("small matrices", SMALL_MATRICES))
    },
    "tridiagonal solve": (
        lambda tf, x, y: tf.linalg.tridiagonal_solve(x + [[0.0], [4.0], [0.0]], y),
        {"x": uniform([100, 3, 50]), "y": uniform([100, 50, 4])},
    ),
    "2-D FFT": (
        lambda tf, x: tf.abs(tf.raw_ops.FFT2D(input=tf.cast(x, tf.complex64))),
        {"x": uniform([4, 256, 256])},
    ),
    "real FFT": (
        lambda tf, x: tf.abs(tf.spectral.rfft(x)),
        {"x": uniform([256, 1024])},
    ),
    "contrast": (lambda tf, x: tf.image.adjust_contrast(x, 1.5), {"x": COLORS}),
    "hue": (lambda tf, x: tf.image.adjust_hue(x, 0.1), {"x": COLORS}),
    "dilation": (
        lambda tf, x, w: tf.nn.dilation2d(x, w, [1] * 4, [1] * 4, "SAME"),
        {"x": COLORS, "w": uniform([3, 3, 3])},
    ),
    "gradient of crops": (
        lambda tf, x, b, i: _gradient(tf, tf.image.crop_and_resize(x, b, i, [14, 14]), x),
        {"x": COLORS, "b": boxes(50), "i": integers([50], 8)},
    ),
    "quantize": (
        lambda tf, x: tf.quantization.dequantize(
            tf.quantization.quantize(x, -1.0, 1.0, tf.quint8)[0], -1.0, 1.0
        ),
        {"x": SQUARE},
    ),
    "sparse sum": (
        lambda tf, i, x, j, y: tf.sparse_add(_sparse(tf, i, x), _sparse(tf, j, y)).values,
        {
            "i": coordinates(1),
            "x": uniform([ENTRIES]),
            "j": coordinates(2),
            "y": uniform([ENTRIES]),
        },
    ),
    "sparse rows filled": (
        lambda tf, i, x: tf.sparse_fill_empty_rows(_sparse(tf, i, x), 0.0)[0].values,
        {"i": coordinates(1), "x": uniform([ENTRIES])},
    ),
    "split": (lambda tf, x: tf.add_n(tf.split(x, 4, axis=1)), {"x": SQUARE}),
    "gamma values": (
        lambda tf, x: tf.reduce_mean(tf.random_gamma([100], x, seed=1)),
        {"x": _positive(1000)},
    ),
    "Poisson values": (
        lambda tf, x: tf.reduce_mean(tf.random_poisson(x, [100], seed=1)),
        {"x": _positive(1000)},
    ),
    "multinomial": (
        lambda tf, x: tf.reduce_mean(tf.cast(tf.multinomial(x, 100, seed=1), tf.float32)),
        {"x": uniform([100, 100])},
    ),
    "shuffle": (
        lambda tf, x: tf.reduce_sum(tf.abs(tf.random_shuffle(x, seed=1))),
        {"x": uniform([10_000, 16])},
    ),
    "string to number": (lambda tf, x: tf.string_to_number(x), {"x": decimals(10_000)}),
    "parsed examples": (_parsed, {"serialized": examples(1000)}),
    "CSV": (
        lambda tf, x: tf.decode_csv(x, [[0], [0.0], [""]])[1],
        {"x": lines(10_000)},
    ),
    "integers of strings": (
        lambda tf, x: tf.string_to_number(x, tf.int64),
        {"x": numerals(10_000)},
    ),
    "number to string": (lambda tf, x: tf.as_string(x), {"x": uniform([10_000])}),
    **{f"strings, {name}": (call, {"x": words(10_000)}) for name, call in _STRINGS.items()},
}


# Each run draws other values, so means are compared.
_DRAWN = frozenset({"gamma values", "Poisson values", "multinomial"})


def _build(call: Callable[..., Any], makers: Mapping[str, Maker]) -> Callable[[Any], None]:
    def build(tf: Any) -> None:
        tf.set_random_seed(7)
        example = {name: make(np.random.default_rng(0)) for name, make in makers.items()}
        places = {
            name: tf.placeholder(
                tf.string if value.dtype == object else tf.as_dtype(value.dtype),
                value.shape,
                name=name,
            )
            for name, value in example.items()
        }
        tf.identity(call(tf, **places), name="result")

    return build


def workloads() -> list[Workload]:
    """One op each, most with a gradient or an input that is computed."""
    return [
        Workload(
            f"op: {name}",
            ["result:0"],
            feeds_of(**makers),
            _build(call, makers),
            rtol=0.05 if name in _DRAWN else 1e-3,
        )
        for name, (call, makers) in _CASES.items()
    ]
