"""Section 6, points 9 to 12 and 18 to 20: errors of a step, their class, words and operation."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests import hardware, oracle
from tests.contract.worlds import (
    Call,
    agree,
    both,
    cause,
    ours,
    outcome,
    same,
    shared_world,
    theirs,
    world,
)

tf1 = tf.compat.v1
X = np.ones((2, 3), "f4")


def build(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None, 3], name="x")
    any_shape = api.placeholder(api.float32, name="any_shape")
    n = api.placeholder(api.int32, [], name="n")
    d = api.placeholder(api.int32, [None], name="d")
    p = api.placeholder(api.bool, [], name="p")
    params = api.placeholder(api.float32, [5, 2], name="params")
    queue = api.FIFOQueue(2, [api.float32], shapes=[[]], name="queue")
    off, on = api.raw_ops.Switch(data=x, pred=p, name="switch")
    with api.control_dependencies([api.raw_ops.Assert(condition=p, data=[n], name="assert")]):
        checked = api.identity(x, name="checked")
    unused = api.floordiv(1, n, name="unused")
    with api.control_dependencies([unused]):
        after = api.identity(x, name="after")
    return {
        "x": x,
        "any_shape": any_shape,
        "n": n,
        "d": d,
        "p": p,
        "params": params,
        "ref": api.get_variable("ref", initializer=np.zeros(3, "f4"), use_resource=False),
        "res": api.get_variable("res", initializer=np.zeros(3, "f4"), use_resource=True),
        "summed": api.add(any_shape, x, name="summed"),
        "product": api.matmul(x, any_shape, name="product"),
        "divided": api.floordiv(d, n, name="divided"),
        "remainder": api.raw_ops.FloorMod(x=d, y=n, name="remainder"),
        "deep": api.multiply(
            api.add(api.floordiv(api.multiply(d, 3), n, name="middle"), 1), 2, name="deep"
        ),
        "rows": api.gather(params, d, name="rows"),
        "row": api.gather(params, n, name="row"),
        "scaled_rows": api.tanh(
            api.gather(params * 2.0, d, name="inner") + 1.0, name="scaled_rows"
        ),
        "finite": api.raw_ops.CheckNumerics(
            tensor=x * 2.0, message="not a number here", name="finite"
        ),
        "off": off,
        "on": on,
        "checked": checked,
        "after": after,
        "take": queue.dequeue(name="take"),
        "put": queue.enqueue(1.0, name="put"),
        "close": queue.close(cancel_pending_enqueues=True, name="close"),
        "reshaped": api.reshape(x, d, name="reshaped"),
        "sliced": api.slice(x, [0, 0], d, name="sliced"),
    }


# name of the node at fault and a call; values are given where the runtime sees them first
FAULTS: dict[str, tuple[str, Call]] = {
    "division by zero": ("divided", lambda s, w: s.run(w.divided, {w.d: [1, 2], w.n: 0})),
    "remainder by zero": ("remainder", lambda s, w: s.run(w.remainder, {w.d: [1, 2], w.n: 0})),
    "in the middle of a chain": ("middle", lambda s, w: s.run(w.deep, {w.d: [1, 2], w.n: 0})),
    "shapes that do not fit": (
        "summed",
        lambda s, w: s.run(w.summed, {w.x: X, w.any_shape: np.ones((2, 4))}),
    ),
    "matrices that do not fit": (
        "product",
        lambda s, w: s.run(w.product, {w.x: X, w.any_shape: np.ones((2, 4))}),
    ),
    "an index out of range": (
        "rows",
        lambda s, w: s.run(w.rows, {w.params: np.ones((5, 2)), w.d: [0, 7]}),
    ),
    "a scalar index out of range": (
        "row",
        lambda s, w: s.run(w.row, {w.params: np.ones((5, 2)), w.n: 7}),
    ),
    "an index inside a fused chain": (
        "inner",
        lambda s, w: s.run(w.scaled_rows, {w.params: np.ones((5, 2)), w.d: [-1]}),
    ),
    "not a number": ("finite", lambda s, w: s.run(w.finite, {w.x: [[1, np.nan, 1]]})),
    "an uninitialised reference": ("ref", lambda s, w: s.run("ref:0")),
    "a failed assertion": ("assert", lambda s, w: s.run(w.checked, {w.x: X, w.p: False, w.n: 5})),
    "a missing feed": ("x", lambda s, w: s.run(w.reshaped, {w.d: [6]})),
    "a shape of other size": ("reshaped", lambda s, w: s.run(w.reshaped, {w.x: X, w.d: [4]})),
    "a slice too large": ("sliced", lambda s, w: s.run(w.sliced, {w.x: X, w.d: [3, 3]})),
    "a closed and empty queue": ("take", lambda s, w: [s.run(w.close), s.run(w.take)]),
    "a closed queue to put into": ("put", lambda s, w: [s.run(w.close), s.run(w.put)]),
}


# faults of an index that GPUs answer by zeros instead, as TensorFlow's documentation of Gather says
SILENT_ON_A_GPU = {
    "an index out of range": np.array([[1, 1], [0, 0]], "f4"),
    "a scalar index out of range": np.zeros(2, "f4"),
    "an index inside a fused chain": np.full((1, 2), np.tanh(np.float32(1))),
}


def find_op(w: SimpleNamespace, name: str) -> Any:
    return w.graph.get_operation_by_name(name)


@both
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("jit", ["off", "eager"])
def test_class_words_and_operation(
    front: str, name: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The class and the words are TensorFlow's, `op` and `node_def` are those of the user's node,
    also where it was fused.
    """
    monkeypatch.setenv("TFJIT_JIT", jit)
    node, call = FAULTS[name]
    reference = shared_world("tf", build)
    with theirs(reference) as session:
        kind, expected = outcome(session, reference, call)
        assert kind == "error"
    w = shared_world(front, build)
    on_gpu = hardware.gpu_count() > 0 and jit != "off"
    with ours(w) as session:
        for _ in range(2):
            kind, error = outcome(session, w, call)
            if on_gpu and name in SILENT_ON_A_GPU:
                same(error, SILENT_ON_A_GPU[name])
                continue
            assert kind == "error"
            assert type(error).__name__ == type(expected).__name__
            assert oracle.words(cause(error)) == cause(expected)
            assert error.op is find_op(w, node)
            assert error.node_def.name == node
            assert error.message.startswith("Graph execution error:\n\nDetected at node '")
            assert f"Detected at node '{node}'" in str(error)
            # the value of a GPU is sent to the client, as from another device of TensorFlow
            sent = r"(/_\d+)?" if hardware.gpu_count() and node == "ref" else ""
            assert re.search(rf"\[\[{{{{node {node}{sent}}}}}\]\]", str(error))
            assert error.error_code == expected.error_code
            assert isinstance(error, getattr(tf.errors, type(expected).__name__))
        np.testing.assert_array_equal(session.run(w.x, {w.x: X}), X)


