"""Accumulators of gradients beside TensorFlow's, which dies of a vector for a step and of another
dtype: those are left out.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.array_programs import R, hidden, tf1
from tests.waiting import is_blocked, wait_until

WAIT = tf1.RunOptions(timeout_in_ms=60)


def told(session: Any, ops: dict[str, Any], word: str) -> Any:
    """Run an operation; return its values or error. A take that has to wait does so for a while.

    Nothing else has a time limit, which a busy machine would pass before the step begins.
    """
    takes = re.fullmatch(r"t(\d+)", word)
    waits = takes is not None and session.run(ops["n"]) < int(takes[1])
    try:
        result = session.run(ops[word], options=WAIT if waits else None)
    except tf.errors.OpError as error:
        lines = str(error.message).splitlines()
        at = next((i + 1 for i, line in enumerate(lines) if line.startswith("Node:")), 0)
        return type(error).__name__, lines[at]
    return [
        (np.asarray(x).dtype.name, np.asarray(x).tolist())
        for x in tf.nest.flatten(result)
        if x is not None
    ]


def dense(kind: str, mean: bool, shape: Any, dtype: Any = tf.float32) -> dict[str, Any]:
    prefix = "Resource" if kind == "resource" else ""
    made = getattr(R, f"{prefix}ConditionalAccumulator")(
        dtype=dtype, shape=shape, reduction_type="MEAN" if mean else "SUM"
    )
    apply, take = (
        getattr(R, f"{prefix}AccumulatorApplyGradient"),
        getattr(R, f"{prefix}AccumulatorTakeGradient"),
    )
    step = getattr(R, f"{prefix}AccumulatorSetGlobalStep")

    def gradient(value: Any, local_step: int) -> Any:
        return apply(
            handle=made,
            local_step=hidden(np.int64(local_step)),
            gradient=hidden(np.array(value, dtype.as_numpy_dtype)),
        )

    return {
        "a0": gradient([1, 2], 0),
        "b0": gradient([3, 5], 0),
        "a1": gradient([1, 1], 1),
        "a9": gradient([7, 7], 9),
        "long": gradient([1, 2, 3], 0),
        "scalar": gradient(1, 0),
        "n": getattr(R, f"{prefix}AccumulatorNumAccumulated")(handle=made),
        "s1": step(handle=made, new_global_step=hidden(np.int64(1))),
        "s5": step(handle=made, new_global_step=hidden(np.int64(5))),
        **{
            f"t{n}": take(handle=made, num_required=hidden(np.int32(n)), dtype=dtype)
            for n in (-1, 0, 1, 2)
        },
    }


def sparse(kind: str, mean: bool, shape: Any, dtype: Any = tf.float32) -> dict[str, Any]:
    made = R.SparseConditionalAccumulator(
        dtype=dtype, shape=shape, reduction_type="MEAN" if mean else "SUM"
    )

    def gradient(indices: Any, values: Any, of: Any = (4, 2), local_step: int = 50) -> Any:
        return R.SparseAccumulatorApplyGradient(
            handle=made,
            local_step=hidden(np.int64(local_step)),
            gradient_indices=hidden(np.array(indices, np.int64)),
            gradient_values=hidden(np.array(values, dtype.as_numpy_dtype)),
            gradient_shape=hidden(np.array(of or (), np.int64)),
            has_known_shape=of is not None,
        )

    return {
        "a": gradient([0, 2], [[1, 2], [3, 4]]),
        "b": gradient([2, 3], [[10, 20], [30, 40]]),
        "c": gradient([1], [[5, 5]], (5, 2)),
        "unknown": gradient([1], [[5, 5]], None),
        "old": gradient([0], [[1, 1]], local_step=0),
        "wide": gradient([1], [[5, 5, 5]], (5, 3)),
        "few": gradient([1, 2], [[5, 5]]),
        "matrix": gradient([[1]], [[5, 5]]),
        "scalar": gradient([1], 5),
        "empty": gradient([], np.zeros((0, 2))),
        "behind": gradient([9, -1], [[5, 5], [6, 6]]),
        "unsorted": gradient([3, 0], [[1, 1], [2, 2]]),
        "twice": gradient([1, 1], [[1, 1], [2, 2]]),
        "vector": gradient([1], [[5, 5]], (4,)),
        "cube": gradient([1], np.ones((1, 2, 2)), (4, 2, 2)),
        "n": R.AccumulatorNumAccumulated(handle=made),
        "s5": R.AccumulatorSetGlobalStep(handle=made, new_global_step=hidden(np.int64(5))),
        **{
            f"t{n}": R.SparseAccumulatorTakeGradient(
                handle=made, num_required=hidden(np.int32(n)), dtype=dtype
            )
            for n in (0, 1, 2)
        },
    }


SCRIPTS: dict[str, tuple[Callable[..., dict[str, Any]], Any, str]] = {
    "dense": (
        dense,
        [2],
        "n long scalar n a0 n long scalar b0 n t1 n a0 n a1 n a1 t2 a9 n t1 s5 a1 n a9 n t1 s1 a1 "
        "n t0 t-1 n",
    ),
    "dense of any shape": (dense, None, "a0 long b0 t1 s1 long n a1"),
    "dense of a partial shape": (dense, [None], "a0 long n t1 a1 scalar t1"),
    "waiting": (dense, [2], "a0 t2 a0 n t2 n"),
    "sparse": (
        sparse,
        [None, 2],
        "n a n b n t1 n a b c t2 old n a a a t1 empty n t1 empty a t1 unknown b t1 s5 a n old n t0",
    ),
    "sparse that does not fit": (
        sparse,
        [None, 2],
        "wide few matrix scalar vector cube n a wide few cube n t1",
    ),
    "sparse out of order": (
        sparse,
        [None, 2],
        "behind unsorted t1 unsorted a t1 twice t1 twice a b t1 a twice t1",
    ),
    "sparse of any shape": (
        sparse,
        None,
        "a b t1 unknown unknown t1 a c t1 cube t1 a unknown t1 unknown a t1",
    ),
    "sparse of a full shape": (sparse, [4, 2], "a c b t1 unknown t1"),
}


@pytest.mark.parametrize("mean", [True, False], ids=["mean", "sum"])
@pytest.mark.parametrize("name", SCRIPTS, ids=[name.replace(" ", "_") for name in SCRIPTS])
def test_a_script(name: str, mean: bool) -> None:
    make, shape, script = SCRIPTS[name]
    for kind in ("ref", "resource") if make is dense else ("ref",):
        with tf1.Graph().as_default() as graph:
            ops = make(kind, mean, shape)
        with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
            for step, word in enumerate(script.split()):
                assert told(ours, ops, word) == told(theirs, ops, word), (kind, step, word)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64])
def test_other_dtypes(dtype: Any) -> None:
    for make, script in ((dense, "a0 b0 b0 t1"), (sparse, "a b b t1")):
        with tf1.Graph().as_default() as graph:
            ops = make("ref", True, [2] if make is dense else [4, 2], dtype)
        with tf1.Session(graph=graph) as theirs, tfjit.Session(graph=graph) as ours:
            assert [told(ours, ops, word) for word in script.split()] == [
                told(theirs, ops, word) for word in script.split()
            ]


def test_a_take_waits_without_a_thread_and_ends_with_the_session() -> None:
    with tf1.Graph().as_default() as graph:
        ops = dense("ref", False, [2])
    session = tfjit.Session(graph=graph)
    results: list[Any] = []

    def take() -> None:
        try:
            results.append(session.run(ops["t2"]).tolist())
        except tfjit.errors.CancelledError as error:
            results.append(error)

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    session.run(ops["a9"])
    session.run(ops["a9"])
    wait_until(lambda: results)
    assert results == [[14, 14]]
    wait_until(lambda: sum(thread.is_alive() for thread in threads) == 1)
    assert any(is_blocked(thread) for thread in threads)
    session.close()
    for thread in threads:
        thread.join(60)
    assert isinstance(results[1], tfjit.errors.CancelledError)


def test_what_tensorflow_dies_of_is_an_error() -> None:
    with tf1.Graph().as_default() as graph:
        made = R.ConditionalAccumulator(dtype=tf.float32, shape=[2])
        steps = hidden(np.array([0, 1], np.int64))
        vector = R.AccumulatorApplyGradient(handle=made, local_step=steps, gradient=tf.zeros([2]))
        other = R.AccumulatorApplyGradient(
            handle=made, local_step=hidden(np.int64(0)), gradient=tf.zeros([2], tf.float64)
        )
        many = R.AccumulatorTakeGradient(
            handle=made, num_required=hidden(np.ones(2, np.int32)), dtype=tf.float32
        )
        taken = R.AccumulatorTakeGradient(handle=made, num_required=1, dtype=tf.float64)
    with tfjit.Session(graph=graph) as session:
        shape = r"scalar, but had bad shape \[2\]"
        for op, text in (
            (vector, shape),
            (many, shape),
            (other, "is double, but"),
            (taken, "is double, but"),
        ):
            with pytest.raises(tfjit.errors.InvalidArgumentError, match=text):
                session.run(op)
