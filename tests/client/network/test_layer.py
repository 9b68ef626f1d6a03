"""The base of layers: names, scopes, variables, losses, updates, calls.

Names and texts are those of TensorFlow's legacy layers, recorded with TensorFlow 2.21 and tf_keras.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tfjit as tf

layers = tf.layers


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def inputs(*shape: int | None) -> tf.Tensor:
    return tf.placeholder(tf.float32, shape or [None, 4], name="x")


def names(values: Any) -> list[str]:
    return [value.name for value in values]


class Scaled(layers.Layer):
    """A layer of a user, with a loss and an update of each kind."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape: tf.TensorShape) -> None:
        assert input_shape.as_list() == [None, 4]
        self.k = self.add_weight(
            "k", [4, self.units], initializer=tf.ones_initializer(), regularizer=tf.nn.l2_loss
        )
        self.c = self.add_variable("c", [], initializer=tf.zeros_initializer(), trainable=False)
        super().build(input_shape)

    def call(self, value: tf.Tensor, beyond: float = 0.0) -> tf.Tensor:
        made = tf.matmul(value, self.k) + beyond
        self.add_loss(tf.reduce_sum(made), inputs=value)
        self.add_loss(tf.reduce_sum(self.k))
        self.add_update(tf.assign_add(self.c, 1.0))
        self.add_update(tf.assign_add(self.c, tf.reduce_sum(value)), inputs=value)
        return made


