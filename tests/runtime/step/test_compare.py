"""TFJIT_COMPARE: each compiled kernel beside its reference, wrong ones named, right ones counted."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tfjit.kernels.codegen import expressions
from tfjit.runtime.step.compare import first_difference

tf1 = tf.compat.v1
X = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4)
MODES = pytest.mark.parametrize("disabled", ["", "straight_line"], ids=["step", "dataflow"])


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, disabled: str) -> None:
    monkeypatch.setenv("TFJIT_COMPARE", "1")
    monkeypatch.setenv("TFJIT_JIT", "eager")
    monkeypatch.setenv("TFJIT_DISABLE", disabled)


@pytest.fixture
def wrong_sine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels with a sine give results that are too large by 1."""
    right = expressions.emit_program

    def emit(s: Any, program: Any, *args: Any, **kw: Any) -> list[str]:
        results = list(right(s, program, *args, **kw))
        return (
            [f"({results[0]} + 1)", *results[1:]]
            if any(op.op == "Sin" for op in program.ops)
            else results
        )

    monkeypatch.setattr(expressions, "emit_program", emit)


def number() -> Any:
    return tf1.placeholder(tf.float32, [None, 4], name="x")


def plain() -> Any:
    return tf.matmul(tf.sin(number(), name="wrong"), tf.eye(4) * 2.0) + 1.0


def loop() -> Any:
    body = lambda i, h: (i + 1, tf.matmul(tf.sin(h, name="wrong"), tf.eye(4)))  # noqa: E731
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    return tf.while_loop(lambda i, _: i < 3, body, [0, number()], shape_invariants=shapes)[1]


def branch() -> Any:
    x = number()
    return tf.cond(x[0, 0] < 0, lambda: tf.matmul(tf.sin(x, name="wrong"), tf.eye(4)), lambda: x)


def right() -> Any:
    """What reads and writes variables, draws numbers, loops and branches."""
    x = number()
    v = tf1.get_variable("v", initializer=tf.ones([4, 4]) * 0.1)
    w = tf1.get_variable("w", initializer=tf.ones([4]), use_resource=False)
    h = tf.nn.softmax(tf.tanh(tf.matmul(x, v) + w))
    h = tf.while_loop(
        lambda i, _: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, v)) + 1), [0, h]
    )[1]
    h = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.exp(-h) + 1), [0, h])[1]
    h = tf.cond(x[0, 0] > 0, lambda: tf.tanh(h) * 2, lambda: tf.exp(h))
    loss = tf.reduce_mean(tf.square(h)) + tf.reduce_sum(tf.random.uniform([3], seed=3))
    count = tf1.get_variable("count", initializer=np.int64(0), use_resource=False)
    copied = tf1.get_variable("copied", initializer=tf.zeros([4, 4]), use_resource=False)
    updates = [
        tf1.assign_add(w, [1.0, 1, 1, 1]).op,
        tf1.assign_add(count, 1).op,
        tf1.assign(copied, tf.tanh(v) * 2).op,
    ]
    return [loss, h, tf1.train.AdamOptimizer(0.1).minimize(loss), *updates]


def built(make: Callable[[], Any]) -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default():
        tf1.set_random_seed(1)
        fetches = make()
        tf.group(tf1.global_variables_initializer(), name="init")
        return graph, fetches


@MODES
@pytest.mark.parametrize(
    ("make", "node"),
    [(plain, "wrong"), (loop, "while/body/wrong"), (branch, "cond/then_branch/wrong")],
)
def test_a_wrong_kernel_is_named(
    compare: None,
    wrong_sine: None,
    caplog: pytest.LogCaptureFixture,
    make: Any,
    node: str,
) -> None:
    graph, y = built(make)
    with tf1.Session(graph=graph) as theirs:
        expected = theirs.run(y, {"x:0": X})
    with caplog.at_level(logging.WARNING, "tfjit.compare"), tfjit.Session(graph=graph) as session:
        for _ in range(3):  # the reference's values go on, so nothing else differs
            np.testing.assert_allclose(session.run(y, {"x:0": X}), expected, rtol=1e-5, atol=1e-6)
            assert session.wait_until_compiled(300)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 1, texts
    head, first, count, kernel = texts[0].splitlines()
    assert head.startswith(f"TFJIT_COMPARE: {node} (Sin): the compiled value differs"), texts
    assert first.startswith("  output 0: first at index [0, 0]: compiled 0."), texts
    assert count.startswith("  12 of 12 elements differ, by at most 1 (")
    assert kernel == "  kernel: loop sin float32, kernels/cpu/elementwise/loop_text.py"


