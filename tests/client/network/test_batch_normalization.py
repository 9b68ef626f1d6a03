"""Batch normalization: values, gradients and moves of the averages, against primitive ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit as tf

tf1 = tensorflow.compat.v1
layers = tf.layers
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module", autouse=True)
def references() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        yield


def drawn(i: int, shape: Any, low: float = -1.0) -> np.ndarray:
    return np.random.RandomState(i).uniform(low, 1, shape).astype(np.float32)


def ours(
    shape: tuple[int, ...], arguments: dict[str, Any], trained: bool, fed: bool, resource: bool
) -> tuple[Arrays, Arrays, list[np.ndarray]]:
    """(variables before, variables after a step, [output, gradients by input, gamma, beta])."""
    with tf.Graph().as_default(), tf.variable_scope("v", use_resource=resource):
        x = tf.placeholder(tf.float32, [None, *shape[1:]])
        training: Any = tf.placeholder_with_default(trained, []) if fed else trained
        y = layers.batch_normalization(x, training=training, name="bn", **arguments)
        variables = {v.name.split("/")[-1][:-2]: v for v in tf.global_variables()}
        before = {
            name: drawn(i, v.shape.as_list(), 0.1) for i, (name, v) in enumerate(variables.items())
        }
        gradients = tf.gradients(tf.reduce_sum(y * y * y), [x, *tf.trainable_variables()])
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert bool(updates) == (trained or fed)
        with tf.Session() as session:
            given = {v.initial_value: before[name] for name, v in variables.items()}
            session.run(tf.global_variables_initializer(), given)
            values = session.run([y, *gradients], {x: drawn(9, shape)})
            session.run([y, *updates], {x: drawn(9, shape)})
            return before, session.run(variables), values


def theirs(
    shape: tuple[int, ...], function: Callable[..., Any], before: Arrays
) -> list[np.ndarray]:
    """[output, gradients by input, gamma, beta]; function: (x, variables) -> output."""
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.constant(drawn(9, shape))
        variables = {name: tf1.constant(value) for name, value in before.items()}
        y = function(x, variables)
        by = [x, *(variables[name] for name in ("gamma", "beta") if name in variables)]
        made: list[np.ndarray] = session.run([y, *tf1.gradients(tf1.reduce_sum(y * y * y), by)])
    return made


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


# shape of the input and arguments: what is normalized over
SINGLE = [
    ((8, 3), {}),
    ((4, 5, 3), {"axis": 1, "momentum": 0.5}),
    ((4, 3, 2, 5), {"epsilon": 1e-6}),
    ((4, 3, 2, 5), {"axis": 1}),
    ((4, 3, 2, 5), {"fused": False}),
    ((4, 3, 2, 5), {"axis": 2, "center": False}),
    ((4, 3, 2, 5), {"scale": False}),
    ((4, 3, 2, 5), {"axis": [1, 3]}),
    ((3, 2, 2, 2, 4), {}),
]


# `training` is True, or it is a tensor that is true; it is false in some of the cases.
MODES = [(*case, True, fed) for case in SINGLE for fed in (False, True)]
MODES += [(*SINGLE[i], False, fed) for i, fed in ((1, False), (2, True), (5, True), (7, False))]


@pytest.mark.parametrize(("shape", "arguments", "trained", "fed"), MODES, ids=str)
def test_values(
    shape: tuple[int, ...], arguments: dict[str, Any], trained: bool, fed: bool
) -> None:
    resource = fed and len(shape) % 2 == 0
    before, after, values = ours(shape, arguments, trained, fed, resource)
    axis = arguments.get("axis", -1)
    kept = [a % len(shape) for a in (axis if isinstance(axis, list) else [axis])]
    reduced = tuple(a for a in range(len(shape)) if a not in kept)
    wide = [shape[a] if a in kept else 1 for a in range(len(shape))]
    epsilon, momentum = arguments.get("epsilon", 1e-3), arguments.get("momentum", 0.99)

    def primitive(x: Any, variables: Any) -> Any:
        given = {name: tf1.reshape(value, wide) for name, value in variables.items()}
        mean, variance = given["moving_mean"], given["moving_variance"]
        if trained:
            mean, variance = tf1.nn.moments(x, reduced, keepdims=True)
        return tf1.nn.batch_normalization(
            x, mean, variance, given.get("beta"), given.get("gamma"), epsilon
        )

    for found, expected in zip(values, theirs(shape, primitive, before), strict=True):
        close(found, expected)
    x = drawn(9, shape)
    mean, variance = x.mean(reduced, keepdims=True), x.var(reduced, keepdims=True)
    fused = len(shape) >= 4 and kept in ([1], [len(shape) - 1]) and arguments.get("fused", True)
    if fused:  # the op's variance is that of a sample
        count = x.size // shape[kept[0]]
        variance = variance * count / (count - 1)
    rest = 1 - momentum if trained else 0.0
    for name, moved in (("moving_mean", mean), ("moving_variance", variance)):
        old = before[name]
        close(after[name], old + (moved.reshape(old.shape) - old) * rest)
    assert {name for name in after if name in ("gamma", "beta")} == set(before) - {
        "moving_mean",
        "moving_variance",
    }


@pytest.mark.parametrize("fed", [False, True], ids=["bool", "tensor"])
def test_virtual_batches(fed: bool) -> None:
    shape = (6, 5, 3)
    before, after, values = ours(shape, {"virtual_batch_size": 2}, True, fed, False)
    assert before["gamma"].shape == before["moving_mean"].shape == (1, 1, 1, 3)

    def primitive(x: Any, variables: Any) -> Any:
        made = []
        for i in range(3):  # each third row
            mean, variance = tf1.nn.moments(x[i::3], [0, 1], keepdims=True)
            gamma, beta = (variables[name][0] for name in ("gamma", "beta"))
            made.append(tf1.nn.batch_normalization(x[i::3], mean, variance, beta, gamma, 1e-3))
        return tf1.reshape(tf1.transpose(tf1.stack(made), [1, 0, 2, 3]), shape)

    for found, expected in zip(values, theirs(shape, primitive, before), strict=True):
        close(found, expected)
    x = drawn(9, shape)
    variance = np.mean([x[i::3].var((0, 1)) for i in range(3)], 0)
    old = before["moving_variance"]
    close(after["moving_variance"], old + (variance - old) * 0.01)


@pytest.mark.parametrize("fed", [False, True], ids=["bool", "tensor"])
@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
def test_renormalization(trained: bool, fed: bool) -> None:
    shape = (8, 3)
    arguments = {
        "renorm": True,
        "renorm_clipping": {"rmax": 1.1, "rmin": 0.9, "dmax": 0.3},
        "renorm_momentum": 0.8,
        "momentum": 0.9,
    }
    before, after, values = ours(shape, arguments, trained, fed, False)
    epsilon = 1e-3
    x = drawn(9, shape)
    mean, variance = x.mean(0), x.var(0)
    deviation = np.sqrt(variance + epsilon)
    least = np.maximum(before["renorm_stddev"], np.sqrt(epsilon))
    r = np.clip(deviation / least, 0.9, 1.1) if trained else np.ones(3)
    d = np.clip((mean - before["renorm_mean"]) / least, -0.3, 0.3) if trained else np.zeros(3)

    def primitive(x: Any, variables: Any) -> Any:
        mean, variance = variables["moving_mean"], variables["moving_variance"]
        if trained:
            mean, variance = tf1.nn.moments(x, [0])
        gamma, beta = variables["gamma"], variables["beta"]
        made = (x - mean) / tf1.sqrt(variance + epsilon)
        return (made * r.astype("f4") + d.astype("f4")) * gamma + beta

    for found, expected in zip(values, theirs(shape, primitive, before), strict=True):
        close(found, expected)
    rest = 0.1 if trained else 0.0
    stddev = before["moving_stddev"] + (deviation - before["moving_stddev"]) * rest
    close(after["moving_stddev"], stddev)
    close(after["moving_mean"], before["moving_mean"] + (mean - before["moving_mean"]) * rest)
    if trained:
        close(after["moving_variance"], np.maximum(stddev**2 - epsilon, 0.0))
    for name, value in (("renorm_mean", mean), ("renorm_stddev", deviation)):
        close(after[name], before[name] + (value - before[name]) * 2 * rest)


def test_adjustment() -> None:
    shape, by, beyond = (8, 3), np.array([[1.1, 1.2, 0.9]], "f4"), np.array([[0.1, 0.2, 0.3]], "f4")
    sizes = []

    def adjustment(size: Any) -> Any:
        sizes.append(size.shape.as_list())
        return tf.constant(by), tf.constant(beyond)

    before, _, values = ours(shape, {"adjustment": adjustment}, True, True, False)
    assert sizes == [[2]]

    def primitive(x: Any, variables: Any) -> Any:
        mean, variance = tf1.nn.moments(x, [0])
        made = tf1.nn.batch_normalization(x, mean, variance, beyond, by, 1e-3)
        return made * variables["gamma"] + variables["beta"]

    for found, expected in zip(values, theirs(shape, primitive, before), strict=True):
        close(found, expected)


def test_halves() -> None:
    with tf.Graph().as_default():
        fused = layers.batch_normalization(tf.ones([2, 3, 3, 4], tf.float16), training=True)
        plain = layers.batch_normalization(tf.ones([2, 4], tf.float16), training=True)
        double = layers.batch_normalization(tf.ones([2, 3, 3, 4], tf.float64), training=True)
        assert [y.dtype for y in (fused, plain, double)] == [tf.float16, tf.float16, tf.float64]
        dtypes = [v.dtype.base_dtype for v in tf.global_variables()]
        assert dtypes == [tf.float32] * 8 + [tf.float64] * 4
        assert fused.op.type == "FusedBatchNormV3" and double.op.type == "AddV2"


def test_names_and_collections() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 9, 9, 4])
        layer = layers.BatchNormalization()
        assert layer.axis == -1
        layer(x)
        assert layer.axis == [3] and layer.fused
        assert repr(layer.input_spec) == "InputSpec(ndim=4, axes={3: 4})"
        prefix = "batch_normalization"
        order = ["gamma", "beta", "moving_mean", "moving_variance"]
        assert [v.name for v in tf.global_variables()] == [f"{prefix}/{name}:0" for name in order]
        assert tf.trainable_variables() == [layer.gamma, layer.beta]
        assert layer.updates == [] == tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert layer(x, training=True).name == f"{prefix}/FusedBatchNormV3_1:0"
        moves = [f"{prefix}/AssignMovingAvg", f"{prefix}/AssignMovingAvg_1"]
        assert [op.name for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS)] == moves
        assert layer.updates == layer.get_updates_for(x) and layer.get_updates_for(None) == []
        frozen = layers.batch_normalization(x, training=True, trainable=False)
        assert frozen.name == f"{prefix}_1/FusedBatchNormV3:0"
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
        assert len(tf.trainable_variables()) == 2
        layers.BatchNormalization(renorm=True, name="r")(x, training=True)
        names = [*order, "moving_stddev", "renorm_mean", "renorm_stddev"]
        assert [v.name for v in tf.global_variables()[8:]] == [f"r/{name}:0" for name in names]
        updates = [op.name for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS)[2:]]
        assert updates == ["r/AssignMovingAvg_2", "r/AssignNewValue"]


def cnn_of_layers(x: tf.Tensor, training: Any) -> tf.Tensor:
    h = layers.conv2d(x, 4, 3, padding="same", use_bias=False)
    h = tf.nn.relu(layers.batch_normalization(h, training=training, momentum=0.9))
    h = layers.max_pooling2d(h, 2, 2)
    h = layers.separable_conv2d(h, 5, 3, activation=tf.nn.relu)
    h = layers.dense(layers.flatten(h), 6)
    h = tf.nn.relu(layers.batch_normalization(h, training=training))
    return layers.dense(h, 3)


def cnn_of_primitives(x: Any, v: Any) -> tuple[Any, list[Any]]:
    """(output, moves of the averages)."""
    moves = []

    def normalized(h: Any, scope: str, momentum: float) -> Any:
        of = {name: v[f"{scope}/{name}"] for name in ("gamma", "beta", "moving_mean")}
        of["moving_variance"] = v[f"{scope}/moving_variance"]
        axes = list(range(h.shape.rank - 1))
        mean, variance = tf1.nn.moments(h, axes)
        count = int(np.prod(h.shape[:-1]))
        sample = count / (count - 1) if len(axes) == 3 else 1.0
        for name, value in (("moving_mean", mean), ("moving_variance", variance * sample)):
            moves.append(tf1.assign_sub(of[name], (of[name] - value) * (1 - momentum)))
        return tf1.nn.batch_normalization(h, mean, variance, of["beta"], of["gamma"], 1e-3)

    h = tf1.nn.conv2d(x, v["conv2d/kernel"], 1, "SAME")
    h = tf1.nn.relu(normalized(h, "batch_normalization", 0.9))
    h = tf1.nn.max_pool(h, 2, 2, "VALID")
    depthwise = v["separable_conv2d/depthwise_kernel"]
    pointwise = v["separable_conv2d/pointwise_kernel"]
    h = tf1.nn.separable_conv2d(h, depthwise, pointwise, [1, 1, 1, 1], "VALID")
    h = tf1.nn.relu(h + v["separable_conv2d/bias"])
    h = tf1.matmul(tf1.reshape(h, [8, -1]), v["dense/kernel"]) + v["dense/bias"]
    h = tf1.nn.relu(normalized(h, "batch_normalization_1", 0.99))
    return tf1.matmul(h, v["dense_1/kernel"]) + v["dense_1/bias"], moves


def test_training_of_a_small_network() -> None:
    """The losses and the variables of 6 steps are those of the same graph of primitive ops."""
    images = [drawn(20 + i, (8, 10, 10, 2)) for i in range(6)]
    labels = np.arange(8) % 3
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [8, 10, 10, 2])
        training = tf.placeholder(tf.bool, [])
        logits = cnn_of_layers(x, training)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        variables = {v.op.name: v for v in tf.global_variables()}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            before = session.run(variables)
            found = [session.run([loss, step], {x: i, training: True})[0] for i in images]
            after = session.run(variables)
            inferred = session.run(logits, {x: images[0], training: False})
    with tf1.Graph().as_default(), tf1.Session() as session:
        x = tf1.placeholder(tf1.float32, [8, 10, 10, 2])
        made = {
            name: tf1.Variable(value, trainable="moving" not in name)
            for name, value in before.items()
        }
        logits, moves = cnn_of_primitives(x, made)
        loss = tf1.reduce_mean(
            tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        with tf1.control_dependencies(moves):
            step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        session.run(tf1.global_variables_initializer())
        expected = [session.run([loss, step], {x: i})[0] for i in images]
        their_after = session.run(made)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    for name, value in their_after.items():
        np.testing.assert_allclose(after[name], value, rtol=5e-3, atol=5e-4, err_msg=name)
    assert inferred.shape == (8, 3) and np.isfinite(inferred).all()


@pytest.mark.parametrize("trained", [False, True], ids=["inference", "training"])
def test_branches_that_are_functions(trained: bool) -> None:
    """In control flow v2 the moves are functions of resource variables."""
    arguments = {"renorm": True, "renorm_clipping": {"dmax": 0.2}}
    expected = ours((8, 3), arguments, trained, True, True)
    tf.enable_control_flow_v2()
    try:
        found = ours((8, 3), arguments, trained, True, True)
    finally:
        tf.disable_control_flow_v2()
    for name, value in expected[1].items():
        close(found[1][name], value)
    for a, b in zip(found[2], expected[2], strict=True):
        close(a, b)
