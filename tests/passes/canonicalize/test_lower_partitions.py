"""Partitions and stitches at known places: gathers of known sizes, with TensorFlow's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.simulated_gpu import simulated_gpu
from tfjit.passes.canonicalize.lower_partitions import (
    lower_dynamic_partition,
    lower_dynamic_stitch,
)
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

v1 = tf.compat.v1
X = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
DYNAMIC = ("DynamicPartition", "DynamicStitch", "ParallelDynamicStitch")


def build(device: str = "") -> tuple[Any, Any, list[Any]]:
    graph = v1.Graph()
    with graph.as_default(), tf.device(device):
        x = v1.placeholder(tf.float32, X.shape)
        parts = tf.dynamic_partition(x, [1, 0, 3, 1], 4)
        by_pairs = tf.dynamic_partition(x, [[0, 1], [1, 1], [0, 0], [1, 0]], 2)
        # the last source of a row counts; a scalar index
        stitched = tf.dynamic_stitch([[0, 2], [2, 1], 3], [x[:2], x[2:] * 2.0, x[0] - 1.0])
        parallel = tf.raw_ops.ParallelDynamicStitch(indices=[[1], [0]], data=[x[:1], x[1:2]])
        of_stitch = v1.gradients(stitched * stitched, x)
        gradients = v1.gradients([parts[1] * 3.0, by_pairs[0], stitched * stitched], x)
    return graph, x, [*parts, *by_pairs, stitched, parallel, *of_stitch, *gradients]


def test_values_and_gradients() -> None:
    graph, x, fetches = build()
    with v1.Session(graph=graph) as session:
        wanted = session.run(fetches, {x: X})
    with tfjit.Session(graph=graph) as session:
        found = session.run(fetches, {x: X})
        nodes = session.explain(fetches, {x: X.shape}).nodes
    assert not any(node.op.startswith(DYNAMIC) for node in nodes)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_they_are_one_program_of_a_gpu() -> None:
    graph, x, fetches = build("/device:GPU:0")
    fetches = fetches[:-1]
    soft = v1.ConfigProto(allow_soft_placement=True)
    with v1.Session(graph=graph, config=soft) as session:
        wanted = session.run(fetches, {x: X})
    with simulated_gpu(), tfjit.Session(graph=graph) as session:
        for _ in range(2):
            for a, b in zip(session.run(fetches, {x: X}), wanted, strict=True):
                np.testing.assert_allclose(a, b)
            assert session.wait_until_compiled(300)
        nodes = session.explain(fetches, {x: X.shape}).nodes
    (program,) = (node.group for node in nodes if node.op == "_Offload")
    assert "by the host" not in program


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DynamicPartition(x, i, num_partitions=2)", "do not fit"),
        ("DynamicPartition(y, i, num_partitions=3)", "'y' is not known"),
        ("DynamicStitch(i, x, N=1)", "no index names a row"),
        ("DynamicStitch(j, x, N=1)", "negative"),
        ("DynamicStitch(j, j, x, v, N=2)", "indices and data"),
        ("DynamicStitch(i, x, ^v, N=1)", "waits for other"),
    ],
)
def test_what_is_left(text: str, reason: str) -> None:
    graph = parse_graph(
        f"""
        x = Placeholder() -> float32<3,2>
        y = Placeholder() -> float32<3,?>
        v = Placeholder() -> float32<3>
        i = Const(value=int32<3>[0, 2, 2])
        j = Const(value=int32<3>[0, -1, 1])
        z = {text}
        """
    )
    rule = lower_dynamic_partition if "Partition" in text else lower_dynamic_stitch
    with pytest.raises(Declined, match=reason):
        rule(graph, PassContext(), graph.node("z"))
