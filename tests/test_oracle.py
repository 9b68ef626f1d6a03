"""What TensorFlow's two modes answer differently is known, and tfjit's answer is one of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import oracle
from tests.kernels.kernel_cases import Case, build_node
from tests.oracle import DIFFERENCES, Answer, Difference, Failure


def agree(found: Answer, known: Sequence[np.ndarray | None] | Failure) -> None:
    """Assert that an answer is the one in the table."""
    if isinstance(known, Failure) or isinstance(found, Failure):
        assert isinstance(known, Failure) and isinstance(found, Failure), (found, known)
        assert found.kind == known.kind and found.words.startswith(known.words)
        return
    for value, wanted in zip(found, known, strict=True):
        if wanted is not None:
            assert value.shape == wanted.shape
            np.testing.assert_allclose(value, wanted, rtol=1e-6)


def build(graph: tf.Graph, difference: Difference) -> tuple[list[Any], Any]:
    """Add the node, behind its forward node if it has one. Returns its placeholders and the
    operation.
    """
    inputs, attrs = list(difference.inputs), dict(difference.attrs)
    if not difference.forward:
        return build_node(graph, Case(difference.op, inputs, attrs))
    with graph.as_default():
        feeds = [tf.compat.v1.placeholder(value.dtype, value.shape) for value in inputs]
        forward = getattr(tf.raw_ops, difference.forward)(input=feeds[0], **attrs)
        gradient = getattr(tf.raw_ops, difference.op)(
            orig_input=feeds[0], orig_output=forward, grad=feeds[1], **attrs
        )
    return feeds, gradient.op


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.op)
def test_both_modes_and_ours(difference: Difference) -> None:
    graph = tf.Graph()
    feeds, node = build(graph, difference)
    given = dict(zip([feed.name for feed in feeds], difference.inputs, strict=True))
    fetches, graph_def = (
        [output.name for output in node.outputs],
        graph.as_graph_def().SerializeToString(),
    )
    answers = {which: oracle.ask(which, graph_def, fetches, given) for which in ("oneDNN", "plain")}
    agree(answers["oneDNN"], difference.onednn)
    agree(answers["plain"], difference.plain)
    try:
        with tfjit.Session(graph=graph_def) as session:
            ours: Answer = session.run(fetches, given)
    except tfjit.errors.OpError as error:
        ours = Failure(type(error).__name__, oracle.cause(error.message))
    agree(ours, difference.answer(difference.ours))
    assert difference.reason


def test_the_mode_is_set() -> None:
    from tensorflow.python.framework import test_util

    assert test_util.IsMklEnabled() == (oracle.mode() == "oneDNN")
