"""Op seeds against TensorFlow's."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.python.framework import random_seed as theirs

from tests.framework.fresh_graphs import Ours, fresh_graph
from tfjit.framework.graphs import random_seed

CASES = [
    (None, None),
    (None, 42),
    (99, 42),
    (99, None),
    (0, 0),
    (2**31 - 1, 0),
    (2**31, 5),
    (-1, -1),
    (None, 2**40),
    (0, None),
    (7, 0),
]


@pytest.mark.parametrize(("graph_seed", "op_seed"), CASES)
def test_pairs(graph_seed: int | None, op_seed: int | None) -> None:
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(graph_seed)
        expected = [theirs.get_seed(op_seed) for _ in range(3)]
    with fresh_graph(Ours):
        random_seed.set_random_seed(graph_seed)
        assert [random_seed.get_seed(op_seed) for _ in range(3)] == expected


def test_the_rule_of_tensorflow_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_SEED_RULE", "1")
    with fresh_graph(Ours) as graph:
        graph.seed = 5
        Ours.no_op()
        assert random_seed.get_seed(None) == (5, 1)
        Ours.no_op()
        assert random_seed.get_seed(None) == (5, 2)