def test_a_layer_of_a_user() -> None:
    x = inputs()
    layer = Scaled(3)
    assert (layer.name, layer.built, layer.dtype, layer.variables) == ("scaled_1", False, None, [])
    y = layer(x)
    assert (y.name, y.shape.as_list()) == ("scaled/add:0", [None, 3])
    assert names(layer.weights) == ["scaled/k:0", "scaled/c:0"]
    assert names(layer.trainable_weights) == names(tf.trainable_variables()) == ["scaled/k:0"]
    assert names(layer.non_trainable_variables) == ["scaled/c:0"]
    assert (layer.dtype, layer.scope_name, layer.count_params()) == ("float32", "scaled", 13)
    losses = ["scaled/Sum:0", "scaled/Sum_1:0", "scaled/k/Regularizer/L2Loss:0"]
    assert names(layer.losses) == losses
    assert set(names(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))) == set(losses)
    assert names(layer.get_losses_for(x)) == losses[:1]
    assert names(layer.get_losses_for(None)) == losses[1:]
    updates = ["scaled/AssignAdd", "scaled/AssignAdd_1"]
    assert names(layer.updates) == names(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == updates
    assert names(layer.get_updates_for(None)) == updates[:1]
    assert names(layer.get_updates_for([x])) == updates[1:]
    again = layer(x, beyond=1.0)
    assert again.name == "scaled/add_1:0"
    assert len(layer.weights) == 2 and len(layer.losses) == 5
    layer.trainable = False
    assert layer.trainable_variables == layer.updates == []
    assert len(layer.non_trainable_variables) == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run([y, again, *layer.get_losses_for(None)], {x: [[1.0, 2.0, 3.0, 4.0]]})
    np.testing.assert_array_equal(found[1], [[11.0, 11.0, 11.0]])
    assert found[2:] == [12.0, 12.0, 6.0]


def test_calls_without_build_or_call() -> None:
    class Doubled(layers.Layer):
        def call(self, value: tf.Tensor, training: bool = False) -> tf.Tensor:
            return value * 2.0 if training else value

    x = inputs()
    layer = Doubled()
    assert layer(x) is x and layer.built
    assert layer.apply(x, training=True).name == "doubled/mul:0"
    assert layers.Layer()(x) is x
    with pytest.raises(TypeError, match="positional arguments but 4 were given"):
        layer(x, True, 3)


def test_structures_of_inputs_and_outputs() -> None:
    class Sums(layers.Layer):
        def build(self, input_shape: Any) -> None:
            assert [shape.as_list() for shape in input_shape] == [[None, 4], [None, 4]]

        def call(self, pair: Any) -> Any:
            return {"sum": pair[0] + pair[1], "first": pair[0]}

    x = inputs()
    layer = Sums()
    made = layer([x, x])
    assert made["sum"].name == "sums/add:0" and made["first"] is x
    assert layer.input_shape == [(None, 4), (None, 4)]
    assert layer.output_shape == {"sum": (None, 4), "first": (None, 4)}
    assert layer.input == [x, x] and layer.output is made


def test_inputs_and_outputs_of_calls() -> None:
    layer = layers.Dense(3)
    with pytest.raises(AttributeError, match="never been called and thus has no defined input sha"):
        _ = layer.input_shape
    with pytest.raises(AttributeError, match="Layer dense_1 is not connected, no input to return"):
        _ = layer.input
    with pytest.raises(RuntimeError, match="never been called and thus has no defined output"):
        layer.get_output_at(0)
    x = inputs()
    y = layer(x)
    assert (layer.input, layer.output, layer.input_shape) == (x, y, (None, 4))
    layer(x)
    assert layer.output_shape == (None, 3)
    with pytest.raises(AttributeError, match='notion of "layer input" is ill-defined'):
        _ = layer.input
    layer(inputs(7, 4))
    assert layer.get_output_shape_at(2) == (7, 3) and layer.get_output_at(0) is y
    assert layer.get_input_shape_at(0) == (None, 4) and layer.get_input_at(1) is x
    with pytest.raises(AttributeError, match="with different input shapes"):
        _ = layer.input_shape
    with pytest.raises(ValueError, match="at node 5, but the layer has only 3 inbound nodes"):
        layer.get_input_at(5)


def test_names_of_layers_and_scopes() -> None:
    x = inputs()
    first, second = layers.Dense(3), layers.Dense(3)
    with pytest.raises(ValueError, match='layer "dense_1" has not been used yet'):
        _ = first.scope_name
    # The order of first calls gives scopes their numbers.
    assert second(x).name == "dense/BiasAdd:0" and second.kernel.name == "dense/kernel:0"
    assert first(x).name == "dense_1/BiasAdd:0"
    assert (first.name, second.name, second.scope_name) == ("dense_1", "dense_2", "dense")
    assert first(x).name == "dense_1/BiasAdd_1:0"
    named = [layers.Dense(3, name="k") for _ in range(2)]
    assert [layer(x).name for layer in named] == ["k/BiasAdd:0", "k_1/BiasAdd:0"]
    assert [layer.kernel.name for layer in named] == ["k/kernel:0", "k_1/kernel:0"]
    assert layers.Dense(4)(x, scope="other").name == "other/BiasAdd:0"
    assert first(x, scope="other").name == "dense_1/BiasAdd_2:0"

    class CamelHTTPCaseV2Layer(layers.Layer):
        pass

    class _Private(layers.Layer):
        pass

    assert CamelHTTPCaseV2Layer().name == "camel_http_case_v2_layer_1"
    assert CamelHTTPCaseV2Layer().name == "camel_http_case_v2_layer_2"
    assert _Private().name == "private__private_1"
    assert layers.SeparableConv1D(1, 1).name == "separable_conv1d_1"
    assert layers.AveragePooling3D(2, 2).name == "average_pooling3d_1"


def test_scopes_around_calls() -> None:
    x = inputs()
    with tf.variable_scope("around"):
        outside = layers.Dense(1)
        inside = layers.Dense(1)
        assert inside(x).name == "around/dense/BiasAdd:0"
    assert inside.kernel.name == "around/dense/kernel:0"
    assert inside(x).name == "around/dense/BiasAdd_1:0"
    assert outside(x).name == "dense/BiasAdd:0"  # the scope of the call, not of the constructor
    with tf.name_scope("ns"):
        other = layers.Dense(1)
        assert other(x).name == "ns/dense/BiasAdd:0"
    assert other.kernel.name == "dense_1/kernel:0" and other(x).name == "ns/dense/BiasAdd_1:0"
    with tf.variable_scope("S") as scope:
        pass
    given = layers.Dense(2, _scope=scope)
    assert given(x).name == "S/BiasAdd:0" and given.kernel.name == "S/kernel:0"


def test_sharing_by_name() -> None:
    x = inputs()
    layers.dense(x, 3, name="k")
    with pytest.raises(ValueError, match="Variable k/kernel already exists, disallowed"):
        layers.dense(x, 3, name="k")
    assert layers.dense(x, 3, name="k", reuse=True).name == "k_2/BiasAdd:0"
    assert len(tf.global_variables()) == 2
    with pytest.raises(ValueError, match="Variable missing/kernel does not exist"):
        layers.dense(x, 3, name="missing", reuse=True)
    with pytest.raises(ValueError, match=r"specified shape \(4, 5\) and found shape \(4, 3\)"):
        layers.dense(x, 5, name="k", reuse=True)
    layers.dense(x, 3, name="auto", reuse=tf.AUTO_REUSE)
    layers.dense(x, 3, name="auto", reuse=tf.AUTO_REUSE)
    assert len(tf.global_variables()) == 4
    with tf.variable_scope("A", reuse=tf.AUTO_REUSE):
        layers.dense(x, 3)
    with tf.variable_scope("A", reuse=True):
        layers.dense(x, 3)
    assert names(tf.global_variables()[4:]) == ["A/dense/kernel:0", "A/dense/bias:0"]
    shared = layers.Dense(3, name="A/dense", _reuse=True)
    shared(x)
    assert shared.weights == tf.global_variables()[4:]


def test_a_built_layer_makes_no_variable() -> None:
    layer = layers.Dense(3)
    layer.build((None, 4))
    assert layer.built and names(layer.weights) == ["dense/kernel:0", "dense/bias:0"]
    assert layer(inputs()).name == "dense/BiasAdd:0"
    with pytest.raises(ValueError, match="Variable dense/w does not exist"):
        layer.add_weight("w", [2])


def test_variables_of_a_layer() -> None:
    class Several(layers.Layer):
        def build(self, input_shape: Any) -> None:
            with tf.variable_scope("sub"):
                self.add_weight("a", [2])
            self.add_weight("b", [2], trainable=False)
            self.add_weight("c", [2], dtype=tf.int32)
            self.add_weight("d", [2], synchronization=tf.VariableSynchronization.ON_READ)

    layer = Several(dtype=tf.float64)
    layer(inputs())
    # The layer's scope counts, not one inside of `build`; trainable variables come first.
    assert names(layer.weights) == [f"several/{name}:0" for name in "acbd"]
    assert names(tf.trainable_variables()) == ["several/a:0", "several/c:0"]
    dtypes = [variable.dtype.base_dtype for variable in layer.weights]
    assert dtypes == [tf.float64, tf.int32, tf.float64, tf.float64]
    frozen = layers.Dense(2, trainable=False)
    frozen(inputs())
    assert len(tf.trainable_variables()) == 2 and len(tf.global_variables()) == 6
    assert frozen.trainable_variables == [] and len(frozen.non_trainable_variables) == 2
    fresh = Several()
    with pytest.raises(TypeError, match="Unknown keyword argument:.*foo"):
        fresh.add_weight("a", [2], foo=3)
    on_read = tf.VariableSynchronization.ON_READ
    with pytest.raises(ValueError, match="ON_READ only for non-trainable variables"):
        fresh.add_weight("a", [2], trainable=True, synchronization=on_read)
    with pytest.raises(ValueError, match="call `count_params` on several_2, but the layer isn't"):
        fresh.count_params()


def test_values_of_variables() -> None:
    layer = layers.Dense(2)
    layer(inputs())
    with pytest.raises(ValueError, match="need a default session"):
        layer.get_weights()
    with tf.Session():
        layer.set_weights([np.ones([4, 2], "f4"), np.array([3.0, 4.0], "f4")])
        kernel, bias = layer.get_weights()
        np.testing.assert_array_equal(kernel, np.ones([4, 2]))
        np.testing.assert_array_equal(bias, [3.0, 4.0])
        with pytest.raises(ValueError, match="of length 1, but the layer was expecting 2 weights"):
            layer.set_weights([kernel])


def test_regularizers_and_constraints() -> None:
    x = inputs()
    losses = lambda: tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)  # noqa: E731
    layer = layers.Dense(
        3,
        kernel_regularizer=lambda w: 0.5 * tf.reduce_sum(w),
        bias_regularizer=lambda w: None,
        activity_regularizer=tf.reduce_sum,
        kernel_constraint=tf.nn.relu,
        kernel_initializer=tf.ones_initializer(),
        name="d",
    )
    layer(x)
    assert layer.kernel.constraint is tf.nn.relu and layer.bias.constraint is None
    activity, kernel = layer.losses
    assert kernel.name == "d/kernel/Regularizer/mul:0"
    assert activity.name == "d/ActivityRegularizer/truediv:0"
    assert losses() == [kernel, activity] and layer.get_losses_for(x) == [activity]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        rows = np.ones([5, 4], "f4")
        assert session.run([activity, kernel], {x: rows}) == [12.0, 6.0]  # a mean over the rows
    # A shared variable keeps its one loss, which each of its layers has.
    shared = layers.Dense(3, name="d", _scope="d", _reuse=True)
    shared(x)
    assert shared.losses == [kernel] and len(losses()) == 2
    with tf.variable_scope("S", regularizer=tf.nn.l2_loss):
        layers.dense(x, 2)
    made = ["S/dense/kernel/Regularizer/L2Loss:0", "S/dense/bias/Regularizer/L2Loss:0"]
    assert names(losses()[2:]) == made


