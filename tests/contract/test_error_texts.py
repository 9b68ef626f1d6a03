"""Section 2.13: the texts, word by word, for programs that look at them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.contract.worlds import Call, ours, outcome, shared_world, theirs

tf1 = tf.compat.v1


def build(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None, 3], name="x")
    return {
        "x": x,
        "y": api.add(x, 1.0, name="y"),
        "small": api.identity(api.placeholder(api.int8, name="i"), name="small"),
        "v": api.get_variable("v", initializer=1.0, use_resource=False),
    }


TEXTS: dict[str, tuple[Call, type[Exception], str]] = {
    "unknown tensor": (
        lambda s, w: s.run("nope:0"),
        ValueError,
        "Argument `fetch` = nope:0 cannot be interpreted as a Tensor. (\"The name 'nope:0' refers "
        "to a Tensor which does not exist. The "
        "operation, 'nope', does not exist in the graph.\")",
    ),
    "None": (
        lambda s, w: s.run(None),
        TypeError,
        'Argument `fetch` = None has invalid type "NoneType". Cannot be None',
    ),
    "int": (
        lambda s, w: s.run(3),
        TypeError,
        'Argument `fetch` = 3 has invalid type "int" must be a string or Tensor. (Can not convert '
        "a int into a Tensor or Operation.)",
    ),
    "wrong shape": (
        lambda s, w: s.run(w.y, {w.x: np.ones((2, 4))}),
        ValueError,
        "Cannot feed value of shape (2, 4) for Tensor x:0, which has shape (None, 3)",
    ),
    "key that is an operation": (
        lambda s, w: s.run(w.y, {w.x.op: 1}),
        TypeError,
        "Cannot interpret feed_dict key as Tensor: Can not convert a Operation into a Tensor.",
    ),
    "tensor as value": (
        lambda s, w: s.run(w.y, {w.x: w.y}),
        TypeError,
        "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include Python "
        "scalars, strings, lists, numpy "
        'ndarrays, or TensorHandles. For reference, the tensor object was Tensor("y:0", '
        "shape=(None, 3), dtype=float32) which was passed "
        'to the argument `feed_dict` with key Tensor("x:0", shape=(None, 3), dtype=float32).',
    ),
    "int that does not fit": (
        lambda s, w: s.run(w.small, {"i:0": 1000}),
        TypeError,
        "Type of feed value 1000 with type <class 'int'> is not compatible with Tensor type <class "
        "'numpy.int8'>. Try explicitly setting "
        "the type of the feed tensor to a larger type (e.g. int64).",
    ),
    "uninitialised": (
        lambda s, w: s.run("v:0"),
        tf.errors.FailedPreconditionError,
        "Attempting to use uninitialized value v",
    ),
    "not fed": (
        lambda s, w: s.run(w.y),
        tf.errors.InvalidArgumentError,
        "You must feed a value for placeholder tensor 'x' with dtype float and shape [?,3]",
    ),
}


@pytest.mark.parametrize("front", ["tfjit", "tf", "oracle"])
@pytest.mark.parametrize("name", TEXTS)
def test_texts(front: str, name: str) -> None:
    call, kind, text = TEXTS[name]
    w = shared_world("tf" if front == "oracle" else front, build)
    with (theirs if front == "oracle" else ours)(w) as session:
        failed, error = outcome(session, w, call)
    assert failed == "error"
    assert isinstance(error, kind)
    assert text in str(error)
    if not isinstance(error, tf.errors.OpError):
        assert str(error) == text