@both
def test_uninitialised_variables(front: str) -> None:
    """Point 10."""
    w = shared_world(front, build)
    with ours(w) as session:
        with pytest.raises(
            tfjit.errors.FailedPreconditionError, match="Attempting to use uninitialized value ref"
        ) as caught:
            session.run(w.ref)
        assert caught.value.op is find_op(w, "ref")
        with pytest.raises(
            tfjit.errors.FailedPreconditionError, match="Could not find variable res"
        ) as caught:
            session.run(w.res)
        assert caught.value.op.graph is w.graph


def misplaced(api: Any) -> dict[str, Any]:
    x = api.placeholder(api.float32, [None, 3], name="x")
    with api.device("/device:GPU:7"):
        return {"x": x, "far": api.identity(x, name="far")}


@both
def test_a_device_that_is_not_there(front: str) -> None:
    """Point 11."""
    w = shared_world(front, misplaced)
    reference = shared_world("tf", misplaced)
    with theirs(reference) as session, pytest.raises(tf.errors.InvalidArgumentError) as expected:
        session.run(reference.far, {reference.x: X})
    with ours(w) as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(w.far, {w.x: X})
    text = (
        "Cannot assign a device for operation far: {{node far}} was explicitly assigned to "
        "/device:GPU:7 but available devices are [ "
    )
    assert text in str(expected.value)
    assert text in str(caught.value)
    assert "Make sure the device specification refers to a valid device" in str(caught.value)
    if not hardware.gpu_count():
        assert "tfjit has no GPU devices: set allow_soft_placement" in str(caught.value)
    else:
        assert "available devices are [ /job:localhost" in str(caught.value)
        assert "device:GPU:0 ]" in str(caught.value)
    assert caught.value.op is find_op(w, "far")


@both
def test_what_only_a_control_edge_asks_for(front: str) -> None:
    """Point 12: a pure op may go, and its failure with it; an assertion stays."""
    w = shared_world(front, build)
    with ours(w) as session:
        try:
            np.testing.assert_array_equal(session.run(w.after, {w.x: X, w.n: 0}), X)
        except tfjit.errors.InvalidArgumentError as error:
            assert "Integer division by zero" in str(error)
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="assertion failed"):
            session.run(w.checked, {w.x: X, w.p: False, w.n: 1})


