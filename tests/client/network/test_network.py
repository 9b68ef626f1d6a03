"""Values and gradients of layers: TensorFlow's primitive ops give them for the same variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow

import tfjit as tf

tf1 = tensorflow.compat.v1
layers = tf.layers

# shape of the input, layer, the same of primitive ops over the input and the layer's variables
Case = tuple[tuple[int, ...], Callable[[Any], Any], Callable[..., Any]]


def pooled(kind: str, n: int, padding: str) -> Case:
    """Pooling over n axes of windows of 3 and strides of 2; a sequence is an image of width 1."""
    shape = {1: (2, 9, 3), 2: (2, 9, 8, 3), 3: (2, 5, 4, 5, 3)}[n]
    pool = getattr(layers, f"{kind}_pooling{n}d")

    def primitive(x: Any) -> Any:
        name = "MAX" if kind == "max" else "AVG"
        size, strides = ([3, 1], [2, 1]) if n == 1 else ([3] * n, [2] * n)
        value = x[:, :, None] if n == 1 else x
        made = tf1.nn.pool(value, size, name, padding.upper(), strides=strides)
        return made[:, :, 0] if n == 1 else made

    return shape, lambda x: pool(x, 3, 2, padding), primitive


def before(x: Any) -> Any:
    return tf1.pad(x, [[0, 0], [4, 0], [0, 0]])


def separable1d(x: Any, depthwise: Any, pointwise: Any, bias: Any) -> Any:
    made = tf1.nn.separable_conv2d(
        x[:, None], depthwise[None], pointwise[None], [1, 2, 2, 1], "SAME"
    )
    return made[:, 0] + bias


CASES: dict[str, Case] = {
    "dense": (
        (5, 4),
        lambda x: layers.dense(x, 3, tf.nn.relu),
        lambda x, k, b: tf1.nn.relu(tf1.matmul(x, k) + b),
    ),
    "dense of rank 3": (
        (2, 5, 4),
        lambda x: layers.dense(x, 3),
        lambda x, k, b: tf1.tensordot(x, k, [[2], [0]]) + b,
    ),
    "dense of rank 4": (
        (2, 5, 2, 4),
        lambda x: layers.dense(x, 3, "tanh", use_bias=False),
        lambda x, k: tf1.tanh(tf1.tensordot(x, k, [[3], [0]])),
    ),
    "flatten": ((2, 3, 4), layers.flatten, lambda x: tf1.reshape(x, [2, 12])),
    "flatten channels first": (
        (2, 3, 4, 5),
        lambda x: layers.flatten(x, data_format="channels_first"),
        lambda x: tf1.reshape(tf1.transpose(x, [0, 2, 3, 1]), [2, 60]),
    ),
    "flatten a vector": ((7,), layers.flatten, lambda x: x[:, None]),
    "dropout": ((3, 4), layers.dropout, tf1.identity),
    "conv1d": (
        (2, 9, 3),
        lambda x: layers.conv1d(x, 4, 3, 2, "same", activation=tf.nn.relu),
        lambda x, k, b: tf1.nn.relu(tf1.nn.conv1d(x, k, 2, "SAME") + b),
    ),
    "conv1d causal": (
        (2, 9, 3),
        lambda x: layers.conv1d(x, 4, 3, padding="causal", dilation_rate=2),
        lambda x, k, b: tf1.nn.conv1d(before(x), k, 1, "VALID", dilations=2) + b,
    ),
    "conv2d": (
        (2, 9, 8, 3),
        lambda x: layers.conv2d(x, 4, (3, 2), (2, 1), "SAME"),
        lambda x, k, b: tf1.nn.conv2d(x, k, [2, 1], "SAME") + b,
    ),
    "conv2d dilated": (
        (2, 9, 8, 3),
        lambda x: layers.conv2d(x, 4, 3, dilation_rate=2, use_bias=False),
        lambda x, k: tf1.nn.conv2d(x, k, 1, "VALID", dilations=2),
    ),
    "conv2d of batches": (
        (2, 2, 5, 6, 3),
        lambda x: layers.conv2d(x, 4, 3),
        lambda x, k, b: tf1.stack([tf1.nn.conv2d(x[i], k, 1, "VALID") + b for i in range(2)]),
    ),
    "conv3d": (
        (2, 5, 4, 6, 2),
        lambda x: layers.conv3d(x, 3, 2, (1, 2, 1), "same"),
        lambda x, k, b: tf1.nn.conv3d(x, k, [1, 1, 2, 1, 1], "SAME") + b,
    ),
    "conv2d_transpose": (
        (2, 4, 3, 2),
        lambda x: layers.conv2d_transpose(x, 3, 3, 2, activation=tf.nn.relu),
        lambda x, k, b: tf1.nn.relu(tf1.nn.conv2d_transpose(x, k, [2, 9, 7, 3], 2, "VALID") + b),
    ),
    "conv2d_transpose same": (
        (2, 4, 3, 2),
        lambda x: layers.conv2d_transpose(x, 3, 3, (2, 3), "same"),
        lambda x, k, b: tf1.nn.conv2d_transpose(x, k, [2, 8, 9, 3], [2, 3], "SAME") + b,
    ),
    "conv3d_transpose": (
        (2, 2, 3, 2, 2),
        lambda x: layers.conv3d_transpose(x, 3, 2, 3),
        lambda x, k, b: tf1.nn.conv3d_transpose(x, k, [2, 6, 9, 6, 3], 3, "VALID") + b,
    ),
    "separable_conv1d": (
        (2, 9, 3),
        lambda x: layers.separable_conv1d(x, 4, 3, 2, "same", depth_multiplier=2),
        separable1d,
    ),
    "separable_conv2d": (
        (2, 9, 8, 3),
        lambda x: layers.separable_conv2d(x, 4, 3, dilation_rate=2),
        lambda x, d, p, b: tf1.nn.separable_conv2d(x, d, p, [1, 1, 1, 1], "VALID", rate=[2, 2]) + b,
    ),
    **{
        f"{kind}_pooling{n}d {padding}": pooled(kind, n, padding)
        for kind in ("max", "average")
        for n in (1, 2, 3)
        for padding in ("valid", "same")
    },
}
# Layers that are the same with channels before the other axes.
CHANNELS_FIRST = {
    "conv1d": ((2, 9, 3), lambda x, f: layers.conv1d(x, 4, 3, 2, "same", f, name="a")),
    "conv1d causal": ((2, 9, 3), lambda x, f: layers.conv1d(x, 4, 3, 1, "causal", f, name="b")),
    "conv2d": ((2, 6, 5, 3), lambda x, f: layers.conv2d(x, 4, 3, 1, "valid", f, 2, name="c")),
    "conv3d": ((2, 4, 3, 5, 2), lambda x, f: layers.conv3d(x, 3, 2, 1, "same", f, name="d")),
    "conv2d_transpose": (
        (2, 4, 3, 2),
        lambda x, f: layers.conv2d_transpose(x, 3, 3, 2, "same", f, name="e"),
    ),
    "conv3d_transpose": (
        (2, 2, 3, 2, 2),
        lambda x, f: layers.conv3d_transpose(x, 3, 2, 2, "valid", f, name="f"),
    ),
    "separable_conv1d": (
        (2, 9, 3),
        lambda x, f: layers.separable_conv1d(x, 4, 3, 2, "same", f, name="g"),
    ),
    "separable_conv2d": (
        (2, 6, 5, 3),
        lambda x, f: layers.separable_conv2d(x, 4, 2, 1, "valid", f, name="h"),
    ),
    "max_pooling1d": ((2, 9, 3), lambda x, f: layers.max_pooling1d(x, 3, 2, "same", f)),
    "average_pooling2d": (
        (2, 6, 5, 3),
        lambda x, f: layers.average_pooling2d(x, (3, 2), 2, "valid", f),
    ),
    "max_pooling3d": ((2, 4, 3, 5, 2), lambda x, f: layers.max_pooling3d(x, 2, 1, "valid", f)),
}


def drawn(i: int, shape: Any) -> np.ndarray:
    return np.random.RandomState(i).uniform(-1, 1, shape).astype(np.float32)


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, list[np.ndarray]]]:
    """Case -> output, and gradients of the sum of its squares by input and variables."""
    with tf.Graph().as_default(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        fetches: dict[str, Any] = {}
        feeds = {}
        for name, (shape, layer, _) in CASES.items():
            x = tf.placeholder(tf.float32, [None, *shape[1:]])
            feeds[x] = drawn(0, shape)
            known = len(tf.global_variables())
            y = layer(x)
            variables = tf.global_variables()[known:]
            fetches[name] = [y, *tf.gradients(tf.reduce_sum(y * y), [x, *variables])]
            feeds.update(
                {v.initial_value: drawn(1 + i, v.shape.as_list()) for i, v in enumerate(variables)}
            )
        initial = {t: v for t, v in feeds.items() if t.op.type != "Placeholder"}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer(), initial)
            yield session.run(fetches, {t: v for t, v in feeds.items() if t not in initial})


def expected(name: str, variables: int) -> list[np.ndarray]:
    """The same of primitive ops; variables: their number."""
    shape, layer, primitive = CASES[name]
    with tf.Graph().as_default():
        layer(tf.placeholder(tf.float32, [None, *shape[1:]]))
        shapes = [v.shape.as_list() for v in tf.global_variables()]
    assert len(shapes) == variables
    with tf1.Graph().as_default(), tf1.Session() as session:
        made = [tf1.constant(drawn(i, s)) for i, s in enumerate([shape, *shapes])]
        y = primitive(*made)
        values: list[np.ndarray] = session.run([y, *tf1.gradients(tf1.reduce_sum(y * y), made)])
    return values


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, found: dict[str, list[np.ndarray]]) -> None:
    ours = found[name]
    for a, b in zip(ours, expected(name, len(ours) - 2), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_channels_first() -> None:
    with tf.Graph().as_default(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        last, first = {}, {}
        for name, (shape, layer) in CHANNELS_FIRST.items():
            with tf.variable_scope("v", reuse=tf.AUTO_REUSE):
                value = drawn(3, shape)
                last[name] = layer(tf.constant(value), "channels_last")
                first[name] = layer(tf.constant(np.moveaxis(value, -1, 1)), "channels_first")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            last, first = session.run([last, first])
    for name, value in last.items():
        moved = np.moveaxis(value, -1, 1)
        np.testing.assert_allclose(first[name], moved, rtol=1e-5, atol=1e-6, err_msg=name)


def test_dropout() -> None:
    with tf.Graph().as_default(), pytest.MonkeyPatch.context() as environment:
        environment.setenv("TFJIT_JIT", "off")
        x = tf.ones([40, 50])
        on = tf.placeholder_with_default(True, [])
        some = layers.dropout(x, 0.25, seed=7, training=True)
        rows = layers.dropout(x, 0.25, noise_shape=[None, 1], seed=7, training=True)
        chosen = layers.dropout(x, 0.25, seed=7, training=on)
        assert some.name == "dropout/dropout/SelectV2:0" and chosen.name == "dropout_2/cond/Merge:0"
        assert layers.dropout(x, 0.0, training=True).name == "dropout_3/Identity:0"
        with tf.Session() as session:
            some, rows, off = session.run([some, rows, chosen], {on: False})
            trained = session.run(chosen)
    np.testing.assert_array_equal(off, np.ones([40, 50]))
    for value in (some, rows, trained):
        assert set(np.unique(value)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert 0.2 < (some == 0).mean() < 0.3
    assert (rows == rows[:, :1]).all() and 0 < (rows[:, 0] == 0).sum() < 40


def test_static_shapes() -> None:
    with tf.Graph().as_default():
        x = lambda *shape: tf.placeholder(tf.float32, shape)  # noqa: E731
        shapes = [
            (layers.dense(x(None, 5, 4), 3), [None, 5, 3]),
            (layers.conv2d(x(None, 9, None, 4), 3, 2, 2), [None, 4, None, 3]),
            (layers.conv2d_transpose(x(None, None, 5, 4), 3, 2, 2), [None, None, 10, 3]),
            (layers.conv3d_transpose(x(2, 5, 5, 5, 4), 3, 2), [2, 6, 6, 6, 3]),
            (layers.separable_conv1d(x(None, 9, 4), 3, 2), [None, 8, 3]),
            (layers.average_pooling1d(x(None, 9, 4), 2, 2, "same"), [None, 5, 4]),
            (layers.flatten(x(None, 4, 5)), [None, 20]),
            (layers.flatten(x(2, None, 5)), [2, None]),
            (layers.flatten(x(None, None, 5)), [None, None]),
            (layers.flatten(x(None, 0, 5)), [None, 0]),
            (layers.flatten(tf.placeholder(tf.float32)), [None, None]),
        ]
        assert [value.shape.as_list() for value, _ in shapes] == [shape for _, shape in shapes]


def test_output_shapes() -> None:
    made = [
        (layers.Dense(3), (2, 5, 4), [2, 5, 3]),
        (layers.Conv2D(3, 2, 2, "same", "channels_first"), (2, 9, 9, 4), [2, 3, 5, 2]),
        (layers.Conv1D(3, 3, dilation_rate=2), (2, 9, 4), [2, 5, 3]),
        (layers.Conv2DTranspose(3, 2, 2), (2, 5, None, 4), [2, 10, None, 3]),
        (layers.Conv3DTranspose(3, 3), (None, 4, 4, 4, 1), [None, 6, 6, 6, 3]),
        (layers.SeparableConv2D(3, 2), (2, 9, 9, 4), [2, 8, 8, 3]),
        (layers.MaxPooling1D(2, 2, data_format="channels_first"), (2, 4, 9), [2, 4, 4]),
        (layers.AveragePooling3D(2, 2, "same"), (2, 9, 9, 9, 4), [2, 5, 5, 5, 4]),
        (layers.Flatten(), (None, 3, 4), [None, 12]),
    ]
    for layer, shape, expect in made:
        assert layer.compute_output_shape(shape).as_list() == expect
    assert layers.Dropout().compute_output_shape((2, 3)) == (2, 3)


# Calls with the errors of TensorFlow 2.21, recorded with tf_keras; x is [None, 9, 9, 4].
ERRORS = r"""
dense(x[:, 0, 0, 0], 3) | Input 0 of layer "dense_1" is incompatible with the layer: expected min_ndim=2, found ndim=1. Full shape received: (None,)
dense(unknown, 3) | The last dimension of the inputs to a Dense layer should be defined. Found None. Full input shape received: <unknown>
dense(x, -3) | Received an invalid value for `units`, expected a positive integer. Received: units=-3
dense(tf.cast(x, tf.int32), 3) | A Dense layer can only be built with a floating-point dtype. Received: dtype=<dtype: 'int32'>
Dense(3).compute_output_shape([5, None]) | The last dimension of the input shape of a Dense layer should be defined. Found None. Received: input_shape=
conv2d(x, 3, (2, 3, 4)) | The `kernel_size` argument must be a tuple of 2 integers. Received: (2, 3, 4)
conv2d(x, 3, 0) | The `kernel_size` argument must be a tuple of 2 integers. Received: 0 including {0} that does not satisfy the requirement `> 0`.
conv2d(x, 3, 'a') | The `kernel_size` argument must be a tuple of 2 integers. Received: a
conv2d(x, 3, 2, (1, 2, 3)) | The `strides` argument must be a tuple of 2 integers. Received: (1, 2, 3)
conv2d(x, 3, 2, 0) | The argument `strides` cannot contains 0(s). Received: (0, 0)
conv2d(x, 3, 2, padding='foo') | The `padding` argument must be a list/tuple or one of "valid", "same" (or "causal", only for `Conv1D). Received: foo
conv2d(x, 3, 2, padding='causal') | Causal padding is only supported for `Conv1D`and `SeparableConv1D`.
conv2d(x, 3, 2, data_format='NHWC') | The `data_format` argument must be one of "channels_first", "channels_last". Received: NHWC
conv2d(x, 3, 2, 2, dilation_rate=2) | `strides > 1` not supported in conjunction with `dilation_rate > 1`. Received: strides=(2, 2) and dilation_rate=(2, 2)
conv2d(x, 3, 20) | One of the dimensions in the output is <= 0 due to downsampling in conv2d_1. Consider increasing the input size. Received input shape [None, 9, 9, 4] which would produce output shape with a zero or negative value in a dimension.
conv2d(x, 0, 2) | Invalid value for argument `filters`. Expected a strictly positive value. Received filters=0.
conv2d(x[:, 0, 0], 3, 2) | Input 0 of layer "conv2d_1" is incompatible with the layer: expected min_ndim=4, found ndim=2. Full shape received: (None, 4)
conv2d(deep, 3, 2) | where axis -1 (0-based) is the channel dimension, which found to be `None`.
conv2d_transpose(deep, 3, 2) | The channel dimension of the inputs to `Conv2DTranspose` should be defined.
conv2d_transpose(x[None], 3, 2) | Inputs should have rank 4. Received input_shape=
separable_conv2d(x, 3, 2, 2, dilation_rate=2) | `strides > 1` not supported in conjunction with `dilation_rate > 1`.
max_pooling2d(x, (2, 2, 2), 1) | The `pool_size` argument must be a tuple of 2 integers. Received: (2, 2, 2)
max_pooling2d(x[:, 0], 2, 1) | Input 0 of layer "max_pooling2d_1" is incompatible with the layer: expected ndim=4, found ndim=3. Full shape received: (None, 9, 4)
max_pooling2d(x, 2, None) | Argument `strides` must not be None.
max_pooling2d(x, 2, 0) | Stride must be > 0, but got 0
dropout(x, 2.0) | Invalid value 2.0 received for `rate`, expected a value between 0 and 1.
dropout(x, 1.0, training=True) | `rate` must be a scalar tensor or a float in the range [0, 1). Received: rate=1.0
dropout(x, 'a', training=True) | `rate` must be a scalar or scalar tensor. Received: rate=a
flatten(x[0, 0, 0, 0]) | Input 0 of layer "flatten_1" is incompatible with the layer: expected min_ndim=1, found ndim=0. Full shape received: ()
flatten(x, data_format='x') | The `data_format` argument must be one of "channels_first", "channels_last". Received: x
batch_normalization(deep) | Input has undefined `axis` dimension. Received input with shape (None, 9, 9, None) and axis=(3,)
batch_normalization(unknown) | Input has undefined rank. Received: input_shape=<unknown>
batch_normalization(x, 4) | Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank (with inputs.rank=4). Received: axis=(4,)
batch_normalization(x, 'a') | Expected an int or a list/tuple of ints for the argument 'axis', but received: 'a'
batch_normalization(x, [1, 1]) | Duplicate axis: (1, 1)
batch_normalization(x, renorm=True, renorm_clipping={'a': 1}) | Received invalid keys for `renorm_clipping` argument: {'a': 1}. Supported values: ['rmax', 'rmin', 'dmax'].
batch_normalization(x, virtual_batch_size=2, adjustment=abs) | When using `virtual_batch_size`, adjustment cannot be specified
"""
CALLS = [line.split(" | ") for line in ERRORS.strip().split("\n")]


@pytest.mark.parametrize(("call", "text"), CALLS, ids=[call for call, _ in CALLS])
def test_errors(call: str, text: str) -> None:
    with tf.Graph().as_default():
        values = {
            "tf": tf,
            "x": tf.placeholder(tf.float32, [None, 9, 9, 4]),
            "deep": tf.placeholder(tf.float32, [None, 9, 9, None]),
            "unknown": tf.placeholder(tf.float32),
        }
        with pytest.raises((ValueError, TypeError, tf.errors.OpError)) as raised:
            eval(f"tf.layers.{call}", values)
    assert text in str(raised.value)
    wrong_type = "but received: 'a'" in text or "can only be built" in text
    assert isinstance(raised.value, TypeError) == wrong_type


def test_functions_share_by_name() -> None:
    """Each function with variables takes `name` and `reuse`."""
    with tf.Graph().as_default():
        x = lambda n: tf.placeholder(tf.float32, [None, *[5] * n, 3])  # noqa: E731
        calls: dict[str, Callable[..., Any]] = {
            "dense": lambda **k: layers.dense(x(1), 2, **k),
            "conv1d": lambda **k: layers.conv1d(x(1), 2, 2, **k),
            "conv2d": lambda **k: layers.conv2d(x(2), 2, 2, **k),
            "conv3d": lambda **k: layers.conv3d(x(3), 2, 2, **k),
            "conv2d_transpose": lambda **k: layers.conv2d_transpose(x(2), 2, 2, **k),
            "conv3d_transpose": lambda **k: layers.conv3d_transpose(x(3), 2, 2, **k),
            "separable_conv1d": lambda **k: layers.separable_conv1d(x(1), 2, 2, **k),
            "separable_conv2d": lambda **k: layers.separable_conv2d(x(2), 2, 2, **k),
            "batch_normalization": lambda **k: layers.batch_normalization(x(2), **k),
        }
        for name, call in calls.items():
            known = len(tf.global_variables())
            call()
            made = {v.name.partition("/")[0] for v in tf.global_variables()[known:]}
            assert made == {name}
            call(name=f"own_{name}")
            known = len(tf.global_variables())
            with pytest.raises(ValueError, match="already exists, disallowed"):
                call(name=f"own_{name}")
            call(name=f"own_{name}", reuse=True)
            assert len(tf.global_variables()) == known