@pytest.mark.parametrize("disabled", ["", "straight_line"], ids=["step", "dataflow"])
def test_the_report_names_the_dumped_kernel(
    compare: None,
    wrong_sine: None,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TFJIT_DUMP", str(tmp_path))
    graph, y = built(plain)
    with caplog.at_level(logging.WARNING, "tfjit.compare"), tfjit.Session(graph=graph) as session:
        for _ in range(3):  # the dataflow executor compiles a node for shapes that come again
            session.run(y, {"x:0": X})
    found = re.search(r"\n  text: (.*)", caplog.text)
    assert found is not None, caplog.text
    lines = Path(found[1]).read_text(encoding="utf-8").splitlines()
    assert lines[1] == "# written by kernels/cpu/elementwise/loop_text.py"
    assert lines[2:4] == ["# serves:", "#   wrong (Sin)"]


@MODES
def test_right_kernels_are_counted_once_and_change_the_same(
    compare: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    disabled: str,
) -> None:
    graph, fetches = built(right)
    found = []
    with caplog.at_level(logging.WARNING, "tfjit.compare"):
        for compares in ("1", "0"):
            monkeypatch.setenv("TFJIT_COMPARE", compares)
            with tfjit.Session(graph=graph) as session:
                session.run("init")
                values = [session.run(fetches, {"x:0": X})[:2] for _ in range(3)]
                found.append([*values, session.run(["v:0", "w:0", "count:0", "copied:0"])])
    for step, other in zip(*found, strict=True):
        for a, b in zip(step, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    texts = [record.getMessage() for record in caplog.records]
    # a line for each plan, those of bodies too; the dataflow executor's nodes have none
    assert len(texts) == len(set(texts)) and bool(texts) != bool(disabled), texts
    assert all(re.search(r": compared \d+ calls?: no difference$", text) for text in texts), texts


@pytest.mark.parametrize("disabled", [""])
def test_compared_nodes_are_explained_and_compiled(compare: None) -> None:
    graph, y = built(plain)
    with tfjit.Session(graph=graph) as session:
        served = {node.serving for node in session.explain(y, {"x:0": (3, 4)}).nodes}
    assert "compared" in served
    assert "native" not in served


@pytest.mark.parametrize("disabled", [""])
def test_errors_are_compared(
    compare: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A division by zero that both report is the run's error; one that the compiled code misses is
    said too.
    """
    graph, y = built(
        lambda: tf.math.floordiv(
            tf1.placeholder(tf.int32, [3], name="x"), [1, 0, 2], name="quotient"
        )
    )

    def fail() -> None:
        with (
            tfjit.Session(graph=graph) as session,
            pytest.raises(tfjit.errors.InvalidArgumentError, match=r"(?i)division by zero"),
        ):
            session.run(y, {"x:0": [1, 2, 3]})

    with caplog.at_level(logging.WARNING, "tfjit.compare"):
        fail()
        assert not caplog.records, caplog.text
        monkeypatch.setattr(
            expressions,
            "emit_program",
            lambda s, program, *args, **kw: ["7" for _ in program.outputs],
        )
        fail()
    assert "quotient" in caplog.text
    assert "(FloorDiv): the errors differ" in caplog.text
    assert "the reference raises InvalidArgumentError" in caplog.text
    assert "compiled code raises nothing" in caplog.text


def test_arrays_are_compared_by_dtype_and_terms() -> None:
    one = np.asarray([1.0, 2.0], "f4")
    assert first_difference(one, one, 0) is None
    assert first_difference(np.nextafter(one, 9, dtype="f4"), one, 2) is None
    found = first_difference(one + np.asarray([0, 1e-3], "f4"), one, 8)
    assert found is not None
    assert (found.index, found.count, found.size) == ((1,), 1, 2)
    assert found.largest == pytest.approx(1e-3, rel=1e-3)
    assert first_difference(one + np.asarray([0, 1e-3], "f4"), one, 1e5) is None
    nan = np.asarray([np.nan, np.inf], "f4")
    assert first_difference(nan, nan, 0) is None
    for other in ([np.nan, -np.inf], [1.0, np.inf], [np.nan, 1.0]):
        assert first_difference(np.asarray(other, "f4"), nan, 1e9) is not None
    half = np.asarray([1.0], ml_dtypes.bfloat16)
    assert first_difference(np.asarray([1.0078125], ml_dtypes.bfloat16), half, 2) is None
    assert first_difference(np.asarray([1.5], ml_dtypes.bfloat16), half, 2) is not None
    found = first_difference(np.asarray([[3, 4]]), np.asarray([[3, 9]]), 100)
    assert found is not None
    assert (found.index, found.compiled, found.reference, found.largest) == ((0, 1), 4, 9, 5)
    assert first_difference(np.asarray([1 + 1j]), np.asarray([1 + 1j]), 1) is None
    assert first_difference(np.asarray([b"a"], object), np.asarray([b"b"], object), 1) is not None
    other = first_difference(one, one[:1], 1)
    assert other is not None and other.lines() == ["compiled float32[2], reference float32[1]"]
    assert first_difference(np.zeros((0, 3), "f4"), np.zeros((0, 3), "f4"), 1) is None
