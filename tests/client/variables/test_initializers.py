"""Initializers: TensorFlow's nodes, and its values for the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit
from tests import hardware
from tests.client.variables.same_graphs import same_graph

tf1 = tensorflow.compat.v1


@pytest.fixture(autouse=True, scope="module")
def tensorflow_one() -> Iterator[None]:
    """TensorFlow as version 1 was: reference variables."""
    tf1.disable_resource_variables()
    yield
    tf1.enable_resource_variables()


INITIALIZERS: dict[str, Callable[[Any], Any]] = {
    "default": lambda tf: None,
    "zeros": lambda tf: tf.zeros_initializer(),
    "zeros class": lambda tf: tf.zeros_initializer,
    "ones": lambda tf: tf.ones_initializer(),
    "constant": lambda tf: tf.constant_initializer(2.5),
    "constant short": lambda tf: tf.constant_initializer([1, 2, 3]),
    "constant array": lambda tf: tf.constant_initializer(np.arange(24.0)),
    "random_uniform": lambda tf: tf.random_uniform_initializer(seed=1),
    "random_uniform -1..1": lambda tf: tf.random_uniform_initializer(-1, 1, seed=1),
    "random_uniform unseeded": lambda tf: tf.random_uniform_initializer(-1, 1),
    "random_normal": lambda tf: tf.random_normal_initializer(1.0, 0.1, seed=2),
    "truncated_normal": lambda tf: tf.truncated_normal_initializer(stddev=0.1, seed=3),
    "truncated_normal unseeded": lambda tf: tf.truncated_normal_initializer(),
    "uniform_unit_scaling": lambda tf: tf.uniform_unit_scaling_initializer(seed=2),
    "glorot_uniform": lambda tf: tf.glorot_uniform_initializer(seed=4),
    "glorot_normal": lambda tf: tf.glorot_normal_initializer(seed=5),
    "variance_scaling": lambda tf: tf.variance_scaling_initializer(seed=6),
    "variance_scaling fan_out": lambda tf: tf.variance_scaling_initializer(
        3.0, "fan_out", "uniform", seed=6
    ),
    "variance_scaling untruncated": lambda tf: tf.variance_scaling_initializer(
        0.5, "fan_avg", "untruncated_normal", seed=6
    ),
    "he_normal": lambda tf: tf.initializers.he_normal(seed=7),
    "he_uniform": lambda tf: tf.initializers.he_uniform(seed=8),
    "lecun_normal": lambda tf: tf.initializers.lecun_normal(seed=9),
    "lecun_uniform": lambda tf: tf.initializers.lecun_uniform(seed=10),
}
SHAPES = ([], [5], [3, 4], [2, 3, 4, 5], [0, 3])


@pytest.mark.parametrize("name", INITIALIZERS)
def test_nodes(name: str) -> None:
    def program(tf: Any) -> Any:
        tf.set_random_seed(12)
        for i, shape in enumerate(SHAPES):
            if name != "constant short" or shape not in ([0, 3], []):
                tf.get_variable(f"v{i}", shape, initializer=INITIALIZERS[name](tf))
        tf.get_variable("double", [3, 4], tf.float64, initializer=INITIALIZERS[name](tf))

    if name == "constant array":  # too many values for a smaller shape are an error

        def program(tf):
            return tf.get_variable("v", [2, 3, 4], initializer=INITIALIZERS[name](tf)).name

    same_graph(program)


def test_values() -> None:
    """All in one session each: the same seeds give the same values, bit for bit; a graph seed
    covers those without one.
    """
    values = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            tf.set_random_seed(77)
            made = []
            for i, (name, make) in enumerate(INITIALIZERS.items()):
                for j, shape in enumerate(
                    SHAPES[1:4] if name not in ("constant array", "constant short") else ([4, 6],)
                ):
                    made.append(tf.get_variable(f"v{i}_{j}", shape, initializer=make(tf)))
                if name not in ("constant array", "constant short"):
                    made.append(tf.get_variable(f"d{i}", [3, 7], tf.float64, initializer=make(tf)))
            init = tf.global_variables_initializer()
            with tf.Session() as session:
                session.run(init)
                values.append(session.run({v.name + (" " + v.op.node_def.op): v for v in made}))
    theirs, ours = values
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key].dtype == value.dtype
        exact = "random" not in key and not hardware.gpu_count()
        np.testing.assert_array_max_ulp(ours[key], value, maxulp=0 if exact else 4)


def test_identity_and_orthogonal_nodes() -> None:
    def program(tf: Any) -> Any:
        tf.get_variable("i", [2, 3], initializer=tf.initializers.identity(gain=2.0))
        tf.get_variable("o", [3, 2], initializer=tf.orthogonal_initializer(seed=1))
        tf.get_variable("wide", [2, 2, 5], initializer=tf.orthogonal_initializer(0.5, seed=1))

    same_graph(program)


def test_a_configuration_makes_the_same_initializer() -> None:
    for name in (
        "random_normal",
        "variance_scaling fan_out",
        "constant",
        "glorot_uniform",
        "he_normal",
        "zeros",
        "uniform_unit_scaling",
    ):
        theirs, ours = (INITIALIZERS[name](tf) for tf in (tf1, tfjit))
        assert ours.get_config() == theirs.get_config(), name
        assert type(ours).from_config(ours.get_config()).get_config() == ours.get_config()


WRONG: dict[str, Callable[[Any], Any]] = {
    "scale": lambda tf: tf.variance_scaling_initializer(scale=0.0),
    "mode": lambda tf: tf.variance_scaling_initializer(mode="fan"),
    "distribution": lambda tf: tf.variance_scaling_initializer(distribution="cauchy"),
    "dtype": lambda tf: tf.random_normal_initializer(dtype=tf.int32),
    "constant": lambda tf: tf.constant_initializer(object()),
    "orthogonal of a vector": lambda tf: tf.orthogonal_initializer()([3]),
    "identity of a vector": lambda tf: tf.initializers.identity()([3]),
    "no default for complex": lambda tf: tf.get_variable("c", [2], tf.complex64),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    errors = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default(), pytest.raises((ValueError, TypeError)) as caught:
            WRONG[name](tf)
        errors.append(caught.value)
    assert type(errors[1]) is type(errors[0])
    assert str(errors[1])[:25] == str(errors[0])[:25]
