"""Iterations of a loop that overlap: one that waits lets the next one begin, as far as
`parallel_iterations` goes.
"""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


@pytest.mark.parametrize("disabled", ["", "functionalize"])
@pytest.mark.parametrize("parallel", [1, 10])
def test_an_iteration_that_waits_for_the_next(
    parallel: int, disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each even iteration takes from a queue what the odd one behind it puts there."""
    monkeypatch.setenv("TFJIT_DISABLE", disabled)
    tf1.disable_control_flow_v2()
    graph = tf1.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(10, [tf.int32], shapes=[[]])

        def body(i: Any, taken: Any) -> Any:
            put = tf1.cond(
                tf.equal(i % 2, 0),
                queue.dequeue,
                lambda: tf1.tuple([i], control_inputs=[queue.enqueue(i)])[0],
            )
            return i + 1, taken.write(i, put)

        _, taken = tf1.while_loop(
            lambda i, _: i < 10,
            body,
            [0, tf.TensorArray(tf.int32, size=10)],
            parallel_iterations=parallel,
        )
        total = tf.reduce_sum(taken.stack())
    tf1.enable_control_flow_v2()
    with tfjit.Session(graph=graph) as session:
        for _ in range(2):
            if parallel == 1:
                with pytest.raises(tfjit.errors.DeadlineExceededError):
                    session.run(total, options=tf1.RunOptions(timeout_in_ms=100))
            else:
                assert session.run(total, options=tf1.RunOptions(timeout_in_ms=20_000)) == 50
