"""Random trainings of several tables, whose gradients have rows that repeat, beside TensorFlow."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tfjit

tf1 = tensorflow.compat.v1
STEPS = 4
ROWS, WIDTH = 9, 2
OPTIMIZERS = ("Adam", "Adagrad", "Momentum", "RMSProp", "Ftrl", "GradientDescent")
FAULT = r"indices\[\d+\] = -?\d+ is not in|Index -?\d+ at offset \d+"
TABLE = st.tuples(
    st.integers(0, 2),  # the ids
    st.sampled_from(OPTIMIZERS),
    st.booleans(),  # a resource variable
    st.sampled_from(["plain", "masked", "squared", "shared", "summed", "fetched"]),
)


def run(tf: Any, tables: list[tuple[int, str, bool, str]]) -> list[list[Any]]:
    """The losses, fetched rows and final tables."""
    draws = np.random.default_rng(len(tables))
    with tf1.Graph().as_default() as graph:
        feeds = [tf1.placeholder(tf1.int32, [None], name=f"ids{k}") for k in range(3)]
        total, fetched, variables = tf1.constant(0.0), [], []
        for k, (which, optimizer, resource, use) in enumerate(tables):
            start = np.linspace(-1, 1, ROWS * WIDTH).reshape(ROWS, WIDTH).astype("f4")
            table = tf1.get_variable(f"table{k}", initializer=start, use_resource=resource)
            variables.append((table, optimizer))
            ids = feeds[which]
            x = tf1.nn.embedding_lookup(table, ids)
            if use == "masked":
                x = tf1.boolean_mask(x, x[:, 0] > 0.1)
            elif use == "squared":
                x = tf1.square(x)
            elif use == "shared":
                x = tf1.concat([x, tf1.nn.embedding_lookup(table, feeds[0])], 0)
            elif use == "summed":
                segments = tf1.range(tf1.size(ids)) // 2
                x = tf1.sparse_segment_sum(table, ids, segments)
            elif use == "fetched":
                fetched.append(tf1.unique(ids)[0])
            total += tf1.reduce_sum(tf1.tanh(x) * (k + 1.0))
        updates = []
        for table, optimizer in variables:
            options = (0.1, 0.9) if optimizer == "Momentum" else (0.1,)
            made = getattr(tf1.train, f"{optimizer}Optimizer")(*options)
            updates.append(made.minimize(total, var_list=[table]))
        init = tf1.global_variables_initializer()
        with tf.Session(graph=graph) as session:
            session.run(init)
            found = []
            for _ in range(STEPS):
                fed = {feed: draws.integers(0, ROWS, 7, "i4") for feed in feeds}
                found.append(session.run([total, *fetched, tf1.group(*updates)], fed))
                if tf is tfjit:
                    assert session.wait_until_compiled(300)
            return [*found, session.run([table for table, _ in variables])]


@pytest.mark.parametrize(
    ("optimizer", "ids"),
    [
        ("Adam", [3, 1, 12, 3]),
        ("Adagrad", [0, -5, 2, 99]),
        ("Adam", [*range(ROWS), 11, 12]),
        ("Adagrad", [*range(ROWS), 11, 12]),
        ("Adagrad", [1] * 20),
        ("Adam", [np.iinfo("i4").min, 2]),
    ],
)
def test_indices_out_of_range(optimizer: str, ids: list[int]) -> None:
    """The same error as without padding, from compiled code as well."""

    def outcome(tf: Any) -> tuple[str, list[Any]]:
        with tf1.Graph().as_default() as graph:
            table = tf1.get_variable("table", initializer=np.ones([ROWS, WIDTH], "f4"))
            rows = tf1.placeholder(tf1.int32, [None])
            values = tf1.ones([tf1.size(rows), WIDTH])
            made = getattr(tf1.train, f"{optimizer}Optimizer")(0.1)
            train = made.apply_gradients([(tf1.IndexedSlices(values, rows), table)])
            init = tf1.global_variables_initializer()
            with tf.Session(graph=graph) as session:
                session.run(init)
                session.run(train, {rows: np.arange(len(ids)) % ROWS})
                if tf is tfjit:
                    assert session.wait_until_compiled(300)
                try:
                    session.run(train, {rows: ids})
                except tf1.errors.InvalidArgumentError as error:
                    (fault,) = set(re.findall(FAULT, error.message))
                    return fault, []
                return "", session.run(table)

    (error, ours), (expected, theirs) = outcome(tfjit), outcome(tf1)
    assert bool(error) == bool(expected)
    if ids[0] != np.iinfo("i4").min:  # that number becomes the next one
        assert error == expected
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@settings(
    max_examples=4,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),  # to shrink a training takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(TABLE, min_size=1, max_size=3))
def test_random_trainings(tables: list[tuple[int, str, bool, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFJIT_DISABLE", "fuse")  # the kernels of random groups would all be new
        ours = run(tfjit, tables)
    for mine, other in zip(ours, run(tf1, tables), strict=True):
        for a, b in zip(mine, other, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