@both
def test_dead_values(front: str) -> None:
    """Point 19."""
    w = shared_world(front, build)
    for session in (ours(w), *([theirs(w)] if front == "tf" else [])):
        with session:
            np.testing.assert_array_equal(session.run(w.on, {w.x: X, w.p: True}), X)
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="Retval.0. does not have value"
            ):
                session.run(w.off, {w.x: X, w.p: True})
            np.testing.assert_array_equal(session.run(w.off, {w.x: X, w.p: False}), X)


@both
def test_an_error_beside_results(front: str) -> None:
    """The first error wins, and the session works on with other fetches, feeds and ways to run."""
    w = shared_world(front, build)
    feeds = {w.d: [4, 6], w.n: 2}
    with ours(w) as session:
        function = session.make_callable([w.divided, w.deep], [w.d, w.n])
        for _ in range(3):
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match="Integer division by zero"
            ) as caught:
                session.run([w.divided, w.deep], {w.d: [4, 6], w.n: 0})
            assert caught.value.op.name in ("divided", "middle")
            with pytest.raises(
                tfjit.errors.InvalidArgumentError, match="Integer division by zero"
            ) as caught:
                function([4, 6], 0)
            assert caught.value.op.name in ("divided", "middle")
            agree(
                ("value", session.run([w.divided, w.deep], feeds)),
                ("value", [np.array([2, 3], "i4"), np.array([14, 20], "i4")]),
            )
            agree(
                ("value", function([4, 6], 2)),
                ("value", [np.array([2, 3], "i4"), np.array([14, 20], "i4")]),
            )


def inner_faults(api: Any) -> dict[str, Any]:
    n, p, d = (
        tf1.placeholder(tf.int32, [], name="n"),
        tf1.placeholder(tf.bool, [], name="p"),
        tf1.placeholder(tf.int32, [None], name="d"),
    )
    row = tf.expand_dims(tf.cast(d, tf.float32), 0)
    return {
        "n": n,
        "p": p,
        "d": d,
        "loop": tf1.while_loop(
            lambda i, s: i < 5,
            lambda i, s: (i + 1, s + 6 // (n - i)),
            [tf.constant(0), tf.constant(0)],
            name="loop",
        )[1],
        "branch": tf1.cond(p, lambda: 6 // n, lambda: 7 // n, name="branch"),
        "twice": tf.gather(tf.range(3), d, name="one") + tf.gather(tf.range(3), d, name="other"),
        "product": tf.matmul(row, row, name="product"),
    }


INNER: dict[str, tuple[Call, str, set[str]]] = {
    "loop": (lambda s, w: s.run(w.loop, {w.n: 3}), "Integer division by zero", {"loop/floordiv"}),
    "branch": (
        lambda s, w: s.run(w.branch, {w.p: True, w.n: 0}),
        "Integer division by zero",
        {"branch/floordiv"},
    ),
    "equal nodes": (
        lambda s, w: s.run(w.twice, {w.d: [7]}),
        "indices[0] = 7 is not in [0, 3)",
        {"one", "other"},
    ),
    "product": (
        lambda s, w: s.run(w.product, {w.d: [1, 2, 3]}),
        "Matrix size-incompatible: In[0]: [1,3], In[1]: [1,3]",
        {"product"},
    ),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize("jit", ["off", "eager"])
def test_the_operation_in_loops_branches_and_functions(
    version: int, name: str, jit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Point 9: within a function's body, where TensorFlow names no operation, it is the one that
    calls the function.
    """
    monkeypatch.setenv("TFJIT_JIT", jit)
    (tf1.disable_control_flow_v2 if version == 1 else tf1.enable_control_flow_v2)()
    try:
        reference = world("tf", inner_faults)
        w = reference if version == 2 else world("imported", inner_faults)
    finally:
        tf1.enable_control_flow_v2()
    call, text, names = INNER[name]
    with theirs(reference) as session:
        kind, expected = outcome(session, reference, call)
        assert kind == "error"
    with ours(w) as session:
        for _ in range(2):
            kind, error = outcome(session, w, call)
            assert kind == "error"
            assert type(error).__name__ == type(expected).__name__
            assert text in str(expected)
            assert text in str(error)
            assert error.op.graph is w.graph
            assert error.op.name in (
                names if version == 1 or name in ("equal nodes", "product") else {name}
            )
