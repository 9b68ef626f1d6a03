"""Matrix products of integers, complex numbers and narrow floats, compiled, against
TensorFlow's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit

SIZES = [(1, 1, 1), (3, 7, 5), (1, 33, 17), (17, 4, 1), (40, 70, 33), (2, 0, 3)]
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "complex64": 2e-5, "complex128": 1e-12}


def _values(rng: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    tf = pytest.importorskip("tensorflow")
    if dtype.startswith("int"):
        info = np.iinfo(dtype)
        small = rng.integers(-100, 100, shape)
        big = rng.integers(info.min, info.max, shape)  # products that wrap around
        return np.where(rng.random(shape) < 0.9, small, big).astype(dtype)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(tf.as_dtype(dtype).as_numpy_dtype)


def _check(build: Any, feeds: dict[str, np.ndarray], dtype: str, threads: int) -> None:
    tf1 = pytest.importorskip("tensorflow").compat.v1
    graph = tf1.Graph()
    with graph.as_default():
        build(
            tf1, *(tf1.placeholder(dtype, value.shape, name=name) for name, value in feeds.items())
        )
    with tf1.Session(graph=graph) as session:
        wanted = session.run("y:0", {f"{name}:0": value for name, value in feeds.items()})
    config = tfjit.ConfigProto(intra_op_parallelism_threads=threads)
    config.graph_options.optimizer_options.global_jit_level = 1
    with tfjit.Session(graph=graph.as_graph_def().SerializeToString(), config=config) as session:
        found = session.run("y:0", {f"{name}:0": value for name, value in feeds.items()})
        explanation = session.explain(
            "y:0", {f"{name}:0": value.shape for name, value in feeds.items()}
        )
    assert not explanation.reference_nodes
    assert found.dtype == wanted.dtype
    if dtype in TOLERANCES:
        wide = np.complex128 if dtype.startswith("complex") else np.float64
        scale = max(1.0, float(np.abs(wanted.astype(wide)).max(initial=0.0)))
        np.testing.assert_allclose(
            found.astype(wide), wanted.astype(wide), atol=TOLERANCES[dtype] * scale, rtol=0
        )
    else:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "dtype", ["int32", "int64", "float16", "bfloat16", "complex64", "complex128"]
)
def test_products_of_other_types(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for number, (m, k, n) in enumerate(SIZES):
        ta, tb = bool(number & 1), bool(number & 2)
        feeds = {
            "a": _values(rng, [k, m] if ta else [m, k], dtype),
            "b": _values(rng, [n, k] if tb else [k, n], dtype),
        }
        _check(
            lambda tf1, a, b, ta=ta, tb=tb: tf1.matmul(
                a, b, transpose_a=ta, transpose_b=tb, name="y"
            ),
            feeds,
            dtype,
            (1, 2, 8)[number % 3],
        )


@pytest.mark.parametrize("dtype", ["int32", "float16", "complex64"])
def test_batches_of_other_types(dtype: str) -> None:
    rng = np.random.default_rng(6)
    for number, adjoint in enumerate([(False, False), (True, False), (False, True), (True, True)]):
        x = _values(rng, [2, 3, 9, 5] if adjoint[0] else [2, 3, 5, 9], dtype)
        y = _values(rng, [3, 20, 9] if adjoint[1] else [3, 9, 20], dtype)
        _check(
            lambda tf1, a, b, adjoint=adjoint: tf1.raw_ops.BatchMatMulV2(
                x=a, y=b, adj_x=adjoint[0], adj_y=adjoint[1], name="y"
            ),
            {"a": x, "b": y},
            dtype,
            (1, 2, 8, 2)[number],
        )


def test_epilogue_of_a_type_without_tiles() -> None:
    rng = np.random.default_rng(7)
    feeds = {
        name: _values(rng, shape, "float16")
        for name, shape in (("a", [9, 20]), ("b", [20, 33]), ("c", [33]))
    }

    def build(tf1: Any, a: Any, b: Any, c: Any) -> None:
        tf1.nn.relu(tf1.nn.bias_add(tf1.matmul(a, b), c), name="y")

    _check(build, feeds, "float16", 2)
