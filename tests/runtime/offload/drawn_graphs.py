"""Draw graphs for a GPU, and run them with commands in other orders."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import tfjit as tf
from tests.simulated_gpu import simulated_gpu

Order = int | Literal["late"] | None


def drawn_graph(seed: int, device: str) -> tuple[tf.Graph, list[Any], list[Any], Any]:
    """Return a drawn graph, its two placeholders, fetches and initializer.

    Values branch and meet again; variables are read before, between and behind their updates.
    """
    rng = np.random.default_rng(seed)
    with tf.Graph().as_default() as graph:
        feeds = [tf.placeholder(tf.float32, [4, 4], name=name) for name in ("a", "b")]
        with tf.device(device):
            variables = [
                tf.get_variable(
                    f"v{k}",
                    initializer=rng.normal(size=(4, 4)).astype(np.float32),
                    use_resource=True,
                )
                for k in range(2)
            ]
            values: list[Any] = [*feeds, tf.random_uniform([4, 4], seed=seed)]
            updates: list[Any] = []
            for _ in range(12):
                x, y = (values[k] for k in rng.integers(0, len(values), 2))
                kind = rng.integers(0, 7)
                before = [*updates, *(v.op for v in values)] if kind == 6 else updates[-1:]
                with tf.control_dependencies(before):
                    if kind == 0:
                        made = tf.matmul(x, y) * 0.25
                    elif kind == 1:
                        made = tf.transpose(x) - y
                    elif kind == 2:
                        made = tf.concat([x[:, 2:], tf.tanh(y[:, :2])], 1)
                    elif kind == 3:
                        made = tf.reverse(x, [0]) + tf.reduce_sum(y, 1, keepdims=True) * 0.1
                    elif kind == 4:
                        made = tf.nn.softmax(x)
                    else:
                        variable = variables[rng.integers(0, 2)]
                        if kind == 5:
                            made = variable + 0.5 * x
                        else:
                            updates.append(tf.assign_add(variable, 0.1 * tf.tanh(x)))
                            continue
                values.append(made)
            fetches = [*values[-3:], *updates]
            with tf.control_dependencies([value.op for value in fetches]):
                fetches += [tf.identity(variable) + 0.0 for variable in variables]
        init = tf.global_variables_initializer()
    return graph, feeds, fetches, init


def values_of(seed: int, device: str, order: Order) -> list[list[np.ndarray]]:
    """Return the fetched values of two runs."""
    rng = np.random.default_rng(seed)
    with simulated_gpu(order):
        graph, feeds, fetches, init = drawn_graph(seed, device)
        with tf.Session(graph=graph) as session:
            session.run(init)
            found = []
            for _ in range(2):
                given = {x: rng.normal(size=(4, 4)).astype(np.float32) for x in feeds}
                found.append(session.run(fetches, given))
    return found
