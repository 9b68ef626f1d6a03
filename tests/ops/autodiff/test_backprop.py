"""What `tfjit.gradients` takes and refuses: variables, stops, unconnected tensors, custom
gradients, errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def fresh_graph() -> Any:
    with tfjit.Graph().as_default():
        yield


def run(fetches: Any, feeds: Any = None) -> Any:
    with tfjit.Session() as session:
        session.run(tfjit.global_variables_initializer())
        return session.run(fetches, feeds)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_variables(resource: bool) -> None:
    v = tfjit.get_variable("v", initializer=np.array([1.0, 2.0], "f4"), use_resource=resource)
    table = tfjit.get_variable("t", initializer=np.ones((3, 2), "f4"), use_resource=resource)
    rows = tfjit.gather(table, [2, 2])
    loss = tfjit.reduce_sum(v * v * 3.0) + tfjit.reduce_sum(rows * v)
    for_v, for_table = tfjit.gradients(loss, [v, table])
    assert isinstance(for_table, tfjit.IndexedSlices)
    assert for_table.shape.as_list() == [3, 2]
    got = run([for_v, for_table, tfjit.convert_to_tensor(for_table)])
    np.testing.assert_allclose(got[0], [8.0, 14.0])
    np.testing.assert_allclose(got[1].values, [[1, 2], [1, 2]])
    np.testing.assert_array_equal(got[1].indices, [2, 2])
    np.testing.assert_allclose(got[2], [[0, 0], [0, 0], [2, 4]])


def test_unconnected_and_stopped() -> None:
    x, y = tfjit.placeholder(tfjit.float32, [2], "x"), tfjit.placeholder(tfjit.float32, [2], "y")
    middle = x * x
    z = middle * y
    assert tfjit.gradients(x * 2.0, y) == [None]
    (zeros,) = tfjit.gradients(x * 2.0, y, unconnected_gradients="zero")
    for_x, for_middle = tfjit.gradients(z, [x, middle], stop_gradients=[middle])
    assert for_x is None
    (weighted,) = tfjit.gradients(z, x, grad_ys=[tfjit.constant([1.0, 10.0])])
    (of_itself,) = tfjit.gradients(x, x)
    got = run([zeros, for_middle, weighted, of_itself], {x: [1, 2], y: [3, 4]})
    np.testing.assert_allclose(got, [[0, 0], [3, 4], [6, 160], [1, 1]])


def test_several_ys_and_names() -> None:
    x = tfjit.placeholder(tfjit.float32, [], "x")
    y = tfjit.tanh(x, name="y")
    (found,) = tfjit.gradients([y, x * 3.0], [x])
    assert found.op.name.startswith("gradients/")
    assert any(op.name == "gradients/y_grad/TanhGrad" for op in found.graph.get_operations())
    np.testing.assert_allclose(run(found, {x: 0.0}), 4.0)


def test_gate_and_colocate() -> None:
    with tfjit.device("/cpu:0"):
        a, b = tfjit.placeholder(tfjit.float32, [2, 2]), tfjit.placeholder(tfjit.float32, [2, 2])
        c = tfjit.matmul(a, b, name="c")
    found = tfjit.gradients(c, [a, b], colocate_gradients_with_ops=True, gate_gradients=True)
    product = next(
        op for op in found[0].graph.get_operations() if op.name == "gradients/c_grad/MatMul"
    )
    assert product.colocation_groups() == [b"loc:@c"]
    got = run(found, {a: np.eye(2), b: np.full((2, 2), 2.0)})
    np.testing.assert_allclose(got[0], np.full((2, 2), 4.0))
    np.testing.assert_allclose(got[1], np.ones((2, 2)))


def test_custom_gradient() -> None:
    @tfjit.custom_gradient
    def clipped(x: Any) -> Any:
        return tfjit.exp(x), lambda dy: dy * 100.0

    x = tfjit.placeholder(tfjit.float32, [])
    y = clipped(x)
    np.testing.assert_allclose(run([y, tfjit.gradients(y * 2.0, x)[0]], {x: 0.0}), [1.0, 200.0])


def test_override_map() -> None:
    @tfjit.RegisterGradient("TwiceForTest")
    def twice(op: Any, grad: Any) -> Any:
        return grad * 2.0

    graph = tfjit.get_default_graph()
    x = tfjit.placeholder(tfjit.float32, [])
    with graph.gradient_override_map({"Exp": "TwiceForTest"}):
        y = tfjit.exp(x)
    np.testing.assert_allclose(run(tfjit.gradients(y, x)[0], {x: 3.0}), 2.0)


def test_hessians() -> None:
    x = tfjit.placeholder(tfjit.float32, [3])
    y = tfjit.reduce_sum(x * x * x) + x[0] * x[1]
    expected = np.diag([6.0, 12.0, 18.0])
    expected[0, 1] = expected[1, 0] = 1.0
    np.testing.assert_allclose(run(tfjit.hessians(y, x)[0], {x: [1, 2, 3]}), expected)


def test_a_users_op() -> None:
    swish = tfjit.register_op(
        "GradientTestSwish",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: {float}"],
        expression="x * sigmoid(x)",
        gradient=lambda op, grad: (
            grad
            * (tfjit.sigmoid(op.inputs[0]) + op.outputs[0] * (1.0 - tfjit.sigmoid(op.inputs[0])))
        ),
    )
    try:
        x = tfjit.placeholder(tfjit.float32, [2])
        got = run(tfjit.gradients(swish(x), x)[0], {x: [0.0, 1.0]})
    finally:
        tfjit.unregister_op("GradientTestSwish")
    np.testing.assert_allclose(got, [0.5, 0.9276706], rtol=1e-5)


def test_errors() -> None:
    x = tfjit.placeholder(tfjit.float32, [2], "x")
    n = tfjit.placeholder(tfjit.int32, [2], "n")
    with pytest.raises(TypeError, match="not differentiable"):
        tfjit.gradients(n, [n])
    with pytest.raises(TypeError, match="must set grad_ys"):
        tfjit.gradients(tfjit.complex(x, x), [x])
    with pytest.raises(ValueError, match="1 ys, 2 grad_ys"):
        tfjit.gradients(x * 2.0, [x], grad_ys=[x, x])
    tfjit.register_op(
        "NoGradientForTest",
        inputs=["x: T"],
        outputs=["y: T"],
        attrs=["T: {float}"],
        reference=lambda x: x,
    )
    try:
        with pytest.raises(
            LookupError,
            match=r"No gradient defined for operation 'odd' \(op type: NoGradientForTest\)",
        ):
            tfjit.gradients(tfjit.raw_ops.NoGradientForTest(x=x, name="odd"), x)
    finally:
        tfjit.unregister_op("NoGradientForTest")
    with pytest.raises(LookupError, match="Gradient explicitly disabled"):
        tfjit.gradients(tfjit.raw_ops.PreventGradient(input=x, message="no way"), x)
    with tfjit.Graph().as_default():
        other = tfjit.placeholder(tfjit.float32, [2])
    with pytest.raises(ValueError, match="is not in the graph"):
        tfjit.gradients(x * 2.0, [other])


def test_training_step_like_tensorflows() -> None:
    """Ten steps of a two-layer network, by hand, in both."""
    rng = np.random.default_rng(3)
    data, labels = rng.normal(size=(16, 5)).astype("f4"), rng.integers(0, 3, 16)
    start = [rng.normal(size=s).astype("f4") * 0.3 for s in ((5, 8), (8,), (8, 3))]
    found = []
    for m in (tfjit, tf1):
        graph = m.Graph()
        with graph.as_default():
            variables = [
                m.get_variable(f"v{i}", initializer=value, use_resource=True)
                for i, value in enumerate(start)
            ]
            w, b, v = variables
            logits = m.matmul(m.nn.relu(m.matmul(m.constant(data), w) + b), v)
            loss = m.reduce_mean(
                m.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
            step = m.group(
                *[
                    var.assign_sub(0.5 * g)
                    for var, g in zip(variables, m.gradients(loss, variables), strict=True)
                ]
            )
            with m.Session(graph=graph) as session:
                session.run(m.global_variables_initializer())
                for _ in range(10):
                    session.run(step)
                found.append(session.run([loss, *variables]))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_rows_that_a_sum_was_gathered_from() -> None:
    """A gather's gradient, which is rows and indices, comes to an addition that has to sum it for
    the smaller operand.
    """
    for unknown in (False, True):
        told = []
        for m in (tf.compat.v1, tfjit):
            with m.Graph().as_default(), m.Session() as session:
                v, x = (
                    m.placeholder(m.float32, [None] if unknown else [3]),
                    m.placeholder(m.float32, []),
                )
                found = [
                    m.convert_to_tensor(g)
                    for g in m.gradients(m.gather(v * 0.5 + x, [1, 1]), [v, x])
                ]
                told.append(session.run(found, {v: [1.0, 2.0, 3.0], x: 4.0}))
        for ours, theirs in zip(told[1], told[0], strict=True):
            np.testing.assert_allclose(ours, theirs)
