"""Non-max suppression, against the reference, and through a session against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tfjit
from tests.kernels.bounded import bounded_call, check_bounded, is_left_to_the_reference
from tfjit.kernels.registry import Unsupported

tf1 = tf.compat.v1
F, N = np.float32, np.int32


def drawn(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return boxes and scores, with ties, turned corners, boxes without area and odd scores."""
    rng = np.random.default_rng(seed)
    corner = rng.random((count, 2))
    boxes = np.concatenate([corner, corner + rng.random((count, 2)) * 0.4], 1).astype(F)
    scores = np.round(rng.standard_normal(count), 1).astype(F)
    if count > 8:
        boxes[1] = boxes[1][[2, 3, 0, 1]]
        boxes[2, 2] = boxes[2, 0]
        scores[5:9] = 0.0, -0.0, np.nan, 1e-42
    return boxes, scores


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    count=st.sampled_from([0, 1, 2, 9, 40, 150]),
    most=st.sampled_from([0, 1, 7, 60, 1000]),
    limit=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    least=st.sampled_from([-np.inf, 0.0, 0.4, np.inf, np.nan]),
)
def test_equal_reference(seed: int, count: int, most: int, limit: float, least: float) -> None:
    boxes, scores = drawn(seed, count)
    check_bounded("NonMaxSuppression", boxes, scores, N(most), iou_threshold=limit)
    check_bounded("NonMaxSuppressionV2", boxes, scores, N(most), F(limit))
    check_bounded("NonMaxSuppressionV3", boxes, scores, N(most), F(limit), F(least))


@pytest.mark.parametrize(("most", "limit"), [(-1, 0.5), (3, 1.5), (3, -0.1), (3, np.nan)])
def test_values_that_are_an_error_are_left_to_the_reference(most: int, limit: float) -> None:
    inputs = [*drawn(1, 9), np.array(most, N), np.array(limit, F)]
    assert is_left_to_the_reference("NonMaxSuppressionV2", *inputs)


@pytest.mark.parametrize("size", [np.nan, np.inf, -np.inf])
def test_areas_that_are_not_finite_are_left_to_the_reference(size: float) -> None:
    boxes, scores = drawn(1, 9)
    boxes[3, 1] = size
    inputs = [boxes, scores, np.array(9, N), np.array(0.5, F)]
    assert is_left_to_the_reference("NonMaxSuppressionV2", *inputs)
    graph = tf1.Graph()
    with graph.as_default():
        fed = [tf1.placeholder(array.dtype, array.shape) for array in inputs]
        chosen = tf.raw_ops.NonMaxSuppressionV2(
            boxes=fed[0], scores=fed[1], max_output_size=fed[2], iou_threshold=fed[3]
        )
    feeds = dict(zip(fed, inputs, strict=True))
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for _ in range(2):
            np.testing.assert_array_equal(ours.run(chosen, feeds), theirs.run(chosen, feeds))
            assert ours.wait_until_compiled(300)


def test_refused() -> None:
    boxes, scores = drawn(1, 9)
    for inputs in (
        [boxes.astype(np.float16), scores.astype(np.float16), N(1), np.float16(0.5)],
        [boxes[:, :3], scores, N(1), F(0.5)],
        [boxes, scores[:5], N(1), F(0.5)],
        [boxes, scores, N([1]), F(0.5)],
        [boxes, scores, N(1), F([0.5])],
    ):
        with pytest.raises(Unsupported):
            bounded_call("NonMaxSuppressionV2", [np.asarray(value) for value in inputs])


def test_a_session_chooses_as_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    with tf1.Graph().as_default() as graph:
        boxes = tf1.placeholder(tf.float32, [None, 4], name="boxes")
        scores = tf1.placeholder(tf.float32, [None], name="scores")
        limit = tf1.placeholder(tf.float32, [], name="limit")
        chosen = tf.image.non_max_suppression(boxes, scores, 20, limit)
        found = tf.gather(scores, chosen)
    with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
        for count in (60, 9, 33, 60, 150):
            values = drawn(count, count)
            values[0][3:5] = 0.5  # TensorFlow gives a box of NaN the score 0 and looks at it again
            feed = {boxes: values[0], scores: values[1], limit: 0.4}
            for mine, other in zip(
                ours.run([chosen, found], feed), theirs.run([chosen, found], feed), strict=True
            ):
                np.testing.assert_array_equal(mine, other)
            assert ours.wait_until_compiled(300)
        assert not ours.run(chosen, {boxes: values[0][:0], scores: values[1][:0], limit: 0.4}).size
        with pytest.raises(tfjit.errors.InvalidArgumentError, match=r"in \[0, 1\]"):
            ours.run(chosen, {boxes: values[0], scores: values[1], limit: 1.4})