def test_dtype_of_the_first_input() -> None:
    double = layers.Dense(3)
    assert double(tf.placeholder(tf.float64, [None, 4])).dtype is tf.float64
    assert double.dtype == "float64" and double.kernel.dtype.base_dtype is tf.float64
    assert layers.dense(np.ones([2, 4]), 3).dtype is tf.float64
    assert layers.Dense(3, dtype=tf.float64)(inputs()).dtype is tf.float64
    assert layers.dense(tf.placeholder(tf.float16, [2, 4]), 3).dtype is tf.float16


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="Keyword argument not understood:.*foo"):
        layers.Dense(2, foo=3)
    layers.Dense(2, input_shape=(4,))
    x = inputs()
    with pytest.raises(ValueError, match='Layer "dense_2" expects 1 input.s., but it received 2'):
        layers.dense([x, x], 3)
    with pytest.raises(NotImplementedError, match="Layer has no `compute_output_shape`"):
        layers.Layer().compute_output_shape((2, 3))


def test_layers_in_layers() -> None:
    """The variables of an inner layer are the inner layer's alone, as in TensorFlow."""

    class Outer(layers.Layer):
        def __init__(self) -> None:
            super().__init__(name="outer")
            self.inner = layers.Dense(2)

        def call(self, value: tf.Tensor) -> tf.Tensor:
            return self.inner(value)

    outer = Outer()
    assert outer(inputs()).name == "outer/dense/BiasAdd:0"
    assert outer.weights == [] and len(outer.inner.weights) == 2
    assert outer(inputs()).name == "outer/dense/BiasAdd_1:0"


def test_graphs_of_calls() -> None:
    other = tf.Graph()
    with other.as_default():
        x = inputs()
    layer = layers.Dense(2)
    assert layer(x).graph is other and layer.graph is other
    assert names(layer.weights) == ["dense/kernel:0", "dense/bias:0"]
    with tf.device("/cpu:0"):
        assert layers.dense(inputs(), 2).device == "/device:CPU:0"
    assert tf.global_variables()[-1].device == "/device:CPU:0"
