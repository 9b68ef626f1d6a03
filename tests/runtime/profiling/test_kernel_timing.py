"""`explain(measure=True)`: what it says of each kernel, and that it changes nothing. How long
anything takes is nobody's business here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit import cli
from tfjit.kernels.executor.roofline import MachineLimits, machine_limits


def dense(trained: bool = False) -> Any:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 40], name="x")
        weights = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
        w = (
            tf.compat.v1.get_variable("w", initializer=weights, use_resource=False)
            if trained
            else tf.constant(weights)
        )
        y = tf.nn.softmax(tf.nn.relu(tf.matmul(x, w)), name="y")
        if trained:
            loss = tf.reduce_mean(tf.square(y - 0.5), name="loss")
            tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
            tf.compat.v1.global_variables_initializer()
    return graph


def test_each_kernel_has_a_time_and_a_limit() -> None:
    with tfjit.Session(graph=dense()) as session:
        plain = session.explain("y:0", {"x:0": (64, 40)})
        found = session.explain("y:0", {"x:0": (64, 40)}, measure=True)
    assert plain.measured is None
    assert all(node.measured_us is None for node in plain.nodes)
    assert found.measured is not None
    assert found.measured.runs >= 5
    assert found.measured.step_us > 0
    served = [node for node in found.nodes if node.serving == "native"]
    assert served
    for node in served:
        assert node.measured_us is not None
        assert node.measured_us > 0
        assert node.predicted_us > 0
        us, what = node.limit_us(found.measured.limits, found.measured.threads)
        assert us > 0
        assert what in ("bytes", "flops")
    assert [node.name for node in found.nodes] == [node.name for node in plain.nodes]
    assert found.peak_bytes == found.arena_bytes + found.output_bytes + found.constant_bytes
    assert found.output_bytes == 64 * 30 * 4
    text = found.details()
    assert "measured over" in text
    assert "a run of the step" in text
    assert "measured over" not in plain.details()


def test_json_has_what_the_text_has() -> None:
    with tfjit.Session(graph=dense()) as session:
        found = json.loads(
            json.dumps(session.explain("y:0", {"x:0": (8, 40)}, measure=True).as_json())
        )
    assert {
        "signature",
        "nodes",
        "reasons",
        "kernel_count",
        "arena_bytes",
        "peak_bytes",
        "measured",
        "passes",
    } <= set(found)
    timed = [node for node in found["nodes"] if node["measured_us"] is not None]
    assert timed
    assert all(node["limit"] in ("bytes", "flops") for node in timed)
    assert found["measured"]["limits"]["fma_gfs"] > 0


def test_variables_are_as_before() -> None:
    """The measured step trains; the variables keep what they had, in the same memory."""
    graph = dense(trained=True)
    x = np.ones((16, 40), np.float32)
    with tfjit.Session(graph=graph) as session:
        session.run("init")
        session.run("train", {"x:0": x})
        before = session.run("w:0")
        found = session.explain(["train", "loss:0"], feed_dict={"x:0": x}, measure=True)
        assert any(node.measured_us for node in found.nodes)
        np.testing.assert_array_equal(session.run("w:0"), before)
        with tf.compat.v1.Session(graph=graph) as theirs:
            theirs.run("init")
            for _ in range(2):
                theirs.run("train", {"x:0": x})
            session.run("train", {"x:0": x})
            np.testing.assert_allclose(session.run("w:0"), theirs.run("w:0"), rtol=1e-5, atol=1e-6)


def test_random_streams_are_as_before() -> None:
    graph = tf.Graph()
    with graph.as_default():
        tf.random.uniform([5], seed=3, name="u")
    with tfjit.Session(graph=graph) as measured, tfjit.Session(graph=graph) as plain:
        name = next(
            op.outputs[0].name for op in graph.get_operations() if op.type == "RandomUniform"
        )
        np.testing.assert_array_equal(measured.run(name), plain.run(name))
        measured.explain(name, measure=True)
        np.testing.assert_array_equal(measured.run(name), plain.run(name))


def test_values_to_measure_with() -> None:
    """Indices that a made-up feed could not know come from feed_dict, which also
    gives the shapes.
    """
    graph = tf.Graph()
    with graph.as_default():
        table = tf.compat.v1.placeholder(tf.float32, [None, 4], name="table")
        rows = tf.compat.v1.placeholder(tf.int32, [None], name="rows")
        tf.gather(table, rows, name="y")
    with tfjit.Session(graph=graph) as session:
        found = session.explain(
            "y:0", measure=True, feed_dict={"table:0": np.ones((9, 4)), "rows:0": [8, 0, 3]}
        )
        assert found.output_bytes == 3 * 4 * 4
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="not in"):
            session.explain(
                "y:0", measure=True, feed_dict={"table:0": np.ones((9, 4)), "rows:0": [9]}
            )


tf1 = tf.compat.v1


def numbers(shape: Any = (3,)) -> Any:
    return tf1.placeholder(tf.float32, shape, name="x")


def a_queue() -> Any:
    return tf1.FIFOQueue(5, [tf.float32], shapes=[[4]])


def grown(x: Any) -> Any:
    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(
        lambda i, _: i < 3,
        lambda i, h: (i + 1, tf.concat([h, h], 0)),
        [0, x],
        shape_invariants=shapes,
    )[1]


def string_in_a_branch() -> Any:
    x = numbers([])
    return tf.cond(x > 5, lambda: tf.strings.length(tf.strings.as_string(x)), lambda: 0)


def string_in_a_loop() -> Any:
    body = lambda i, s: (i + 1, s + tf.strings.length(tf.strings.as_string(i)))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 3, body, [0, 0])[1]


def on_two_devices() -> Any:
    with tf.device("/cpu:0"):
        x = numbers()
    with tf.device("/cpu:1"):
        return tf.tanh(x) + 1


def asserting() -> Any:
    x = numbers()
    with tf.control_dependencies([tf.debugging.Assert(x[0] > 5, [x])]):
        return x + 1


# name -> (makes what is explained, why there are no times or "")
KINDS: dict[str, tuple[Any, str]] = {
    "dynamic shapes": (lambda: tf1.where(numbers() > 0), ""),
    "a growing loop": (lambda: grown(numbers()), ""),
    "behind a queue": (lambda: tf.tanh(a_queue().dequeue_many(2)), ""),
    "a queue alone": (lambda: a_queue().size(), "FIFOQueueV2.*effects"),
    "an enqueue": (
        lambda: a_queue().enqueue(tf.zeros([4])),
        "FIFOQueueV2.*effects",
    ),
    "two partitions": (on_two_devices, ""),
    "strings": (lambda: tf.strings.join([tf1.placeholder(tf.string, [3], name="x")] * 2), ""),
    "strings of numbers": (
        lambda: tf.strings.to_number(tf1.placeholder(tf.string, [3], name="x")),
        "a run with made-up values fails, give those of x:0 in feed_dict: StringToNumberOp",
    ),
    "Python in a branch not taken": (string_in_a_branch, ""),
    "Python in a loop": (string_in_a_loop, ""),
    "an assertion": (asserting, "Assert.*effects"),
    "a variable without value": (
        lambda: tf1.get_variable("v", initializer=[1.0]) * 2,
        "a run fails: .*v",
    ),
    "an initializer": (lambda: tf1.get_variable("v", initializer=[1.0]).initializer, ""),
    "nothing": (lambda: tf.no_op() and [], "there is nothing to compute"),
    "a feed": (numbers, "there is nothing to compute"),
    "a constant": (lambda: tf.constant(3.0), ""),
    "an op without kernel": (
        lambda: tf1.data.make_one_shot_iterator(tf1.data.Dataset.range(3)).get_next(),
        "OneShotIterator.*effects",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_plan_is_explained_with_times_or_why_not(kind: str) -> None:
    make, reason = KINDS[kind]
    graph = tf1.Graph()
    with graph.as_default():
        fetches = make()
    with tfjit.Session(graph=graph, config=tfjit.ConfigProto(device_count={"CPU": 2})) as session:
        found = session.explain(fetches, measure=True)
        plain = session.explain(fetches)
    assert (found.measured is None) == bool(reason)
    assert re.search(reason, found.unmeasured, re.DOTALL) if reason else not found.unmeasured
    assert ("not measured: " in found.details()) == bool(reason)
    assert json.loads(json.dumps(found.as_json()))["unmeasured"] == found.unmeasured
    assert [node.name for node in found.nodes] == [node.name for node in plain.nodes]
    assert not plain.unmeasured
    assert "measured" not in plain.details()


def test_the_command_line_says_why_there_are_no_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        a_queue().size(name="y")
    model = tmp_path / "model.pb"
    model.write_bytes(graph.as_graph_def().SerializeToString())
    assert cli.main(["explain", str(model), "--fetch", "y", "--measure"]) == 0
    assert "has effects that a measurement could not undo" in capsys.readouterr().out
    assert cli.main(["explain", str(model), "--fetch", "y", "--measure", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["measured"] is None
    assert found["unmeasured"].endswith("has effects that a measurement could not undo")


def test_limits() -> None:
    limits = machine_limits()
    assert limits is machine_limits()
    assert limits.fma_gfs > 0
    assert all(rate > 0 for _, rate in limits.copy_gbs)
    assert "GB/s" in str(limits)
    made = MachineLimits(((1 << 20, 100.0), (1 << 25, 50.0), (1 << 62, 10.0)), 100.0)
    assert made.bytes_us(1 << 20) == pytest.approx((1 << 20) / 1e5)
    assert made.bytes_us(1 << 21) == pytest.approx((1 << 21) / 5e4)
    assert made.bytes_us(1 << 21, threads=2) == pytest.approx((1 << 21) / 2e5)
    assert made.bytes_us(1 << 30, threads=2) == pytest.approx((1 << 30) / 1e4)
    assert made.flops_us(10**6, threads=2) == pytest.approx(5.0)
