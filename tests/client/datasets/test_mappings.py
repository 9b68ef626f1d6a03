"""Transformations that call functions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.datasets.pipelines import check_pipelines

Dataset = tfjit.data.Dataset


def fours(tf: Any, x: Any) -> Any:
    return tf.data.Dataset.from_tensors(x).repeat(4)


def test_elements_are_tensorflows() -> None:
    check_pipelines(
        {
            "map of tuples": lambda tf: tf.data.Dataset.from_tensor_slices(
                (np.arange(6.0), np.arange(6))
            ).map(lambda x, y: (x * 2, {"k": y + 1})),
            "map of dictionaries": lambda tf: tf.data.Dataset.from_tensor_slices(
                {"a": np.arange(4)}
            ).map(lambda row: row["a"] + 1),
            "a list of results": lambda tf: tf.data.Dataset.range(3).map(lambda x: [x, x + 1]),
            "parallel": lambda tf: tf.data.Dataset.range(9).map(lambda x: x * x, 3),
            "autotuned": lambda tf: tf.data.Dataset.range(9).map(
                lambda x: x * x, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
            ),
            "condition": lambda tf: tf.data.Dataset.range(5).map(
                lambda x: tf.cond(x > 2, lambda: x, lambda: -x)
            ),
            "captured": lambda tf: (lambda k: tf.data.Dataset.range(3).map(lambda x: x + k))(
                tf.constant(5, tf.int64)
            ),
            "variable": lambda tf: (lambda v: tf.data.Dataset.range(3).map(lambda x: x + v))(
                tf.get_variable("v", initializer=np.int64(3), use_resource=True)
            ),
            "random": lambda tf: tf.data.Dataset.range(3).map(
                lambda x: tf.random_uniform([2], seed=4)
            ),
            "lines": lambda tf: tf.data.Dataset.from_tensor_slices(["a,1", "b,2"]).map(
                lambda line: tf.decode_csv(line, [[""], [0]])
            ),
            "filter": lambda tf: tf.data.Dataset.range(9).filter(lambda x: tf.equal(x % 3, 0)),
            "take_while": lambda tf: tf.data.Dataset.range(9).take_while(lambda x: x < 4),
            "flat_map": lambda tf: tf.data.Dataset.range(4).flat_map(
                lambda x: tf.data.Dataset.range(x).map(lambda y: y + 10 * x)
            ),
            "interleave": lambda tf: tf.data.Dataset.range(4).interleave(
                lambda x: fours(tf, x), cycle_length=2, block_length=2
            ),
            "parallel interleave": lambda tf: tf.data.Dataset.range(4).interleave(
                lambda x: fours(tf, x), cycle_length=2, block_length=3, num_parallel_calls=2
            ),
            "scan": lambda tf: tf.data.Dataset.range(6).scan(
                np.int64(1), lambda state, x: (state + x, (state, x))
            ),
            "reduce": lambda tf: tf.data.Dataset.from_tensors(
                tf.data.Dataset.range(6).reduce(
                    (np.int64(0), 1.0), lambda state, x: (state[0] + x, state[1] * 2)
                )
            ),
            "a state that grows": lambda tf: tf.data.Dataset.from_tensors(
                tf.data.Dataset.range(3).reduce(
                    tf.constant([], tf.int64), lambda state, x: tf.concat([state, [x]], 0)
                )
            ),
        }
    )


def test_faulty_functions() -> None:
    with tfjit.Graph().as_default():
        numbers = Dataset.range(3)
        with pytest.raises(TypeError, match=r"Unsupported return value.*Dataset\.map"):
            numbers.map(lambda x: None)
        with pytest.raises(TypeError, match="needs a function"):
            numbers.map(3)
        with pytest.raises(ValueError, match="scalar bool"):
            numbers.filter(lambda x: x)
        with pytest.raises(TypeError, match="must return a `Dataset`"):
            numbers.flat_map(lambda x: x)
        with pytest.raises(TypeError, match="must return a `Dataset`"):
            numbers.interleave(lambda x: x)
        with pytest.raises(TypeError, match="tuple of 2"):
            numbers.scan(0, lambda state, x: state)
        with pytest.raises(TypeError, match="state"):
            numbers.reduce(0, lambda state, x: 1.5)
        with pytest.raises(ValueError, match="synchronous"):
            numbers.map(lambda x: x, 2, synchronous=True)
        with pytest.raises(TypeError, match="must return a `tf.data.Dataset`"):
            numbers.apply(lambda dataset: 3)
